"""Arguments of a wrong type are refused by name, at every public function."""

import inspect
import threading
import warnings
from math import inf, nan
from operator import attrgetter

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import transfuse
from transfuse import InputError, LayoutError, plots
from transfuse.barycenter import Step

X = torch.randn(4, 3)


def build(width=4):
    return nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 2))


NET, OTHER, THIRD = build(), build(), build()
LAYOUT = transfuse.trace(NET, X)


class Thing:
    """Nothing that is expected anywhere."""


WRONG = {
    "network": [None, 3, "a", {"a": 1}, [NET], Thing(), nn.Linear],
    "networks": [None, 3, "a", {"a": NET}, [None], [NET, 3], NET, {NET}, Thing()],
    "layout": ["x", 3, {}, Thing(), NET],
    "weights": ["a", 3, {0: 0.5, 1: 0.5}, [None, 1], ["a", "b"], Thing(), [[1], [2]]],
    "seed": [-1, 2.5, "a", None, True, Thing()],
    "text": [3, [], Thing(), b"auto"],
    "switch": [3, "yes", None, Thing()],
    "function": [3, "a", Thing(), [len]],
    "count": [-1, 2.5, "a", True, Thing()],
    "example": [None, 3, "a", Thing()],
    "data": [5, "a", Thing(), NET],
    "progress": [3, "sometimes", None, Thing()],
    "path": [3, Thing(), []],
    "state": [3, "a", [1], {"a": 1}, {3: X}, Thing()],
}
STATE = NET.state_dict()
EVALUATE = {"evaluate": lambda network: 1.0}
BARRIER = transfuse.barrier(NET, OTHER, points=2, **EVALUATE)
SHARED = {"data": "data", "cache": "path", "workers": "count", "progress": "progress", "evaluate": "function"}

