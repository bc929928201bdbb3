"""Hugging Face folders: in, fused, and out to `from_pretrained`, whatever names their tensors have on disk."""

import json

import pytest
import torch

from command_calls import call, works

transformers = pytest.importorskip("transformers")

from transformers_zoo import MODELS  # noqa: E402  (it needs transformers)

QUICK = ("--method", "vanilla", "--correct", "none", "--no-proof")
IN_DEFAULT = {"vit_classifier", "mixtral"}  # renamed, and with other tensors on disk


@pytest.fixture(autouse=True)
def _silent():
    transformers.utils.logging.disable_progress_bar()


def saved(row, seed, folder, **options):
    """A model of the zoo, and its folder."""
    model = row.build(seed)
    model.save_pretrained(folder, **options)
    return model


def loaded_whole(kind, folder):
    """What transformers makes of a folder, if nothing is missing, unexpected or of another shape."""
    model, told = kind.from_pretrained(folder, output_loading_info=True)
    assert not any(told[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), told
    return model.eval()


@pytest.mark.parametrize(
    "row",
    [row if row.name in IN_DEFAULT else pytest.param(row, marks=pytest.mark.long) for row in MODELS],
    ids=lambda row: row.name,
)
def test_every_family_goes_from_folder_to_folder(here, capsys, row):
    one = saved(row, 0, here / "a")
    other = saved(row, 1, here / "b", max_shard_size="20KB")
    works(capsys, "fuse", "a", "b", "-o", "ab", "--shard-size", "20KB", *QUICK)
    assert len(list((here / "ab").glob("*.safetensors"))) > 1
    fused = loaded_whole(type(one), "ab").state_dict()
    mean = {name: (tensor + other.state_dict()[name]) / 2 for name, tensor in one.state_dict().items()}
    for name, tensor in fused.items():
        if tensor.is_floating_point():
            torch.testing.assert_close(tensor, mean[name], msg=lambda text, name=name: f"{name}: {text}")
