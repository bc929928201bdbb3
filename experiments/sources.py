"""Where the official files of each data set go, and how to know them.

In: the name of a data set and a folder (`TRANSFUSE_DATA`). Out: paths of files that are there and, where a checksum is
known, are the official ones. Checksums of MNIST, CIFAR-10 (python version) and AG News are those that the loaders of
PyTorch's own libraries check.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from transfuse import InputError

VARIABLE = "TRANSFUSE_DATA"


@dataclass(frozen=True)
class Source:
    """The files of a data set.

    Args:
        folder: Below `TRANSFUSE_DATA`.
        files: Names, with the official MD5 where it is known for certain.
        address: Where they are published: an archive, or `{}` in place of each file.
        strict: A file with another checksum is refused; otherwise it is used, and results tell.
        rows: Official numbers of training and test examples.
    """

    folder: str
    files: Mapping[str, str | None]
    address: str
    strict: bool = True
    rows: Mapping[str, int] = field(default_factory=dict)

    def downloads(self, files: Sequence[str]) -> dict[str, list[str]]:
        """What to get for some files: by address the files that come from there."""
        found: dict[str, list[str]] = {}
        for file in files:
            found.setdefault(self.address.format(file), []).append(file)
        return found


CIFAR = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
SOURCES = {
    "mnist": Source(
        "mnist",
        {
            "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        },
        "https://ossci-datasets.s3.amazonaws.com/mnist/{}",
    ),
    "cifar10": Source(
        "cifar-10-batches-bin",
        {f"{name}.bin": None for name in CIFAR},
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    ),
    "cifar10-python": Source(
        "cifar-10-batches-py",
        dict(
            zip(
                CIFAR,
                (
                    "c99cafc152244af753f735de768cd75f",
                    "d4bba439e000b95fd0a9bffe97cbabec",
                    "54ebc095f3ab1f0389bbae665268c751",
                    "634d18415352ddfa80567beed471001a",
                    "482c414d41f54cd18b22e5b47cb7c3cb",
                    "40351d587109b95175f43aff81a1287e",
                ),
                strict=True,
            )
        ),
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    ),
    "sst2": Source(
        "SST-2",
        {"train.tsv": None, "dev.tsv": None, "test.tsv": None},
        "https://dl.fbaipublicfiles.com/glue/data/SST-2.zip",
        strict=False,
        rows={"train": 67349, "test": 1821},
    ),
    "agnews": Source(
        "ag_news_csv",
        {"train.csv": "b1a00f826fdfbd249f79597b59e1dc12", "test.csv": "d52ea96a97a2d943681189a97654912d"},
        "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/{}",
        strict=False,
        rows={"train": 120000, "test": 7600},
    ),
    "dbpedia": Source(
        "dbpedia_csv",
        {"train.csv": None, "test.csv": None},
        # Zhang, Zhao and LeCun (2015) keep it in a drive that no program can read; this is the copy of fast.ai.
        "https://s3.amazonaws.com/fast-ai-nlp/dbpedia_csv.tgz",
        strict=False,
        rows={"train": 560000, "test": 70000},
    ),
}
GLOVE = Source(
    "glove",
    {"glove.6B.100d.txt": None, "glove.6B.50d.txt": None},
    "https://nlp.stanford.edu/data/glove.6B.zip",
)


def data_folder() -> Path:
    """Where data sets are kept."""
    return Path(os.environ.get(VARIABLE, "data"))


def official(name: str, folder: Path) -> tuple[Path, list[str]]:
    """The folder of a data set whose files are all there, and notes on files that are not the official ones.

    Raises:
        InputError: files are missing, or are not the official ones and must be; all of them, and where to get them.
    """
    source = SOURCES[name]
    place = folder / source.folder
    missing = [file for file in source.files if not (place / file).is_file()]
    if missing:
        raise InputError(missing_text(place, missing, source.address))
    sums = {file: known for file, known in source.files.items() if known is not None}
    other = [file for file, known in sums.items() if hashlib.md5((place / file).read_bytes()).hexdigest() != known]
    if other and source.strict:
        raise InputError(
            f"{place}: {', '.join(other)} cut short or changed (MD5 differs from the official one); "
            f"get the official files from {source.address.format('')}"
        )
    return place, [f"{source.folder}/{file} is not the official file (MD5 differs)" for file in other]


def cifar(folder: Path) -> tuple[str, Path]:
    """Which version of CIFAR-10 is there: the binary one first."""
    places = {name: folder / SOURCES[name].folder for name in ("cifar10", "cifar10-python")}
    there = [name for name, place in places.items() if place.is_dir()]
    name = there[0] if there else "cifar10"
    return name, official(name, folder)[0]


def glove_file(folder: Path, dimensions: int) -> tuple[Path, list[str]]:
    """The file of GloVe vectors, and a note if it holds a part of the words only."""
    names = [f"glove.6B.{dimensions}d.txt", f"glove.6B.{dimensions}d.subset.txt"]
    place = folder / GLOVE.folder
    for name in names:
        if (place / name).is_file():
            return place / name, [f"GloVe vectors from {name}, a part of the words"] if "subset" in name else []
    raise InputError(missing_text(place, names[:1], GLOVE.address))


def missing_text(place: Path, files: Sequence[str], address: str) -> str:
    """Which files to put where."""
    return (
        f"{place} lacks {', '.join(files)}\nPut the official files there; they are published at {address.format('')}\n"
        f"With a network, `python -m experiments fetch` gets them\n"
        f"Another folder: set {VARIABLE} (now {os.environ.get(VARIABLE) or 'not set: data'})"
    )
