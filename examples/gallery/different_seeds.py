"""Two networks trained from different seeds: the plain average forgets, the fused network does not."""

import torch
from torch import nn

import transfuse
from transfuse.demo import digits

images, labels = digits("train")
unseen, answers = digits("test")


def trained(seed):
    """A small MLP after 150 steps on all training digits."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(150):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimiser.step()
    return model


def accuracy(model):
    """The share of test digits that are named right."""
    return float((model(unseen).argmax(1) == answers).float().mean())


a, b = trained(1), trained(2)
average = transfuse.fuse([a, b], images[:2], method="vanilla").model
fused = transfuse.fuse([a, b], images[:2], method="rebasin").model
print(f"parents {accuracy(a):.3f} and {accuracy(b):.3f}, averaged {accuracy(average):.3f}, fused {accuracy(fused):.3f}")

assert accuracy(fused) > accuracy(average)
assert accuracy(fused) > min(accuracy(a), accuracy(b)) - 0.05
