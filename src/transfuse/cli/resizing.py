"""Networks of transformers in other widths, or with other outputs, than those of the folder that they come from.

In: a job, where its result goes, and the shapes that it has. Out: values for the configuration, and the network that
transformers builds of it, which has the same layout and, grown from the other, computes the same; or an error before
the work, if there is none. So layers that transfuse cannot rebuild are made by those who wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..checkpoints import CONFIG, configuration, configured, model_class, sizes_for
from ..errors import FusionError
from ..fusing import fuse_states
from ..fusing.joining import label_names
from ..layout import Layout
from ..lazy import entries_of
from ..modules import Arguments, run, twin_of
from ..tracing import trace
from .architectures import built_by_config
from .working import Job

Shapes = Mapping[str, tuple[int, ...]]
SAME = 1e-3  # of the size of outputs, by which those of one function may differ, computed in another order


@dataclass(frozen=True, eq=False)
class Resized:
    """What stands in the configuration of a result, and the network that it describes.

    Args:
        sizes: Values for the configuration, by the keys that lead to them; none where those of the first input fit.
        model: The network of these sizes, with weights that do not matter; nothing where the first input's will do, or
            the network was not built by its configuration.
    """

    sizes: Mapping[tuple[str, ...], Any] = field(default_factory=dict)
    model: nn.Module | None = None


def resized_network(job: Job, out: Path, wanted: Shapes) -> Resized:
    """The network of a result of other shapes, if the result is to be a folder of transformers.

    Raises:
        InputError: naming tensors for which no configuration of this family has fitting sizes.
    """
    labels = _labels(job) if _is_described(job, out) else {}
    if job.build is None or not _is_resized(job, out, wanted):
        return Resized(labels)
    config = configured(configuration(job.like.path), labels)
    own = built_by_config(config) if labels else job.build()
    found: list[Any] = []

    @cache
    def own_layout() -> Layout:
        """The layout of the network as it is, found once and only if it is asked for."""
        return trace(own, job.inputs, proof=False)

    def is_the_same_network(tried: Any) -> bool:
        """Whether the network of a configuration is the one of the folder but for its widths."""
        model = built_by_config(tried)
        try:
            layout = trace(model, job.inputs, proof=False)
        except FusionError:
            return False  # it does not run: sizes that do not go together
        found[:] = [model]
        same = layout.tensors in (job.layout.tensors, own_layout().tensors)
        return same and _compute_alike(own, model, layout, Arguments.of(job.inputs))

    sizes = sizes_for(config, wanted, is_the_same_network)
    as_it_is = not labels and not job.apart and type(own) is model_class(config)
    return Resized(labels | sizes, found[0] if found and as_it_is else None)


def _compute_alike(one: nn.Module, other: nn.Module, layout: Layout, inputs: Arguments) -> bool:
    """Whether the narrower of two networks computes the same when it has grown into the other, whose sizes are known.

    Numbers in the code of a network may depend on its sizes: a scale of embeddings, say. Where growing itself changes
    what a network computes, nothing can be told, and they count as alike. Copies in float32 are compared: 16 bits are
    too few to tell a function from another one that is close.
    """
    copies = [twin_of(model).float() for model in (one, other)]
    inputs = inputs.map(lambda tensor: tensor.float() if tensor.is_floating_point() else tensor)
    small, large = sorted(copies, key=lambda model: sum(layout.widths(model.state_dict()).values()))
    own, wanted = (layout.widths(model.state_dict()) for model in (small, large))
    if any(wanted[name] < units or layout.growth_objection(name, units, wanted[name]) for name, units in own.items()):
        return True
    grown = fuse_states([small.state_dict()], layout, method="vanilla", widths=wanted).state
    outputs = [run(model, state, inputs) for model, state in ((small, small.state_dict()), (large, grown))]
    return all(
        a.shape == b.shape and torch.allclose(a.double(), b.double(), atol=SAME * float(b.double().abs().max()))
        for a, b in zip(*outputs, strict=True)
    )


def _labels(job: Job) -> dict[tuple[str, ...], Any]:
    """The names of outputs that are joined, as configurations have them."""
    if job.joined is None:
        return {}
    names = label_names(job.joined.heads, [configuration(each.path) for each in job.checkpoints])
    return {("id2label",): dict(enumerate(names)), ("label2id",): {name: place for place, name in enumerate(names)}}


def _is_described(job: Job, out: Path) -> bool:
    """Whether the result is a folder with a configuration."""
    return not out.suffix and job.like.path.is_dir() and (job.like.path / CONFIG).exists()


def _is_resized(job: Job, out: Path, wanted: Shapes) -> bool:
    """Whether the result is a folder with a configuration, and some of its tensors have other shapes than before."""
    own = entries_of(job.like.tensors)
    return _is_described(job, out) and any(name in own and own[name].shape != shape for name, shape in wanted.items())
