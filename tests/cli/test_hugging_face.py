"""Hugging Face folders: in, fused, and out to `from_pretrained`, whatever names their tensors have on disk."""

import contextlib
import io
import json

import pytest
import safetensors.torch
import torch
import yaml

import transfuse
from command_calls import call, works
from transfuse import InputError
from transfuse.cli import fusing, main

transformers = pytest.importorskip("transformers")

from transformers_zoo import MODELS  # noqa: E402  (it needs transformers)

QUICK = ("--method", "vanilla", "--correct", "none", "--no-proof")
IN_DEFAULT = {"vit_classifier"}  # its names on disk are others; the others take half a minute


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
    other = saved(row, 1, here / "b", max_shard_size="5KB")
    works(capsys, "fuse", "a", "b", "-o", "ab", "--shard-size", "5KB", *QUICK)
    assert len(list((here / "ab").glob("*.safetensors"))) > 1
    fused = loaded_whole(type(one), "ab").state_dict()
    mean = {name: (tensor + other.state_dict()[name]) / 2 for name, tensor in one.state_dict().items()}
    for name, tensor in fused.items():
        if tensor.is_floating_point():
            torch.testing.assert_close(tensor, mean[name], msg=lambda text, name=name: f"{name}: {text}")


VIT = next(row for row in MODELS if row.name == "vit_classifier")


@pytest.fixture
def vits(here):
    """Two folders of a family whose names on disk are not those of the module."""
    return [saved(VIT, seed, here / name) for seed, name in enumerate("ab")]


