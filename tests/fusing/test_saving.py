"""A fusion as a file, and as a table in a notebook."""

import time
from html.parser import HTMLParser

import pytest
import safetensors.torch
import torch
from torch import nn

import transfuse
from attention import INPUTS, PLACES, PRE_NORM
from transfuse import InputError
from transfuse.checkpoints import open_checkpoint


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2))


FUSION = transfuse.fuse([network(0), network(1)], torch.randn(4, 3), weights=[3, 1], correct="none", seed=7)


@pytest.mark.parametrize("ending", ["safetensors", "pt", "ckpt"])
def test_a_fusion_is_saved_whole_and_loaded_by_anybody(tmp_path, ending):
    path = tmp_path / f"ab.{ending}"
    for _ in range(2):  # the second takes the place of the first
        assert FUSION.save(str(path)) == path
    load = safetensors.torch.load_file if ending == "safetensors" else torch.load
    twin = network(2)
    twin.load_state_dict(load(path))
    for name, tensor in FUSION.model.state_dict().items():
        assert torch.equal(twin.state_dict()[name], tensor)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    told = open_checkpoint(path).provenance
    assert (told["method"], told["seed"], [each["weight"] for each in told["sources"]]) == ("auto", 7, [0.75, 0.25])


def test_a_file_says_which_units_were_rotated(tmp_path):
    torch.manual_seed(0)
    models = [PRE_NORM["rms"]().eval() for _ in range(2)]
    for method, rotated in (("procrustes", ["positions.out"]), ("rebasin", [])):
        fusion = transfuse.fuse(models, torch.randn(2, PLACES, INPUTS), method=method, correct="none")
        fusion.save(tmp_path / "ab.safetensors")
        assert open_checkpoint(tmp_path / "ab.safetensors").provenance["rotated"] == rotated


@pytest.mark.parametrize("name", ["ab", "ab.onnx", "ab.pt2", "no/ab.pt"])
def test_a_path_that_says_no_format_is_refused(tmp_path, name):
    with pytest.raises(InputError, match=r"the ending says the format|does not exist; create it first"):
        FUSION.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_model_of_transformers_is_saved_as_a_folder(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_embd=12, n_layer=1, n_head=2, n_positions=16, vocab_size=29)
    models = [transformers.GPT2LMHeadModel(config).eval() for _ in range(2)]
    inputs = {"input_ids": torch.arange(16).view(2, 8), "use_cache": False}
    fusion = transfuse.fuse(models, inputs, method="vanilla", correct="none")
    fusion.save(tmp_path / "ab")
    fusion.save(tmp_path / "ab")
    twin = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "ab")
    assert torch.equal(twin.transformer.wte.weight, fusion.model.transformer.wte.weight)
    assert "GPT2LMHeadModel.from_pretrained" in (tmp_path / "ab" / "README.md").read_text()
    assert open_checkpoint(tmp_path / "ab").provenance["method"] == "vanilla"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(InputError, match="was not written by transfuse"):
        fusion.save(tmp_path / "mine")


class _Texts(HTMLParser):
    """Which tags are opened and closed, and the texts between them."""

    def __init__(self):
        super().__init__()
        self.open, self.texts = [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_a_notebook_shows_a_table_that_says_what_str_says():
    parsed = _Texts()
    parsed.feed(FUSION._repr_html_())
    assert parsed.open in ([], ["img"])  # the picture, which has no end
    assert " ".join(parsed.texts) == " ".join(line.replace(": ", " ", 1) for line in str(FUSION).splitlines())


def test_a_fusion_draws_its_couplings():
    pytest.importorskip("matplotlib")
    shown = [axes.get_title().split("\n")[0] for axes in FUSION.plot().axes]
    assert shown == [space.name for space in FUSION.layout.spaces]
    with pytest.raises(InputError, match="model is 3, but 2 models were fused"):
        FUSION.plot(model=3)


def test_a_fusion_tells_the_widths_of_the_result_the_time_of_the_call_and_what_was_corrected():
    started = time.perf_counter()
    fusion = transfuse.fuse([network(0), network(1)], torch.randn(4, 3), target=2.0, synthetic=False)
    assert 0.5 * (time.perf_counter() - started) < fusion.seconds <= time.perf_counter() - started
    widths = ", ".join(f"{name} {2 * space.units}" for name, space in ((s.name, s) for s in fusion.layout.spaces))
    assert f"spaces: {widths}\n" in str(fusion)
    assert f"time: {fusion.seconds:.1f} s" in str(fusion)
    assert "correction: none" in str(fusion)


def test_names_of_methods_may_be_typed_in_any_case():
    assert transfuse.fuse([network(0), network(1)], torch.randn(4, 3), method="OT").states.method == "ot"
