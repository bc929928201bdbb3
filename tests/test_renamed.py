"""Old names give errors that tell the new ones: in the package, of records, of arguments and of the command line."""

import copy
import importlib
import inspect
import pickle
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import transfuse
from transfuse.cli import config
from transfuse.cli.parser import parse
from transfuse.renamed import RENAMED

NET = nn.Linear(3, 2)
X = torch.zeros(2, 3)


@pytest.mark.parametrize("old", [old for old in RENAMED if old.startswith("transfuse.")])
def test_of_imports(old):
    room, _, name = old.rpartition(".")
    with pytest.raises(ImportError, match=rf"^{old} is called {RENAMED[old]} now$"):
        exec(f"from {room} import {name}")
    with pytest.raises(AttributeError, match=rf"^{old} is called {RENAMED[old]} now$"):
        getattr(importlib.import_module(room), name)
    assert not hasattr(importlib.import_module(room), name)


def test_unknown_names_are_no_old_ones():
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec("from transfuse.layout import nothing")
    with pytest.raises(AttributeError, match=r"^module 'transfuse.layout' has no attribute 'nothing'$"):
        _ = transfuse.layout.nothing


def test_of_records():
    fusion = transfuse.fuse([NET, NET], X, correct="none")
    with pytest.raises(AttributeError, match=r"^Fusion\.recalibration is called Fusion\.correction now$"):
        _ = fusion.recalibration
    with pytest.raises(AttributeError, match=r"^Method\.finish is called Method\.correct now$"):
        _ = transfuse.METHODS["auto"].finish
    with pytest.raises(AttributeError, match=r"^'Fusion' object has no attribute 'nothing'$"):
        _ = fusion.nothing


def test_of_arguments():
    with pytest.raises(transfuse.InputError, match="finish= is called correct= now"):
        transfuse.fuse([NET, NET], X, finish="none")


ARGUMENTS = [re.fullmatch(r"(\w+)\((\w+)=\)", old) for old in RENAMED]


@pytest.mark.parametrize(("kind", "old"), [found.groups() for found in ARGUMENTS if found])
def test_of_arguments_of_records(kind, old):
    with pytest.raises(TypeError, match=rf"^{kind}\({old}=\) is called {kind}\(\w+=.*\) now$"):
        getattr(transfuse, kind)(**{old: True})


def test_of_a_corrected_module():
    model = transfuse.correct(NET, torch.randn(20, 3), [NET, NET])
    for each in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert each.correction.method
        assert repr(each.recalibration) == ".recalibration is called .correction now"
        with pytest.raises(AttributeError, match=r"^\.recalibration is called \.correction now$"):
            _ = each.recalibration.method


def test_of_a_table_of_corrections():
    with pytest.raises(AttributeError, match=r"^Correction\.noise is called Correction\.for_synthetic now$"):
        _ = transfuse.CORRECTIONS["refit"].noise
    with pytest.raises(AttributeError, match=r"^Correction\.parents is called Correction\.needs_parents now$"):
        _ = transfuse.CORRECTIONS["refit"].parents


def test_signs_of_a_space_by_their_old_place():
    with pytest.raises(transfuse.LayoutError, match=r"^space h: symmetry is True; expected Symmetry\(signs="):
        transfuse.Space("h", 3, True)


def test_records_show_their_own_arguments():
    assert list(inspect.signature(transfuse.Space).parameters) == ["name", "units", "symmetry"]


def test_of_the_command_line():
    with pytest.raises(transfuse.InputError, match="--recalibrate is called --correct now"):
        parse(["fuse", "a.pt", "b.pt", "-o", "c.pt", "--recalibrate", "refit"])


def test_of_a_file(tmp_path):
    (tmp_path / "merge.yml").write_text("models: [a.pt, b.pt]\nout_path: c.pt\nrecalibrate: refit\n")
    with pytest.raises(transfuse.InputError, match="recalibrate: is called correct: now"):
        config.read_config(str(tmp_path / "merge.yml"))


def test_new_names_exist():
    names = [new.rpartition(".") for new in RENAMED.values() if new.startswith("transfuse.")]
    assert [name for room, _, name in names if not hasattr(importlib.import_module(room), name)] == []


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_the_changelog_tells(old, new):
    text = (Path(__file__).parents[1] / "CHANGELOG.md").read_text("utf-8").partition("### Changed")[2]
    assert set(re.findall(r"\w+", f"{old} {new}")) <= set(re.findall(r"\w+", text))
