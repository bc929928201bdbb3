"""The app of `examples/flower` with real Flower: its simulation, and real processes over the loopback.

Minutes long, and bounded in time: `make test-flower` runs them in an environment of their own.
"""

import importlib.util
import json
import sys
import threading
from pathlib import Path

import pytest

from transfuse import Federation, Reply
from transfuse.demo.data import digits

pytest.importorskip("flwr", reason="Flower is not installed: `make test-flower` makes an environment for it")
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("flower")]

APP = Path(__file__).parents[2] / "examples" / "flower"
MOST = 600  # seconds for a run; alone on two cores it takes two minutes, of which 90 s wait for a dead client


def loaded(name):
    """A file of the app as a module."""
    spec = importlib.util.spec_from_file_location(name, APP / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # its dataclasses look for it there
    spec.loader.exec_module(module)
    return module


def results(path, said):
    assert path.exists(), said
    return json.loads(path.read_text(encoding="utf-8"))


def without_matching(rounds, clients, epochs=10, rate=0.1):
    """Accuracies of plain averaging by the same clients, in a plain loop; `rounds` lists who replies in each."""
    task = loaded("federated_digits/task")
    images, labels = digits("test")
    federation, reached = Federation.of(task.network(0), images[:2], method="vanilla"), []
    for number, present in enumerate(rounds):
        replies = []
        for client in present:
            model, (own, known) = task.network(client + 1), task.share(client, clients)
            if number:
                model.load_state_dict(dict(federation.sent_to(client)))
            task.train(model, own, known, epochs=epochs, rate=rate)
            replies.append(Reply(client, model.state_dict(), len(known)))
        federation, _ = federation.joined(replies)
        model.load_state_dict(dict(federation.state))
        reached.append(task.accuracy(model, images, labels))
    return reached


def test_one_client_dies_one_sends_nan_and_the_federation_ends_better_than_without_matching(tmp_path):
    out, real = tmp_path / "out.json", loaded("processes")
    with real.loopback(5, broken=[3]) as federation:
        ended = threading.Event()
        given = (real, federation.nodes[4], out, ended)
        killer = threading.Thread(target=_kill_after_the_first_round, args=given, daemon=True)
        killer.start()
        try:
            said = federation.run(f'out="{out}"', "timeout=90.0", timeout=MOST)
        finally:
            ended.set()
            killer.join(30)
    found = results(out, said)
    told = "\n".join(found["rounds"])
    assert told.count("is left out: tensor 0.weight holds NaN or infinity") == 3, said
    counted = [int(line.split(": ")[1].split()[0]) for line in told.splitlines() if " clients fused by auto" in line]
    assert counted == [4, 3, 3], said  # one is broken from the beginning, one is dead from round 2 on
    plain = without_matching([(0, 1, 2, 4), (0, 1, 2), (0, 1, 2)], clients=5)
    assert found["accuracy"][1] > plain[0]
    assert found["accuracy"][3] > plain[2]


def _kill_after_the_first_round(module, node, out, ended):
    """Kill a client, with all that it started, as soon as the server has told of the first round."""
    while not ended.wait(0.2):
        told = out.read_text(encoding="utf-8") if out.exists() else ""
        if "round 1:" in told:
            module.stop(node, at_once=True)
            return


def test_a_simulation_of_four_clients_over_three_rounds(tmp_path):
    pytest.importorskip("ray", reason="Flower's simulation needs Ray: pip install 'flwr[simulation]'")
    out = tmp_path / "simulated.json"
    said = loaded("processes").simulated(4, f'out="{out}"', timeout=MOST)
    found = results(out, said)
    assert len(found["accuracy"]) == 4, said
    assert all("4 of 4 clients fused by auto" in line for line in found["rounds"])
    assert found["accuracy"][-1] > 60
