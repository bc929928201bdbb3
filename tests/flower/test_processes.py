"""The app of `examples/flower` with real Flower: its simulation, and real processes over the loopback.

Minutes long, and bounded in time: `make test-flower` runs them in an environment of their own.
"""

import importlib.util
import json
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: `make test-flower` makes an environment for it")
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("flower")]

APP = Path(__file__).parents[2] / "examples" / "flower"
MOST = 420  # seconds for a run; alone on two cores it takes a minute or two


def processes():
    spec = importlib.util.spec_from_file_location("processes", APP / "processes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def results(path, said):
    assert path.exists(), said
    return json.loads(path.read_text(encoding="utf-8"))


def test_one_client_dies_one_sends_nan_and_the_federation_ends_better_than_without_matching(tmp_path):
    found = {}
    with_processes = processes()
    for method in ("vanilla", "auto"):
        out = tmp_path / f"{method}.json"
        with with_processes.loopback(5, broken=[3]) as federation:
            killer = threading.Thread(target=_kill_in_the_middle, args=(with_processes, federation, 4), daemon=True)
            killer.start()
            said = federation.run(f'method="{method}"', f'out="{out}"', "timeout=45.0", timeout=MOST)
            killer.join(1)
        found[method] = results(out, said)
        assert len(found[method]["accuracy"]) == 4, said
        told = "\n".join(found[method]["rounds"])
        assert told.count("is left out: tensor 0.weight holds NaN or infinity") == 3, said
        counted = [int(line.split(": ")[1].split()[0]) for line in told.splitlines() if " clients fused by " in line]
        assert counted[0] == 4, said
        assert counted[-1] == 3, said  # one is dead, one is broken
    assert found["auto"]["accuracy"][1] > found["vanilla"]["accuracy"][1]
    assert found["auto"]["accuracy"][-1] > found["vanilla"]["accuracy"][-1]


def _kill_in_the_middle(module, federation, number):
    """Kill a client, with all that it started, as soon as the first round is over."""
    log = federation.folder / "superlink.log"
    for _ in range(MOST):
        if "round 1:" in log.read_text(encoding="utf-8", errors="replace"):
            break
        time.sleep(0.2)
    module.stop(federation.nodes[number], at_once=True)


def test_a_simulation_of_four_clients_over_three_rounds(tmp_path):
    pytest.importorskip("ray", reason="Flower's simulation needs Ray: pip install 'flwr[simulation]'")
    out = tmp_path / "simulated.json"
    said = processes().simulated(4, f'out="{out}"', timeout=MOST)
    found = results(out, said)
    assert len(found["accuracy"]) == 4, said
    assert all("4 of 4 clients fused by auto" in line for line in found["rounds"])
    assert found["accuracy"][-1] > 60
