"""Shrink a network to half its hidden units, by inputs without labels: what its readers need is kept."""

import torch
from torch import nn

import transfuse
from transfuse.demo import digits

images, labels = digits("train")
unseen, answers = digits("test")

torch.manual_seed(0)
large = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimiser = torch.optim.Adam(large.parameters(), 1e-2)
for _ in range(100):
    optimiser.zero_grad()
    nn.functional.cross_entropy(large(images), labels).backward()
    optimiser.step()


def accuracy(model):
    """The share of test digits that are named right."""
    return float((model(unseen).argmax(1) == answers).float().mean())


fusion = transfuse.fuse([large], images[:2], target=0.5, data=images[:300])
print(f"64 hidden units: {accuracy(large):.3f}; 32 hidden units: {accuracy(fusion.model):.3f}")

assert fusion.model[1].out_features == 32
assert accuracy(fusion.model) > accuracy(large) - 0.05