@pytest.mark.long
def test_align_keeps_what_a_folder_computes(here, capsys, vits):
    works(capsys, "align", "b", "--to", "a", "-o", "c", "--option", "restarts=0")
    aligned, inputs = loaded_whole(type(vits[1]), "c"), VIT.inputs()
    torch.testing.assert_close(aligned(**inputs).logits, vits[1](**inputs).logits, rtol=1e-4, atol=1e-4)
    assert any(not torch.equal(*pair) for pair in zip(aligned.parameters(), vits[1].parameters(), strict=True))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder that was fused, once for all tests that look at it; and what was told."""
    folder = tmp_path_factory.mktemp("folders")
    for seed, name in enumerate("ab"):
        saved(VIT, seed, folder / name)
        (folder / name / "README.md").write_text("---\nlicense: mit\ntags: [x]\n---\n# mine\n")
        (folder / name / "preprocessor_config.json").write_text('{"size": {"height": 16, "width": 16}}')
        (folder / name / "vocab.txt").write_text(f"word of {name}")
        (folder / name / "optimizer.pt").write_bytes(b"state of a training")
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as told:
        assert main(["fuse", "a", "b", "-o", "ab", "--dtype", "float16", *QUICK]) == 0
    return folder / "ab", told.getvalue()


def test_the_type_of_the_numbers_stands_in_the_configuration(made):
    assert json.loads((made[0] / "config.json").read_text())["dtype"] == "float16"
    model = loaded_whole(transformers.ViTForImageClassification, made[0])
    assert {tensor.dtype for tensor in model.parameters()} == {torch.float16}


def test_the_card_says_how_to_load_and_share_it(made, monkeypatch):
    text = (made[0] / "README.md").read_text()
    header = yaml.safe_load(text.split("---\n")[1])
    assert header["library_name"] == "transformers"
    assert header["pipeline_tag"] == "image-classification"
    assert header["base_model"] == ["a", "b"]
    assert header["license"] == "mit"
    assert "push_to_hub" in text
    snippet = "\n".join(line.strip() for line in text.split("## Use")[1].splitlines() if line.startswith("    "))
    monkeypatch.chdir(made[0].parent)
    found = {}
    exec(snippet, found)  # the lines that people copy
    assert isinstance(found["model"], transformers.ViTForImageClassification)


def test_files_that_a_folder_needs_come_from_the_first_and_that_is_told(made):
    folder, told = made
    assert "from a: config.json, preprocessor_config.json, vocab.txt\n" in told
    assert "not the same in all inputs: vocab.txt (b has another one)\n" in told
    assert "hf upload YOUR-NAME/ab ab" in told
    assert (folder / "vocab.txt").read_text() == "word of a"
    assert not (folder / "optimizer.pt").exists()


def test_a_plain_average_needs_no_network(here, capsys, vits):
    told = works(capsys, "fuse", "a", "b", "-o", "ab", "--method", "vanilla", "--weights", 3, 1)
    assert told["widths"] == {}
    fused = loaded_whole(type(vits[0]), "ab").state_dict()
    one, other = (model.state_dict() for model in vits)
    for name, tensor in fused.items():
        torch.testing.assert_close(tensor, 0.75 * one[name] + 0.25 * other[name])


@pytest.mark.long
def test_the_configuration_has_the_sizes_of_a_wider_result(here, capsys, vits):
    code, out, err = call(capsys, "fuse", "a", "b", "-o", "ab", "--target", "vit.layers.*.mlp.fc1.out=60", *QUICK)
    assert code == 0, err
    assert "its config.json has the sizes of the result: intermediate_size 60\n" in out
    assert loaded_whole(type(vits[0]), "ab").config.intermediate_size == 60


GROWN = [  # some units of every layer, or all that may grow; T5 and GPT-2 are tied, so that their streams may not
    ("vit_classifier", ("--target", "vit.layers.*.mlp.fc1.out=2.0"), {"intermediate_size": 80}),
    ("vit_classifier", ("--width", 2), {"hidden_size": 48, "num_attention_heads": 8, "intermediate_size": 80}),
    ("bert", ("--target", "*intermediate.dense.out=1.5"), {"intermediate_size": 60}),
    ("roberta_classifier", ("--width", 2), {"hidden_size": 48, "num_attention_heads": 8, "intermediate_size": 80}),
    ("distilbert", ("--target", "*ffn.lin1.out=1.5"), {"hidden_dim": 60}),
    ("gpt2", ("--target", "*mlp.c_fc.out=1.5"), {"n_inner": 60}),
    ("llama", ("--target", "*mlp.gate_proj.out=1.5"), {"intermediate_size": 60}),
    ("llama", ("--width", 2), {"hidden_size": 48, "num_attention_heads": 8, "intermediate_size": 80}),
    ("t5", ("--target", "*.wi.out=1.5"), {"d_ff": 60}),
    ("t5", ("--width", 2), {"num_heads": 8, "d_ff": 80}),
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "wider", "sizes"), GROWN, ids=lambda each: each if isinstance(each, str) else "")
def test_a_network_that_grew_computes_what_it_did(here, capsys, name, wider, sizes):
    row = next(row for row in MODELS if row.name == name)
    small = saved(row, 0, here / "a")
    works(capsys, "fuse", "a", "-o", "aa", *wider, *QUICK)
    grown, inputs = loaded_whole(type(small), "aa"), row.inputs()
    assert {key: getattr(grown.config, key) for key in sizes} == sizes
    torch.testing.assert_close(grown(**inputs)[0], small(**inputs)[0], rtol=1e-3, atol=1e-3)


@pytest.mark.long
def test_a_folder_of_16_bits_grows_as_well(here, capsys):
    """Its outputs alone are too coarse to tell whether a wider network computes the same."""
    row = next(row for row in MODELS if row.name == "llama")
    row.build(0).half().save_pretrained(here / "a")
    works(capsys, "fuse", "a", "-o", "aa", "--width", 2, *QUICK)
    grown = loaded_whole(row.model_class, "aa")
    assert (grown.config.hidden_size, grown.dtype) == (48, torch.float16)
    small, inputs = row.build(0).half().float(), row.inputs()
    torch.testing.assert_close(grown.float()(**inputs)[0], small(**inputs)[0], rtol=2e-2, atol=2e-2)


@pytest.mark.long
def test_a_wider_folder_is_corrected_as_any_other(here, capsys):
    """Layers that only transformers can make are needed as modules here."""
    row = next(row for row in MODELS if row.name == "gpt2")
    models = [saved(row, seed, here / name) for seed, name in enumerate("ab")]
    works(capsys, "fuse", "a", "b", "-o", "ab", "--target", "*mlp.c_fc.out=2.0", "--correct", "closed_form")
    fused, inputs = loaded_whole(type(models[0]), "ab"), row.inputs()
    assert fused.config.n_inner == 2 * (models[0].config.n_inner or 4 * models[0].config.n_embd)
    assert fused(**inputs).logits.isfinite().all()


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "width", "message"),
    [
        ("llama", 1.5, "space model.embed_tokens.out cannot grow from 24 to 36 units"),
        ("gpt2", 2, "summed by transformer.wte.weight, which is used in two ways (tied or shared); leave it at 24"),
        ("bert", 2, "no sizes in config.json describe a result of these widths"),
    ],
)
def test_widths_that_a_family_cannot_have_are_told_before_the_work(here, capsys, monkeypatch, name, width, message):
    for work in ("fused_states", "fused_networks"):
        monkeypatch.setattr(fusing, work, None)
    for seed, folder in enumerate("ab"):
        saved(next(row for row in MODELS if row.name == name), seed, here / folder)
    code, _, err = call(capsys, "fuse", "a", "b", "-o", "ab", "--width", width, *QUICK)
    assert code == 2
    assert message in err
    assert not (here / "ab").exists()


@pytest.mark.long
def test_a_number_in_code_that_depends_on_sizes_is_seen_before_the_work(here, capsys):
    """Gemma multiplies embeddings by the root of their number: a wider one has all shapes, and another scale."""
    config = next(row for row in MODELS if row.name == "gemma").configuration()
    config.tie_word_embeddings = False
    transformers.GemmaForCausalLM(config).save_pretrained(here / "a")
    code, _, err = call(capsys, "fuse", "a", "-o", "aa", "--width", 2, *QUICK)
    assert code == 2
    assert "the shapes fit, but it is another network that has them" in err
    works(capsys, "fuse", "a", "-o", "aa", "--target", "*mlp.gate_proj.out=2.0", *QUICK)


def test_widths_that_no_configuration_describes_are_refused_before_the_work(here, capsys, vits):
    code, _, err = call(capsys, "fuse", "a", "b", "-o", "ab", "--target", "vit.layers.0.mlp.fc1.out=60", *QUICK)
    assert code == 2
    assert "no sizes in config.json describe a result of these widths" in err
    assert "vit.layers.1.mlp.fc1.weight would be" in err or "vit.layers.0.mlp.fc1.weight would be" in err
    assert not (here / "ab").exists()
    fusion = transfuse.fuse(vits, VIT.inputs(), target={"vit.layers.*.mlp.fc1.out": 60}, method="vanilla")
    with pytest.raises(InputError, match="other widths than its configuration"):
        fusion.save(here / "module")


def changed(folder, **values):
    """Write other values into the configuration of a folder."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"attn_implementation": "somebody/kernels"}, "names code of others"),
        ({"text_config": {"_attn_implementation": "somebody/kernels"}}, "names code of others"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised weights"),
        ({"model_type": "mine", "auto_map": {"AutoConfig": "code.MyConfig"}}, "transformers cannot use a"),
        ({"hidden_size": "wide"}, "transformers cannot use a"),
        ({"hidden_size": 400_000}, "but the folder holds"),
    ],
)
def test_a_configuration_that_asks_for_more_than_weights_is_refused(here, capsys, vits, values, message):
    (here / "a" / "code.py").write_text("open('ran', 'w').close()\n")
    changed(here / "a", **values)
    code, _, err = call(capsys, "fuse", "a", "b", "-o", "ab", *QUICK)
    assert code == 2, err
    assert message in err
    assert not (here / "ran").exists()
    assert not (here / "ab").exists()


