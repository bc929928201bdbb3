"""Networks are brought to another depth: what is grown changes nothing, and what is lost is told."""

import copy

import pytest
import torch
from torch import nn

from depth_networks import TWO_DEPTHS, BasicBlock, ResNet, built, inputs_of
from transfuse import InputError
from transfuse.activations import Batches
from transfuse.depths import brought_to
from transfuse.modules import differ_in_depth
from transfuse.networks import ResNet as Residual
from transfuse.networks import vgg11

ALL = pytest.mark.parametrize("name", TWO_DEPTHS)
QUICK = ("perceptron", "mixer")
SOME = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name not in QUICK)) for name in TWO_DEPTHS]
)


def pair(name):
    row = TWO_DEPTHS[name]
    return built(row.shallow, 1), built(row.deep, 2)


def brought(model, target, inputs):
    (found,), depths = brought_to(target, [model], Batches.of(inputs))
    return found, depths.changes[0]


@ALL
def test_a_grown_network_computes_the_same(name):
    shallow, deep = pair(name)
    grown, change = brought(shallow, deep, inputs_of(name))
    assert type(grown) is type(deep)
    assert grown.state_dict().keys() == deep.state_dict().keys()
    assert len(change.grown) == TWO_DEPTHS[name].grown
    torch.manual_seed(5)
    x = inputs_of(name)[torch.randperm(40)[:7]]
    torch.testing.assert_close(grown(x), shallow(x), rtol=1e-9, atol=1e-9)


@SOME
def test_tensors_that_are_free_may_be_anything(name):
    shallow, deep = pair(name)
    grown, change = brought(shallow, deep, inputs_of(name))
    state = grown.state_dict()
    assert change.free <= state.keys()
    for each in change.free:
        if state[each].is_floating_point():
            state[each].uniform_(0.5, 2.0)
    torch.testing.assert_close(grown(inputs_of(name)), shallow(inputs_of(name)), rtol=1e-9, atol=1e-9)


def test_free_are_the_tensors_before_the_end_of_a_branch():
    shallow, deep = pair("resnet")
    grown, change = brought(shallow, deep, inputs_of("resnet"))
    name = change.grown[0]
    assert {f"{name}.conv1.weight", f"{name}.conv2.weight"} <= change.free
    assert not {f"{name}.bn2.weight", f"{name}.bn2.bias"} & change.free
    assert not grown.get_parameter(f"{name}.bn2.weight").any()


def test_norms_behind_identities_know_what_they_see():
    shallow, deep = pair("vgg")
    x = inputs_of("vgg")
    grown, change = brought(shallow, deep, x)
    seen = []
    layer = grown.get_submodule(change.grown[0])
    layer.register_forward_hook(lambda module, args, result: seen.append(result))
    grown(x[:8])  # the batch on which layers are compared
    norm = grown.get_submodule("0." + str(int(change.grown[0].split(".")[1]) + 1))
    torch.testing.assert_close(norm.running_mean, seen[0].mean((0, 2, 3)))


@pytest.mark.parametrize("activation", [nn.ReLU, nn.LeakyReLU, nn.GELU, nn.SiLU, nn.Tanh])
def test_behind_other_functions_the_difference_is_small_and_told(activation):
    def network(layers):
        inner = [each for _ in range(layers) for each in (nn.Linear(6, 6), activation())]
        return nn.Sequential(nn.Linear(4, 6), activation(), *inner, nn.Linear(6, 3)).double()

    torch.manual_seed(0)
    shallow, deep, x = (each.requires_grad_(False) for each in (network(1), network(2), torch.randn(100, 4).double()))
    grown, change = brought(shallow, deep, x)
    off = (grown(x) - shallow(x)).norm() / shallow(x).norm()
    assert change.difference == pytest.approx(float(off), rel=1e-3, abs=1e-12)
    assert off < (1e-12 if activation is nn.ReLU else 2e-3)


@SOME
def test_a_deeper_network_loses_layers_and_stays_near(name):
    shallow, deep = pair(name)
    x = inputs_of(name)
    short, change = brought(deep, shallow, x)
    assert type(short) is type(shallow)
    assert short.state_dict().keys() == shallow.state_dict().keys()
    assert len(change.lost) == TWO_DEPTHS[name].grown
    off = (short(x) - deep(x)).norm() / deep(x).norm()
    assert change.difference == pytest.approx(float(off), rel=1e-3)
    assert off < 0.9  # of random networks, by forty inputs: near is what trained ones are


