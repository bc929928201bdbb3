"""Laws of tracing that hold for every network of the zoo."""

import copy
import functools
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

import transfuse
from transfuse import Fixed, Layout, ProofError, Rotation, Symmetry
from transfuse.layout import Framed, folded, random_elements
from transfuse.modules import model_state, tensors_in
from zoo import ZOO, call

# One process runs all laws of a network, so that it traces it once.
ROWS = {row.name: pytest.param(row, id=row.name, marks=pytest.mark.xdist_group(row.name)) for row in ZOO}


def some(rows, every):
    """One network in so many by default, and all of them if what is `long` is run."""
    return pytest.mark.parametrize("network", [
        pytest.param(*row.values, id=row.id, marks=[*row.marks, *([pytest.mark.long] if number % every else [])])
        for number, row in enumerate(rows)
    ])  # fmt: skip


@functools.cache
def traced(network):
    torch.manual_seed(0)
    model = network.build()
    return model, transfuse.trace(model, network.inputs())


def moved_by_hand(state, layout, elements):
    """Twin of `permute`: position by position, after norms over units that rotate are folded."""
    result = {name: tensor.clone() for name, tensor in folded(state, layout).items()}
    for block in layout.blocks():
        element = elements[block.space]
        if isinstance(element, Rotation):
            if block.odd.all():
                result[block.tensor] = mixed_by_hand(result[block.tensor], block, element.matrix)
            continue
        framed, element = element, getattr(element, "permutation", element)
        old = result[block.tensor].transpose(0, block.axis)
        new = old.clone()
        for unit, row in enumerate(block.positions):
            for slot, position in enumerate(row):
                factor = element.factor[unit] if block.odd[slot] else 1.0
                source = old[block.positions[element.order[unit], slot]]
                new[position] = source * factor if block.side == "produces" else source / factor
        result[block.tensor] = new.transpose(0, block.axis)
        if isinstance(framed, Framed):
            result[block.tensor] = inside_by_hand(result[block.tensor], block, framed)
    return result


def inside_by_hand(tensor, block, element):
    old = exchanged_by_hand(tensor, block, element).transpose(0, block.axis)
    new = old.clone()
    for frame, matrices in zip(element.frames, element.matrices, strict=True):
        for parts, mixing in ((frame.one, matrices), (frame.other, torch.linalg.inv(matrices).mT)):
            for part in parts:
                for unit, row in enumerate(block.positions) if (part.tensor, part.axis) == place(block) else ():
                    for i, slot in enumerate(part.slots):
                        new[row[slot]] = sum(mixing[unit, i, j] * old[row[s]] for j, s in enumerate(part.slots))
    return new.transpose(0, block.axis)


def exchanged_by_hand(tensor, block, element):
    old = tensor.transpose(0, block.axis)
    new = old.clone()
    held = element.members.slots_on(*place(block)) if element.members else []
    for unit, row in enumerate(block.positions):
        for member, slots in enumerate(held):
            for slot, source in zip(slots, held[element.orders[unit, member]], strict=True):
                new[row[slot]] = old[row[source]]
    return new.transpose(0, block.axis)


def place(block):
    return block.tensor, block.axis


def mixed_by_hand(tensor, block, matrix):
    old = tensor.transpose(0, block.axis)
    new = torch.zeros_like(old)
    for unit, position in enumerate(block.positions[:, 0]):
        for other, source in enumerate(block.positions[:, 0]):
            new[position] += matrix[unit, other] * old[source]
    return new.transpose(0, block.axis)


@some(ROWS.values(), 2)
def test_what_can_move_is_found_and_nothing_else(network):
    model, layout = traced(network)
    assert tuple(sorted(space.units for space in layout.spaces)) == network.widths
    assert layout.movable(model_state(model)) == pytest.approx(network.share, abs=6e-4)
    assert transfuse.parse(str(layout)) == layout
    layout.check(model.state_dict())


