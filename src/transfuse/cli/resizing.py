"""Networks of transformers in other widths than those of the folder that they come from.

In: a job, where its result goes, and the shapes that it has. Out: values for the configuration, and the network that
transformers builds of it, which has the same layout; or an error before the work, if there is none. So layers that
transfuse cannot rebuild are made by those who wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from torch import nn

from ..checkpoints import CONFIG, check_described_size, configuration, model_class, sizes_for
from ..errors import FusionError
from ..layout import Layout
from ..lazy import entries_of
from ..tracing import trace
from .architectures import built_by_config
from .jobs import Job

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Resized:
    """What stands in the configuration of a result, and the network that it describes.

    Args:
        sizes: Values for the configuration, by the keys that lead to them; none where those of the first input fit.
        model: The network of these sizes, with weights that do not matter; nothing where the first input's will do, or
            the network was not built by its configuration.
    """

    sizes: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    model: nn.Module | None = None


def resized_network(job: Job, out: Path, wanted: Shapes) -> Resized:
    """The network of a result of other shapes, if the result is to be a folder of transformers.

    Raises:
        InputError: naming tensors for which no configuration of this family has fitting sizes.
    """
    if job.build is None or not _is_resized(job, out, wanted):
        return Resized()
    folder = job.checkpoints[0].path
    config = configuration(folder)
    own = job.build()
    found: list[Any] = []

    @cache
    def own_layout() -> Layout:
        return trace(own, job.inputs, proof=False)

    def has_the_same_layout(tried: Any) -> bool:
        check_described_size(folder, tried)
        model = built_by_config(tried)
        try:
            tensors = trace(model, job.inputs, proof=False).tensors
        except FusionError:
            return False  # it does not run: sizes that do not go together
        found[:] = [model]
        return tensors in (job.layout.tensors, own_layout().tensors)

    sizes = sizes_for(config, wanted, has_the_same_layout)
    return Resized(sizes, found[0] if type(own) is model_class(config) else None)


def _is_resized(job: Job, out: Path, wanted: Shapes) -> bool:
    """Whether the result is a folder with a configuration, and some of its tensors have other shapes than before."""
    first = job.checkpoints[0]
    own = entries_of(first.tensors)
    folder = not out.suffix and first.path.is_dir() and (first.path / CONFIG).exists()
    return folder and any(name in own and own[name].shape != shape for name, shape in wanted.items())
