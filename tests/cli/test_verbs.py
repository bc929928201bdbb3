"""Options and verbs are records: whatever is made from them agrees."""

import json
from argparse import ArgumentTypeError

import pytest

from command_calls import AB, MODEL, call, works
from transfuse.cli import parser
from transfuse.cli.retelling import command, told_options
from transfuse.cli.values import count, shape, size
from transfuse.cli.verbs import VERBS
from transfuse.corrections import CORRECTIONS
from transfuse.methods import METHODS

FUSE = [
    "fuse", "some/a.pt", "b.pt", "-o", "out/ab.pt", "--model", "nets/n.py:net", "--model-args", "width=3", "deep=no",
    "--input-shape", "3x4", "--weights", "2", "1", "--target", "s=3", "t=4", "--option", "updates=3", "--seed", "7",
    "--dtype", "float16", "--correct", "none", "--no-synthetic", "--force", "--data", "data/x.npz",
]  # fmt: skip


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_help_for_every_option(name, capsys):
    code, out, _ = call(capsys, name, "--help")
    assert code == 0
    verb = VERBS[name]
    assert len({option.name for option in verb.options}) == len(verb.options)
    for option in verb.options:
        assert option.help
        assert option.is_positional or option.flags[-1] in out


def test_help_names_every_correction(capsys):
    _, out, _ = call(capsys, "fuse", "--help")
    assert all(name in out for name in CORRECTIONS)


def test_what_is_typed_again_is_parsed_as_it_was():
    options = parser.parse(FUSE)
    again = [word for option in VERBS["fuse"].options for word in parser.typed(option, getattr(options, option.name))]
    assert parser.parse(["fuse", *again]) == options


def test_the_command_has_what_matters_and_no_folders():
    assert command(parser.parse(FUSE)) == (
        "transfuse fuse a.pt b.pt -o ab.pt --dtype float16 --model n.py:net --model-args width=3 deep=no --input-shape "
        "3,4 --method auto --option updates=3 --seed 7 --weights 2.0 1.0 --target s=3 t=4 --data x.npz --correct none "
        "--no-synthetic"
    )


def test_the_provenance_names_what_was_chosen_and_nothing_else():
    assert told_options(parser.parse(FUSE)) == {
        "updates": 3, "dtype": "float16", "target": "s=3 t=4", "correct": "none", "no_synthetic": True
    }  # fmt: skip
    assert told_options(parser.parse(["fuse", "a", "-o", "b"])) == {}


@pytest.mark.parametrize(
    ("read", "good", "bad"),
    [
        (shape, {"3": (3,), "1,28,28": (1, 28, 28), "1x2": (1, 2)}, ["", "0", "3,", "a", "-1"]),
        (count, {"1": 1, "20": 20}, ["0", "-1", "1.5", ""]),
        (
            size,
            {"5GB": 5 * 10**9, "1.5kb": 1500, "7": 7, "300MB": 3 * 10**8},
            ["", "GB", "0", "5 apples", "1e999GB", "1e400", "nan", "inf"],
        ),
    ],
)
def test_texts_as_values(read, good, bad):
    assert {text: read(text) for text in good} == good
    for text in bad:
        with pytest.raises(ArgumentTypeError, match="expected"):
            read(text)


@pytest.mark.parametrize("method", METHODS)
def test_the_time_of_every_method_is_estimated(here, capsys, method):
    data = ("--data", "in/unlabeled.npz") if METHODS[method].terms else ()
    told = works(capsys, "fuse", *AB, "-o", "ab.pt", *MODEL, "--method", method, *data, "--dry-run")
    assert 0 <= told["seconds"] < 60


def test_an_error_in_code_of_the_users_says_where_it_is(here, capsys):
    (here / "broken.py").write_text("import torch\n\ndef net():\n    return undefined\n")
    code, _, err = call(capsys, "trace", "--model", "broken.py:net")
    assert code == 2
    assert "--model broken.py:net with no arguments failed (NameError: name 'undefined' is not defined" in err
    assert "in broken.py, line 4); check the arguments" in err
    code, _, err = call(capsys, "barrier", *AB, *MODEL, "--evaluate", "in/nets.py:fails")
    assert code == 2
    assert "--evaluate in/nets.py:fails failed (RuntimeError: no, in nets.py, line 19)" in err
    (here / "broken.py").write_text("import nothing_such\n")
    _, _, err = call(capsys, "trace", "--model", "broken.py:net")
    assert (
        "broken.py cannot be imported (ModuleNotFoundError: No module named 'nothing_such', in broken.py, line 1)"
        in err
    )


def test_json_is_what_a_machine_reads(capsys):
    code, out, _ = call(capsys, "methods", "wb", "--json")
    assert code == 0
    assert json.loads(out)["wb"]["options"]