@pytest.mark.parametrize("named", [["pipeline"], ["Trainer", "ViTModel"], ["NoSuchModel"], None])
def test_only_a_class_of_models_is_taken_from_a_configuration(here, vits, named):
    from transfuse.checkpoints import configuration, model_class

    changed(here / "a", architectures=named)
    assert model_class(configuration(here / "a")) is transformers.ViTModel


def test_tensors_that_a_folder_lacks_are_named_and_none_is_made_up(here, capsys, vits):
    path = here / "b" / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    tensors["classifier.extra"] = tensors.pop("classifier.bias")
    safetensors.torch.save_file(tensors, path, {"format": "pt"})
    code, _, err = call(capsys, "fuse", "a", "b", "-o", "ab", *QUICK)
    assert code == 2
    assert "b does not hold all of a ViTForImageClassification" in err
    assert "missing: classifier.bias" in err


def test_tensors_that_the_model_has_no_place_for_are_left_out_and_told(here, capsys, vits):
    path = here / "b" / "model.safetensors"
    safetensors.torch.save_file({**safetensors.torch.load_file(path), "seq.head": torch.ones(2)}, path)
    code, out, err = call(capsys, "fuse", "a", "b", "-o", "ab", *QUICK)
    assert code == 0, err
    assert "beside seq.head, left out" in out
    loaded_whole(type(vits[0]), "ab")


