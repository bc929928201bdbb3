"""The real command, and what is left behind when it is stopped.

Most other tests call `main` in their own process, for an interpreter with torch takes seconds to start.
"""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
import safetensors.torch
import torch

from command_calls import AB, ENVIRONMENT, MODEL, Trap, call, mlp, written
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


LOUD = """
import sys
from command_calls import mlp as network
print("imported")

def loud():
    print("built")
    return network(0)

def quits():
    sys.exit(0)

def quits_when_run():
    model = network(0)
    model.register_forward_pre_hook(lambda *args: sys.exit(0))
    return model

def quits_measuring(model):
    sys.exit("enough")

def no_number(model):
    print("measured")
    return {"a": float("nan"), "b": float("inf")}
"""


def test_prints_of_the_users_code_and_numbers_that_are_none_leave_the_json_valid(here, capsys):
    (here / "loud.py").write_text(LOUD)
    how = ("--model", "loud.py:loud", "--input-shape", "3,4", "--evaluate", "loud.py:no_number", "--points", "3")
    code, out, err = call(capsys, "barrier", *AB, *how, "--json")
    assert code == 0, err
    assert json.loads(out, parse_constant=pytest.fail)["barrier"] == {"a": None, "b": None}
    assert "imported\nbuilt" in err
    assert "measured" in err
    _, out, _ = call(capsys, "trace", *how[:4])
    assert out.startswith("spaces:")


@pytest.mark.parametrize(
    ("model", "evaluate", "message"),
    [("quits", "no_number", "SystemExit: 0, in loud.py, line 11"), ("loud", "quits_measuring", "SystemExit: enough"),
     ("quits_when_run", "no_number", "sys.exit(0)")],
)  # fmt: skip
def test_code_that_ends_the_program_is_an_error(here, capsys, model, evaluate, message):
    (here / "loud.py").write_text(LOUD)
    how = ("--model", f"loud.py:{model}", "--input-shape", "3,4", "--evaluate", f"loud.py:{evaluate}")
    code, _, err = call(capsys, "report", *AB, *how, "-o", "report.html")
    assert code in (1, 2)
    assert message in err
    assert not (here / "report.html").exists()


@pytest.mark.parametrize("ending", ["safetensors", "pt", "safetensors.index.json"])
def test_numbers_that_the_type_cannot_hold_are_refused(here, capsys, ending):
    for number, name in enumerate("ab"):
        state = mlp(number).state_dict()
        safetensors.torch.save_file({**state, "3.bias": torch.full((3,), 7e4)}, here / f"{name}.safetensors")
    how = ("a.safetensors", "b.safetensors", *MODEL, "--correct", "none", "-o", f"ab.{ending}", "--report", "ab.html")
    code, _, err = call(capsys, "fuse", *how, "--dtype", "float16")
    assert code == 2
    assert "3.bias has numbers up to 7e+04, but float16 ends at 6.55e+04; pass --dtype bfloat16" in err
    assert written(here) == ["a.safetensors", "b.safetensors"]
    code, _, err = call(capsys, "fuse", *how[:-2], "--dtype", "bfloat16")
    assert code == 0, err


def test_a_report_that_fails_is_told_as_that(here, capsys, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("transfuse.report.write_whole", full)
    code, _, err = call(capsys, "fuse", *AB, *MODEL, "--correct", "none", "-o", "ab.pt", "--report", "ab.html")
    assert code == 1
    assert "the checkpoint ab.pt is written and whole; the report is not" in err
    assert written(here) == ["README.md", "ab.pt"]


def test_no_name_reaches_the_terminal_as_a_command(here, capsys):
    name = "w\x1b[2J\r\nforged: line"
    safetensors.torch.save_file({name: torch.ones(2)}, "a\x1b[31m.safetensors")
    code, out, _ = call(capsys, "inspect", "a\x1b[31m.safetensors")
    assert code == 0
    assert out.replace("\n", "").isprintable()
    assert "w\\x1b[2J\\r\\nforged: line  [2]" in out
    code, _, err = call(capsys, "fuse", "a\x1b[31m.safetensors", *AB[1:], *MODEL, "-o", "ab.pt")
    assert code == 2
    assert err.replace("\n", "").isprintable()
    assert not any(line.startswith("forged") for line in err.splitlines())


@pytest.mark.parametrize("path", ["/dev/zero", "pipe"])
def test_what_never_ends_is_refused_at_once(here, capsys, path):
    os.mkfifo("pipe")
    for arguments in (
        ("run", path), ("inspect", path), ("fuse", AB[0], path, *MODEL, "-o", "ab.pt"),
        ("fuse", *AB, "--layout", path, "-o", "ab.pt"), ("fuse", *AB, *MODEL, "--data", path, "-o", "ab.pt"),
        ("trace", "--model", "in/nets.py:mlp", "--example-inputs", path), ("trace", "--model", f"{path}.py:net"),
    ):  # fmt: skip
        code, _, err = call(capsys, *arguments)
        assert code == 2
        assert "device, pipe or socket" in err or "there is no file" in err


def test_data_that_unpack_without_end_are_refused(here, capsys):
    with zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive, \
            archive.open("inputs.npy", "w", force_zip64=True) as file:  # fmt: skip
        for _ in range(11):
            file.write(bytes(10**8))
    code, _, err = call(capsys, "fuse", *AB, *MODEL, "--data", "bomb.npz", "-o", "ab.pt")
    assert code == 2
    assert "would become 1.10 GB in memory" in err


def test_a_configuration_with_paths_that_are_none_is_refused(here, capsys):
    for text in (
        'models: [a, "b\\0c"]\nmodel: mlpnet\nout_path: c.pt',
        "models: &a [*a]",
        "[" * 3000,
        "models: 2001-99-99",
    ):
        (here / "merge.yml").write_text(text)
        code, _, err = call(capsys, "run", "merge.yml")
        assert code == 2, err
        assert "not foreseen" not in err


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
