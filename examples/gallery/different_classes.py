"""One network knows digits 0 to 4, the other 5 to 9; the fused one knows all, from 300 images without labels."""

import torch
from torch import nn

import transfuse
from transfuse.demo import digits

images, labels = digits("train")
unseen, answers = digits("test")


def trained(seed, classes):
    """An MLP that was shown some of the classes only."""
    rows = torch.isin(labels, torch.tensor(classes))
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(100):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
        optimiser.step()
    return model


def accuracy(model):
    """The share of test digits, of all ten classes, that are named right."""
    return float((model(unseen).argmax(1) == answers).float().mean())


low, high = trained(1, range(5)), trained(2, range(5, 10))
fusion = transfuse.fuse([low, high], images[:2], data=images[:300])
print(f"parents {accuracy(low):.2f} and {accuracy(high):.2f}, fused {accuracy(fusion.model):.2f}")

assert accuracy(fusion.model) > max(accuracy(low), accuracy(high)) + 0.2
