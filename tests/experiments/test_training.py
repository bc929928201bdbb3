"""A killed training ends as one that was left alone; base networks are kept by configuration, or come as files."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from experiments.networks import build
from experiments.profiles import PROFILES
from experiments.records import Training
from experiments.training import Course, Place, augmented, base_network, kept_at, rate_at, train

from experiments import training
from transfuse import InputError

SMALL = PROFILES["smoke"].settings["mnist-mlpnet"]
COURSES = {
    "sgd": Training("sgd", 0.05, 3, 64, schedule="cycle"),
    "adam": Training("adam", 1e-2, 3, 64, decay=1e-4, clip=1.0, schedule="steps", milestones=(1,), factor=0.3),
    "best": Training("sgd", 0.5, 3, 64, keep="best"),
}


def kept(setting, place, seed=0):
    return torch.load(kept_at(setting, seed, place.cache), weights_only=True)["state"]


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("name", COURSES)
@pytest.mark.parametrize("killed_after", [1, 2])
def test_a_killed_training_ends_with_the_same_weights(tmp_path, monkeypatch, name, killed_after):
    setting = replace(SMALL, training=COURSES[name], data=replace(SMALL.data, train=300))
    whole, parts = Place(tmp_path / "whole"), Place(tmp_path / "parts")
    train(setting, 0, whole)
    original, count = Course.run_epoch, iter(range(9))

    def dying(self, task):
        if next(count) == killed_after:
            raise KeyboardInterrupt
        original(self, task)

    monkeypatch.setattr(Course, "run_epoch", dying)
    with pytest.raises(KeyboardInterrupt):
        train(setting, 0, parts)
    assert not kept_at(setting, 0, parts.cache).exists()
    monkeypatch.setattr(Course, "run_epoch", original)
    torch.rand(3)  # the program's own random state has no say
    train(setting, 0, parts)
    assert equal(kept(setting, whole), kept(setting, parts))
    assert [path.suffix for path in parts.cache.iterdir()] == [".pt"]


def test_augmented_training_goes_on_exactly(tmp_path):
    setting = PROFILES["smoke"].settings["cifar10-vgg11"]
    setting = replace(setting, training=replace(setting.training, augment=True))
    task = training.load(setting.data)
    one, other = Course(setting, 0, "cpu"), Course(setting, 1, "cpu")
    one.run_epoch(task)
    torch.save(one.state(), tmp_path / "state.pt")
    other.restore(torch.load(tmp_path / "state.pt", weights_only=True))
    for course in (one, other):
        course.run_epoch(task)
    assert equal(one.model.state_dict(), other.model.state_dict())


def test_mixed_precision_makes_another_network_with_weights_in_single_precision(tmp_path):
    mixed = replace(SMALL, training=replace(SMALL.training, epochs=1, precision="mixed"))
    single = replace(mixed, training=replace(mixed.training, precision="single"))
    assert "precision" not in single.choices()["training"], "networks that were trained before it was a choice"
    one, other = (base_network("mnist-mlpnet", each, 0, Place(tmp_path)).model for each in (mixed, single))
    for ours, theirs in zip(one.parameters(), other.parameters(), strict=True):
        assert ours.dtype == torch.float32
        assert not torch.equal(ours, theirs)
        assert (ours - theirs).norm() < 0.1 * theirs.norm()


def test_networks_without_norms_begin_as_their_shortcuts_and_others_as_before():
    setting = PROFILES["smoke"].settings["cifar10-resnet18"]
    chosen = replace(setting, training=replace(setting.training, initial="he"))
    assert "initial" not in setting.choices()["training"], "networks that were trained before it was a choice"
    assert kept_at(chosen, 0, Path()) != kept_at(setting, 0, Path())
    usual, begun = Course(setting, 0, "cpu").model, Course(chosen, 0, "cpu").model
    x = torch.rand(2, 4, 32, 32)
    for stage in begun.stages:
        for block in stage:
            assert torch.equal(block(x), x := block.skip(x).relu())
    assert all(block.conv2.weight.any() for stage in usual.stages for block in stage)


def test_training_leaves_the_random_state_alone(tmp_path):
    before = torch.get_rng_state()
    train(replace(SMALL, training=replace(SMALL.training, epochs=1)), 0, Place(tmp_path))
    assert torch.equal(before, torch.get_rng_state())


def test_networks_are_trained_once_and_by_configuration(tmp_path, monkeypatch):
    place = Place(tmp_path)
    first = base_network("mnist-mlpnet", SMALL, 0, place)
    other = base_network("mnist-mlpnet", SMALL, 1, place)
    assert not equal(first.model.state_dict(), other.model.state_dict())
    monkeypatch.setattr(training, "train", lambda *_: pytest.fail("trained again"))
    again = base_network("another name", SMALL, 0, place)
    assert equal(first.model.state_dict(), again.model.state_dict())
    longer = replace(SMALL, training=replace(SMALL.training, epochs=9))
    assert kept_at(longer, 0, tmp_path) != kept_at(SMALL, 0, tmp_path)


@pytest.mark.parametrize("stem", ["mnist-mlpnet_3", "MLP_3"])
def test_networks_come_from_elsewhere(tmp_path, stem):
    model, setting = build(SMALL.network), replace(SMALL, files=("MLP",))
    torch.save(model.state_dict(), tmp_path / f"{stem}.pt")
    found = base_network("mnist-mlpnet", setting, 3, Place(tmp_path / "cache", tmp_path))
    assert equal(model.state_dict(), found.model.state_dict())
    assert found.origin["file"] == f"{stem}.pt"
    assert not (tmp_path / "cache").exists()


def test_files_of_other_networks_are_refused(tmp_path):
    torch.save({"weight": torch.ones(2)}, tmp_path / "mnist-mlpnet_0.pt")
    with pytest.raises(InputError, match=r"mnist-mlpnet_0\.pt does not hold"):
        base_network("mnist-mlpnet", SMALL, 0, Place(tmp_path / "cache", tmp_path))
    with pytest.raises(InputError, match="nowhere is no folder"):
        base_network("mnist-mlpnet", SMALL, 0, Place(tmp_path / "cache", tmp_path / "nowhere"))


def test_a_cycle_rises_and_falls():
    cycle = Training("sgd", 2.0, epochs=10, batch=1, schedule="cycle")
    rates = [rate_at(cycle, epoch, 0.0) for epoch in range(10)]
    assert max(rates) == pytest.approx(2.0)
    assert rates[:4] == sorted(rates[:4])
    assert rates[3:] == sorted(rates[3:], reverse=True)


def test_augmented_images_are_shifted_or_mirrored_copies():
    images = torch.arange(1.0, 65.0).reshape(1, 1, 8, 8).repeat(50, 1, 1, 1)
    found = augmented(images, torch.Generator().manual_seed(0))
    steps = found[:, 0, 4, 4] - found[:, 0, 4, 3]
    inside = (found[:, 0, 4, 3] > 0) & (found[:, 0, 4, 4] > 0)
    assert set(steps[inside].tolist()) == {1.0, -1.0}
    assert len({image.numpy().tobytes() for image in found}) > 30