# For each public function: a call that works, and the kind of wrong values that each argument is tried with.
CALLS = {
    "align": (dict(model=OTHER, to=NET, example_inputs=X),
              dict(model="network", to="network", layout="layout", method="text", data="data", seed="seed",
                   example_inputs="example")),
    "barrier": (dict(a=NET, b=OTHER, **EVALUATE), dict(a="network", b="network", points="count", **SHARED)),
    "chain": (dict(networks=[NET, OTHER], **EVALUATE), dict(networks="networks", points="count", **SHARED)),
    "compare": (dict(groups=[[NET, OTHER]], example_inputs=X, methods=["vanilla"], points=2, **EVALUATE),
                dict(groups="groups", example_inputs="example", evaluate="function", methods="methods", data="data",
                     points="count", planes="count", seed="seed", folder="path", workers="count", progress="progress")),
    "correct": (dict(model=NET, data=X, parents=[NET, OTHER]),
                dict(model="network", data="data", parents="networks", method="text", weights="weights",
                     layout="layout", forward="function", biases="switch", aim="text", seed="seed",
                     progress="progress")),
    "evaluator": (dict(data=[(X, torch.zeros(4, dtype=torch.long))]),
                  dict(data="data", scores="function", forward="function", keep="switch", device="path")),
    "fuse": (dict(models=[NET, OTHER], example_inputs=X),
             dict(models="networks", example_inputs="example", method="text", weights="weights", target="target",
                  layout="layout", data="data", terms="text", correct="text", synthetic="switch", forward="function",
                  outputs="function", seed="seed", progress="progress", check="switch", aim="text", workers="count",
                  budget="budget", heads="heads", classes="classes")),
    "fuse_states": (dict(states=[STATE, STATE], layout=LAYOUT),
                    dict(states="states", layout="layout", method="text", weights="weights", widths="widths",
                         activations="function", aligned="switch", low_memory="switch", seed="seed",
                         progress="progress", may_lack="names", couplings="weights", workers="count",
                         heads="heads", classes="classes")),
    "parse": (dict(text=str(LAYOUT)), dict(text="text")),
    "permute": (dict(state=STATE, layout=LAYOUT, elements={}),
                dict(state="state", layout="layout", elements="elements")),
    "plane": (dict(origin=NET, x=OTHER, y=THIRD, grid=2, **EVALUATE),
              dict(origin="network", x="network", y="network", grid="count", margin="margin", marks="marks",
                   preview="function", finer="switch", **SHARED)),
    "plots.barriers": (dict(curves={"a": BARRIER}),
                       dict(curves="barriers", metric="text", label="text", ends="ends", axes="axes")),
    "plots.couplings": (dict(matrices={"0.out": np.eye(4)}), dict(matrices="matrices", columns="count")),
    "plots.history": (dict(steps=[Step(1.0, 1)]), dict(steps="steps", axes="axes")),
    "plots.plane": (dict(plane=transfuse.plane(NET, OTHER, THIRD, grid=2, **EVALUATE)),
                    dict(plane="plane", metric="text", title="text", levels="count", axes="axes")),
    "plots.planes": (dict(surfaces={"a": transfuse.plane(NET, OTHER, THIRD, grid=2, **EVALUATE)}),
                     dict(surfaces="planes", metric="text", columns="count")),
    "plots.similarity": (dict(reference=NET, others={"a": OTHER}),
                         dict(reference="network or state", others="named networks", axes="axes")),
    "prove": (dict(model=NET, example_inputs=X, layout=LAYOUT),
              dict(model="network", example_inputs="example", layout="layout", seed="seed")),
    "rule": (dict(names=["aten_of_a_test::op"]), dict(names="names")),
    "simplex": (dict(networks=[NET, OTHER], **EVALUATE), dict(networks="networks", **SHARED)),
    "synthetic_inputs": (dict(models=[NET], example_inputs=X),
                         dict(models="networks", example_inputs="example", samples="count", seed="seed")),
    "trace": (dict(model=NET, example_inputs=X),
              dict(model="network", example_inputs="example", rules="rules", unknown="text", proof="switch",
                   recorder="text", unused="text", outputs="function")),
    "untied": (dict(model=NET), dict(model="network")),
}  # fmt: skip
WRONG |= {
    "budget": [0, -3, 1.5, True, "a", "x", "1.5 units", [4], {"0.out": 2}, Thing()],
    "target": [2, 0.0, -1.5, inf, nan, True, "a", {"0.out": -2.5}, {"0.out": "a"}, {3: 4}, [4], Thing()],
    "widths": [2, 0.0, -1.5, inf, nan, True, "a", {"0.out": nan}, {3: 4}, [4], Thing()],
    "states": [None, 3, "a", STATE, [3], [{"a": 1}], Thing(), [NET]],
    "elements": [3, "a", {"0.out": 3}, {3: 4}, [1], {"nowhere": transfuse.Permutation([0, 1, 2, 3])}],
    "margin": [-1, "a", None, float("nan"), Thing()],
    "marks": [3, "a", {"a": 3}, [NET], Thing()],
    "names": [[3], [len]],
    "barriers": [None, 3, "a", BARRIER, [BARRIER], {"a": 3}, {3: BARRIER}, {}, Thing()],
    "planes": [None, 3, "a", [1], {"a": BARRIER}, {}, Thing()],
    "ends": [None, 3, "ab", ["a"], [1, 2], Thing()],
    "groups": [None, 3, "a", [], [NET, OTHER], [[NET]], [[NET, 3]], {"a": NET}, {"a": [NET]}, Thing()],
    "methods": [None, 3, "ot", [], [3], ["nothing"], {"a": 3}, {"a": {"method": "ot", "b": 1}}, Thing()],
    "matrices": [None, 3, "a", [[1.0]], {"a": 3}, {"a": "b"}, {"a": [1, [2]]}, {3: np.eye(2)}, {}, Thing()],
    "steps": [None, 3, "a", [3], {"a": 1}, Step(1.0, 1), Thing()],
    "plane": [None, 3, "a", BARRIER, [1], Thing()],
    "network or state": [None, 3, "a", {"a": 1}, [NET], Thing(), nn.Linear],
    "named networks": [None, 3, "a", NET, [NET], {"a": 3}, {3: NET}, {"a": build(5)}, {"a": {}}, {}, Thing()],
    "axes": [3, "a", [1], Thing()],
    "heads": [3, "add", True, ["join"], Thing()],
    "classes": [3, "ab", ["a", "b"], [[Thing()]], [[-1], [2.5]], {"a": ["b"]}, [["a", "b"], ["c", "d"]], Thing()],
    "rules": [3, "a", {"a": 3}, {3: len}, Thing()],
}
CASES = [(function, argument, kind) for function, (_, kinds) in CALLS.items() for argument, kind in kinds.items()]


def call(function, arguments):
    own = dict(arguments)
    return attrgetter(function)(transfuse)(*own.pop("names", ()), **own)


@pytest.mark.parametrize(("function", "argument", "kind"), CASES)
def test_a_wrong_argument_is_refused_by_name(function, argument, kind):
    for wrong in WRONG[kind]:
        with pytest.raises((InputError, LayoutError), match=argument):
            pytest.fail(
                f"{function}({argument}={wrong!r}) gave {call(function, {**CALLS[function][0], argument: wrong})}"
            )


@pytest.mark.parametrize("function", CALLS)
def test_the_call_itself_works(function):
    assert call(function, CALLS[function][0]) is not None or function == "prove"


def test_every_public_function_and_every_argument_is_tried():
    functions = {name for name in transfuse.__all__ if inspect.isfunction(getattr(transfuse, name))}
    figures = {f"plots.{name}" for name, each in vars(plots).items() if hasattr(each, "__wrapped__")}
    assert functions | figures == set(CALLS)
    for name in functions | figures:
        arguments = set(inspect.signature(attrgetter(name)(transfuse)).parameters) - {"options"}
        assert arguments == set(CALLS[name][1]), name


