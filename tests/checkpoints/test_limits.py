"""Files that ask for too much, or are none: one message, at once."""

import json
import os
import pickle
import zipfile

import pytest
import torch

from checkpoint_states import TENSORS, plain
from transfuse import InputError, LayoutError
from transfuse.checkpoints import open_checkpoint
from transfuse.checkpoints.pytorch_file import is_plain
from transfuse.files import read_text
from transfuse.layout import parse


@pytest.mark.parametrize("ending", ["pt", "safetensors", "safetensors.index.json", "pt2"])
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path)], ids=["pipe", "zeros"])
def test_pipes_and_devices_are_refused_at_once(tmp_path, make, ending):
    make(tmp_path / f"a.{ending}")
    with pytest.raises(InputError, match="device, pipe or socket"):
        open_checkpoint(tmp_path / f"a.{ending}")


def test_a_text_without_end_is_not_read(tmp_path):
    (tmp_path / "long").write_bytes(b"a" * 101)
    assert len(read_text(tmp_path / "long", most=101)) == 101
    with pytest.raises(InputError, match="is larger than 0 MB"):
        read_text(tmp_path / "long", most=100)
    for path in ("/dev/zero", "a\0b"):
        with pytest.raises(InputError, match=r"expected a file|mend the path"):
            read_text(path)


@pytest.mark.parametrize("name", ["a.pt", "a.pt2"])
def test_an_archive_that_would_unpack_to_far_more_is_refused(tmp_path, name):
    with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", pickle.dumps({"w": b"\0" * 10**7}))
        archive.writestr("a/version", "3")
        if name == "a.pt2":
            archive.writestr("a/data/weights/model_weights_config.json", '{"config": {}}')
    with pytest.raises(InputError, match=r"data\.pkl is compressed \(10\.0 MB in"):
        open_checkpoint(tmp_path / name)


def test_a_tensor_that_the_file_cannot_hold_is_refused(tmp_path):
    torch.save({"w": torch.zeros(1).expand(10**6, 10**6), "b": torch.ones(3)}, tmp_path / "a.pt")
    with pytest.raises(InputError, match=r"claims more.*\n  - w of shape \[1000000, 1000000\] has 4000\.00 GB"):
        open_checkpoint(tmp_path / "a.pt")
    torch.save({"w": torch.zeros(1).expand(100, 100)}, tmp_path / "a.pt")
    assert open_checkpoint(tmp_path / "a.pt").bytes == 40000


@pytest.mark.filterwarnings("ignore")  # of PyTorch: such tensors are in beta
def test_tensors_without_plain_numbers_are_named_with_what_to_do(tmp_path):
    state = {
        "sparse": torch.eye(3).to_sparse(), "rows": torch.eye(3).to_sparse_csr(),
        "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.strided),
        "none": torch.ones(2, device="meta"), "plain": torch.ones(2),
    }  # fmt: skip
    for name in ("sparse", "rows", "nested", "none"):
        torch.save({name: state[name], "plain": state["plain"]}, tmp_path / "a.pt")
        with pytest.raises(InputError, match=f"{name} (is|has)|never does that"):
            open_checkpoint(tmp_path / "a.pt")


def test_values_that_name_each_other_without_end_are_looked_at_once():
    doubled = ["a"]
    for _ in range(200):
        doubled = [doubled, doubled]
    assert is_plain(doubled)
    doubled.append(doubled)
    assert is_plain({"a": doubled})
    doubled.append(object())
    assert not is_plain({"a": doubled})


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "content",
    [DEEP, '{"weight_map": ' + DEEP + "}", '{"weight_map": {"x": "a.safetensors.index.json"}}',
     '{"weight_map": {"x": "."}}', '{"weight_map": {"x": "a\\u0000b"}}', '{"weight_map": {"x": "\\u001b[31m"}}'],
    ids=["deep", "deep map", "itself", "its folder", "NUL", "ANSI"],
)  # fmt: skip
def test_an_index_that_leads_nowhere_is_refused(tmp_path, content):
    (tmp_path / "a.safetensors.index.json").write_text(content)
    with pytest.raises(InputError, match=r"is no index|names") as caught:
        open_checkpoint(tmp_path / "a.safetensors.index.json")
    assert str(caught.value).replace("\n", "").isprintable()


def test_a_deep_header_is_refused(tmp_path):
    header = ('{"__metadata__": ' + DEEP + "}").encode()
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(InputError, match="no whole safetensors file"):
        open_checkpoint(tmp_path / "a.safetensors")


def test_provenance_that_cannot_be_read_is_none(tmp_path):
    import safetensors.torch

    for text in (DEEP, "{", "[1]", json.dumps("x")):
        safetensors.torch.save_file(TENSORS, tmp_path / "a.safetensors", {"transfuse": text})
        assert open_checkpoint(tmp_path / "a.safetensors").provenance is None
    assert plain(tmp_path, TENSORS).provenance is None


@pytest.mark.parametrize(
    "axis", ["a*99999999999", "(a*600000 b*600000)", "9" * 5000, "a[99999999999999999999]", "a*" + "9" * 5000]
)
def test_a_layout_cannot_ask_for_endless_slots(axis):
    with pytest.raises(LayoutError, match="expected at most"):
        parse(f"{{spaces: {{a: 2, b: 2}}, tensors: {{w: ['{axis}']}}}}")
    with pytest.raises(LayoutError, match="expected at most"):
        parse("{spaces: {a: 99999999999}, tensors: {w: [a]}}")


def test_a_layout_of_aliases_or_without_an_end_is_refused():
    laughs = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    for text in (laughs, "[" * 5000, "spaces: {a: 2001-99-99}"):
        with pytest.raises(LayoutError, match=r"not valid YAML|cannot be read"):
            parse(text)