def test_a_network_that_was_grown_loses_what_it_grew_and_is_itself_again():
    shallow, deep = pair("resnet")
    x = inputs_of("resnet")
    grown, change = brought(shallow, deep, x)
    again, back = brought(grown, shallow, x)
    assert back.lost == change.grown
    torch.testing.assert_close(again(x), shallow(x), rtol=1e-6, atol=1e-6)


def test_the_networks_stay_as_they_are():
    shallow, deep = pair("vgg")
    before = [copy.deepcopy(each.state_dict()) for each in (shallow, deep)]
    shallow.train()
    brought(shallow, deep, inputs_of("vgg"))
    brought(deep, shallow, inputs_of("vgg"))
    assert shallow.training
    for model, state in zip((shallow, deep), before, strict=True):
        assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in state.items())


def test_other_widths_are_kept():
    shallow, deep = built(lambda: ResNet((1, 1), width=3), 1), built(lambda: ResNet((2, 2), width=4), 2)
    grown, _ = brought(shallow, deep, inputs_of("resnet"))
    torch.testing.assert_close(grown(inputs_of("resnet")), shallow(inputs_of("resnet")), rtol=1e-9, atol=1e-9)
    assert grown.layer2[1].conv1.weight.shape[:2] == (6, 6)


def vgg13(width, *, norm):
    """VGG11 of the paper with a second convolution in its first two stages."""
    stages = [[nn.Conv2d(a, b, 3, padding=1, bias=False), *[nn.BatchNorm2d(b)] * norm, nn.ReLU()]
              for a, b in ((width, width), (2 * width, 2 * width))]  # fmt: skip
    layers = list(vgg11(width, norm=norm))
    first, second = (number for number, each in enumerate(layers) if isinstance(each, nn.MaxPool2d) and number < 8)
    return nn.Sequential(*layers[:first], *stages[0], *layers[first:second], *stages[1], *layers[second:])


PUBLISHED = {
    "ResNet18 and ResNet34": (lambda: Residual((2, 2, 2, 2), 2), lambda: Residual((3, 4, 6, 3), 2), 8),
    "VGG11 and VGG13": (lambda: vgg11(2), lambda: vgg13(2, norm=False), 2),
    "VGG11 and VGG13, batch norm": (lambda: vgg11(2, norm=True), lambda: vgg13(2, norm=True), 2),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_pairs_grow_and_compute_the_same(name):
    """Pairs of Nguyen et al. (2021), narrower."""
    shallow, deep, count = PUBLISHED[name]
    shallow, deep, x = built(shallow, 1), built(deep, 2), torch.randn(10, 3, 32, 32).double()
    grown, change = brought(shallow, deep, x)
    assert len(change.grown) == count
    torch.testing.assert_close(grown(x), shallow(x), rtol=1e-9, atol=1e-9)


def test_networks_of_one_depth_are_not_touched():
    _, deep = pair("perceptron")
    (same,), depths = brought_to(deep, [deep], Batches.of(inputs_of("perceptron")))
    assert same is deep
    assert depths.changes == (None,)
    assert not differ_in_depth([deep, built(TWO_DEPTHS["perceptron"].deep, 3)])


def convolution_then(layers):
    """A convolution, and some linear layers."""
    return nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Flatten(), *layers)


def test_layers_without_partners_are_told():
    shallow = nn.Sequential(nn.Conv2d(1, 2, 5, padding=2), nn.Flatten(), nn.Linear(128, 3))
    deep = convolution_then([nn.Linear(128, 4), nn.ReLU(), nn.Linear(4, 3)])
    with pytest.raises(InputError, match=r"model 1 cannot be brought.*nothing in the deeper one is of the kind of 0"):
        brought_to(deep, [shallow], Batches.of(torch.randn(10, 1, 8, 8)))


def test_layers_that_cannot_be_grown_are_told():
    shallow, deep = nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), built(lambda: ResNet((1, 1)), 0).float()
    with pytest.raises(InputError, match=r"conv1, layer2\.0, fc cannot be left without a partner"):
        brought_to(deep, [shallow], Batches.of(torch.randn(10, 1, 8, 8)))


class Functional(nn.Module):
    """A network that calls no module: its weights are used by functions."""

    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = nn.functional.linear(x, layer.weight, layer.bias).relu()
        return x