def test_a_module_is_not_taken_for_a_list_of_its_parts():
    with pytest.raises(InputError, match=r"pass a list of networks: \[a, b\]"):
        transfuse.fuse(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), X)


def test_several_wrong_arguments_are_told_at_once():
    with pytest.raises(InputError, match=r"(?s)weights is 'a'.*seed is -1"):
        transfuse.fuse([NET, OTHER], X, weights="a", seed=-1)


@pytest.mark.parametrize("text", ["[" * 5000, "{a: " * 3000, "? [a]\n: b", "spaces: {[1]: 2}", "\0"])
def test_layouts_that_are_no_layouts(text):
    with pytest.raises(LayoutError, match="layout"):
        transfuse.parse(text)


def test_numpy_arrays_are_data():
    data = np.random.default_rng(0).standard_normal((60, 3))
    expected = transfuse.fuse([NET, OTHER], X, data=torch.tensor(data).float())
    for given in (data, data.astype("float32"), (data, np.zeros(60)), [data[:30], data[30:]]):
        fusion = transfuse.fuse([NET, OTHER], X, data=given)
        if not isinstance(given, list):
            torch.testing.assert_close(fusion.states.state, expected.states.state)


WRAPPERS = {"DataParallel": nn.DataParallel, "OptimizedModule": lambda net: torch.compile(net, backend="eager")}


@pytest.mark.parametrize("kind", WRAPPERS)
def test_the_network_in_a_wrapper_is_fused_and_that_is_said(kind):
    expected = transfuse.fuse([NET, OTHER], X)
    fusion = transfuse.fuse([WRAPPERS[kind](NET), OTHER], X)
    assert f"model 1: it is wrapped in {kind}" in fusion.check.note
    assert fusion.parents[0] is NET
    assert list(fusion.model.state_dict()) == list(NET.state_dict())
    torch.testing.assert_close(fusion.states.state, expected.states.state)
    assert transfuse.trace(WRAPPERS[kind](NET), X) == LAYOUT


def test_the_network_in_a_distributed_wrapper_is_fused_too(tmp_path):
    distributed = torch.distributed
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    try:
        wrapped = nn.parallel.DistributedDataParallel(NET)
        fusion = transfuse.fuse([wrapped, OTHER], X)
        assert "model 1: it is wrapped in DistributedDataParallel" in fusion.check.note
        assert fusion.parents[0] is NET
        assert transfuse.trace(wrapped, X) == LAYOUT
    finally:
        distributed.destroy_process_group()


def locked():
    net = build()
    net.lock = threading.Lock()
    return net


def remembering():
    net = build()
    net[1].register_forward_hook(lambda module, args, output: setattr(module, "seen", output))
    net(X)
    return net


def pruned():
    net = build()
    prune.l1_unstructured(net[0], "weight", 0.5)
    net(X)
    return net


def normed():
    net = build()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that it is old
        nn.utils.weight_norm(net[0])
    net(X)
    return net


UNCOPIED = {
    "lock": (locked, "cannot be copied .*in the way: lock"),
    "pruned": (pruned, r"is pruned by masks \(0\.weight\).*prune.remove"),
}


@pytest.mark.parametrize("kind", UNCOPIED)
def test_a_module_that_cannot_be_copied_is_refused_first(kind, monkeypatch):
    make, said = UNCOPIED[kind]
    monkeypatch.setattr(transfuse.fusing.given, "trace", lambda *_: pytest.fail("work was done"))
    with pytest.raises(InputError, match=f"model 2 {said}"):
        transfuse.fuse([build(), make()], X)


@pytest.mark.parametrize("make", [normed, remembering])
def test_results_of_operations_that_are_kept_as_attributes_are_no_obstacle(make):
    net = make()
    twin = transfuse.fuse([net, make()], X, weights=[1, 0], correct="none").model
    torch.testing.assert_close(twin(X), net(X))
    twin(X).sum().backward()


class Complex(nn.Module):
    """Rectified in real and imaginary part, which fixes its units."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4, dtype=torch.cfloat), nn.Linear(4, 2, dtype=torch.cfloat)

    def forward(self, x):
        x = self.first(x)
        return self.second(torch.complex(x.real.relu(), x.imag.relu())).abs()


@pytest.mark.parametrize("given", [{}, {"method": "wb"}, {"data": torch.randn(20, 3, dtype=torch.cfloat)}])
def test_complex_networks_are_averaged_and_not_corrected(given):
    one, other = Complex(), Complex()
    with pytest.warns(transfuse.TraceWarning, match="no unit of these networks can move"):
        fusion = transfuse.fuse([one, other], torch.randn(5, 3, dtype=torch.cfloat), **given)
    mean = {name: (tensor + other.state_dict()[name]) / 2 for name, tensor in one.state_dict().items()}
    torch.testing.assert_close(dict(fusion.model.state_dict()), mean)
    assert fusion.correction.method == "none"
