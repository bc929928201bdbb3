"""Trace three networks, print what may move, and check it: `python examples/trace_three.py`.

For each network: its layout, the share of its numbers that can move, and a check by running. All units are
moved at random (where the layout allows, negated and scaled as well), and the outputs compared in float64.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transfuse
from transfuse.layout import random_elements


class ResidualCNN(nn.Module):
    """Convolutions with batch norm around a skip connection, then a linear classifier on the flat image."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(1, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8)
        self.inner, self.inner_norm = nn.Conv2d(8, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12)
        self.outer, self.outer_norm = nn.Conv2d(12, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.classify = nn.Linear(8 * 4 * 4, 10)

    def forward(self, image: Tensor) -> Tensor:
        """Logits [batch, 10] of images [batch, 1, 8, 8]."""
        x = F.relu(self.stem_norm(self.stem(image)))
        x = F.relu(x + self.outer_norm(self.outer(F.relu(self.inner_norm(self.inner(x))))))
        return self.classify(x.flatten(1))


class LSTMClassifier(nn.Module):
    """Two LSTM layers, and a linear classifier on the last state."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(8, 16, num_layers=2, batch_first=True)
        self.classify = nn.Linear(16, 10)

    def forward(self, sequence: Tensor) -> Tensor:
        """Logits [batch, 10] of sequences [batch, steps, 8]."""
        return self.classify(self.rnn(sequence)[0][:, -1])


def networks() -> dict[str, tuple[nn.Module, Tensor]]:
    """Three small networks with inputs that suit them."""
    mlp = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 24), nn.Tanh(), nn.Linear(24, 10))
    return {
        "MLP with tanh": (mlp, torch.randn(5, 20)),
        "residual CNN with batch norm": (ResidualCNN(), torch.randn(5, 1, 8, 8)),
        "two-layer LSTM classifier": (LSTMClassifier(), torch.randn(5, 6, 8)),
    }


def disturbed(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """No two numbers alike: a norm that is new, all ones, would not show whether it was moved."""
    return {k: v + 0.1 * torch.rand_like(v) if v.is_floating_point() else v for k, v in state.items()}


def difference_when_moved(model: nn.Module, x: Tensor, layout: transfuse.Layout) -> float:
    """How far outputs are from the original ones, relative to the largest, when all units move at random."""
    model, x = model.double().eval(), x.double()
    state = disturbed(model.state_dict())
    elements = random_elements(layout, layout.widths(state), np.random.default_rng(0))
    moved = transfuse.permute(state, layout, elements)
    with torch.no_grad():
        before, after = (torch.func.functional_call(model, each, (x,)) for each in (state, moved))
    return float((after - before).abs().max() / before.abs().max())


def show(name: str, model: nn.Module, x: Tensor) -> None:
    """Trace one network, print what was found, and insist that it holds."""
    layout = transfuse.trace(model, x)
    difference = difference_when_moved(model, x, layout)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    units = sum(layout.units.values())
    print(f"=== {name}: {parameters:,} parameters\n\n{layout}\n")
    print(f"{layout.movable(model.state_dict()):.1%} of its numbers can move.")
    print(f"Moved {units} units of {len(layout.spaces)} spaces at random: outputs differ by {difference:.0e}.\n")
    assert units > 0
    assert difference < 1e-12, f"{name}: the layout is wrong, outputs differ by {difference:.2g}"


def main() -> None:
    """Trace the three networks."""
    torch.manual_seed(0)
    for name, (model, x) in networks().items():
        show(name, model, x)
    print("All three layouts hold.")


if __name__ == "__main__":
    main()