def _tiny(name, kind, **options):
    """A model that is not in the zoo, by the names of its classes."""
    return pytest.param(name, kind, options, id=kind)


SMALL = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 40}


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        _tiny("GPT2Config", "GPT2ForSequenceClassification", n_embd=24, n_layer=1, n_head=4, vocab_size=61),
        _tiny("T5Config", "T5EncoderModel", d_model=24, d_kv=6, d_ff=40, num_layers=1, num_heads=4, vocab_size=61),
        _tiny("ASTConfig", "ASTForAudioClassification", max_length=32, num_mel_bins=16, patch_size=8,
              frequency_stride=8, time_stride=8, **SMALL),
        _tiny("HubertConfig", "HubertForCTC", vocab_size=11, conv_dim=(8, 12), conv_kernel=(10, 3), conv_stride=(5, 2),
              num_feat_extract_layers=2, num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, **SMALL),
        _tiny("Speech2TextConfig", "Speech2TextForConditionalGeneration", d_model=24, encoder_layers=1, vocab_size=61,
              decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=40,
              decoder_ffn_dim=40, conv_channels=16, input_feat_per_channel=10),
        _tiny("Wav2Vec2BertConfig", "Wav2Vec2BertModel", feature_projection_input_dim=20, **SMALL),
        _tiny("VisionTextDualEncoderConfig", "VisionTextDualEncoderModel",
              vision_config={"model_type": "vit", "image_size": 16, "patch_size": 8, **SMALL},
              text_config={"model_type": "bert", "vocab_size": 61, **SMALL}),
    ],
)  # fmt: skip
def test_inputs_are_made_for_what_a_model_reads(here, name, kind, options):
    from transfuse.cli.transformers_inputs import inputs_by_config

    config = getattr(transformers, name)(**options)
    model = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        outputs = model(**inputs_by_config(model, config, here))
    assert outputs[0].isfinite().all()


def test_the_size_of_images_is_that_of_the_preprocessor_where_the_model_takes_any(here):
    from transfuse.cli.transformers_inputs import inputs_by_config

    row = next(row for row in MODELS if row.name == "resnet")
    (here / "preprocessor_config.json").write_text('{"crop_size": {"height": 40, "width": 48}, "size": 56}')
    model = row.build()
    assert inputs_by_config(model, model.config, here)["pixel_values"].shape == (2, 3, 40, 48)
    (here / "preprocessor_config.json").write_text("[")
    assert inputs_by_config(model, model.config, here)["pixel_values"].shape == (2, 3, 224, 224)
