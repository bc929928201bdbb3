"""The wall between two networks, and what is left of it when the second one has the order of the first."""

import torch
from torch import nn

import transfuse

torch.manual_seed(0)
x = torch.randn(400, 6)
y = (x[:, :3].sum(1) * x[:, 3] > 0).long()  # no line divides the two classes


def trained(seed):
    """A network with a hidden layer after 200 steps."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 2))
    optimiser = torch.optim.Adam(model.parameters(), 2e-2)
    for _ in range(200):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    return model


a, b = trained(1), trained(2)
evaluate = transfuse.evaluator([(x, y)])
twin = transfuse.align(b, to=a, example_inputs=x)
before, after = (transfuse.barrier(a, other, evaluate, points=9) for other in (b, twin))
print(
    f"loss rises by {before.height('loss'):.2f} between the networks as trained, by {after.height('loss'):.2f} aligned"
)

assert torch.allclose(twin(x), b(x), atol=1e-4), "an aligned network computes what it did"
assert after.height("loss") < before.height("loss")
