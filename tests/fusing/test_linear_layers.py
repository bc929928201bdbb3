"""Linear layers with weights as [inputs, outputs] are corrected as all others are, and stay what they were."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import transfuse
from transfuse.layout import random_elements
from transfuse.layout.transposing import transposed, transposed_element
from transfuse.modules import model_state, transposed_weights, with_linear_layers, with_transposed

INPUTS = torch.randn(60, 6, generator=torch.Generator().manual_seed(0))


class Conv1D(nn.Module):
    """As `transformers` has it."""

    def __init__(self, outputs, inputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        return torch.addmm(self.bias, x, self.weight)


def built(seed):
    torch.manual_seed(seed)
    return nn.Sequential(Conv1D(12, 6), nn.Tanh(), Conv1D(10, 12), nn.Tanh(), nn.Linear(10, 3)).eval()


@pytest.fixture
def known(monkeypatch):
    """The class above is taken for the one of `transformers`."""
    monkeypatch.setattr(Conv1D, "__module__", "transformers.pytorch_utils")


def test_a_class_of_that_name_from_elsewhere_is_left_alone():
    assert transposed_weights(built(0)) == frozenset()


def test_a_copy_with_linear_layers_computes_the_same_and_states_go_both_ways(known):
    model = built(0)
    names, twin = transposed_weights(model), with_linear_layers(model)
    assert names == {"0.weight", "2.weight"}
    assert not transposed_weights(twin)
    torch.testing.assert_close(twin(INPUTS), model(INPUTS))
    back = with_transposed(model_state(twin), names)
    assert all(torch.equal(back[name], tensor) for name, tensor in model_state(model).items())


@pytest.mark.long
@pytest.mark.parametrize("correct", ["refit", "selection"])
def test_corrections_do_the_same_to_layers_of_either_kind(known, correct):
    models = [built(seed) for seed in (0, 1)]
    twins = [with_linear_layers(model) for model in models]
    given = {"data": [INPUTS[:40], INPUTS[40:]], "terms": "weights", "synthetic": False, "correct": correct}
    one, other = (transfuse.fuse(each, INPUTS[:2], **given) for each in (models, twins))
    assert isinstance(one.model[0], Conv1D)
    torch.testing.assert_close(one.model(INPUTS), other.model(INPUTS), rtol=1e-4, atol=1e-5)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # the library warns about its own optional parts
@pytest.mark.parametrize("tied", [False, True])
def test_heads_and_units_of_gpt2_are_selected(tied):
    zoo = pytest.importorskip("transformers_zoo", reason="needs the extra transformers")
    row = next(model for model in zoo.MODELS if model.name == "gpt2")
    configuration = row.configuration()
    configuration.tie_word_embeddings = tied
    torch.manual_seed(0)
    models = [type(row.build())(configuration).eval() for _ in range(2)]
    tokens = [torch.randint(configuration.vocab_size, (20, 7)) for _ in range(4)]
    options = {"outputs": lambda result: result.logits, "forward": lambda model, batch: model(batch, use_cache=False)}
    example = {"input_ids": tokens[0], "use_cache": False}
    fusion = transfuse.fuse(models, example, data=tokens, correct="selection", **options)
    words = fusion.model.get_input_embeddings().weight
    assert (fusion.model.get_output_embeddings().weight is words) == tied
    assert "c_attn.out" in str(fusion.correction)
    assert ("it is shared; see `untied`" in str(fusion.correction)) == tied
    with torch.no_grad():
        mean = sum(model(tokens[0]).logits for model in models) / 2
        plain = transfuse.fuse(models, example, correct="none", outputs=options["outputs"]).model
        distances = [float((each(tokens[0]).logits - mean).norm()) for each in (fusion.model, plain)]
    assert distances[0] < distances[1]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_layout_with_transposed_matrices_is_that_of_the_network_with_linear_layers():
    zoo = pytest.importorskip("transformers_zoo", reason="needs the extra transformers")
    row = next(model for model in zoo.MODELS if model.name == "gpt2")
    model = row.build()
    names = transposed_weights(model)
    layout, other = (
        transfuse.trace(each, row.inputs(), outputs=lambda result: result.logits)
        for each in (model, with_linear_layers(copy.deepcopy(model)))
    )
    turned = transposed(layout, names)
    assert turned.tensors == other.tensors
    assert turned.frames == other.frames
    assert transposed(turned, names) == layout
    heads = next(each for each in random_elements(layout, layout.units, np.random.default_rng(0)).values()
                 if hasattr(each, "frames"))  # fmt: skip
    assert set(transposed_element(heads, names).frames) <= set(other.frames)
