"""Real definitions from `transformers`: traced, or fixed with a reason, and proved."""

from dataclasses import replace

import pytest

transformers_zoo = pytest.importorskip("transformers_zoo", reason="needs the extra transformers")

import torch  # noqa: E402

import transfuse  # noqa: E402
from transfuse.modules import model_state, tensors_in  # noqa: E402

# The share of the numbers of each model that can move. What cannot: hidden states that the model returns (bert,
# t5, vit), outputs, positions, and what an operation without a rule touches (a Fourier transform in fnet, a
# grouped product of experts in mixtral).
SHARES = {
    "bert": 0.754,
    "bert_masked_lm": 0.991,
    "roberta_classifier": 1.000,
    "distilbert": 0.995,
    "albert": 0.879,
    "electra": 1.000,
    "deberta_v2": 0.844,
    "fnet": 0.882,
    "modernbert": 0.996,
    "gpt2": 1.000,
    "gpt_neox": 1.000,
    "opt": 1.000,
    "bloom": 0.995,
    "llama": 1.000,
    "mistral": 1.000,
    "qwen2": 1.000,
    "qwen3": 0.998,
    "gemma": 1.000,
    "phi": 0.996,
    "mixtral": 0.144,
    "mamba": 1.000,
    "t5": 0.780,
    "t5_gated": 0.791,
    "bart": 0.747,
    "whisper": 0.983,
    "vit": 0.603,
    "vit_classifier": 1.000,
    "deit": 0.601,
    "beit": 0.632,
    "dinov2": 0.320,  # the mask token is not reached without masked places, and could meet the hidden dimension
    "swin": 0.977,
    "convnext": 1.000,
    "resnet": 0.996,
    "mobilenet_v2": 0.992,
    "regnet": 0.958,
    "segformer": 0.999,
    "poolformer": 0.969,
    "clip": 0.696,
    "wav2vec2": 0.394,  # as dinov2: the embedding of masked steps
}
DEFAULT = (
    "bert",
    "gpt2",
    "llama",
    "vit_classifier",
    "fnet",
)


def rows():
    for model in transformers_zoo.MODELS:
        yield pytest.param(model, id=model.name, marks=() if model.name in DEFAULT else pytest.mark.long)


@pytest.mark.filterwarnings("ignore")  # the library warns about its own optional parts
@pytest.mark.parametrize("model", list(rows()))
def test_a_real_definition_is_traced_and_proved(model):
    module = model.build()
    layout = transfuse.trace(module, model.inputs())
    state = model_state(module)
    assert layout.movable(state) == pytest.approx(SHARES[model.name], abs=6e-4)
    assert transfuse.parse(str(layout)) == layout
    for name, axes in layout.tensors.items():
        for number, axis in enumerate(axes):
            kernel = len(axes) > 2 and number > 1
            if any(isinstance(part, transfuse.Fixed) for part in axis.segments) and state[name].shape[number] > 1:
                assert kernel or layout.fixed[name][number], f"{name} axis {number} is fixed without a reason"


# For what the example inputs do not reach: an argument by which they do, and the share of the numbers that moves then.
REACHED = {
    "dinov2": ("bool_masked_pos", lambda inputs: places(len(inputs["pixel_values"]), 4), 0.644),
    "wav2vec2": ("mask_time_indices", lambda inputs: places(len(inputs["input_values"]), 19), 0.828),
}


def places(samples, count):
    """Every other place of each sample is masked."""
    return (torch.arange(count) % 2 == 0).expand(samples, count)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REACHED)
def test_example_inputs_that_reach_a_mask_token_let_more_move(name):
    model = next(model for model in transformers_zoo.MODELS if model.name == name)
    argument, masked, share = REACHED[name]
    module, inputs = model.build(), model.inputs()
    layout = transfuse.trace(module, {**inputs, argument: masked(inputs)})
    assert layout.movable(model_state(module)) == pytest.approx(share, abs=6e-4)
    with pytest.warns(transfuse.TraceWarning, match=r"not clear how .* would move: its 24 positions may be units of"):
        transfuse.trace(module, inputs, unused="move")


