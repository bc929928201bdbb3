"""Values in the configuration of a folder of transformers, where a result has other widths or outputs than its inputs.

In: a job, and where its result goes. Out: values for the configuration, with which transformers builds a network that
computes what the result does; or an error before the work, if there are none.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..checkpoints import CONFIG, configuration, configured, model_class, sizes_for
from ..fusing.joining import label_names
from ..lazy import entries_of
from ..modules import Arguments, run, with_state
from ..types import State
from .jobs import Job

SAME = (
    1e-3  # of the size of outputs, by which they may differ: both networks are one, computed in another order at most
)


def check_describable(job: Job, out: Path, widths: Mapping[str, int]) -> None:
    """Refuse widths that no configuration of this family describes, if the result is to be a folder.

    Raises:
        InputError: naming tensors that have no fitting sizes, or layers that cannot be rebuilt.
    """
    wanted = job.layout.shapes(widths)
    if _is_resized(job, out, wanted) and job.build is not None:
        sizes_for(configured(configuration(job.like.path), _labels(job)), wanted)
        with_state(job.build(), {name: torch.zeros(shape) for name, shape in wanted.items()})


def sizes_of_result(job: Job, out: Path, state: State) -> dict[tuple[str, ...], Any]:
    """Values for the configuration of a result; none where it is like the input that it is made after, or no folder."""
    wanted = {name: entry.shape for name, entry in entries_of(state).items()}
    labels = _labels(job) if _is_described(job, out) else {}
    if not _is_resized(job, out, wanted) or job.build is None:
        return labels
    tensors = {name: state[name] for name in wanted}
    inputs = Arguments.of(job.inputs)
    expected = run(with_state(job.build(), tensors).eval(), tensors, inputs)

    def computes_the_same(config: Any) -> bool:
        config.use_cache = False  # a cache is state, not a result
        model = model_class(config)._from_config(config).eval()
        found = run(model, tensors, inputs)
        return all(
            a.shape == b.shape and torch.allclose(a.double(), b.double(), atol=SAME * float(b.double().abs().max()))
            for a, b in zip(found, expected, strict=True)
        )

    return labels | sizes_for(configured(configuration(job.like.path), labels), wanted, computes_the_same)


def _labels(job: Job) -> dict[tuple[str, ...], Any]:
    """The names of outputs that are joined, as configurations have them."""
    if job.joined is None:
        return {}
    names = label_names(job.joined.heads, [configuration(each.path) for each in job.checkpoints])
    return {("id2label",): dict(enumerate(names)), ("label2id",): {name: place for place, name in enumerate(names)}}


def _is_described(job: Job, out: Path) -> bool:
    """Whether the result is a folder with a configuration."""
    return not out.suffix and job.like.path.is_dir() and (job.like.path / CONFIG).exists()


def _is_resized(job: Job, out: Path, wanted: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether the result is a folder with a configuration, and some of its tensors have other shapes than before."""
    own = entries_of(job.like.tensors)
    return _is_described(job, out) and any(name in own and own[name].shape != shape for name, shape in wanted.items())
