"""What an experiment is made of, as plain records: data, training, setting, row, cell, experiment.

Nothing here runs anything. A configuration is the record as a dictionary; what a profile does otherwise than the paper
is the difference of two configurations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .plain import as_plain

PAIR = 2  # networks that may share a start
View = Literal["image", "channels", "rows", "words", "characters"]


@dataclass(frozen=True)
class Skill:
    """Which part of the training data a network sees (Section 4.1).

    Args:
        digit: The digit that only one of two networks knows.
        knows: Whether this one does.
        share: Of the other digits, the share that this one sees.
    """

    digit: int
    knows: bool
    share: float


@dataclass(frozen=True)
class Classes:
    """The classes whose examples a network sees; it sees all of them, and none of the others.

    Args:
        classes: Numbers of the classes.
    """

    classes: tuple[int, ...]


@dataclass(frozen=True)
class OwnClasses:
    """The classes whose examples a network sees, and for which alone it has outputs.

    Args:
        own: Numbers of the classes in the data set, in the order of the outputs.
    """

    own: tuple[int, ...]


@dataclass(frozen=True)
class Dirichlet:
    """A network sees a random share of every class; the networks of a group share no example.

    The shares of a class are drawn from a Dirichlet distribution, as is usual in federated learning (Hsu, Qi and Brown
    2019, arXiv:1909.06335): the smaller the concentration, the more of a class falls to one network alone.

    Args:
        concentration: Of the distribution.
        part: The number of this network in its group, from 0.
        parts: How many networks there are in a group.
        draw: Seed of the shares; every group has a draw of its own (`Setting.seen_by`).
    """

    concentration: float
    part: int
    parts: int = 2
    draw: int = 0


Shares = Literal["iid", "dirichlet", "disjoint"]


@dataclass(frozen=True)
class Clients:
    """The clients of a federation.

    Args:
        count: How many there are.
        shares: How the examples are dealt: at random, by Dirichlet shares of every class, or sorted by class and cut
            into equal pieces.
        same_start: Whether all train what the server sends from the first round on; if not, each begins with random
            weights of its own.
        concentration: Of the Dirichlet shares.
    """

    count: int
    shares: Shares
    same_start: bool
    concentration: float = 0.5


@dataclass(frozen=True)
class Data:
    """What is learnt from.

    Args:
        name: Of the data set.
        view: How a network sees an input: `image`, or an image with a dimension for its `channels` even if there is
            one, or `rows` of an image as a sequence, or `words`, or `characters`, each of which is to be foretold.
        train: How many training examples are used; None for all that remain beside the validation examples.
        test: How many test examples are used; None for all.
        validation: How many training examples are kept away from training, to choose hyper-parameters by.
        length: Of texts, in words or characters.
        vectors: Dimensions of the GloVe vectors.
        projected_from: Dimensions of the vectors that were projected to `vectors` principal components; None: none.
        skill: The part that the network sees; None for all.
    """

    name: str
    view: View = "image"
    train: int | None = None
    test: int | None = None
    validation: int = 5000
    length: int | None = None
    vectors: int | None = None
    projected_from: int | None = None
    skill: Skill | Classes | OwnClasses | Dirichlet | None = None


@dataclass(frozen=True)
class Training:
    """How a base network is trained.

    Args:
        optimiser: `sgd` or `adam` (its momentum is the first beta).
        rate: The learning rate at the start; at the top for one cycle.
        epochs: Passes over the data.
        batch: Examples in a step.
        momentum: Of the optimiser.
        decay: Weight decay.
        schedule: `constant`; `steps`: the rate times `factor` at the start of each epoch of `milestones`; `cycle`.
        milestones: Epochs, counted from 0.
        factor: Of the rate at a milestone.
        clip: Largest norm of a gradient; None for any.
        augment: Flip and shift images.
        keep: The network of the `last` epoch, or of the `best` by validation accuracy.
        precision: Of products and convolutions: `single`, or `mixed`, which rounds what they multiply to bfloat16 and
            is twice as fast where processors know it; weights are kept in single precision.
        initial: How weights begin: as the `layers` of PyTorch make them, or by `he` (He et al. 2015), so that a signal
            keeps its size from layer to layer.
    """

    optimiser: Literal["sgd", "adam"]
    rate: float
    epochs: int
    batch: int
    momentum: float = 0.9
    decay: float = 0.0
    schedule: Literal["constant", "steps", "cycle"] = "constant"
    milestones: tuple[int, ...] = ()
    factor: float = 1.0
    clip: float | None = None
    augment: bool = False
    keep: Literal["last", "best"] = "last"
    precision: Literal["single", "mixed"] = "single"
    initial: Literal["layers", "he"] = "layers"

    def choices(self) -> dict[str, Any]:
        """All that is chosen, as JSON has it; precision and initial weights are said only if they are not the usual."""
        usual = {"precision": "single", "initial": "layers"}
        return {name: value for name, value in as_plain(self).items() if usual.get(name, ...) != value}


@dataclass(frozen=True)
class Build:
    """A network by name, with the sizes that are not its defaults."""

    name: str
    sizes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Start:
    """The trained network that a training goes on from.

    Args:
        name: Of its setting.
        setting: How it was trained itself.
        shared: Whether both networks of a pair go on from the same one; if not, each has a start of its own seed.
    """

    name: str
    setting: Setting
    shared: bool

    def seed(self, seed: int) -> int:
        """The seed of the start of the network with a seed: pairs are 0 and 1, 2 and 3, ..."""
        return seed // PAIR if self.shared else seed


@dataclass(frozen=True)
class Setting:
    """Base networks of one kind.

    Args:
        network: What is built.
        data: What it learns from.
        training: How.
        networks: How many base networks there are, with seeds from 0; groups are made of them.
        files: Other names under which networks of this kind are found in a folder.
        start: The trained network that the training goes on from; None: random weights.
    """

    network: Build
    data: Data
    training: Training
    networks: int
    files: tuple[str, ...] = ()
    start: Start | None = None

    def seen_by(self, seed: int) -> Data:
        """What the network with a seed learns from: both networks of a pair have the same draw of shares."""
        if not isinstance(self.data.skill, Dirichlet):
            return self.data
        return replace(self.data, skill=replace(self.data.skill, draw=seed // self.data.skill.parts))

    def in_mixed_precision(self) -> Setting:
        """The same networks, trained with products rounded to bfloat16, and so where they start."""
        start = self.start and replace(self.start, setting=self.start.setting.in_mixed_precision())
        return replace(self, training=replace(self.training, precision="mixed"), start=start)

    def choices(self) -> dict[str, Any]:
        """All that is chosen, as JSON has it; where a training starts is said only if it is a trained network."""
        chosen = {"network": self.network, "data": self.data, "training": self.training.choices()}
        start = {} if self.start is None else {"start": {"shared": self.start.shared, **self.start.setting.choices()}}
        return dict(as_plain({**chosen, **start}))

    def base(self, seed: int) -> dict[str, Any]:
        """All that decides what a base network becomes."""
        return {**self.choices(), "seed": seed}


@dataclass(frozen=True)
class Row:
    """One line of a table: something that is done with a group of base networks.

    Args:
        title: In tables.
        kind: `base`, `parent`, `better` and `ensemble` measure the networks, `mean` the mean of their outputs,
            `control` the nearest of them with its last layer refitted, `fuse` one that is made of them, `landscape`
            what lies between; `federated` trains clients in rounds; `union` has outputs for the classes of all parents.
        options: Of `transfuse.fuse`; the `number` of a parent; of a federation the `method`, `correct`, FedProx's `mu`,
            whether clients train `alone` to the end, whether narrower ones are sent what follows their last reply
            (`rematch`), and whether those of each width stay `apart`; of a union, `what` is done.
        grid: Options that are chosen by validation accuracy; the profile has the values.
        unlabeled: How many training inputs are given, without their labels.
        without: Symmetries that are taken out of the layout: `signs`, `scales`.
    """

    title: str
    kind: Literal[
        "base", "parent", "better", "control", "ensemble", "mean", "fuse", "landscape", "federated", "union"
    ] = "fuse"
    options: Mapping[str, Any] = field(default_factory=dict)
    grid: tuple[str, ...] = ()
    unlabeled: int = 0
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Amount:
    """How much of something the fusions of a cell get, whatever their rows say.

    Args:
        width: How many times as wide as the first model the result is; None: as wide.
        images: How many unlabeled inputs there are; None: as the row says.
        synthetic: How many synthetic inputs there are, in place of data; None: as many as `fuse` makes.
    """

    width: float | None = None
    images: int | None = None
    synthetic: int | None = None


@dataclass(frozen=True)
class Cell:
    """One column of a table: base networks, how many, and into what.

    Args:
        title: In tables.
        settings: Names of settings: of all models, or one for each.
        rows: Names of rows.
        models: How many are fused.
        target: A setting whose network gives the widths of the result; None: those of the first model.
        weights: Proportions of the models; None: equal.
        place: Where the cell stands on the horizontal axis of a figure; None: nowhere.
        family: Cells of one family are one panel of a figure.
        turns: In every second group the models are in reverse order: which one the target starts with is then not
            always the same.
        clients: The clients, if the cell is a federation; its settings are then those of the clients in turn, the
            widest first, and nothing is trained before.
        amount: How much of something the fusions get; None: as the rows say.
    """

    title: str
    settings: tuple[str, ...]
    rows: tuple[str, ...]
    models: int = 2
    target: str | None = None
    weights: tuple[float, ...] | None = None
    place: float | None = None
    family: str = ""
    turns: bool = False
    clients: Clients | None = None
    amount: Amount | None = None


@dataclass(frozen=True)
class Experiment:
    """A table (or a figure): its cells.

    Args:
        title: In tables.
        cells: Its columns.
        apart: Every family of cells has a table of its own.
    """

    title: str
    cells: tuple[Cell, ...]
    apart: bool = False
