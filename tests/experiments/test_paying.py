"""The page on when fusing pays has the figures that the lines give, and counts a gain over the best that is kept."""

from pathlib import Path

import pytest
from experiments.paying import BEGIN, END, comparison, filled
from experiments.tables import all_lines

from transfuse import InputError

ROOT = Path(__file__).parents[2]
CELL = "MNIST MLPNet, halves"


def lines(cell=CELL, experiment="different", **rows):
    """Lines of a cell: for each row the accuracies of its groups."""
    return [
        {"profile": "cpu", "experiment": experiment, "cell": cell, "row": row.replace("_", "-"), "group": group,
         "metrics": {"accuracy": value}}
        for row, values in rows.items()
        for group, value in enumerate(values)
    ]  # fmt: skip


def test_the_page_has_what_the_lines_give():
    page = (ROOT / "docs" / "when-fusing-pays.md").read_text(encoding="utf-8")
    assert filled(page, all_lines(ROOT / "experiments" / "results")) == page, "run python -m experiments page"


def test_a_gain_is_over_the_better_of_parent_and_control_in_each_pair():
    text = comparison(lines(better=(50.0, 60.0), control_500=(55.0, 40.0), refit_500=(65.0, 66.0)))
    assert f"| {CELL} | 2 | 55.00 | 47.50 |  | 65.50 |  | **+8.00** (+6.00 to +10.00) |" in text


def test_selection_counts_before_the_refit_where_it_was_measured():
    own = lines(better=(50.0,), control_500=(50.0,), refit_500=(60.0,), selection_500=(40.0,))
    assert "**-10.00**" in comparison(own)


def test_parents_that_know_different_things_have_a_table_of_their_own():
    own = lines(better=(50.0,), control_500=(50.0,), refit_500=(60.0,))
    one = lines("MNIST MLPNet", "table1", better=(98.0,), control_500=(98.0,), refit_500=(98.0,))
    text = comparison([*one, *own])
    different, same = text.index("#### Parents that know different things"), text.index("#### Parents of one task")
    assert different < text.index(f"| {CELL} |") < same < text.index("| MNIST MLPNet |")


def test_of_a_curve_by_proportions_the_even_ones_are_shown():
    rows = {"better": (50.0,), "control_500": (50.0,), "selection_500": (60.0,)}
    own = [line for share in ("0.2", "0.5") for line in lines(f"MLPNet, {share}", "heterogeneous", **rows)]
    assert "| MLPNet, 0.5 |" in comparison(own)
    assert "| MLPNet, 0.2 |" not in comparison(own)


def test_what_has_no_control_has_no_line():
    assert comparison(lines(better=(50.0,), refit_500=(60.0,))) == ""


def test_a_wider_target_is_compared_with_what_is_kept_of_the_same_parents():
    parents, wide = lines(better=(50.0,), control_500=(55.0,)), f"{CELL}, 1.5 wide"
    text = comparison(
        [*parents, *lines(wide, refit_500=(65.0,)), *lines("MNIST CNN, halves, 1.5 wide", refit_500=(9.0,))]
    )
    assert f"| {wide} | 1 | 50.00 | 55.00 |  | 65.00 |  | **+10.00** (+10.00 to +10.00) |" in text
    assert "CNN" not in text


def test_of_two_experiments_the_one_with_more_pairs_counts():
    few = lines("CIFAR-10 VGG11", "table1", better=(50.0,), control=(50.0,), refit=(60.0,))
    more = lines("CIFAR-10 VGG11", "convolutional", better=(50.0,) * 2, control=(50.0,) * 2, refit=(60.0, 70.0))
    for found in ([*few, *more], [*more, *few]):
        assert comparison(found).count("| CIFAR-10 VGG11 | 2 | 50.00 | 50.00 |  | 65.00 |") == 1


def test_only_pairs_that_have_everything_count():
    text = comparison(lines(better=(50.0, 60.0), control_500=(50.0,), refit_500=(60.0, 90.0)))
    assert f"| {CELL} | 1 | 50.00 |" in text


def test_a_page_keeps_what_stands_around_its_tables():
    page = filled(f"before\n{BEGIN}\nold\n{END}\nafter\n", [])
    assert page == f"before\n{BEGIN}\n\n{END}\nafter\n"
    assert filled(page, []) == page


def test_a_page_without_marks_is_refused():
    with pytest.raises(InputError, match="has not one line"):
        filled("nothing", [])
