"""Progress: silent unless asked, one line on a terminal, one line for a stage elsewhere, or the user's own."""

import io
import sys

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


def test_a_terminal_sees_one_line_that_is_wiped_also_after_an_error(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())

    def fail():
        with watching(True, "auto") as watch:
            watch("sweep 1", 3, 6)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    text = sys.stderr.getvalue()
    assert "auto [############............] 3/6 sweep 1" in text
    assert "\n" not in text
    assert text.endswith("\r\x1b[K")


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
