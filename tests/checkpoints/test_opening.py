"""Names and ties of a checkpoint, brought to those of a model."""

import pytest
import safetensors.torch
import torch
from torch import nn

from checkpoint_states import MADE, TENSORS, plain, same
from transfuse import InputError
from transfuse.checkpoints import (
    Output,
    fitted,
    open_checkpoint,
    write_checkpoint,
)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.read = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        self.read.weight = self.embed.weight


def test_ties_survive_in_safetensors(tmp_path):
    model = Tied()
    safetensors.torch.save_model(model, str(tmp_path / "a.safetensors"))
    checkpoint = open_checkpoint(tmp_path / "a.safetensors")
    assert set(checkpoint.tensors) == set(model.state_dict())
    write_checkpoint(tmp_path / "b.safetensors", Output(dict(checkpoint.tensors), checkpoint, MADE))
    twin = Tied()
    safetensors.torch.load_model(twin, str(tmp_path / "b.safetensors"))
    same(twin.state_dict(), model.state_dict())
    assert len(safetensors.torch.load_file(tmp_path / "b.safetensors")) == 1


def test_ties_survive_in_pytorch_files(tmp_path):
    torch.save(Tied().state_dict(), tmp_path / "a.pt")
    checkpoint = open_checkpoint(tmp_path / "a.pt")
    assert dict(checkpoint.ties) == {"read.weight": "embed.weight"}
    write_checkpoint(tmp_path / "b.pt", Output(dict(checkpoint.tensors), checkpoint, MADE))
    state = torch.load(tmp_path / "b.pt", weights_only=True)
    assert state["embed.weight"].data_ptr() == state["read.weight"].data_ptr()


def test_a_tensor_that_the_model_ties_need_not_be_in_the_file(tmp_path):
    checkpoint = plain(tmp_path, {"embed.weight": torch.ones(5, 3)})
    full = fitted(checkpoint, ["embed.weight", "read.weight"], {"read.weight": "embed.weight"})
    same(full.tensors, {"embed.weight": torch.ones(5, 3), "read.weight": torch.ones(5, 3)})
    write_checkpoint(tmp_path / "b.safetensors", Output(dict(full.tensors), full, MADE))
    assert set(safetensors.torch.load_file(tmp_path / "b.safetensors")) == {"embed.weight"}


def test_any_common_prefix_goes_if_the_model_has_none(tmp_path):
    checkpoint = plain(tmp_path, {f"model.net.{name}": tensor for name, tensor in TENSORS.items()})
    full = fitted(checkpoint, list(TENSORS))
    same(full.tensors, TENSORS)
    write_checkpoint(tmp_path / "b.safetensors", Output(dict(full.tensors), full, MADE))
    assert set(safetensors.torch.load_file(tmp_path / "b.safetensors")) == set(checkpoint.tensors)


@pytest.mark.parametrize("prefix", ["", "module.", "model."])
def test_batch_norms_from_before_they_counted_batches_are_taken(tmp_path, prefix):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    old = {prefix + name: tensor for name, tensor in model.state_dict().items() if "num_batches" not in name}
    full = fitted(plain(tmp_path, old), list(model.state_dict()))
    same(full.tensors, model.state_dict())
    assert list(full.tensors) == list(model.state_dict())
    write_checkpoint(tmp_path / "b.safetensors", Output(dict(full.tensors), full, MADE))
    assert not full.ties
    with pytest.raises(InputError, match=r"missing: 1\.num_batches_tracked\n  - missing: 1\.running_mean"):
        fitted(plain(tmp_path, {k: v for k, v in old.items() if "running_mean" not in k}), list(model.state_dict()))


def test_all_that_does_not_fit_is_named_at_once(tmp_path):
    with pytest.raises(InputError) as caught:
        fitted(plain(tmp_path, TENSORS), ["a.weight", "a.half", "b", "c", "count"])
    for text in ("missing: b", "missing: c", "unexpected: empty", "--model"):
        assert text in str(caught.value)


def test_a_missing_file_is_told_with_what_is_there(tmp_path):
    plain(tmp_path, TENSORS)
    with pytest.raises(InputError, match=r"does not exist.*plain\.safetensors"):
        open_checkpoint(tmp_path / "plane.safetensors")
