"""End to end, on the digits that ship with transfuse: run, kill, go on, tables, figures."""

import json

import pytest
from experiments.__main__ import main

import transfuse
from experiments import kinds, running

pytestmark = pytest.mark.xdist_group("experiments")


def arguments(folder, *more):
    return ["run", *more, "--seeds", "0", "--results", str(folder / "results"), "--cache", str(folder / "cache")]


def lines_of(folder):
    return {
        path.name: [json.loads(text) for text in path.read_text().splitlines()]
        for path in sorted((folder / "results").iterdir())
    }


def untimed(lines):
    """Without what differs between two runs of the same: times."""
    keys = ("experiment", "cell", "row", "group", "metrics", "chosen", "configuration", "key", "objective")
    return sorted(json.dumps({key: line.get(key) for key in keys}, sort_keys=True) for line in lines)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """A run of several experiments, and what it left."""
    folder = tmp_path_factory.mktemp("smoke")
    rows = "base vanilla wb gwb auto auto-500 ensemble no-signs plane-auto ot-random".split()
    rows += ["first", "better", "control", "control-500", "mean", "refit-500", "fedavg", "rounds-auto", "alone-fedma"]
    rows += ["joined-better", "joined-1.0-500", "joined-ensemble"]
    names = ("table1", "table2", "table3", "heterogeneous", "different", "joined", "federated", "landscapes", "parts")
    assert main(arguments(folder, *names, "--rows", *rows)) == 0
    return folder


def test_every_line_says_all_that_is_needed(smoke):
    for lines in lines_of(smoke).values():
        for line in lines:
            assert line["profile"] == "smoke"
            assert {"seconds", "versions", "configuration", "deviations", "seeds", "base", "metrics"} <= line.keys()
            assert "digits that ship with transfuse" in line["notes"][0]


def test_a_network_of_all_classes_knows_more_than_a_parent(smoke):
    lines = {line["row"]: line["metrics"] for line in lines_of(smoke)["joined.smoke.jsonl"]}
    assert lines["joined-better"]["accuracy"] < 60  # it names one half of the digits only
    assert lines["joined-1.0-500"]["accuracy"] > lines["joined-better"]["accuracy"] + 10
    assert lines["joined-ensemble"]["first task"] >= lines["joined-ensemble"]["accuracy"]


@pytest.mark.long
def test_hyperparameters_are_chosen_by_validation(smoke):
    (line,) = [line for line in lines_of(smoke)["table2.smoke.jsonl"] if line["row"] == "gwb"]
    best = max(line["validation"], key=lambda each: each["accuracy"])
    assert line["chosen"] == {name: best[name] for name in ("epsilon", "alpha")}
    assert len(line["validation"]) == 2


@pytest.mark.long
def test_answers_are_compared_with_those_of_the_parents(smoke):
    lines = {line["row"]: line for line in lines_of(smoke)["different.smoke.jsonl"]}
    assert lines["ensemble"]["likeness"]["distance"] == 0.0
    assert lines["mean"]["likeness"]["outputs"] == 0.0
    assert lines["first"]["likeness"]["parents"][0] == 100.0
    assert lines["better"]["kept"] in (1, 2)
    assert lines["control-500"]["kept"] in (1, 2)
    assert lines["control-500"]["likeness"]["outputs"] < lines["first"]["likeness"]["outputs"]


def test_federations_have_an_accuracy_after_every_round(smoke):
    lines = {line["row"]: line for line in lines_of(smoke)["federated.smoke.jsonl"]}
    assert len(lines["fedavg"]["curve"]) == len(lines["rounds-auto"]["curve"]) == 3
    assert lines["rounds-auto"]["curve"][-1] == round(lines["rounds-auto"]["metrics"]["accuracy"], 2)
    assert lines["alone-fedma"]["curve"] is None


def test_a_second_run_does_nothing(smoke, monkeypatch):
    before = {path.name: path.read_bytes() for path in (smoke / "results").iterdir()}
    monkeypatch.setattr(running, "measured", lambda *_: pytest.fail("measured again"))
    assert main(arguments(smoke, "table1", "table2", "--rows", "base", "vanilla", "wb", "auto")) == 0
    assert before == {path.name: path.read_bytes() for path in (smoke / "results").iterdir()}


def test_what_another_experiment_did_is_taken_over(smoke):
    auto = [
        next(line for line in lines_of(smoke)[f"{name}.smoke.jsonl"] if line["row"] == "auto")
        for name in ("table1", "parts")
    ]
    assert [line["experiment"] for line in auto] == ["table1", "parts"]
    one, other = ({name: line[name] for name in line.keys() - {"key", "experiment"}} for line in auto)
    assert one == other  # the seconds too


