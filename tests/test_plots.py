"""Pictures: what is drawn is what the records say."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import transfuse
from transfuse import InputError, plots

matplotlib = pytest.importorskip("matplotlib")

STATES = [{"w": torch.randn(4, generator=torch.Generator().manual_seed(seed))} for seed in range(4)]


def evaluate(state):
    return {"loss": float(state["w"].square().sum()), "error": float(state["w"].abs().sum())}


BARRIER = transfuse.barrier(STATES[0], STATES[1], evaluate, points=5)
PLANE = transfuse.plane(*STATES[:3], evaluate, grid=5, marks={"model 1": STATES[0], "far": STATES[3]})


def drawn(figure, path):
    """Saved as a picture of vectors; no glyph was missing (warnings are errors)."""
    figure.savefig(path)
    text = path.read_text()
    assert text.startswith("<?xml")
    return text


def test_barriers_draw_the_values_and_tell_the_heights(tmp_path):
    figure = plots.barriers({"one": BARRIER, "two": BARRIER}, metric="error")
    lines = figure.axes[0].lines
    np.testing.assert_array_equal(lines[1].get_ydata(), BARRIER.of("error"))
    np.testing.assert_array_equal(lines[1].get_xdata(), BARRIER.positions)
    assert lines[0].get_color() != lines[1].get_color()
    assert f"barrier {BARRIER.height('error'):.3g}" in figure.axes[0].get_legend().get_texts()[0].get_text()
    drawn(figure, tmp_path / "barriers.svg")
    with pytest.raises(InputError, match="no barriers to draw"):
        plots.barriers({})


def test_several_barriers_are_drawn_as_their_mean_in_a_band():
    other = transfuse.barrier(STATES[2], STATES[3], evaluate, points=5)
    axes = plots.barriers({"pairs": [BARRIER, other], "one": BARRIER}, ends=("a.pt", "b.pt")).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), (BARRIER.of() + other.of()) / 2)
    (band,) = axes.collections  # of the list alone
    edges = band.get_paths()[0].vertices
    assert edges[:, 1].max() == max(BARRIER.of().max(), other.of().max())
    assert edges[:, 1].min() == min(BARRIER.of().min(), other.of().min())
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a.pt", "midpoint", "b.pt"]
    with pytest.raises(InputError, match="pairs were measured at different positions"):
        plots.barriers({"pairs": [BARRIER, transfuse.barrier(STATES[2], STATES[3], evaluate, points=3)]})
    with pytest.raises(InputError, match="ends has 1 names"):
        plots.barriers({"one": BARRIER}, ends=["a"])


def test_planes_side_by_side_have_the_same_colours_for_the_same_values(tmp_path):
    higher = transfuse.plane(*STATES[1:], evaluate, grid=5)
    figure = plots.planes({"one": PLANE, "other": higher}, metric="error")
    first, second = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in (first, second)] == ["one: error", "other: error"]
    assert list(first.collections[0].levels) == list(second.collections[0].levels)
    assert first.collections[0].levels[-1] == max(PLANE.of("error").max(), higher.of("error").max())
    drawn(figure, tmp_path / "planes.svg")
    with pytest.raises(InputError, match="no planes to draw"):
        plots.planes({})


def test_records_draw_themselves_as_the_functions_do():
    (line,) = BARRIER.plot(metric="error", name="mine").axes[0].lines
    np.testing.assert_array_equal(line.get_ydata(), BARRIER.of("error"))
    assert line.get_label().startswith("mine")
    axes = PLANE.plot(title="loss of a toy").axes[0]
    assert axes.get_title() == "loss of a toy"
    assert len(axes.lines) == len(PLANE.marks)
    with pytest.raises(InputError, match="no metric is called 'x'"):
        PLANE.plot(metric="x")


def test_a_plane_has_its_marks_in_place_and_equal_scales(tmp_path):
    figure = plots.plane(PLANE, title="loss of a toy")
    axes = figure.axes[0]
    places = [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in axes.lines]
    assert places == [(mark.x, mark.y) for mark in PLANE.marks]
    names = [text.get_text() for text in axes.texts]
    assert names[0] == "model 1"
    assert names[3].startswith("far\n(")
    assert names[3].endswith(" off the plane)")
    assert axes.get_aspect() == 1
    drawn(figure, tmp_path / "plane.svg")


@pytest.mark.parametrize("values", [np.full((5, 5), 3.0), np.zeros((5, 5)), np.diag([np.nan, 1, 2, np.inf, 3.0])])
def test_flat_and_broken_planes_are_drawn(tmp_path, values):
    plane = transfuse.Plane({"loss": values}, PLANE.x, PLANE.y, PLANE.marks)
    drawn(plots.plane(plane), tmp_path / "plane.svg")


def test_a_plane_without_numbers_is_refused():
    nothing = transfuse.Plane({"loss": np.full((5, 5), np.nan)}, PLANE.x, PLANE.y, ())
    with pytest.raises(InputError, match="no value of this plane is finite"):
        plots.plane(nothing)


def test_couplings_similarity_and_history(tmp_path):
    torch.manual_seed(0)
    a, b = (torch.nn.Sequential(torch.nn.Linear(3, 150), torch.nn.Tanh(), torch.nn.Linear(150, 2)) for _ in range(2))
    layout = transfuse.parse("""
    spaces: {0.out: 150 signs}
    tensors: {0.weight: [0.out, 3], 0.bias: [0.out], 2.weight: [2, < 0.out], 2.bias: [2]}
    """)
    fusion = transfuse.fuse([a, b], layout=layout)
    figure = plots.couplings(fusion.couplings[1])
    assert "1 entries per unit" in figure.axes[0].get_title()
    drawn(figure, tmp_path / "couplings.svg")
    figure = plots.similarity(fusion.aligned[0], {"as trained": b, "aligned": fusion.aligned[1]})
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == list(a.state_dict())
    drawn(figure, tmp_path / "similarity.svg")
    figure = plots.history(fusion.history)
    assert list(figure.axes[0].lines[0].get_ydata()) == [step.objective for step in fusion.history]
    drawn(figure, tmp_path / "history.svg")
    with pytest.raises(InputError, match="no couplings to draw"):
        plots.couplings({})


def test_the_users_style_is_neither_used_nor_changed():
    with matplotlib.rc_context({"font.size": 30, "axes.grid": True}):
        figure = plots.barriers({"one": BARRIER})
        assert figure.axes[0].yaxis.label.get_size() < 10
        assert matplotlib.rcParams["font.size"] == 30


@pytest.mark.long  # starts interpreters
def test_matplotlib_is_imported_when_a_picture_is_made_and_its_absence_is_told():
    script = (
        "import sys, transfuse\nassert transfuse.plots and 'matplotlib' not in sys.modules\n"
        "sys.modules['matplotlib'] = None\n"
        "try:\n    transfuse.plots.barriers({})\n"
        "except transfuse.InputError as error:\n    assert 'transfuse[plots]' in str(error)\n"
        "else:\n    raise SystemExit('no error')"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
