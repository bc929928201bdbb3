"""The real command, and what is left behind when it is stopped.

Most other tests call `main` in their own process, for an interpreter with torch takes seconds to start.
"""

import errno
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import safetensors.torch
import torch

from command_calls import AB, ENVIRONMENT, MODEL, Trap, call, written
from transfuse.checkpoints import open_checkpoint


@pytest.mark.parametrize("ending", ["safetensors", "pt", "safetensors.index.json"])
def test_a_disk_that_fills_up_while_writing(here, capsys, monkeypatch, ending):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    monkeypatch.setattr("transfuse.checkpoints.transfer.check_writable", lambda *args, **kwargs: None)
    code, _, err = call(capsys, "fuse", *AB, "-o", f"ab.{ending}", *MODEL)
    assert code == 1
    assert "No space left on device; nothing was left half-written" in err
    assert written(here) == []


def test_ctrl_c_leaves_nothing(here, capsys, monkeypatch):
    from transfuse.checkpoints import safetensors_file

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(safetensors_file, "raw", interrupted)
    code, _, err = call(capsys, "fuse", *AB, "-o", "ab.safetensors", *MODEL)
    assert code == 130
    assert "stopped" in err
    assert written(here) == []


def command(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "transfuse", *map(str, arguments)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def test_the_real_command(here):
    done = command("fuse", *AB, "-o", "ab.safetensors", *MODEL)
    assert (done.returncode, done.stderr) == (0, "")
    assert "wrote ab.safetensors, README.md" in done.stdout


@pytest.mark.long  # starts several interpreters
def test_a_reader_that_has_gone_and_a_closed_output_make_no_noise(here):
    words = f"{sys.executable} -m transfuse"
    told = {
        line: subprocess.run(["bash", "-c", line], env=ENVIRONMENT, capture_output=True, text=True, check=False).stderr
        for line in (f"{words} methods | head -1", f"{words} --help | true", f"{words} methods >&-", f"{words} x 2>&-",
                     f"{words} methods > /dev/full; echo $? >&2")
    }  # fmt: skip
    closed = "transfuse: standard output is closed, and the result goes there; open it, or send it to a file (>)\n"
    full = "transfuse: standard output cannot be written to (No space left on device); send it elsewhere\n2\n"
    assert list(told.values()) == ["", "", closed, "", full]


def test_a_malicious_pickle_creates_nothing(here):
    torch.save({"state_dict": {"1.weight": torch.ones(2)}, "x": Trap(here / "sprung")}, here / "evil.pt")
    done = command("fuse", "in/a.safetensors", "evil.pt", "-o", "ab.safetensors", *MODEL)
    assert done.returncode == 2
    assert "transfuse never does that" in done.stderr
    assert written(here) == ["evil.pt"]


KILLS = 20


ZYGOTE = """
import os, sys
from transfuse.cli import main
import transfuse.cli.fusing
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os._exit(main(line.split()))
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.long  # each of many runs starts an interpreter
@pytest.mark.parametrize("out", ["out.safetensors", "out.safetensors.index.json"])
def test_a_kill_at_any_moment_leaves_the_old_file_or_the_new(here, out):
    """Forks of one process that has torch loaded run the real command; each is killed while it writes."""
    for number, name in enumerate("ab"):
        torch.manual_seed(number)
        safetensors.torch.save_file(
            {f"{i}.weight": torch.randn(400, 500) for i in range(12)}, here / f"{name}.safetensors"
        )
    spaces = "{spaces: {s: 400}, tensors: {" + ", ".join(f"{i}.weight: [s, 500]" for i in range(12)) + "}}"
    (here / "layout.yaml").write_text(spaces)
    old = safetensors.torch.save({"old": torch.ones(2)}) if out == "out.safetensors" else b"{}"
    arguments = (
        f"fuse a.safetensors b.safetensors -o {out} --layout layout.yaml --method vanilla --force -q --shard-size 2MB"
    )
    early = 0
    with subprocess.Popen(
        [sys.executable, "-c", ZYGOTE], env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        for moment in random.Random(0).choices(range(30), k=KILLS):
            (here / out).write_bytes(old)
            early += _killed(process, arguments, here / out, moment / 1000)
        process.stdin.write(arguments + "\n")
        process.stdin.close()
        process.stdout.read()
    assert early >= 3, "the kills came too late to show anything"
    assert not list(here.glob(".*.part")), "what killed runs left is removed by the next one"
    result = open_checkpoint(here / out)
    assert len(result.tensors) == 12
    assert sorted(here.glob("out-*")) == sorted(set(result.files) - {here / out}), "no shards but those of the last run"


def _killed(process, arguments, out, seconds):
    """Run the command, kill it so long after it began to write; whether the old file is still there."""
    old = out.read_bytes()
    process.stdin.write(arguments + "\n")
    process.stdin.flush()
    child = int(process.stdout.readline())
    _wait_for_part(out, child)
    time.sleep(seconds)
    with suppress(ProcessLookupError):  # it was done before
        os.kill(child, signal.SIGKILL)
    assert int(process.stdout.readline()) in (0, -9)
    if out.read_bytes() == old:
        return True
    assert len(open_checkpoint(out).tensors) == 12
    return False


def _wait_for_part(out, child):
    """Until the temporary file is there (or the command has finished already)."""
    deadline = time.monotonic() + 60
    while not list(out.parent.glob(f".{out.name}.{child}.*")) and time.monotonic() < deadline:
        if not Path(f"/proc/{child}").exists():
            return
        time.sleep(0.001)
