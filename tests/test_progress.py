"""Progress: silent unless asked, one bar on a terminal, one line for a stage elsewhere, or the user's own."""

import io
import subprocess
import sys
import threading
import types

import pytest

import transfuse
from transfuse.progress import watching
from zoo_problems import layout_of, states_of


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("progress", "stream"), [(False, Terminal), (True, io.StringIO)])
def test_nothing_is_written_unless_asked_and_on_a_terminal(progress, stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream())
    transfuse.fuse_states(states_of("mlp", 2), layout_of("mlp"), progress=progress)
    assert sys.stderr.getvalue() == ""


def watched(monkeypatch, *steps):
    """What a terminal gets of some steps and an error."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(transfuse.progress, "PAUSE", 0.0)

    def fail():
        with watching(True, "auto") as watch:
            for step in steps:
                watch(*step)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    return sys.stderr.getvalue()


def test_a_terminal_sees_one_bar_that_is_wiped_also_after_an_error(monkeypatch):
    text = watched(monkeypatch, ("sweep 1", 3, 6), ("sweep 2", 1, 8))
    assert "auto, sweep 1:  50%|" in text
    assert "| 3/6 [00:00<" in text
    assert "| 1/8 [00:00<" in text
    assert "\n" not in text
    assert text.rpartition("\r")[0].rpartition("\r")[2].isspace()


@pytest.mark.long  # starts an interpreter
def test_no_bar_is_drawn_and_tqdm_auto_not_imported_if_there_is_nothing_to_show():
    script = (
        "import sys, io, transfuse.progress\nsys.stderr = io.StringIO()\nsys.stderr.isatty = lambda: True\n"
        "with transfuse.progress.watching(True, 'auto'):\n    pass\n"
        "assert not sys.stderr.getvalue()\nassert 'tqdm.auto' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_quick_steps_are_not_all_drawn(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with watching(True, "auto") as watch:
        for step in range(1000):
            watch("sweep 1", step, 1000)
    assert sys.stderr.getvalue().count("sweep 1") < 100


def test_no_thread_stays_behind_a_bar(monkeypatch):
    before = threading.active_count()
    watched(monkeypatch, ("sweep 1", 3, 6))
    assert threading.active_count() == before


@pytest.mark.parametrize(("config", "found"), [({"IPKernelApp": {}}, True), ({}, False)])
def test_a_notebook_is_known_by_its_kernel(monkeypatch, config, found):
    shell = types.SimpleNamespace(config=config)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert transfuse.progress._in_notebook() is found


def test_a_file_gets_a_line_for_each_stage_if_forced(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    transfuse.fuse_states(states_of("mlp", 2), layout_of("mlp"), progress="always", restarts=0)
    lines = sys.stderr.getvalue().splitlines()
    assert "auto: start 1 of 2, sweep 1 done" in lines
    assert len(lines) == len(set(lines))


@pytest.mark.parametrize("method", ["auto", "wb", "rebasin", "c2m3", "fedma"])
def test_a_function_of_the_user_is_told_every_step_and_changes_nothing(method):
    told = []
    watched = transfuse.fuse_states(
        states_of("mlp", 3), layout_of("mlp"), method=method, progress=lambda *step: told.append(step)
    )
    plain = transfuse.fuse_states(states_of("mlp", 3), layout_of("mlp"), method=method)
    assert told
    assert all(isinstance(stage, str) and 1 <= done <= total for stage, done, total in told)
    assert watched.history == plain.history
