"""CPU time of fusing two transformers by weights, beside the floor of its products, assignments and SVDs.

    python benchmarks/rotation_time.py [--layers 12] [--sweeps 2] [--groups 4] [--json FILE]

Two networks of the width of GPT-2 small (768, with 5,000 words that are not tied), random weights, float32, one
thread; the method is `procrustes`, stopped after some sweeps (random networks have nothing in common, and would go on).
The floor has, for each sweep and from matrices that lie ready: for each space the products that its scores are made of,
with what rotates them; an assignment of units and of heads; the singular values of all pairs of heads; and one SVD of
the stream. Nothing is checked, moved, averaged or written in it. With `--groups` the 12 heads of queries share keys and
values in groups; the floor then matches groups alone, not the heads inside of them.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import torch
from clock import Clock, least
from networks import Decoder
from torch import Tensor, nn
from torch.nn import functional as F

import transfuse
from transfuse.layout import Layout
from transfuse.transport import assignment, procrustes
from transfuse.types import State


class Untied(Decoder):
    """A decoder whose head is a layer of its own: the gain of the last norm can go into it."""

    def __init__(self, layers: int) -> None:
        super().__init__(layers)
        self.head = nn.Linear(self.norm.normalized_shape[0], self.words.num_embeddings, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the next word."""
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        hidden = self.blocks(self.words(x) + self.places(torch.arange(x.shape[1])), mask=mask, is_causal=True)
        scores: Tensor = self.head(self.norm(hidden))
        return scores


class GroupedAttention(nn.Module):
    """Causal self-attention whose heads of queries share keys and values in groups."""

    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.size = width // heads
        self.read = nn.ModuleList(nn.Linear(width, count * self.size, bias=False) for count in (heads, groups, groups))
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """What is added to the stream."""
        queries, keys, values = (read(x).unflatten(2, (-1, self.size)).transpose(1, 2) for read in self.read)
        found = F.scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=True)
        added: Tensor = self.out(found.transpose(1, 2).flatten(2))
        return added


class Grouped(nn.Module):
    """A decoder of the same sizes with grouped queries and RMSNorm."""

    def __init__(self, layers: int, groups: int, width: int = 768, heads: int = 12, words: int = 5000) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.RMSNorm(width), part)
            for _ in range(layers)
            for part in (
                GroupedAttention(width, heads, groups),
                nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)),
            )
        )
        self.head = nn.Sequential(nn.RMSNorm(width), nn.Linear(width, words, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the next word."""
        x = self.words(x)
        for block in self.blocks:
            x = x + block(x)
        scores: Tensor = self.head(x)
        return scores


def floor(states: tuple[State, State], layout: Layout) -> float:
    """Seconds of the products, assignments and SVDs of one sweep."""
    turns = {name: procrustes(torch.randn(layout.units[name], layout.units[name])) for name in layout.rotating}
    total = sum(least(lambda turn=turn: procrustes(turn, fixing=None), 1) for turn in turns.values())
    for block in layout.blocks():
        length = block.positions.size
        one, other = (state[block.tensor].movedim(block.axis, 0).reshape(length, -1) for state in states)
        total += least(lambda a=one, b=other: a @ b.T, 1)
        for axis in layout.tensors[block.tensor]:
            if axis.alone in turns and axis.alone != block.space:
                rows = other.reshape(-1, len(turns[axis.alone])).contiguous()
                total += least(lambda a=rows, b=turns[axis.alone]: a @ b, 1)
    for space in layout.spaces:
        frames = layout.frames_of(space.name)
        for frame in frames:
            pairs = torch.randn(space.units, space.units, frame.size, frame.size)
            total += least(lambda each=pairs: torch.linalg.svdvals(each), 1)
        if not space.rotations:
            scores = torch.randn(space.units, space.units)
            total += least(lambda each=scores: assignment(each), 1)
    return total


def measured(layers: int, sweeps: int, groups: int) -> dict[str, float]:
    """CPU seconds of a fusion by weights, and of its floor."""
    torch.manual_seed(0)
    models = [(Grouped(layers, groups) if groups else Untied(layers)).eval() for _ in range(2)]
    layout = transfuse.trace(models[0], torch.randint(5000, (1, 16)))
    assert layout.rotating, "nothing rotates in this network"
    states: list[dict[str, Tensor]] = [{k: v.detach() for k, v in model.state_dict().items()} for model in models]
    clock = Clock()
    with clock:
        found = transfuse.fuse_states(states, layout, method="procrustes", sweeps=sweeps, aligned=False)
    rounds = len(found.history) + 1  # the second model is placed by a sweep before the first one that is told
    bare = floor((states[0], states[1]), layout)
    return {"seconds": clock.cpu, "sweeps": rounds, "floor": rounds * bare, "times": clock.cpu / (rounds * bare)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12, help="how many layers the networks have")
    parser.add_argument("--sweeps", type=int, default=2, help="most sweeps over all spaces")
    parser.add_argument("--groups", type=int, default=0, help="groups of heads; default: each has keys of its own")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found = measured(options.layers, options.sweeps, options.groups)
    print(", ".join(f"{name} {value:.3g}" for name, value in found.items()))
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
