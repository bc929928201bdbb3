"""`fuse` with data and noise: what is said, what is left alone, what is refused."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import transfuse
from transfuse.activations import Batches
from transfuse.corrections import NONE, Uncorrected, Units, best_of, candidates, chosen
from transfuse.errors import InputError
from transfuse.fusing.correcting import Parents
from transfuse.modules import Arguments
from transfuse.synthetic import SyntheticInputs, budget, drawn_inputs
from transfuse.synthetic.making import MATCHING
from zoo import call, livened, named
from zoo_problems import another, layout_of, moved_twin, outputs, sample

X = torch.randn(120, 4, generator=torch.Generator().manual_seed(0))


def network(seed, width=6):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Dropout(0.5), nn.Linear(width, 3))


LAYOUT = transfuse.trace(network(0).eval(), X[:3])


def numbers(model):
    with torch.no_grad():
        return copy.deepcopy(model).eval()(X)


def distance(model, models):
    """Squared distance of outputs to the mean of outputs."""
    return float((numbers(model) - sum(map(numbers, models)) / len(models)).square().sum())


TWINS = ["mlp_batch_norm", "dataclass_output", "lstm_packed", "multihead_attention"]


@pytest.mark.parametrize("correct", ["auto", "refit"])
@pytest.mark.parametrize("name", TWINS)
def test_noise_does_not_change_a_fusion_of_a_network_with_its_twin(name, correct):
    torch.manual_seed(1)
    model, inputs = named(name).build(), named(name).inputs()
    layout = layout_of(name)
    given = [model, moved_twin(model, layout, 0)]
    fusion = transfuse.fuse(given, inputs, layout=layout, restarts=0, correct=correct)
    if correct == "refit":
        assert fusion.correction.note.startswith("judged by synthetic inputs")
        assert fusion.correction.disagreement["refit"] < 1e-9
    torch.testing.assert_close(outputs(fusion.model, inputs), outputs(model, inputs), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"data": X}, {"data": [(X[:60], 0), (X[60:], 1)], "terms": "activations"}])
def test_models_are_untouched_and_the_result_is_the_same_each_time(options):
    models = [network(0).train(), network(1).train()]
    before, random = copy.deepcopy([model.state_dict() for model in models]), torch.get_rng_state()
    one, other = (transfuse.fuse(models, X[:3], layout=LAYOUT, seed=5, **options) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), random)
    torch.testing.assert_close([model.state_dict() for model in models], before, rtol=0, atol=0)
    torch.testing.assert_close(one.model.state_dict(), other.model.state_dict(), rtol=0, atol=0)
    for model in (*models, one.model, *one.aligned):
        assert all(module.training for module in model.modules())
        assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())


def test_a_fusion_says_what_was_done_and_comes_nearer_to_the_mean():
    models = [network(0), network(1)]
    plain = transfuse.fuse(models, X[:3], layout=LAYOUT, correct="none")
    assert plain.correction.method == "none"
    assert not plain.correction.disagreement
    by_noise = transfuse.fuse(models, X[:3], layout=LAYOUT)
    assert by_noise.correction.method == "selection"
    assert by_noise.correction.note == "judged by synthetic inputs"
    assert {NONE, "selection"} <= set(by_noise.correction.disagreement) <= {NONE, *candidates(plain.model, data=False)}
    assert "correction: selection: distance of outputs" in str(by_noise)
    by_data = transfuse.fuse(models, X[:3], layout=LAYOUT, data=X, terms="weights")
    assert by_data.correction.note == ""
    assert {NONE, "selection"} <= set(by_data.correction.disagreement) <= {NONE, *candidates(plain.model)}
    assert distance(by_data.model, models) < distance(by_noise.model, models) < distance(plain.model, models)
    torch.testing.assert_close(by_data.states.state, plain.model.state_dict())  # as it was before


def test_progress_is_told():
    told = []
    transfuse.fuse([network(0), network(1)], X[:3], layout=LAYOUT, restarts=0, progress=lambda *step: told.append(step))
    assert ("selection, site 2 of 2", 0, 2) in told
    assert told[-1] == ("selection", 2, 2)


def test_noise_can_be_turned_off():
    fusion = transfuse.fuse([network(0), network(1)], X[:3], layout=LAYOUT, synthetic=False)
    assert str(fusion.correction) == "none"
    torch.testing.assert_close(fusion.model.state_dict(), fusion.states.state, rtol=0, atol=0)


def test_without_example_inputs_there_is_no_noise():
    model = network(0)
    layout = transfuse.trace(model, X[:3])
    assert transfuse.fuse([model, network(1)], layout=layout).correction.method == "none"


def test_published_methods_end_without_a_correction_unless_asked():
    models = [network(0), network(1)]
    assert transfuse.fuse(models, X[:3], layout=LAYOUT, method="wb").correction.method == "none"
    assert transfuse.fuse(models, X[:3], layout=LAYOUT, method="wb", data=X).correction.method == "none"
    assert transfuse.fuse(models, X[:3], layout=LAYOUT, method="wb", correct="repair").correction.method == "repair"
    assert (
        transfuse.fuse(models, X[:3], layout=LAYOUT, method="wb", correct="auto", data=X).correction.method
        == "selection"
    )


def test_one_model_has_no_mean_to_come_nearer_to():
    model = network(0)
    fusion = transfuse.fuse([model], X[:3], data=X)
    torch.testing.assert_close(numbers(fusion.model), numbers(model))
    assert "one model" in fusion.correction.note


@pytest.mark.parametrize(
    "options", [{}, {"data": X}, {"data": X, "correct": "refit"}, {"data": X, "correct": "repair"}]
)
def test_weight_one_returns_that_model(options):
    models = [network(0), network(1)]
    fusion = transfuse.fuse(models, X[:3], layout=LAYOUT, weights=[0, 1], **options)
    torch.testing.assert_close(numbers(fusion.model), numbers(models[1]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_is_fused_and_not_corrected(kind):
    models = [network(0).to(kind), network(1).to(kind)]
    fusion = transfuse.fuse(models, X[:3].to(kind), data=X.to(kind))
    assert fusion.model[0].weight.dtype == kind
    assert "float32 and float64 only" in fusion.correction.note


def test_a_wider_target_is_corrected():
    models = [network(0), network(1)]
    fusion = transfuse.fuse(models, X[:3], layout=LAYOUT, target={"0.out": 12}, data=X)
    assert fusion.correction.method == "selection"
    assert fusion.correction.disagreement["selection"] < 1e-9  # as wide as both: their mean, and no dropout in them
    assert distance(fusion.model, models) < distance(
        transfuse.fuse(models, X[:3], layout=LAYOUT, correct="none").model, models
    )


class Picky(nn.Module):
    """Runs on numbers as small as those of the example, and on no others."""

    def __init__(self, error):
        super().__init__()
        self.first, self.second, self.error = nn.Linear(4, 5), nn.Linear(5, 2), error

    def forward(self, x):
        if self.error and len(x) > 6 and x.abs().max() > 0:
            raise self.error
        return self.second(self.first(x).relu())


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyError("no"), AssertionError("no"), ZeroDivisionError("no")])
def test_a_network_that_does_not_run_on_noise_is_fused_all_the_same(error):
    models = [Picky(None), Picky(None)]
    layout = transfuse.trace(models[0], X[:3])
    for model in models:
        model.error = error
    fusion = transfuse.fuse(models, X[:3], layout=layout)
    assert fusion.correction.method == "none"
    assert "no correction by synthetic inputs: Picky does not run" in fusion.correction.note
    with pytest.raises(InputError, match="Picky does not run on batch 1 of the data"):
        transfuse.fuse(models, X[:3], layout=layout, data=X)


class Overflows(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 5), nn.Linear(5, 2)

    def forward(self, x):
        return self.second(self.first(x)) / (x.square().sum() < 1)


def test_a_network_that_overflows_on_noise_is_fused_all_the_same():
    fusion = transfuse.fuse([Overflows(), Overflows()], X[:3] / 10)
    assert "NaN or infinity" in fusion.correction.note


@pytest.mark.long  # two fusions with synthetic inputs
def test_noise_that_a_network_overflows_on_is_not_put_beside_data():
    models = [Overflows(), Overflows()]
    fusion = transfuse.fuse(models, X[:3] / 10, data=list(X.split(1)), forward=lambda model, x: model(x / 10))
    assert fusion.correction.method == "selection"


@torch.no_grad()
def test_noise_judges_beside_a_few_inputs_and_data_beside_noise():
    """By two held-out inputs alone it would be chance which correction is taken."""
    batches = Batches.of(X[:10])
    noise = transfuse.synthetic_inputs([network(0), network(1)], X[:3], samples=50)
    both = list(batches.supported_by(noise, weight=0.1))
    assert [(batch.fits, batch.judges, batch.weight) for batch in both] == [
        (number % 5 != 4, number % 5 == 4, 1.0 if number < 5 else 0.1) for number in range(10)
    ]
    models = [network(0).eval(), network(1).eval()]
    start = Uncorrected(copy.deepcopy(models[0]), models, [0.5, 0.5], batches, synthetic=noise)
    mean = [sum(batch.run(model).double() for model in models) / 2 for batch in both]
    expected = sum(
        batch.weight * (batch.run(models[0]).double() - middle).square().sum()
        for batch, middle in zip(both, mean, strict=True)
        if batch.judges
    ) / sum(batch.weight * middle.square().sum() for batch, middle in zip(both, mean, strict=True) if batch.judges)
    _, done = best_of(["refit"], start)
    assert done.disagreement["none"] == pytest.approx(float(expected), rel=1e-5)


@torch.no_grad()
def test_a_batch_alone_is_fitted_beside_noise():
    """It judges too: that does not keep it from being learnt from."""
    models = [network(0).eval(), network(1).eval()]
    noise = transfuse.synthetic_inputs(models, X[:3], samples=50)
    batches = Batches.of([3 * X])
    start = Uncorrected(copy.deepcopy(models[0]), models, [0.5, 0.5], batches, synthetic=noise)
    with_data, _ = best_of(["refit"], start, forced=True)
    alone, _ = best_of(["refit"], Uncorrected(start.model, models, [0.5, 0.5], noise), forced=True)
    far = [float((each(3 * X) - sum(m(3 * X) for m in models) / 2).square().sum()) for each in (with_data, alone)]
    assert far[0] < far[1]


class Pictures(nn.Module):
    """Gives pictures, and no classes."""

    def __init__(self, *, sounds=False):
        super().__init__()
        kind = nn.Conv1d if sounds else nn.Conv2d
        self.first, self.second = kind(1, 4, 3, padding=1), kind(4, 1, 3, padding=1)

    def forward(self, x):
        return self.second(self.first(x).relu())


def test_convolutions_without_classes_are_not_corrected_by_noise_unless_asked():
    models, example = [Pictures(sounds=True), Pictures(sounds=True)], torch.randn(2, 1, 64)
    assert "there are no classes to see: what they give is of shape" in transfuse.fuse(models, example).correction.note
    assert transfuse.fuse(models, example, correct="refit").correction.method == "refit"


def test_networks_of_images_without_classes_are_corrected_by_leaves():
    torch.manual_seed(0)
    fusion = transfuse.fuse([Pictures(), Pictures()], torch.randn(2, 1, 8, 8))
    assert fusion.correction.method in ("refit", "selection")
    assert fusion.correction.note.startswith("judged by synthetic inputs (leaves, since the example is grey")


@pytest.mark.long  # four fusions with synthetic images
def test_convolutions_are_matched_and_corrected_by_synthetic_images():
    models = [another("lenet", seed).float() for seed in (0, 1)]
    given = dict(example_inputs=named("lenet").inputs(), layout=layout_of("lenet"), restarts=0)
    fusion = transfuse.fuse(models, **given)
    assert fusion.correction.method == "selection"
    images = transfuse.synthetic_inputs(models, given["example_inputs"], samples=MATCHING)
    same = transfuse.fuse(models, **given, data=images, correct="none")
    for one, other in zip(fusion.couplings, same.couplings, strict=True):
        torch.testing.assert_close(one, other)
    by_weights = transfuse.fuse(models, **given, terms="weights")
    assert any(
        not torch.equal(one[space], other[space])
        for one, other in zip(fusion.couplings, by_weights.couplings, strict=True)
        for space in one
    )


@pytest.mark.parametrize(("samples", "expected"), [(1000.5, 1000), (60.5, 60), (49, None)])
def test_there_are_as_many_images_as_the_effort_goes(samples, expected, monkeypatch):
    models, example = [another("lenet", seed).float() for seed in (0, 1)], named("lenet").inputs()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        models[0](example)
    each = counter.get_total_flops() / len(example) * 2 * 3 * 20  # models; runs
    monkeypatch.setattr(budget, "EFFORT", {"cpu": samples * each})
    found = SyntheticInputs.of(models, Arguments.of(example), plain=False, data=0, seed=0)
    if expected is None:
        assert found.batches is None
        assert "it would take too long" in found.why_not
        assert transfuse.fuse(models, example, layout=layout_of("lenet")).correction.note == found.why_not
    else:
        assert sum(len(args[0]) for args, _ in found.matching.data) == min(expected, MATCHING)
        assert sum(len(args[0]) for args, _ in found.batches.data) == expected
    asked = transfuse.synthetic_inputs(models, example, samples=200)  # whoever asks gets it
    assert sum(len(args[0]) for args, _ in asked.data) == 200
    assert not torch.equal(asked.data[0][0][0], drawn_inputs(models, Arguments.of(example), samples=200).data[0][0][0])


@pytest.mark.parametrize(
    ("name", "data", "drawn"), [("lenet", False, True), ("lenet", True, False), ("lstm_packed", False, False)]
)
def test_a_correction_knows_whether_all_its_inputs_are_drawn_images(name, data, drawn, monkeypatch):
    """What is learnt from those need not hold for others, so more corrections are tried."""
    starts = []

    def noted(rows, start, *args, **options):
        starts.append(start)
        return best_of(rows, start, *args, **options)

    monkeypatch.setattr(chosen, "best_of", noted)
    models, inputs = [another(name, seed).float() for seed in (0, 1)], named(name).inputs()
    transfuse.fuse(models, inputs, layout=layout_of(name), restarts=0, data=inputs if data else None, correct="refit")
    assert [each.drawn for each in starts] == [drawn]


def test_dicts_and_keyword_arguments():
    models = [another("named_inputs", seed).float() for seed in (0, 1)]
    inputs = named("named_inputs").inputs()
    data = {key: value.repeat(10, *[1] * (value.dim() - 1)) for key, value in inputs.items()}
    for options in ({}, {"data": data}, {"data": [inputs, inputs]}):
        fusion = transfuse.fuse(models, inputs, layout=layout_of("named_inputs"), restarts=0, **options)
        assert fusion.correction.disagreement
        call(fusion.model, inputs)


def test_forward_runs_odd_batches():
    models = [network(0), network(1)]
    given = {"data": [{"x": X, "y": 0}], "forward": lambda model, batch: model(batch["x"])}
    assert transfuse.fuse(models, X[:3], layout=LAYOUT, **given).correction.method == "selection"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"correct": "best"}, "correct is 'best'; expected auto, none, batchnorm"),
        ({"correct": "batchnorm", "data": X}, "correct is 'batchnorm', but the models have no batch norm"),
        ({"terms": "all"}, "terms is 'all'; expected one of weights, activations, both"),
        ({"terms": "both"}, "there is no data to see activations on"),
        ({"method": "activation"}, "there is no data to see activations on"),
        ({"correct": "repair", "synthetic": False}, "there are no inputs"),
        ({"data": []}, "no batches"),
        ({"data": X[:, :3]}, "does not run on batch 1"),
        ({"data": X.double()}, "does not run on batch 1"),
        ({"data": X / 0, "terms": "weights"}, "NaN or infinity"),
        ({"data": X / 0}, "NaN or infinity"),
    ],
)
def test_what_cannot_be_is_refused(options, text):
    with pytest.raises(InputError) as error:
        transfuse.fuse([network(0), network(1)], X[:3], layout=LAYOUT, **options)
    assert text in str(error.value)


def test_noise_can_be_passed_as_data():
    torch.manual_seed(0)
    one, other = (nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Linear(9, 3)) for _ in range(2))
    inputs = transfuse.synthetic_inputs([one, other], torch.randn(2, 5), samples=100, seed=3)
    fusion = transfuse.fuse([one, other], torch.randn(2, 5), data=inputs, terms="both", correct="none")
    again = transfuse.fuse([one, other], torch.randn(2, 5), data=inputs, terms="both", correct="none")
    plain = transfuse.fuse([one, other], torch.randn(2, 5), correct="none")
    assert all(torch.equal(a, b) for a, b in zip(fusion.model.parameters(), again.model.parameters(), strict=True))
    assert fusion.history[-1].objective != plain.history[-1].objective  # activations count


CARRIED = ["mlp_tanh", "lenet", "concatenated_hidden", "rnn_tanh", "lstm_bidirectional", "gru"]


@pytest.mark.long
@pytest.mark.parametrize("name", CARRIED)
def test_carried_pre_activations_are_those_of_the_aligned_networks(name):
    model, layout, inputs = sample(name)
    models = [model.eval(), another(name, 2).eval()]
    fusion = transfuse.fuse(models, inputs, layout=layout, correct="none")
    couplings = [each.couplings for each in fusion.couplings]
    parents = Parents(models, fusion.aligned, fusion.states.weights, layout, couplings, balance=True)
    drawn = transfuse.synthetic_inputs(models, inputs, samples=50)
    one = best_of(["refit"], Uncorrected(fusion.model, fusion.aligned, [0.5, 0.5], drawn), forced=True)[0]
    scaled = parents.scaled()
    units = Units(layout, scaled, couplings)
    carried = Uncorrected(fusion.model, scaled, [0.5, 0.5], drawn, units=units, carried=True)
    other = best_of(["refit"], carried, forced=True)[0]
    torch.testing.assert_close(outputs(one, inputs), outputs(other, inputs), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("given", [{}, {"data": X}])
@pytest.mark.parametrize("count", [1, 2])
def test_a_narrower_network_comes_nearer_to_the_mean_of_the_models(count, given):
    models = [network(seed, width=16) for seed in range(count)]
    method = "selection" if given or count > 1 else "refit"  # one random network on drawn inputs: selection is far off
    plain, corrected = (
        transfuse.fuse(models, X[:3], layout=LAYOUT, target=network(9, width=8), **given, correct=correct)
        for correct in ("none", method)
    )
    assert corrected.correction.method == method
    assert distance(corrected.model, models) < (0.5 if given else 0.8) * distance(plain.model, models)
    torch.testing.assert_close(corrected.states.state, plain.model.state_dict())


def normed(seed, width):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width), nn.Tanh(), nn.Linear(width, 3)).eval()


@pytest.mark.parametrize("width", [8, 20])
def test_units_are_selected_where_others_merge_before_batch_norms(width):
    models = [normed(seed, 16) for seed in range(2)]
    plain, corrected = (
        transfuse.fuse(models, X[:3], target={"0.out": width}, data=X, correct=each) for each in ("none", "auto")
    )
    assert corrected.correction.method == "selection"
    assert distance(corrected.model, models) < 0.5 * distance(plain.model, models)


def test_what_cannot_be_corrected_where_units_are_merged_is_told():
    for model, target, correct in ((normed(0, 16), normed(1, 8), "refit"), (network(0, 16), network(1, 8), "repair")):
        fusion = transfuse.fuse([model], X[:3], target=target, data=X, correct=correct)
        assert fusion.correction.method == "none"
        assert "units were merged" in fusion.correction.note


class Viewing(nn.Module):
    """A convolutional network as tutorials write it: inputs and activations are viewed, not flattened."""

    def __init__(self):
        super().__init__()
        self.whole = nn.Linear(64, 5)
        self.convolution = nn.Conv2d(1, 6, 3, padding=1)
        self.read = nn.Linear(6 * 16, 5)

    def forward(self, x):
        extra = self.whole(x.view(-1, 64))
        x = nn.functional.max_pool2d(self.convolution(x).relu(), 2)
        return self.read(x.view(-1, 6 * 16)) + extra


def test_networks_that_view_their_images_are_corrected_without_data():
    models = []
    for seed in range(2):
        torch.manual_seed(seed)
        models.append(Viewing())
    fusion = transfuse.fuse(models, torch.randn(4, 1, 8, 8), restarts=0)
    assert fusion.correction.method == "selection", fusion.correction
    assert fusion.correction.note.startswith("judged by synthetic inputs")


class Unwilling(nn.Module):
    """Runs on batches of four only, and says so."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv1d(1, 6, 3)

    def forward(self, x):
        if x.requires_grad:
            raise ValueError("no gradients on a Tuesday")
        return self.convolution(x).mean(2)


