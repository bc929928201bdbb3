"""Official files of the data sets, from where they are published.

In: the name of a data set and a folder. Out: its files there. A file that is there already is left alone; one that is
cut off on the way, or has another checksum than the official one, is not kept.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.error import URLError
from urllib.request import urlopen

from transfuse import InputError

from .keeping import whole
from .sources import GLOVE, SOURCES, Source

KNOWN: Mapping[str, Source] = {**SOURCES, "glove": GLOVE}
CHUNK = 2**20


def fetch(name: str, folder: Path) -> list[Path]:
    """Get what is missing of a data set.

    Raises:
        InputError: there is no such data set, it cannot be had, or what comes is not the official file.
    """
    if name not in KNOWN:
        raise InputError(f"no data set is called {name!r}; the data sets: {', '.join(KNOWN)}")
    source = KNOWN[name]
    place = folder / source.folder
    missing = [file for file in source.files if not (place / file).is_file()]
    place.mkdir(parents=True, exist_ok=True)
    for address, files in source.downloads(missing).items():
        with tempfile.TemporaryFile() as whole_answer:
            _download(address, whole_answer)
            with _opened(address, whole_answer, files) as parts:
                for file, part in parts:
                    _keep(part, place / file, source.files[file], address)
    return [place / file for file in missing]


def _download(address: str, into: IO[bytes]) -> None:
    try:
        with urlopen(address, timeout=60) as answer:
            shutil.copyfileobj(answer, into, CHUNK)
            expected = answer.headers.get("Content-Length")
    except (URLError, OSError) as error:
        raise InputError(
            f"{address} cannot be had ({error}); copy the file by hand, see docs/experiments.md"
        ) from error
    if expected is not None and into.tell() != int(expected):
        raise InputError(f"{address}: {into.tell()} of {expected} bytes came; try again")
    into.seek(0)


@contextmanager
def _opened(address: str, answer: IO[bytes], files: Sequence[str]) -> Iterator[Iterator[tuple[str, IO[bytes]]]]:
    """The files in what came: itself, or members of an archive by their names, whatever folders they lie in."""
    if address.endswith((".tar.gz", ".tgz")):
        with tarfile.open(fileobj=answer) as archive:
            members = {Path(each.name).name: each for each in archive.getmembers() if each.isfile()}
            _check(address, files, members)
            yield ((file, part) for file in files if (part := archive.extractfile(members[file])) is not None)
    elif address.endswith(".zip"):
        with zipfile.ZipFile(answer) as archive:
            names = {Path(name).name: name for name in archive.namelist()}
            _check(address, files, names)
            yield ((file, archive.open(names[file])) for file in files)
    else:
        yield iter([(files[0], answer)])


def _check(address: str, files: Sequence[str], found: Mapping[str, object]) -> None:
    if missing := [file for file in files if file not in found]:
        raise InputError(f"{address} holds no {', '.join(missing)}")


def _keep(part: IO[bytes], path: Path, known: str | None, address: str) -> None:
    digest = hashlib.md5(usedforsecurity=False)
    with whole(path) as file:
        while chunk := part.read(CHUNK):
            digest.update(chunk)
            file.write(chunk)
        if known is not None and digest.hexdigest() != known:
            raise InputError(f"{path.name} from {address} is not the official file (MD5 differs); try again")