def test_a_killed_run_goes_on_and_ends_with_the_same_lines(smoke, tmp_path, monkeypatch):
    rows = ["--rows", "base", "vanilla", "wb", "gwb"]
    original, count = running.measured, iter(range(9))

    def dying(*given):
        if next(count) == 2:
            raise KeyboardInterrupt
        return original(*given)

    monkeypatch.setattr(running, "measured", dying)
    with pytest.raises(KeyboardInterrupt):
        main(arguments(tmp_path, "table2", *rows))
    path = tmp_path / "results" / "table2.smoke.jsonl"
    path.write_bytes(path.read_bytes()[:-30])  # the second line is torn
    monkeypatch.setattr(running, "measured", original)
    assert main(arguments(tmp_path, "table2", *rows)) == 0
    lines = [json.loads(text) for text in path.read_text().splitlines() if text.endswith("}")]
    expected = [line for line in lines_of(smoke)["table2.smoke.jsonl"] if line["row"] in rows]
    assert untimed(lines) == untimed(expected)


def test_tables_and_figures_need_the_lines_only(smoke, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    for out in ("a", "b"):
        assert main(["tables", "--results", str(smoke / "results"), "--out", str(tmp_path / f"{out}.md")]) == 0
        assert main(["figures", "--results", str(smoke / "results"), "--out", str(tmp_path / out)]) == 0
        (smoke / "cache").rename(smoke / "cache-away") if out == "a" else (smoke / "cache-away").rename(smoke / "cache")
    assert (tmp_path / "a.md").read_bytes() == (tmp_path / "b.md").read_bytes()
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert {"barriers-mnist-mlpnet-smoke.svg", "plane-mnist-mlpnet-auto-smoke.svg"} <= names
    assert "federated-mnist-mlp-4-clients-smoke.svg" in names
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_row_that_fails_has_a_line_is_told_and_tried_again(tmp_path, monkeypatch, capsys):
    def failing(*_):
        raise transfuse.InputError("not today")

    original = kinds.fuse
    monkeypatch.setattr(kinds, "fuse", failing)
    assert main(arguments(tmp_path, "table1", "--rows", "base", "vanilla")) == 1
    assert "table1, MNIST MLPNet, vanilla: not today" in capsys.readouterr().err
    monkeypatch.setattr(kinds, "fuse", original)
    assert main(arguments(tmp_path, "table1", "--rows", "base", "vanilla")) == 0
    lines = lines_of(tmp_path)["table1.smoke.jsonl"]
    assert [("error" in line, line["row"]) for line in lines] == [
        (False, "base"),
        (True, "vanilla"),
        (False, "vanilla"),
    ]


def test_missing_data_is_told_and_other_cells_go_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRANSFUSE_DATA", str(tmp_path / "nowhere"))
    more = ["table1", "--profile", "cpu", "--cells", "MLPNet", "VGG11", "--rows", "base"]
    assert main(arguments(tmp_path, *more)) == 1
    told = capsys.readouterr().err
    assert "lacks train-images-idx3-ubyte.gz" in told
    assert "lacks data_batch_1.bin" in told


def test_the_list_names_every_experiment(capsys):
    assert main(["list"]) == 0
    told = capsys.readouterr().out
    assert all(f"{name}: " in told for name in ("table1", "table2", "table3", "heterogeneous", "landscapes", "parts"))


def test_wrong_names_end_with_a_message(capsys):
    assert main(["run", "tabel1", "--profile", "smoke"]) == 2
    assert "no experiment is called 'tabel1'" in capsys.readouterr().err


@pytest.mark.long
def test_language_models_are_measured_by_their_loss(tmp_path):
    rows = ["base", "ensemble", "vanilla"]
    assert main(arguments(tmp_path, "transformers", "--cells", "characters, three", "--rows", *rows)) == 0
    lines = {line["row"]: line for line in lines_of(tmp_path)["transformers.smoke.jsonl"]}
    assert [lines[row]["metrics"].keys() for row in rows] == [{"nats"}] * 3
    assert lines["base"]["metrics"]["nats"] == pytest.approx(sum(lines["base"]["each"]) / 3)
    assert lines["ensemble"]["metrics"]["nats"] < max(lines["base"]["each"])  # Jensen


@pytest.mark.long
def test_parents_of_other_depths_are_fused_and_compared(tmp_path):
    rows = ("second", "control-500", "ensemble", "clafusion", "auto-500")
    assert main(arguments(tmp_path, "depths", "--rows", *rows)) == 0
    assert {line["row"] for line in lines_of(tmp_path)["depths.smoke.jsonl"]} == set(rows)
