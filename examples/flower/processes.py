"""The app in real processes on this machine, over the loopback: a SuperLink, SuperNodes, and `flwr run`.

    python processes.py                               four clients
    python processes.py --config 'method="vanilla"'   without matching
    python processes.py --simulation                  in one process, by Ray

Connections are not encrypted: this is for trying out. Flower's own guide says how machines are connected.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
STARTING = 60  # seconds for a SuperLink to answer
ENDING = 10  # seconds for a process to end when it is asked to


@dataclass(frozen=True)
class Loopback:
    """A federation that runs: its processes, and the folder of its configuration and logs."""

    folder: Path
    environment: dict[str, str]
    nodes: Sequence[subprocess.Popen[bytes]]

    def run(self, *config: str, timeout: float, federation: str = "") -> str:
        """Run the app on it; what it said."""
        more = [text for each in config for text in ("--run-config", each)]
        more += ["--federation-config", federation] if federation else []
        command = [str(BIN / "flwr"), "run", str(HERE), "loopback", "--stream", *more]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=timeout, check=False
        )
        return done.stdout + done.stderr


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _environment(folder: Path, port: int) -> dict[str, str]:
    """A home for Flower that knows the SuperLink at a port, and no other settings of the user."""
    (folder / "config.toml").write_text(
        f'[superlink]\ndefault = "loopback"\n\n[superlink.loopback]\naddress = "127.0.0.1:{port}"\ninsecure = true\n',
        encoding="utf-8",
    )
    return {
        **os.environ, "FLWR_HOME": str(folder), "FLWR_DISABLE_UPDATE_CHECK": "1", "FLWR_TELEMETRY_ENABLED": "0",
        "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}", "OMP_NUM_THREADS": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",  # what the app needs is installed
    }  # fmt: skip


@contextmanager
def _started(command: Sequence[str], environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process and all that it starts; they end with the block."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes], *, at_once: bool = False) -> None:
    """End a process and all that it started: asked first, unless it shall be at once."""
    group = process.pid  # it began a session of its own
    for signal, patience in ((15, ENDING), (9, ENDING))[1 if at_once else 0 :]:
        try:
            os.killpg(group, signal)
            process.wait(patience)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(STARTING * 5):
        try:
            with urllib.request.urlopen(f"http://{address}/health", timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        if process.poll() is not None:
            break
    raise RuntimeError(f"the SuperLink at {address} does not answer; it said:\n{log.read_text('utf-8')}")


@contextmanager
def _linked(*more: str) -> Iterator[tuple[Path, dict[str, str], str]]:
    """A SuperLink: the folder of its configuration and logs, the environment that knows it, and its address."""
    folder = Path(tempfile.mkdtemp(prefix="flower-"))
    port = _free_port()
    environment, address, log = _environment(folder, port), f"127.0.0.1:{port}", folder / "superlink.log"
    command = [str(BIN / "flower-superlink"), "--insecure", "--host", "127.0.0.1", "--port", str(port), *more]
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        server = stack.enter_context(_started(command, environment, log))
        _wait_for(address, server, log)
        yield folder, environment, address


@contextmanager
def loopback(clients: int, *, broken: Sequence[int] = ()) -> Iterator[Loopback]:
    """A SuperLink and SuperNodes on this machine.

    Args:
        clients: How many SuperNodes.
        broken: Numbers of those that send NaN.
    """
    with _linked() as (folder, environment, address), ExitStack() as stack:
        nodes = []
        for number in range(clients):
            told = f"partition-id={number} num-partitions={clients}" + (" sends-nan=true" if number in broken else "")
            node = [str(BIN / "flower-supernode"), "--insecure", "--superlink", address, "--host", "127.0.0.1",
                    "--port", str(_free_port()), "--node-config", told]  # fmt: skip
            nodes.append(stack.enter_context(_started(node, environment, folder / f"node{number}.log")))
        yield Loopback(folder, environment, nodes)


def simulated(clients: int, *config: str, timeout: float) -> str:
    """Run the app in Flower's simulation, by a SuperLink of its own; what it said."""
    with _linked("--simulation") as (folder, environment, _):
        return Loopback(folder, environment, ()).run(*config, timeout=timeout, federation=f"num-supernodes={clients}")


def main() -> None:
    """Run the app once, and print what it said."""
    parser = argparse.ArgumentParser(description="The app in real processes on this machine.")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for all rounds")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="as for flwr run")
    parser.add_argument("--simulation", action="store_true", help="Flower's simulation instead of SuperNodes")
    options = parser.parse_args()
    if options.simulation:
        print(simulated(options.clients, *options.config, timeout=options.timeout))
        return
    with loopback(options.clients) as federation:
        print(federation.run(*options.config, timeout=options.timeout))


if __name__ == "__main__":
    main()
