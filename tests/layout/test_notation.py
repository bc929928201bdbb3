"""The notation: what is printed reads back as the same layout, and what cannot be read is told where."""

import pickle
import string

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from transfuse import Axis, Fixed, Layout, LayoutError, Run, Slot, Space, Symmetry, parse

# --- What is printed reads back -----------------------------------------------------------------------------------

PRINTABLE = st.characters(exclude_categories=["C", "Z"], include_characters=" ")
TEXT = st.text(PRINTABLE | st.sampled_from("'\":,{}[]#&*!|>%@`-?<= \\~"), max_size=12)
WORDS = st.sampled_from(["null", "true", "No", "~", "1", "0x1F", "1e3", "2020-01-01", "...", "- a", "a: b", "<<", "="])
ODD = WORDS | TEXT
LETTERS = "".join(c for c in string.printable if c.isprintable() and c not in " []()|*+<>,'\"{}&!%@`#")
NAMES = st.sampled_from(["conv1.out", "a", "lstm.l0", "null", "0x1F", "-", "é", "1.5"]) | st.text(
    LETTERS, min_size=1, max_size=8
).filter(lambda name: not name.isdigit())


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Any layout at all: it need not be regular to be written down."""
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    symmetries = st.builds(Symmetry, st.booleans(), st.booleans())
    spaces = [st.builds(Space, st.just(name), st.integers(1, 99), symmetries) for name in names]
    cells = st.lists(st.builds(Slot, st.sampled_from(names), st.booleans()), min_size=1, max_size=5).map(tuple)
    runs = st.builds(Run, cells, st.none() | st.lists(st.integers(0, 99), max_size=4).map(tuple))
    segments = st.lists(st.builds(Fixed, st.integers(1, 99)) | runs, max_size=4).map(tuple)
    axes = st.lists(st.builds(Axis, segments, st.sampled_from(["produces", "consumes"])), max_size=3).map(tuple)
    reasons = st.dictionaries(st.integers(0, 3), ODD, min_size=1, max_size=2)
    return Layout(
        draw(st.tuples(*spaces)),
        draw(st.dictionaries(ODD, axes, max_size=4)),
        draw(st.dictionaries(ODD, reasons, max_size=2)),
    )


@given(layouts())
def test_what_is_printed_is_yaml_that_reads_back_as_the_same_layout(layout: Layout):
    again = parse(str(layout))
    assert again == layout
    assert list(again.tensors) == list(layout.tensors)
    document = yaml.safe_load(str(layout))
    assert [len(axes) for axes in document["tensors"].values()] == [len(axes) for axes in layout.tensors.values()]


@given(st.text(st.characters(codec="utf-8"), max_size=12))
@example("expected a matrix,\ngot a vector")
@example("two\n\nparagraphs")
@example("\ttabs\t")
@example("a bell\x07")
@example("ends in a space ")
@example("\x85")
def test_any_text_serves_as_a_reason(reason: str):
    layout = Layout((), {"x": (Axis((Fixed(2),)),)}, {"x": {0: reason}})
    assert parse(str(layout)) == layout


def test_a_layout_is_printed_as_an_aligned_table():
    text = """\
spaces:
  conv.out: 8 scales
  lstm.l0:  6 signs
tensors:
  conv.weight:       [conv.out, 3, 5, 5]
  conv.steps:        []
  fc.weight:         [10, < conv.out*16 + 4]
  mixed.weight:      ['(conv.out lstm.l0*2)', 'lstm.l0[2 0 1 5 4 3]']
  lstm.weight_ih_l0: ['|lstm.l0| + |lstm.l0| + lstm.l0 + |lstm.l0|*2', 0]
