"""An operation that the tracer does not know fixes what it touches; one rule says what it is made of."""

import torch
from torch import Tensor, nn

import transfuse


@torch.library.custom_op("gallery::softclip", mutates_args=())
def softclip(x: Tensor) -> Tensor:
    """The sign of each number times the logarithm of its size."""
    return x.sign() * x.abs().log1p()


softclip.register_fake(torch.empty_like)


class Net(nn.Module):
    """Two linear layers around the operation."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(3, 8), nn.Linear(8, 2)

    def forward(self, x):
        """Outputs [batch, 2] of inputs [batch, 3]."""
        return self.down(softclip(self.up(x)))


net, x = Net(), torch.randn(4, 3)
unknown = transfuse.trace(net, x)
known = transfuse.trace(net, x, rules={"gallery::softclip": lambda t, call: t.pointwise(call["x"])})
print(*unknown.fixed.values(), sep="\n")

assert unknown.units == {}, "nothing is guessed to be harmless"
assert known.units == {"up.out": 8}, "the rule lets the units move, and the proof has tried it"
