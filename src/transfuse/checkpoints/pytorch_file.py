"""Files of `torch.save`: state dicts, bare or wrapped. Read with `weights_only=True`: no code in a file ever runs.

In: a path. Out: the tensors (mapped into memory where the file allows), what is tied, how the state lay in the file;
and the way back, in the same wrapping.
"""

from __future__ import annotations

import json
import pickle
import struct
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..files import whole_file
from ..modules import EXTRA_STATE, ties_of
from ..types import State
from .format import Format, Opener, Output
from .limits import check_stored, check_tensors
from .records import KEY, Checkpoint, Wrapping, wrapper_prefix

WRAPPERS = (
    "state_dict", "model_state_dict", "model_state", "model", "net", "network", "module", "weights", "params",
    "ema_state_dict", "model_ema", "params_ema", "student", "teacher",
)  # fmt: skip
NO_NETWORKS = ("optim", "sched", "scaler", "lr_")  # how keys begin beside a state under which there may be tensors, too
AVERAGED = "n_averaged"  # what torch.optim.swa_utils.AveragedModel counts beside the module that it wraps
ENDINGS = (".pt", ".pth", ".ckpt", ".bin")
# What reading a file raises that is cut, changed or of another kind; deep nesting and absurd sizes are of this sort.
_DAMAGE = (
    RuntimeError, EOFError, LookupError, ValueError, TypeError, AttributeError, AssertionError, MemoryError,
    OverflowError, RecursionError, struct.error, zipfile.BadZipFile,
)  # fmt: skip
_PLAIN = (str, int, float, bool, type(None))


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, str], Wrapping]:
    """Tensors by name, ties, and how the state lay in the file.

    Raises:
        InputError: the file is damaged, holds more than tensors and plain values, or no state.
    """
    content = _loaded(path)
    state, keys = _state_in(content, path)
    tensors = {str(name): value.detach() for name, value in state.items() if isinstance(value, Tensor)}
    check_tensors(path, tensors)
    rest = {name: value for name, value in state.items() if name not in tensors}
    if keys:
        rest = {name: value for name, value in content.items() if name != keys[0]}
    left_out = tuple(name for name in (AVERAGED,) if name in tensors and wrapper_prefix([*tensors.keys() - {name}]))
    prefix = wrapper_prefix([name for name in tensors if name not in left_out])
    tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name not in left_out}
    versions = dict(getattr(state, "_metadata", {}))
    plain = {key: value for key, value in rest.items() if is_plain(value)}
    return tensors, ties_of(tensors), Wrapping(keys, prefix, plain, versions, left_out=left_out)


def _loaded(path: Path) -> Any:
    """The content of a file: mapped if it is a zip archive, read if it is of the old kind."""
    with path.open("rb") as file:
        mapped = file.read(2) == b"PK"
    try:
        if mapped:
            check_stored(path)
        with warnings.catch_warnings(action="ignore"):  # of old protocols; what they cannot hold is an error anyhow
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as error:
        if not any(word in str(error) for word in ("GLOBAL", "Unsupported", "Can only", "weights_only")):
            raise _damaged(path) from error
        raise InputError(
            f"{path} holds objects other than tensors and plain values, which only running its code could load; "
            "transfuse never does that. Save the state dict alone (torch.save(model.state_dict(), ...)), or safetensors"
        ) from error
    except _DAMAGE as error:
        raise _damaged(path) from error


def _damaged(path: Path) -> InputError:
    return InputError(f"{path} is no whole PyTorch file, or damaged; save or download it again")


def _state_in(content: Any, path: Path) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The state, and the keys that lead to it."""
    if isinstance(content, Mapping):
        wrapped = [key for key, value in content.items() if _is_state(value) and not str(key).startswith(NO_NETWORKS)]
        for key in (*WRAPPERS, *(wrapped if len(wrapped) == 1 else ())):
            if key in wrapped:
                return content[key], (key,)
        if any(isinstance(value, Tensor) for value in content.values()):
            return content, ()
        inner = [(content[outer][key], (outer, key)) for outer in content if isinstance(content[outer], Mapping)
                 for key in WRAPPERS if _is_state(content[outer].get(key))]  # fmt: skip
        if len(inner) == 1:
            return inner[0]
    found = ", ".join(map(repr, list(content)[:8])) if isinstance(content, Mapping) else type(content).__name__
    raise InputError(
        f"{path} holds no state dict (found: {found}); expected tensors by name, or these under one of "
        f"{', '.join(WRAPPERS[:4])}, ..."
    )


def _is_state(value: Any) -> bool:
    """Whether a value is tensors by name, and nothing else but what modules save as extra states."""
    if not isinstance(value, Mapping) or not any(isinstance(each, Tensor) for each in value.values()):
        return False
    return all(
        isinstance(name, str) and (isinstance(each, Tensor) or name.endswith(EXTRA_STATE))
        for name, each in value.items()
    )


def is_plain(value: Any) -> bool:
    """Whether a value is made of numbers, texts, lists and mappings only.

    Each object is looked at once: a pickle may name one so often that all ways to it could never be gone.
    """
    seen, waiting = {id(value)}, [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            parts = [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple):
            parts = list(each)
        elif isinstance(each, _PLAIN):
            continue
        else:
            return False
        waiting += [part for part in parts if id(part) not in seen]
        seen |= set(map(id, parts))
    return True


def _content(
    tensors: State, ties: Mapping[str, str], wrapping: Wrapping, provenance: Mapping[str, Any]
) -> dict[str, Any]:
    """What to save: the state, wrapped as it was, tied tensors sharing their memory, with its provenance."""
    state: OrderedDict[str, Tensor] = OrderedDict()
    for name in tensors:
        source = ties.get(name, name)
        shared = state.get(wrapping.prefix + source)
        tensor = tensors[source] if shared is None else shared
        state[wrapping.prefix + name] = tensor.detach().contiguous()
    state._metadata = {**wrapping.versions}  # type: ignore[attr-defined]
    if wrapping.keys:
        outer, *inner = wrapping.keys
        wrapped: Mapping[str, Any] = {inner[0]: state} if inner else state
        return {**wrapping.rest, outer: wrapped, KEY: dict(provenance)}
    state._metadata[KEY] = dict(provenance)  # type: ignore[attr-defined]
    if wrapping.rest:
        state.update(wrapping.rest)
    return state


def _open(path: Path, opener: Opener) -> Checkpoint:
    state, ties, wrapping = read(path)
    return Checkpoint(path, FORMAT.name, state, (path,), ties, {}, wrapping)


def _write(out: Path, output: Output) -> list[Path]:
    like = output.like
    content = _content(output.tensors, like.ties, like.wrapping, json.loads(output.provenance.json()))
    with whole_file(out) as temporary:
        torch.save(content, temporary)
    return [out]


FORMAT = Format("pytorch", "a PyTorch file", ENDINGS, lambda path: True, _open, _write)