def test_why_there_are_no_synthetic_inputs_stands_in_the_result():
    fusion = transfuse.fuse([Unwilling(), Unwilling()], torch.randn(4, 1, 64), restarts=0)
    assert "no gradients on a Tuesday" in fusion.correction.note


def test_a_network_without_units_that_move_is_fused_by_data_too():
    models = [nn.Sequential(nn.Conv2d(1, 3, 3), nn.Flatten()) for _ in range(2)]
    fusion = transfuse.fuse(models, torch.randn(4, 1, 8, 8), data=torch.randn(20, 1, 8, 8))
    torch.testing.assert_close(fusion.states.state["0.bias"], (models[0][0].bias + models[1][0].bias).detach() / 2)


@pytest.mark.parametrize("correct", ["refit", "selection"])
def test_a_norm_over_flattened_channels_does_not_disturb(correct):
    """A batch norm that reads what was flattened has more channels than the convolution before it."""
    torch.manual_seed(0)
    model, inputs = livened(named("batch_norm_after_flatten").build()), torch.randn(60, 3, 8, 8)
    layout = layout_of("batch_norm_after_flatten")
    given = [model, moved_twin(model, layout, 0)]
    fusion = transfuse.fuse(given, inputs[:4], layout=layout, data=inputs, correct=correct)
    assert fusion.correction.method == correct
    torch.testing.assert_close(outputs(fusion.model, (inputs,)), outputs(model, (inputs,)), rtol=1e-2, atol=1e-2)
