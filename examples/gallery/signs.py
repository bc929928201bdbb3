"""Units behind tanh may be negated: a matching with signs finds counterparts that permutations miss."""

import numpy as np
import torch
from torch import nn

import transfuse


class Reader(nn.Module):
    """An LSTM, and scores from its last state."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 10, batch_first=True)
        self.out = nn.Linear(10, 2)

    def forward(self, sequence):
        """Scores [batch, 2] of sequences [batch, steps, 3]."""
        return self.out(self.lstm(sequence)[0][:, -1])


torch.manual_seed(0)
net, x = Reader().double(), torch.randn(16, 5, 3).double()
layout = transfuse.trace(net, x)
(space,) = layout.spaces
print(space)

rng = np.random.default_rng(0)
moved = transfuse.Permutation(order=rng.permutation(10), factor=rng.choice([-1.0, 1.0], 10))
twin = Reader().double()
twin.load_state_dict(transfuse.permute(net.state_dict(), layout, {space.name: moved}))
assert torch.allclose(twin(x), net(x)), "moving and negating units changes nothing"

with_signs, without = (transfuse.fuse([net, twin], x, method=name, correct="none") for name in ("auto", "rebasin"))
assert torch.allclose(with_signs.model(x), net(x)), "the copy is found again"
assert not torch.allclose(without.model(x), net(x), atol=1e-3), "by permutations alone it is not"
