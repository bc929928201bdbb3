"""Files and folders that are written whole or not at all, and texts that are read within limits.

In: a path, bytes. Out: the file. A reader, or a kill at any moment, meets the old content or the new, never a part:
bytes go to a temporary neighbour, are synced to the disk, and the neighbour is renamed. Not here: formats.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path

from .errors import InputError

PART = ".part"
TEXT = (
    100 * 10**6
)  # bytes; an index of a million tensors is smaller, and nobody writes a larger layout or configuration
_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2(2)
_HERE = -100  # AT_FDCWD


def write_whole(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write a file, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_bytes(content)
    return Path(path)


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path to write to; it takes the place of `path` at the end, or is removed after an error."""
    path = Path(path)
    temporary = _neighbour(path)
    try:
        yield temporary
        put(temporary, path)
        _sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def temporary_files(path: str | os.PathLike[str], count: int) -> Iterator[list[Path]]:
    """So many temporary paths beside `path`; those that `put` has not moved elsewhere are removed at the end."""
    temporaries = [_neighbour(Path(path)) for _ in range(count)]
    try:
        yield temporaries
    finally:
        for each in temporaries:
            each.unlink(missing_ok=True)


def put(temporary: Path, path: Path) -> None:
    """Have a temporary file, once all of it is on the disk, take the place of `path`."""
    _sync(temporary)
    temporary.replace(path)


@contextmanager
def whole_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder to write to; it takes the place of `path` at the end, or is removed after an error.

    An existing folder is exchanged in one step where the system can (Linux).
    """
    path = Path(path)
    temporary = _neighbour(path)
    temporary.mkdir()
    try:
        yield temporary
        for each in [*sorted(temporary.rglob("*")), temporary]:
            _sync(each)
        _exchange(temporary, path)
        _sync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Nobody else who asks for it is in a folder at the same time, in this process or another.

    Gives whether that is certain: some systems, and folders on some networks, cannot be locked. The lock is on the
    folder itself and ends with the process, so no file is left behind.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows opens no folders
        yield False
        return
    try:
        yield _is_locked(handle)
    finally:
        os.close(handle)  # which unlocks it


def _is_locked(handle: int) -> bool:
    """Whether an open folder could be locked, after whoever has locked it before is done."""
    try:
        system = importlib.import_module("fcntl")
        system.flock(handle, system.LOCK_EX)
    except (ImportError, OSError):
        return False
    return True


def check_regular(path: str | os.PathLike[str]) -> None:
    """Refuse devices, pipes and sockets: reading one may never end, and writing would put a file in its place.

    Raises:
        InputError: something is at the path that is neither a file nor a folder, or the path cannot be one.
    """
    if "\0" in str(path):
        raise InputError(f"{str(path)!r} holds the character NUL, which no path can; mend the path")
    path = Path(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(f"{path} is a device, pipe or socket; expected a file, so write what it gives to one first")


def read_text(path: str | os.PathLike[str], *, most: int = TEXT) -> str:
    """The text in a file of at most `most` bytes.

    Raises:
        InputError: the file is larger, is no regular file, cannot be read, or holds no text in UTF-8.
    """
    check_regular(path)
    try:
        with Path(path).open("rb") as file:
            content = file.read(most + 1)
        text = content.decode()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check the file and its rights") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no text ({error.reason} at byte {error.start}); expected UTF-8") from error
    if len(content) > most:
        raise InputError(f"{path} is larger than {most / 1e6:.0f} MB, the most that is read of a text; check the path")
    return text


def _neighbour(path: Path) -> Path:
    """A new name in the same folder. What killed processes left behind there for this path is removed."""
    for left in path.parent.glob(f".{escape(path.name)}.*{PART}"):
        owner = left.name.removesuffix(PART).rpartition(".")[0].rpartition(".")[2]
        if owner.isdecimal() and not _is_running(int(owner)):
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}{PART}")


def _is_running(process: int) -> bool:
    """Whether there is a process of this number; one of another user counts, too."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _exchange(temporary: Path, path: Path) -> None:
    """Put a folder in the place of another, which is at `temporary` then."""
    if not path.exists():
        temporary.rename(path)
        return
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
        done = rename(_HERE, os.fsencode(temporary), _HERE, os.fsencode(path), _EXCHANGE) == 0
    except (AttributeError, OSError, TypeError):
        done = False
    if not done:  # no such call on this system: two steps, between which neither is there
        aside = _neighbour(path)
        path.rename(aside)
        temporary.rename(path)
        aside.rename(temporary)


def _sync(path: Path) -> None:
    """Bring a file or folder to the disk; a file system that cannot sync folders is no error."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        if not path.is_dir():
            raise
    finally:
        os.close(handle)


def check_new(path: str | Path, *, force: bool) -> None:
    """Refuse to write over what is there, or into a folder that is not there.

    Raises:
        InputError: the path exists and `force` does not allow to replace it, it is no place for a file, or its folder
            does not exist.
    """
    check_regular(path)
    path = Path(path)
    if path.exists() and not force:
        raise InputError(f"{path} exists; pass --force to replace it, or another path")
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist; create it first (mkdir -p), or write elsewhere")
