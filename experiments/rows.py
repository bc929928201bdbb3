"""The rows of all tables, by name: what is done with a group of base networks.

`epsilon` and `alpha` in a grid are chosen for each group by validation accuracy; a profile says among which values.
"""

from __future__ import annotations

from typing import Any

from transfuse import CORRECTIONS

from .records import Row


def _fuse(title: str, *grid: str, unlabeled: int = 0, without: tuple[str, ...] = (), **options: Any) -> Row:
    return Row(title, "fuse", options, grid, unlabeled, without)


def _counted(name: str, unlabeled: int) -> str:
    """The name of a row with a number of unlabeled inputs."""
    return f"{name}-{unlabeled}" if unlabeled else name


def _by(unlabeled: int) -> str:
    return f", {unlabeled} unlabeled inputs" if unlabeled else ", synthetic inputs"


UNLABELED = (10, 50, 100, 500, 2000)
CORRECTED = ("vanilla", "wb", "auto", "activation")
ENDS = ("none", *CORRECTIONS)
PLAIN = "couplings only"
PROXIMAL = 0.001  # FedProx's mu: of 0.001, 0.01 and 0.1 the best by validation examples, see docs/notes/federated.md
GIVEN = (0, 100, 500)  # unlabeled inputs that corrections and controls are compared with; 0: synthetic ones
FEW = 10  # unlabeled inputs that transformers are tried with, too
CHOSEN = [name for name in ("refit", "selection") if name in CORRECTIONS]  # corrections that are compared with controls

