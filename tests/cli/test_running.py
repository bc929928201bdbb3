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
    monkeypatch.setattr("transfuse.cli.fusing.check_writable", lambda *args, **kwargs: None)
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


def test_a_kill_at_any_moment_leaves_the_old_file_or_the_new(here):
    """Forks of one process that has torch loaded run the real command; each is killed while it writes."""
    for number, name in enumerate("ab"):
        torch.manual_seed(number)
        safetensors.torch.save_file(
            {f"{i}.weight": torch.randn(400, 500) for i in range(12)}, here / f"{name}.safetensors"
        )
    spaces = "{spaces: {s: 400}, tensors: {" + ", ".join(f"{i}.weight: [s, 500]" for i in range(12)) + "}}"
    (here / "layout.yaml").write_text(spaces)
    old = safetensors.torch.save({"old": torch.ones(2)})
    arguments = "fuse a.safetensors b.safetensors -o out.safetensors --layout layout.yaml --method vanilla --force -q"
    early = 0
    with subprocess.Popen(
        [sys.executable, "-c", ZYGOTE], env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        for moment in random.Random(0).choices(range(30), k=KILLS):
            (here / "out.safetensors").write_bytes(old)
            early += _killed(process, arguments, here, moment / 1000)
        process.stdin.write(arguments + "\n")
        process.stdin.close()
        process.stdout.read()
    assert early >= 3, "the kills came too late to show anything"
    assert not list(here.glob(".*.part")), "what killed runs left is removed by the next one"
    assert len(open_checkpoint(here / "out.safetensors").tensors) == 12


def _killed(process, arguments, folder, seconds):
    """Run the command, kill it so long after it began to write; whether the old file is still there."""
    old = (folder / "out.safetensors").read_bytes()
    process.stdin.write(arguments + "\n")
    process.stdin.flush()
    child = int(process.stdout.readline())
    _wait_for_part(folder, child)
    time.sleep(seconds)
    with suppress(ProcessLookupError):  # it was done before
        os.kill(child, signal.SIGKILL)
    assert int(process.stdout.readline()) in (0, -9)
    if (folder / "out.safetensors").read_bytes() == old:
        return True
    assert len(open_checkpoint(folder / "out.safetensors").tensors) == 12
    return False


def _wait_for_part(folder, child):
    """Until the temporary file is there (or the command has finished already)."""
    deadline = time.monotonic() + 60
    while not list(folder.glob(f".out.safetensors.{child}.*")) and time.monotonic() < deadline:
        if not Path(f"/proc/{child}").exists():
            return
        time.sleep(0.001)
