"""Every experiment names settings and rows that exist; profiles differ from the paper only where they say so."""

import pytest
import torch
from experiments.catalogue import EXPERIMENTS
from experiments.jobs import Job, groups, jobs
from experiments.networks import build
from experiments.paper import PAPER
from experiments.plain import differences
from experiments.profiles import PROFILES
from experiments.rows import ROWS

import transfuse

CELLS = [(name, cell) for name, experiment in EXPERIMENTS.items() for cell in experiment.cells]
OF_FUSE = ("method", "correct", "terms", "target")  # options of `fuse` itself, whatever the method


def test_names_are_known():
    for _, cell in CELLS:
        assert set(cell.rows) <= ROWS.keys()
        for profile in PROFILES.values():
            assert {*cell.settings, *([cell.target] if cell.target else [])} <= profile.settings.keys()


def test_cells_have_titles_of_their_own():
    for experiment in EXPERIMENTS.values():
        titles = [cell.title for cell in experiment.cells]
        assert len(set(titles)) == len(titles)


def test_the_papers_numbers_have_their_places():
    for name, cells in PAPER.items():
        known = {cell.title: cell.rows for cell in EXPERIMENTS[name].cells}
        for title, numbers in cells.items():
            assert numbers.keys() <= set(known[title]), title


def test_options_of_rows_are_options_of_methods():
    for row in ROWS.values():
        if row.kind == "fuse":
            options = {name: each for name, each in row.options.items() if name not in OF_FUSE}
            assert not transfuse.METHODS[row.options["method"]].problems(options | dict.fromkeys(row.grid, 1.0))


@pytest.mark.parametrize("profile", PROFILES)
def test_every_network_can_be_built_and_has_the_inputs_of_its_data(profile):
    for setting in PROFILES[profile].settings.values():
        with torch.device("meta"):  # shapes only: the paper's networks are large
            build(setting.network)
        if setting.data.vectors:
            assert setting.network.sizes["inputs"] == setting.data.vectors


def test_the_paper_deviates_from_itself_nowhere():
    for name, cell in CELLS:
        for row in cell.rows:
            assert Job(name, "paper", cell, row, 0).deviations() == []


def test_deviations_are_found_and_named():
    (job,) = jobs("table2", "cpu", [0], ["DBpedia LSTM"], ["gwb"])
    told = job.deviations()
    assert "data.length 60 instead of 100" in told
    assert "data.projected_from 100 instead of none" in told
    assert any(text.startswith("chosen from.epsilon (none, 0.2) instead of (0.01") for text in told)


def test_groups_share_no_network():
    for _, cell in CELLS:
        seeds = [
            (name, seed)
            for group in groups(cell, "cpu")
            for name, _, seed in Job("x", "cpu", cell, "base", group).members
        ]
        assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize("name", ["table1", "table2", "table3"])
def test_there_are_enough_groups(name):
    for cell in EXPERIMENTS[name].cells:
        pairs = cell.models == 2
        assert len(groups(cell, "paper")) >= 5
        least = 5 if "mnist" in cell.settings[0] else 3
        assert not pairs or len(groups(cell, "cpu")) >= least


def test_turned_groups_keep_each_weight_with_its_network():
    cell = next(cell for cell in EXPERIMENTS["heterogeneous"].cells if cell.weights == (0.2, 0.8))
    for group in (0, 1):
        job = Job("heterogeneous", "cpu", cell, "wb", group)
        assert {name: weight for (name, *_), weight in zip(job.members, job.weights, strict=True)} == {
            "mnist-mlpnet-a": 0.2,
            "mnist-mlpnet-b": 0.8,
        }


def test_keys_tell_jobs_and_networks_apart():
    chosen = jobs("table1", "cpu", [0, 1])
    keys = {job.key(["a", "b"]) for job in chosen}
    assert len(keys) == len(chosen)
    assert chosen[0].key(["a", "b"]) != chosen[0].key(["a", "c"])


def test_mixed_precision_is_another_configuration_of_all_networks_and_of_those_they_start_from():
    def precisions(job):
        settings = [setting for _, setting, _ in job.members]
        starts = [setting.start.setting for setting in settings if setting.start]
        return {setting.training.precision for setting in settings + starts}

    cell = ["MNIST CNN, common"]
    (usual,), (mixed,) = (jobs("different", "cpu", [0], cell, ["better"], mixed=each) for each in (False, True))
    assert precisions(usual) == {"single"}
    assert precisions(mixed) == {"mixed"}
    assert usual.key(["a", "b"]) != mixed.key(["a", "b"])
    assert any("training.precision mixed" in text for text in mixed.deviations())


def test_a_whole_title_means_one_cell_and_a_part_of_it_all_that_have_it() -> None:
    def titles(*texts: str) -> list[str]:
        return list(dict.fromkeys(job.cell.title for job in jobs("many", "cpu", [0], texts)))

    assert titles("6 MLPNet") == ["16 MLPNet"]
    assert titles("2 mlpnet") == ["2 MLPNet"]
    assert titles("MLPNet") == ["2 MLPNet", "4 MLPNet", "8 MLPNet", "16 MLPNet"]
    assert titles("2 MLPNet", "6 M") == ["2 MLPNet", "16 MLPNet"]


def test_unknown_names_are_told_with_the_known_ones():
    with pytest.raises(transfuse.InputError, match=r"no experiment is called 'table9'; the experiments: table1"):
        jobs("table9", "cpu")


def test_differences_go_deep():
    own, reference = {"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": 1}, "d": [1]}
    assert differences(own, reference) == ["a.c 2 instead of the default"]
