"""Folders as `transformers` writes them: weights, a configuration, files of a tokenizer.

In: a folder. Out: the first kind of weights that is there; and a copy of a folder with other weights and a model card.
A folder is replaced only if its card says that it was written here, and what others have put into it since stays.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from ..errors import InputError
from ..files import whole_folder, write_whole
from ..lazy import entries_of
from .format import Format, Opener, Output
from .provenance import card, is_card_of
from .records import Checkpoint
from .safetensors_file import FORMAT as SAFETENSORS_FILE
from .sharded_files import INDEX, shards_written_for, write_shards

WEIGHTS = ("model.safetensors", f"model.safetensors{INDEX}", "pytorch_model.bin", f"pytorch_model.bin{INDEX}")
CARD = "README.md"


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
            f"{out} is a folder that was not written by transfuse, for its {CARD} does not say so; it is not replaced, "
            "also with --force: remove it yourself, or write elsewhere"
        )


def _write(out: Path, output: Output) -> list[Path]:
    check_replaceable(out)
    with whole_folder(out) as folder:
        _copy_all_but_weights(output.like, folder)
        if sum(entry.bytes for entry in entries_of(output.tensors).values()) <= output.shard_bytes:
            SAFETENSORS_FILE.write(folder / WEIGHTS[0], output)
        else:
            write_shards(folder / WEIGHTS[1], output)
        write_whole(folder / CARD, card(output.provenance, out.resolve().name).encode())
        if out.is_dir():
            _keep_what_others_put_there(out, folder)
    return sorted(out.iterdir())


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


def _copy_all_but_weights(like: Checkpoint, folder: Path) -> None:
    """Everything of the first input's folder but its weights and its card, which are written anew."""
    left_out = {*WEIGHTS, CARD, *(file.name for file in like.files)}
    for each in sorted(like.path.iterdir()):
        if each.name not in left_out and each.is_file():
            shutil.copyfile(each, folder / each.name)


FORMAT = Format("huggingface", "a Hugging Face folder", (), Path.is_dir, _open, _write, copies_input=True)