ROWS: dict[str, Row] = {
    "base": Row("base networks, mean", "base"),
    "first": Row("the first parent", "parent", {"number": 0}),
    "second": Row("the second parent", "parent", {"number": 1}),
    "better": Row("the better parent", "better"),
    **{
        _counted("control", count): Row(f"one parent, last layer refitted{_by(count)}", "control", unlabeled=count)
        for count in (*GIVEN, FEW)
    },
    "control-given": Row("one parent, last layer refitted by the same inputs", "control"),  # as many as the cell says
    "ensemble": Row("ensemble of the base networks", "ensemble"),
    "mean": Row("mean of the base networks' outputs", "mean"),
    "vanilla": _fuse("vanilla average", method="vanilla"),
    "fedma": _fuse("one-shot FedMA", method="fedma"),
    "ot": _fuse("OT", method="ot"),
    "ot-random": _fuse("OT, random start", method="ot", start="random"),
    "ot-distilled": _fuse("OT, distilled start", method="ot", start="distilled"),
    "wb": _fuse("WB", "epsilon", method="wb"),
    "wb-random": _fuse("WB, random start", "epsilon", method="wb", start="random"),
    "wb-distilled": _fuse("WB, distilled start", "epsilon", method="wb", start="distilled"),
    "gwb": _fuse("GWB", "epsilon", "alpha", method="gwb"),
    "rebasin": _fuse("re-basin", method="rebasin"),
    "c2m3": _fuse("C2M3", method="c2m3"),
    "clafusion": _fuse("CLAFusion", method="clafusion"),
    "procrustes": _fuse("rotations by weights", method="procrustes"),
    "auto-plain": _fuse(f"auto, {PLAIN}", method="auto", correct="none"),
    "auto": _fuse("auto", method="auto"),
    "distilled": _fuse("auto, then distilled", method="auto", correct="distill"),
    # What each part of `auto` buys: one of them left out.
    "no-signs": _fuse(f"auto, {PLAIN}, no signs", method="auto", correct="none", without=("signs",)),
    "no-scales": _fuse(f"auto, {PLAIN}, no scales", method="auto", correct="none", without=("scales",)),
    "no-restarts": _fuse(f"auto, {PLAIN}, no shuffled starts", method="auto", correct="none", restarts=0),
    "more-restarts": _fuse(f"auto, {PLAIN}, 8 shuffled starts", method="auto", correct="none", restarts=8),
    "random-start": _fuse(f"auto, {PLAIN}, random start", method="auto", correct="none", start="random"),
    "one-sweep": _fuse(f"auto, {PLAIN}, one sweep", method="auto", correct="none", sweeps=1),
    "incoming": _fuse("incoming weights only (GWB, exact)", method="gwb"),
    # Clients that train in rounds, or alone to the end.
    "fedavg": Row("FedAvg", "federated", {"method": "vanilla"}),
    "fedprox": Row("FedProx", "federated", {"method": "vanilla", "mu": PROXIMAL}),
    "fedavg-500": Row(
        "FedAvg, refit after the first by 500 unlabeled inputs",
        "federated",
        {"method": "vanilla", "correct": "refit", "until": 1},
        unlabeled=500,
    ),
    "rounds-auto": Row("auto in every round", "federated", {"method": "auto"}),
    "rounds-auto-500": Row(
        "auto in every round, refit after the first by 500 unlabeled inputs",
        "federated",
        {"method": "auto", "correct": "refit", "until": 1},
        unlabeled=500,
    ),
    "rounds-rematch": Row(
        "auto, narrower clients follow their last reply", "federated", {"method": "auto", "rematch": True}
    ),
    "rounds-apart": Row("FedAvg, each width alone", "federated", {"method": "vanilla", "apart": True}),
    "alone-fedma": Row("one-shot FedMA after training alone", "federated", {"method": "fedma", "alone": True}),
    "alone-auto": Row("one-shot auto after training alone", "federated", {"method": "auto", "alone": True}),
    # What lies between two networks.
    "plane-wb": Row("WB", "landscape", {"method": "wb"}),
    "plane-gwb": Row("GWB", "landscape", {"method": "gwb"}),
    "plane-rebasin": Row("re-basin", "landscape", {"method": "rebasin"}),
    "plane-auto": Row("auto", "landscape", {"method": "auto"}),
}
ROWS |= {
    f"auto-{count}": _fuse(f"auto, {count} unlabeled inputs", unlabeled=count, method="auto") for count in UNLABELED
}
ROWS |= {
    f"{method}+{correct}": _fuse(
        f"{method}, {correct}", unlabeled=500, method=method, correct=correct,
        terms="activations" if method == "activation" else "weights",
    )
    for method in CORRECTED
    for correct in ENDS
}  # fmt: skip
ROWS |= {
    f"matched+{correct}": _fuse(
        f"auto, matched with the inputs, {correct}", unlabeled=500, method="auto", correct=correct, terms="both"
    )
    for correct in ENDS
}
ROWS |= {
    _counted(correct, count): _fuse(f"{correct}{_by(count)}", unlabeled=count, method="auto", correct=correct)
    for correct in CHOSEN
    for count in (*GIVEN, FEW)
}
ROWS |= {
    f"activation-{count}": _fuse(
        f"matched by activations of {count} unlabeled inputs", unlabeled=count, method="activation", correct="none",
        terms="activations",
    )
    for count in (FEW, *GIVEN[1:])
}  # fmt: skip
# The dial between one network and all of them: results that are wider than a parent.
ROWS |= {
    _counted(f"wide-{width}", count): _fuse(
        f"auto, {width} times as wide{_by(count)}", unlabeled=count, method="auto", target=width
    )
    for width in (1.25, 1.5)
    for count in (0, 500)
}
ROWS["distilled-500"] = _fuse(f"auto, then distilled{_by(500)}", unlabeled=500, method="auto", correct="distill")
# Parents with outputs for other classes, and networks with outputs for all of them.
JOINED_WIDTHS = (1.0, 1.5, 2.0)
JOINED_GIVEN = (0, 500)  # unlabeled inputs; 0: synthetic ones, but for outputs side by side, which are as they are then
ROWS |= {"joined-better": Row("the better parent, on all classes", "union", {"what": "better"})}
ROWS |= {
    _counted("joined-control", count): Row(
        f"one parent, last layer refitted to all outputs{_by(count)}", "union", {"what": "control"}, unlabeled=count
    )
    for count in JOINED_GIVEN
}
ROWS |= {
    "joined-vanilla": Row(
        "vanilla average, heads joined", "union", {"what": "fuse", "method": "vanilla", "correct": "none"}
    ),
    "joined-plain": Row(f"auto, heads joined, {PLAIN}", "union", {"what": "fuse", "method": "auto", "correct": "none"}),
}
ROWS |= {
    _counted(f"joined-{width}", count): Row(
        f"auto, heads joined, width {width}{_by(count)}", "union",
        {"what": "fuse", "method": "auto", **({} if width == 1.0 else {"target": width})}, unlabeled=count,
    )
    for width in JOINED_WIDTHS
    for count in JOINED_GIVEN
}  # fmt: skip
ROWS |= {
    "joined-ensemble": Row("outputs of both parents, side by side", "union", {"what": "ensemble"}),
    "joined-ensemble-500": Row(
        "the same, calibrated by 500 unlabeled inputs", "union", {"what": "ensemble"}, unlabeled=500
    ),
}
JOINED = tuple(name for name, row in ROWS.items() if row.kind == "union")
CONTROLS = ("better", *(_counted("control", count) for count in GIVEN), "ensemble", "mean")
SELECTED = ("selection", "selection-500") if "selection" in CORRECTIONS else ()
MADE = ("auto-plain", *(_counted(correct, count) for correct in CHOSEN for count in GIVEN))
MATCHED = tuple(f"activation-{count}" for count in (FEW, *GIVEN[1:]))
BY_FEW = tuple(f"{name}-{FEW}" for name in ("control", *CHOSEN))
WIDER = ("wide-1.25", "wide-1.5", "wide-1.5-500")
