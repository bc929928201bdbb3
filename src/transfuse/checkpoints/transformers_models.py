"""What `transformers` knows of a folder that it wrote: the configuration, the model's class, the names in the module.

Many families have other names on disk than in the module, or other tensors: one for each expert there, one for all of
them here. Both ways are gone by transformers itself, on tensors that are read and written by this room: transformers
opens no weights, downloads nothing, and no code that a folder names is run.

In: a folder, or a checkpoint of one. Out: its configuration and class; a checkpoint under the names of the module; and,
for a result, the tensors as they lie on disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from ..errors import InputError, listing
from ..files import read_text
from ..lazy import entries_of
from ..modules import ties_of
from .format import Output
from .records import Checkpoint, size_told
from .safetensors_file import read

CONFIG = "config.json"
LARGE = 10**9  # bytes of a network that is built however small its folder is: some folders hold a configuration alone
WIDER = 16  # times that a network is larger than its files at most: 8 bits as float64, one tensor under two names
_ONE_FILE = "1000000GB"  # more than any disk has: transformers writes one file, which is cut into shards here


def configuration(folder: Path) -> Any:
    """The configuration in a folder, as transformers reads it.

    Raises:
        InputError: there is none, transformers cannot use it, or it asks for what cannot be fused or must not be run.
    """
    import transformers

    if not (folder / CONFIG).exists():
        raise InputError(f"{folder} has no {CONFIG}; expected a folder that `transformers` wrote")
    _check_harmless(folder)
    with _blaming(folder):
        return transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def model_class(config: Any) -> Any:
    """The class of the model that a configuration names; the plain one of its family if it names none."""
    import transformers

    found = (getattr(transformers, name, None) for name in config.architectures or [])
    named = [each for each in found if isinstance(each, type) and issubclass(each, transformers.PreTrainedModel)]
    if named:
        return named[0]
    with torch.device("meta"):
        return type(transformers.AutoModel.from_config(config, trust_remote_code=False))


def check_described_size(folder: Path, config: Any) -> None:
    """Refuse a configuration of a network that is far larger than its folder, before memory is taken for it.

    Raises:
        InputError: with both sizes.
    """
    with _blaming(folder), torch.device("meta"):
        model = model_class(config)(config)
    described = sum(tensor.numel() * tensor.itemsize for tensor in (*model.parameters(), *model.buffers()))
    held = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    if described > max(LARGE, WIDER * held):
        raise InputError(
            f"{folder / CONFIG} describes a network of {size_told(described)}, but the folder holds {size_told(held)}; "
            "it is damaged, or hostile: get the folder again"
        )


def is_of_transformers(checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint is a folder whose names transformers may translate, and has not yet."""
    return not checkpoint.wrapping.translated and checkpoint.path.is_dir() and (checkpoint.path / CONFIG).exists()


def translated(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint under the names of the module, which transformers finds by its own conversion.

    Tensors that it does not have to convert stay mapped from the file.

    Raises:
        InputError: transformers cannot use the folder, or tensors of the model are missing or of another shape.
    """
    config = configuration(checkpoint.path)
    kind = model_class(config)
    kinds = {entry.dtype for entry in entries_of(checkpoint.tensors).values() if entry.dtype.is_floating_point}
    # the widest of them: transformers gives all tensors one type, and no number may lose digits by being read
    widest = max(kinds, key=lambda dtype: torch.finfo(dtype).bits, default=torch.float32)
    with _blaming(checkpoint.path), quietly():
        model, found = kind.from_pretrained(
            None, config=config, state_dict=dict(checkpoint.tensors), dtype=widest, local_files_only=True,
            ignore_mismatched_sizes=True, output_loading_info=True,
        )  # fmt: skip
    problems = [f"missing: {name}" for name in sorted(found["missing_keys"])]
    problems += [f"{name} is {list(got)}, expected {list(own)}" for name, got, own in sorted(found["mismatched_keys"])]
    if problems:
        told = listing(f"{checkpoint.path} does not hold all of a {kind.__name__}, which its {CONFIG} names:", problems)
        raise InputError(f"{told}\nName the class of its weights there (architectures), or save the folder again")
    state = model.state_dict()
    left_out = tuple(sorted(found["unexpected_keys"]))
    wrapping = replace(checkpoint.wrapping, prefix="", translated=True, left_out=left_out)
    return replace(checkpoint, tensors=state, ties=ties_of(state), wrapping=wrapping)


@contextmanager
def as_on_disk(output: Output, folder: Path) -> Iterator[Output]:
    """What is to be written, under the names that transformers has on disk.

    Args:
        output: A result whose first input was translated.
        folder: Where a temporary file can be, which transformers writes and from which the tensors are read.
    """
    like = output.like
    config = configuration(like.path)
    with torch.device("meta"):  # only its names are asked for
        model = model_class(config)(config)
    made: dict[str, torch.Tensor] = {}
    for name in output.tensors:
        kept = like.ties.get(name, name)  # tied tensors are one, so that it is written once
        made[name] = made[kept] if kept in made else output.tensors[kept].contiguous()
    with TemporaryDirectory(dir=folder) as place:
        with _blaming(like.path), quietly():
            named = {like.wrapping.prefix + name: tensor for name, tensor in made.items()}
            model.save_pretrained(place, state_dict=named, max_shard_size=_ONE_FILE)
        tensors, _ = read(Path(place) / "model.safetensors")
        yield replace(output, tensors=tensors, like=replace(like, ties={}, wrapping=replace(like.wrapping, prefix="")))


def _check_harmless(folder: Path) -> None:
    """Refuse a configuration by which transformers would fetch code, or of weights that are no plain numbers."""
    path = folder / CONFIG
    try:
        content = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no JSON ({error}); save or download the folder again") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} holds {type(content).__name__}; expected keys such as model_type and architectures")
    if content.get("quantization_config"):
        raise InputError(f"{folder} holds quantised weights, which cannot be fused; use the folder in full precision")
    fetched = [f"{key}: {value}" for key, value in _pairs(content) if "implementation" in key and "/" in str(value)]
    if fetched:
        raise InputError(listing(f"{path} names code of others, which is never run; remove it there:", fetched))


def _pairs(content: Any) -> Iterator[tuple[str, Any]]:
    """All keys with their values in a mapping, also in mappings that are values of it."""
    waiting = [content]
    while waiting:
        each = waiting.pop()
        yield from each.items()
        waiting += [value for value in each.values() if isinstance(value, dict)]


@contextmanager
def _blaming(folder: Path) -> Iterator[None]:
    """Have what transformers raises about a folder become an error that names it."""
    from huggingface_hub.errors import StrictDataclassError

    expected = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, ImportError, RuntimeError)
    try:
        yield
    except (*expected, StrictDataclassError) as error:
        cause = f"{type(error).__name__}: {error}"
        raise InputError(
            f"transformers cannot use {folder} ({cause}); check its {CONFIG}, or the version of transformers"
        ) from error


@contextmanager
def quietly() -> Iterator[None]:
    """Have transformers show no bars and reports: what matters of them is told here, in one way for all formats."""
    from transformers.utils import logging

    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()
