"""Folders as `transformers` writes them: weights, a configuration, files of a tokenizer.

In: a folder. Out: the first kind of weights that is there; and a copy of a folder with other weights, their type in the
configuration, and a model card. Weights whose names in the module are others than on disk go through transformers
(`transformers_models`); all others do without it. A folder is replaced only if its card says that it was written here,
and what others have put into it since stays.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import InputError, printable
from ..files import read_text, whole_folder, write_whole
from ..lazy import entries_of
from .configured_sizes import told_sizes
from .format import Format, Opener, Output
from .model_card import card, is_card_of
from .model_hubs import CARD, front_matter
from .provenance import sha256
from .records import Checkpoint
from .safetensors_file import FORMAT as SAFETENSORS_FILE
from .sharded_files import INDEX, shards_written_for, write_shards
from .transformers_models import CONFIG, as_on_disk

WEIGHTS = ("model.safetensors", f"model.safetensors{INDEX}", "pytorch_model.bin", f"pytorch_model.bin{INDEX}")
# How names of files end that hold weights or what was left of a training: they are not those of the result.
NOT_COPIED = (
    ".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".onnx_data", ".gguf", ".ot", ".pkl",
    INDEX,
)  # fmt: skip


def _open(path: Path, opener: Opener) -> Checkpoint:
    """The checkpoint in a folder: its weights, under the first name that is there."""
    found = next((path / name for name in WEIGHTS if (path / name).exists()), None)
    if found is None:
        raise InputError(f"{path} holds no weights; expected one of {', '.join(WEIGHTS)}")
    checkpoint = opener(found)
    # transformers ties by its configuration, and does not expect names of tied tensors in the metadata
    wrapping = replace(checkpoint.wrapping, names_ties=False)
    return replace(checkpoint, path=path, kind=FORMAT.name, wrapping=wrapping)


def check_replaceable(out: Path) -> None:
    """Refuse to replace a folder of somebody else's.

    Raises:
        InputError: the folder holds something, and no card that was written for it.
    """
    if out.is_dir() and any(out.iterdir()) and not is_card_of(out / CARD, out.resolve().name):
        raise InputError(
            f"{out} is a folder that was not written by transfuse, for its {CARD} does not say so; it is never "
            "replaced: remove it yourself, or write elsewhere"
        )


def _write(out: Path, output: Output) -> list[Path]:
    check_replaceable(out)
    with whole_folder(out) as folder:
        for each in companions(output.like):
            shutil.copyfile(each, folder / each.name)
        config = _fitting(folder / CONFIG, output)
        with _on_disk(output, folder) as stored:
            if sum(entry.bytes for entry in entries_of(stored.tensors).values()) <= output.shard_bytes:
                SAFETENSORS_FILE.write(folder / WEIGHTS[0], stored)
            else:
                write_shards(folder / WEIGHTS[1], stored)
        task = front_matter(output.like.path).get("pipeline_tag", "")
        write_whole(folder / CARD, card(output.provenance, out.resolve().name, config, task).encode())
        if out.is_dir():
            _keep_what_others_put_there(out, folder)
    return sorted(out.iterdir())


@contextmanager
def _on_disk(output: Output, folder: Path) -> Iterator[Output]:
    """What is to be written, under the names that the folder of the first input has."""
    if output.like.wrapping.translated:
        with as_on_disk(output, folder) as stored:
            yield stored
    else:
        yield output


def _fitting(path: Path, output: Output) -> dict[str, Any] | None:
    """The configuration of a result, in which its sizes and the type of its numbers are written; nothing without one.

    Libraries load weights in the type that stands there, whatever type they have.
    """
    try:
        config = json.loads(read_text(path)) if path.exists() else None
    except (ValueError, RecursionError):
        return None
    kinds = [entry.dtype for entry in entries_of(output.tensors).values() if entry.dtype.is_floating_point]
    if not isinstance(config, dict) or not kinds:
        return config if isinstance(config, dict) else None
    for (*parts, last), value in output.sizes.items():
        place = config
        for part in parts:
            place = place.setdefault(part, {})
        place[last] = value
    most = str(max(dict.fromkeys(kinds), key=kinds.count)).removeprefix("torch.")
    waiting = [config]
    while waiting:  # a model of several parts has a configuration for each
        each = waiting.pop()
        each |= {key: most for key in ("dtype", "torch_dtype") if each.get(key)}
        waiting += [value for value in each.values() if isinstance(value, dict)]
    if not config.get("torch_dtype"):
        config["dtype"] = most
    write_whole(path, (json.dumps(config, indent=2, ensure_ascii=False) + "\n").encode())
    return config


def _keep_what_others_put_there(old: Path, new: Path) -> None:
    """Have the files of the old folder in the new one, too, but for weights, shards and what the new one has."""
    ours = {
        *WEIGHTS,
        *(each.name for each in shards_written_for(old / WEIGHTS[1])),
        *(each.name for each in new.iterdir()),
    }
    for each in sorted(old.iterdir()):
        if each.name in ours:
            continue
        if each.is_dir():
            shutil.copytree(each, new / each.name, symlinks=True)
        else:
            shutil.copy2(each, new / each.name, follow_symlinks=False)


def companions(like: Checkpoint) -> list[Path]:
    """The files of a folder that a result needs, too: configuration, tokenizer, preprocessor; no weights, no card."""
    left_out = {*WEIGHTS, CARD, *(file.name for file in like.files)}
    files = [each for each in sorted(like.path.iterdir()) if each.is_file() and each.name not in left_out]
    return [each for each in files if not each.name.endswith(NOT_COPIED)]


def told_companions(checkpoints: Sequence[Checkpoint], out: Path, sizes: Mapping[tuple[str, ...], Any]) -> str:
    """What a folder takes over from its first input, and how to share it, as lines of text; of a file, nothing.

    Args:
        checkpoints: The inputs; files of which others have a different one are named, for a tokenizer of the first
            does not suit networks that were trained with another.
        out: The result, as it was written.
        sizes: Values that were written into its configuration.
    """
    first, *others = checkpoints
    if first.kind != FORMAT.name or not out.is_dir():
        return ""
    copied = companions(first)
    differing = [
        f"{each.name} ({other.path} has another one)"
        for each in copied
        for other in others
        if each.name != CONFIG and (other.path / each.name).is_file() and _differ(each, other.path / each.name)
    ]
    told = f"from {first.path}: {printable(', '.join(each.name for each in copied)) or 'nothing'}\n"
    told += f"not the same in all inputs: {printable(', '.join(differing))}\n" if differing else ""
    if sizes:
        told += f"its {CONFIG} has the sizes of the result: {told_sizes(sizes)}\n"
    return f"{told}to share it: hf upload YOUR-NAME/{printable(out.resolve().name)} {printable(str(out))}"


def _differ(one: Path, other: Path) -> bool:
    """Whether two files differ, by their sizes if these tell."""
    return one.stat().st_size != other.stat().st_size or sha256(one) != sha256(other)


FORMAT = Format("huggingface", "a Hugging Face folder", (), Path.is_dir, _open, _write, copies_input=True)