@some(ROWS.values(), 4)
def test_moving_units_by_hand_leaves_the_function_as_it_was(network):
    model, layout = traced(network)
    twin = copy.deepcopy(model).double()
    inputs = pytree.tree_map(lambda x: x.double() if x.is_floating_point() else x, network.inputs())
    with torch.no_grad():
        before = tensors_in(call(twin, inputs))
        elements = random_elements(layout, layout.units, np.random.default_rng(3))
        twin.load_state_dict(moved_by_hand(twin.state_dict(), layout, elements))
        after = tensors_in(call(twin, inputs))
    for a, b in zip(before, after, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-9)


@pytest.mark.long
@some(ROWS.values(), 6)
def test_both_recorders_find_the_same_layout(network):
    model, layout = traced(network)
    eager = transfuse.trace(model, network.inputs(), recorder="eager", proof=False)
    assert (eager.spaces, eager.tensors) == (layout.spaces, layout.tensors)


@some(ROWS.values(), 6)
def test_the_proof_catches_an_axis_that_does_not_move_along(network):
    model, layout = traced(network)
    blocks = layout.blocks()
    shared = [space.name for space in layout.spaces if sum(block.space == space.name for block in blocks) > 1]
    idle = [name for name, why in layout.fixed.items() if "has no effect on the outputs" in why.values()]
    weights = [name for name, tensor in model.state_dict().items() if tensor.dim() > 1]  # a bias may cancel out
    weights = [name for name in weights if name not in idle]
    axes = sorted({(b.tensor, b.axis) for b in blocks if b.space in shared and b.tensor in weights})
    rng = np.random.default_rng(0)
    for name, number in (axes[i] for i in rng.permutation(len(axes))[:3]):
        broken = with_axis_fixed(layout, model.state_dict(), name, number)
        with pytest.raises(ProofError, match="does not describe this network"):
            transfuse.prove(model, network.inputs(), broken)


def with_axis_fixed(layout, state, name, number):
    still = transfuse.Axis((Fixed(state[name].shape[number]),))
    axes = [still if index == number else axis for index, axis in enumerate(layout.tensors[name])]
    return Layout(layout.spaces, {**layout.tensors, name: tuple(axes)})


# Networks that a few inputs cannot refute: a branch of Python code that depends on a sum, and a clamp that small
# values do not reach.
UNDECIDED = ("data_dependent_branch", "mlp_dropout_in_place")


@some([row for name, row in ROWS.items() if name not in UNDECIDED], 6)
def test_the_proof_catches_a_symmetry_that_is_not_there(network):
    model, layout = traced(network)
    for space in layout.spaces:
        for kind in ("signs", "scales"):
            if getattr(space, kind) or space.rotations or not reads_units(layout, space.name):
                continue
            claimed = tuple(
                replace(s, symmetry=replace(s.symmetry, **{kind: True})) if s is space else s for s in layout.spaces
            )
            broken = Layout(claimed, layout.tensors)
            with pytest.raises(ProofError, match=f"space {space.name}: .*negated or scaled"):
                transfuse.prove(model, network.inputs(), broken)


@some([row for name, row in ROWS.items() if name not in UNDECIDED], 6)
def test_the_proof_catches_rotations_that_are_not_there(network):
    model, layout = traced(network)
    alone = {axis.alone for axes in layout.tensors.values() for axis in axes}
    crowded = {space for axes in layout.tensors.values() for axis in axes for space in axis.spaces if not axis.alone}
    for space in layout.spaces:
        wrong = space.symmetry.fixing_mean or space.name in layout.unrotated
        if not wrong or space.name not in alone - crowded:
            continue
        claimed = replace(space, symmetry=Symmetry(rotations=True))
        spaces = tuple(claimed if each is space else each for each in layout.spaces)
        broken = replace(layout, spaces=spaces)
        with pytest.raises(ProofError, match=f"space {space.name}: .*rotated"):
            transfuse.prove(model, network.inputs(), broken)


def reads_units(layout, name):
    return any(name in axis.spaces and axis.side == "consumes" for axes in layout.tensors.values() for axis in axes)