# The group of each space: of the stream (what it may be beyond permuted, or why it is not more), of heads (with how
# many frames there are inside: queries with keys, values with outputs, how many of them are planes that rotary
# positions turn, and how many heads of queries share keys), of units.
# Scores alone count as outputs. Weights of words that are also read at the end are untied where it says so.
FIXING, SCALED, NONE = "rotations fixing the mean", "signs scales", ""
GROUPS = {
    "vit_classifier": {"vit.embeddings.cls_token.out": FIXING, "q_proj.out": (SCALED, 2), "fc1.out": NONE},
    "bert_masked_lm": {
        "bert.embeddings.word_embeddings.out": "has the gain bert.embeddings.LayerNorm.weight where it meets units",
        "query.out": (SCALED, 2),
        "intermediate.dense.out": NONE,
    },
    "gpt2": {
        "transformer.wte.out": "the gain transformer.ln_f.weight cannot go into transformer.wte.weight",
        "c_attn.out": (SCALED, 2),
        "c_fc.out": NONE,
    },
    "gpt2, untied": {"transformer.wte.out": FIXING, "c_attn.out": (SCALED, 2), "c_fc.out": NONE},
    "llama": {"model.embed_tokens.out": "rotations", "q_proj.out": (SCALED, 2, 1), "gate_proj.out": SCALED},
    "qwen2": {"model.embed_tokens.out": "rotations", "q_proj.out": (SCALED, 2, 1, 2), "gate_proj.out": SCALED},
    "qwen3": {"model.embed_tokens.out": "rotations", "q_proj.out": (SCALED, 1, 0, 2), "gate_proj.out": SCALED},
    "gpt_neox": {"gpt_neox.embed_in.out": FIXING, "query_key_value.out": (SCALED, 3, 1), "dense_h_to_4h.out": NONE},
    "t5": {
        "shared.out": "the gain decoder.final_layer_norm.weight cannot go into shared.weight",
        "SelfAttention.q.out": (SCALED, 4),  # of both layers, for these share the bias of relative positions
        "EncDecAttention.q.out": (SCALED, 2),
        "DenseReluDense.wi.out": "scales",
    },
    "whisper, untied": {
        "model.decoder.embed_tokens.out": FIXING,
        "model.encoder.conv2.out": "is put through a function of single units, aten.gelu.default",
        "k_proj.out": (SCALED, 2),
        "conv1.out": NONE,
        "fc1.out": NONE,
    },
}


def with_groups():
    quick = ("gpt2, untied", "llama")
    return [pytest.param(name, marks=() if name in quick else pytest.mark.long, id=name) for name in GROUPS]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", with_groups())
def test_the_group_of_each_space_of_a_real_definition(name):
    row = next(model for model in transformers_zoo.MODELS if model.name == name.partition(",")[0])
    configuration = row.configuration()
    if "untied" in name:
        configuration.tie_word_embeddings = False
    row = replace(row, configuration=lambda: configuration)
    layout = transfuse.trace(row.build(), row.inputs(), outputs=lambda result: result.logits)
    for space in layout.spaces:
        (wanted,) = (found for end, found in GROUPS[name].items() if space.name.endswith(end))
        given = wanted if isinstance(wanted, tuple) else (wanted,)
        words, frames, planes, shared = given + (0, 0, 1)[len(given) - 1 :]
        reason = layout.unrotated.get(space.name, "")
        found = reason if reason and not space.rotations else " ".join(space.symmetry.words)
        assert found.startswith(words) if reason else found == words
        found = layout.frames_of(space.name)
        assert (len(found), sum(frame.planes > 0 for frame in found)) == (frames, planes)
        members = layout.members_of(space.name)
        assert (members.count if members else 1) == shared


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("as_dict", [pytest.param(True, marks=pytest.mark.long), False], ids=["dict", "tuple"])
def test_what_a_network_remembers_is_no_output(as_dict):
    row = next(model for model in transformers_zoo.MODELS if model.name == "llama")
    module = row.build()
    module.config.use_cache = True  # as most people have it
    inputs = {"input_ids": row.inputs()["input_ids"], "return_dict": as_dict}
    assert len(tensors_in(module(**inputs))) == 1  # scores, and not the keys and values of each layer
    layout = transfuse.trace(module, inputs)
    assert any(space.name.endswith("q_proj.out") for space in layout.spaces)
    other = row.build(seed=1)
    other.config.use_cache = True
    fusion = transfuse.fuse([module, other], inputs, correct="none")  # aligned models are held to their outputs
    assert "past_key_values" in fusion.model(input_ids=inputs["input_ids"])
    assert module.config.use_cache
    assert fusion.model.config.use_cache


def test_what_has_no_rule_is_fixed_and_the_source_line_is_given():
    fnet = next(model for model in transformers_zoo.MODELS if model.name == "fnet")
    layout = transfuse.trace(fnet.build(), fnet.inputs(), proof=False)
    reasons = {reason for axes in layout.fixed.values() for reason in axes.values()}
    assert any("aten::fft_fftn has no rule" in reason and "modeling_fnet.py:" in reason for reason in reasons)