def test_a_network_without_layers_to_be_seen_is_told():
    with pytest.raises(InputError, match=r"no layers were found in the target \(Functional\).*call layers as modules"):
        brought_to(Functional(3), [Functional(2)], Batches.of(torch.randn(10, 4)))


def encoder(layers, *before):
    """PyTorch's own transformer, with norms behind sums."""
    one = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
    return nn.Sequential(nn.Linear(5, 8), *before, nn.TransformerEncoder(one, layers, enable_nested_tensor=False),
                         nn.Linear(8, 3))  # fmt: skip


def test_post_norm_blocks_grow_behind_norms():
    """Gains and biases of the norm before a grown block go to its own last norm: what is normalised stays so."""
    x = torch.randn(20, 6, 5).double()
    shallow, deep = built(lambda: encoder(1, nn.LayerNorm(8)), 1), built(lambda: encoder(3, nn.LayerNorm(8)), 2)
    grown, change = brought(shallow, deep, x)
    assert len(change.grown) == 2
    assert any(name.endswith("linear1.weight") for name in change.free)
    assert not any("norm" in name for name in change.free)
    torch.testing.assert_close(grown(x), shallow(x), rtol=1e-3, atol=1e-4)  # norms add 1e-5 to variances
    assert change.difference < 1e-4


def test_post_norm_blocks_without_a_norm_before_them_are_refused():
    """A post-norm block cannot do nothing by itself: its norms act on the stream."""
    x = torch.randn(10, 6, 5).double()
    deep, shallow = built(lambda: encoder(1), 1), built(lambda: nn.Sequential(nn.Linear(5, 8), nn.Linear(8, 3)), 2)
    with pytest.raises(InputError, match=r"post-norm ones behind a layer norm"):
        brought_to(deep, [shallow], Batches.of(x))


SIZES = dict(hidden_size=8, num_attention_heads=2, intermediate_size=12)
WORDS = dict(vocab_size=11, max_position_embeddings=20, bos_token_id=0, eos_token_id=0, pad_token_id=0, **SIZES)
GPT2 = dict(vocab_size=11, n_positions=8, n_embd=8, n_head=2, bos_token_id=0, eos_token_id=0)
DISTILLED = dict(vocab_size=11, max_position_embeddings=20, dim=8, n_heads=2, hidden_dim=12)
FAMILIES = {
    "ViTForImageClassification": ("ViTConfig", "num_hidden_layers", dict(image_size=8, patch_size=4, **SIZES)),
    "GPT2LMHeadModel": ("GPT2Config", "n_layer", GPT2),
    "LlamaForCausalLM": ("LlamaConfig", "num_hidden_layers", dict(num_key_value_heads=1, **WORDS)),
    "BertForSequenceClassification": ("BertConfig", "num_hidden_layers", WORDS),
    "RobertaForMaskedLM": ("RobertaConfig", "num_hidden_layers", WORDS),
    "DistilBertForSequenceClassification": ("DistilBertConfig", "n_layers", DISTILLED),
}


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_models_of_transformers_grow_and_compute_the_same(family):
    """Language models give the keys of each layer besides, and those of the BERT family have post-norm blocks."""
    transformers = pytest.importorskip("transformers")
    config, count, sizes = FAMILIES[family]

    def network(layers):
        return getattr(transformers, family)(getattr(transformers, config)(**{count: layers}, **sizes))

    shallow, deep = built(lambda: network(2), 1), built(lambda: network(4), 2)
    images = family.startswith("ViT")
    x = {"pixel_values": torch.randn(20, 3, 8, 8).double()} if images else {"input_ids": torch.randint(11, (20, 6))}
    grown, change = brought(shallow, deep, x)
    assert len(change.grown) == 2
    torch.testing.assert_close(grown(**x).logits, shallow(**x).logits, rtol=1e-6, atol=1e-6)


def test_a_block_that_changes_shapes_has_to_have_a_partner():
    deep = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), BasicBlock(4, 4, 1), BasicBlock(4, 8, 2),
                         nn.Flatten(), nn.Linear(128, 3)).eval()  # fmt: skip
    shallow = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 3))
    with pytest.raises(InputError, match=r"3 \(BasicBlock\)"):
        brought_to(deep, [shallow], Batches.of(torch.randn(10, 1, 8, 8)))