fixed:
  fc.weight: {0: returned by the model}"""
    assert str(parse(text)) == text


def test_a_layout_without_anything_has_a_text():
    assert str(Layout((), {})) == "spaces: {}\ntensors: {}"
    assert parse("spaces: {}\ntensors: {}") == Layout((), {})


@pytest.mark.parametrize("text", ["a[1 0]", "  a[1 0]  ", "(a)[1 0]", "a*1[1 0]", "0 + a[1 0]"])
def test_an_axis_may_be_written_in_several_ways(text: str):
    layout = parse(f"{{spaces: {{a: 2}}, tensors: {{x: ['{text}']}}}}")
    assert layout.tensors["x"] == (Axis((Run((Slot("a"),), (1, 0)),)),)


# --- What cannot be read ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("spaces: [", "not valid YAML"),
        ("tensors: {x: [a}", "not valid YAML"),
        ("", "not a mapping"),
        ("- a", "not a mapping"),
        ("conv.out: 8", "unknown keys in the layout: conv.out; known: spaces, tensors, fixed"),
        ("{spaces: {}, tensor: {}, 3: {}}", "unknown keys in the layout: 3, tensor"),
        ("spaces: [a]", r"spaces in the layout is \['a'\]"),
        ("tensors: 3", "tensors in the layout is 3"),
        ("fixed: {x: because}", "fixed x: cannot read 'because'"),
        ("fixed: {x: {first: because}}", "x"),
    ],
)
def test_a_malformed_document_is_told_what_was_expected(text: str, place: str):
    with pytest.raises(LayoutError, match=place):
        parse(text)


@pytest.mark.parametrize("value", ["wide", "-1", "8 sign", "signs", "8.5", "''", "[8]", "8 signs 8", "null", "²"])
def test_a_space_that_cannot_be_read_is_named(value: str):
    with pytest.raises(LayoutError, match=r"space a: cannot read .*expected its width"):
        parse(f"{{spaces: {{a: {value}}}, tensors: {{}}}}")


def test_a_space_without_units_is_named():
    with pytest.raises(LayoutError, match="space a has 0 units"):
        parse("{spaces: {a: 0}, tensors: {}}")


@pytest.mark.parametrize("axes", ["a", "3", "null", "{0: a}"])
def test_a_tensor_that_is_not_a_list_of_axes_is_named(axes: str):
    with pytest.raises(LayoutError, match=r"tensor x: .* is not a list; expected one entry for each axis"):
        parse(f"{{spaces: {{a: 2}}, tensors: {{x: {axes}}}}}")


@pytest.mark.parametrize(
    "axis",
    [
        "a b", "a*", "a*b", "*2", "a**2", "|a", "a|", "||", "(a", "a)", "()", "((a))", "(a b)*2", "a[", "a[0", "a[b]",
        "a[0,1]", "a[-1]", "a[0][1]", "a +", "+ a", "a + + a", "a+a", "> a", "a < a", "a, a", "", " ",
    ],
)  # fmt: skip
def test_an_axis_that_cannot_be_read_is_named(axis: str):
    with pytest.raises(LayoutError, match=r"tensor x axis 1: cannot read .*expected a number, a space"):
        parse(f"{{spaces: {{a: 2}}, tensors: {{x: [a, '{axis}']}}}}")


@pytest.mark.parametrize("axis", ["b", "-3", "1.5", "null", "a + b", "(a b)", "b[0]", "|b|", "< b", "²"])
def test_a_space_that_is_not_listed_is_named(axis: str):
    with pytest.raises(LayoutError, match=r"x axis 1 names space .*, which is not listed"):
        parse(f"{{spaces: {{a: 2}}, tensors: {{x: [a, '{axis}']}}}}")


def test_all_entries_that_cannot_be_read_are_listed_at_once():
    with pytest.raises(LayoutError) as error:
        parse("{spaces: {a: wide, b: 2}, tensors: {x: [b, 'b*'], y: 3, z: ['|b']}}")
    for place in ("space a", "tensor x axis 1", "tensor y", "tensor z axis 0"):
        assert place in str(error.value)


@pytest.mark.parametrize(
    "text", ["{spaces: {a: 2, a: 3}, tensors: {}}", "{spaces: {}, tensors: {x: [2], x: [3]}}", "spaces: {}\nspaces: {}"]
)
def test_an_entry_given_twice_is_refused(text: str):
    with pytest.raises(LayoutError):
        parse(text)


def test_what_is_reduced_is_written_and_read_and_must_make_sense():
    text = "spaces:\n  a: 5\ntensors:\n  w: [a, 3]\nreduced:\n  a: averaged by aten.layer_norm.default at net.py:12"
    layout = parse(text)
    assert dict(layout.reduced) == {"a": "averaged by aten.layer_norm.default at net.py:12"}
    assert parse(str(layout)) == layout
    assert pickle.loads(pickle.dumps(layout)) == layout
    with pytest.raises(LayoutError, match=r"reduced b: .*expected a space"):
        parse(text.replace("  a: averaged", "  b: averaged"))
    with pytest.raises(LayoutError, match="begins with summed or averaged"):
        parse(text.replace("averaged by", "lost by"))
