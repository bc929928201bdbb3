"""Folders as `transformers` writes them: weights, a configuration, files of a tokenizer.

In: a folder. Out: the first kind of weights that is there; and a copy of a folder with other weights and a model card.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from ..errors import InputError
from ..files import whole_folder, write_whole
from ..lazy import entries_of
from .format import Format, Opener, Output
from .provenance import card
from .records import Checkpoint
from .safetensors_file import FORMAT as SAFETENSORS_FILE
from .sharded_files import INDEX, write_shards

WEIGHTS = ("model.safetensors", f"model.safetensors{INDEX}", "pytorch_model.bin", f"pytorch_model.bin{INDEX}")
CARD = "README.md"


def _open(path: Path, opener: Opener) -> Checkpoint:
    found = next((path / name for name in WEIGHTS if (path / name).exists()), None)
    if found is None:
        raise InputError(f"{path} holds no weights; expected one of {', '.join(WEIGHTS)}")
    checkpoint = opener(found)
    # transformers ties by its configuration, and does not expect names of tied tensors in the metadata
    wrapping = replace(checkpoint.wrapping, names_ties=False)
    return replace(checkpoint, path=path, kind=FORMAT.name, wrapping=wrapping)


def _write(out: Path, output: Output) -> list[Path]:
    with whole_folder(out) as folder:
        _copy_all_but_weights(output.like, folder)
        if sum(entry.bytes for entry in entries_of(output.tensors).values()) <= output.shard_bytes:
            SAFETENSORS_FILE.write(folder / WEIGHTS[0], output)
        else:
            write_shards(folder / WEIGHTS[1], output)
        write_whole(folder / CARD, card(output.provenance, out.name).encode())
    return sorted(out.iterdir())


def _copy_all_but_weights(like: Checkpoint, folder: Path) -> None:
    """Everything of the first input's folder but its weights and its card, which are written anew."""
    left_out = {*WEIGHTS, CARD, *(file.name for file in like.files)}
    for each in sorted(like.path.iterdir()):
        if each.name not in left_out and each.is_file():
            shutil.copyfile(each, folder / each.name)


FORMAT = Format("huggingface", "a Hugging Face folder", (), Path.is_dir, _open, _write, copies_input=True)
