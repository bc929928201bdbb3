"""Scores of a network on labelled data: `evaluator(data)` makes `evaluate(model) -> {"loss": ..., "error": ...}`.

In: batches. Out: a function of a module that gives means over all targets, each counted once however the data is cut
into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..arguments import DEVICE, FUNCTION, ITERABLE, SWITCH, check_arguments, optional
from ..errors import InputError
from ..modules import evaluating

Scores = Callable[[Any, Any], Mapping[str, Tensor]]
OutputsAndTargets = Callable[[nn.Module, Any], tuple[Any, Any]]
# Words in names of metrics that say whether more or less is better; of others nobody can say.
MORE = frozenset("accuracy acc top1 top5 precision recall f1 auc auroc bleu rouge r2 psnr ssim iou dice map".split())
LESS = frozenset("loss error perplexity ppl nll mse mae rmse entropy distance divergence barrier wer cer fid".split())
IGNORED = -100  # the target by which torch marks what does not count, such as padding


def classification(outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Cross-entropy, and 100 where the largest output is not the target: one number for each target.

    Outputs are [batch, classes, ...], targets class numbers [batch, ...]. Targets of -100 do not count.

    Example:
        >>> scores = classification(torch.tensor([[0.0, 9.0], [9.0, 0.0]]), torch.tensor([1, 1]))
        >>> scores["error"]
        tensor([  0., 100.])
    """
    counted = targets != IGNORED
    losses = nn.functional.cross_entropy(outputs, targets, reduction="none", ignore_index=IGNORED)
    return {"loss": losses[counted], "error": 100.0 * (outputs.argmax(1) != targets)[counted].float()}


def classification_with_accuracy(outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """What `classification` gives, and the accuracy: 100 where the largest output is the target.

    Example:
        >>> scores = classification_with_accuracy(torch.tensor([[0.0, 9.0], [9.0, 0.0]]), torch.tensor([1, 1]))
        >>> scores["accuracy"]
        tensor([100.,   0.])
    """
    scores = classification(outputs, targets)
    return {**scores, "accuracy": 100.0 - scores["error"]}


def more_is_better(metric: str) -> bool:
    """Whether larger values of a metric are better ones, as its name tells.

    Example:
        >>> more_is_better("top-5 accuracy"), more_is_better("accuracy loss"), more_is_better("value")
        (True, False, False)
    """
    return bool(_words(metric) & MORE) and not _words(metric) & LESS


def less_is_better(metric: str) -> bool:
    """Whether smaller values of a metric are better ones, as its name tells.

    Example:
        >>> less_is_better("test loss"), less_is_better("accuracy loss"), less_is_better("value")
        (True, False, False)
    """
    return bool(_words(metric) & LESS) and not _words(metric) & MORE


def _words(metric: str) -> set[str]:
    return set("".join(each if each.isalnum() else " " for each in metric.lower()).split())


def outputs_and_targets(model: nn.Module, batch: Any) -> tuple[Any, Any]:
    """What a model gives for the inputs of a pair (inputs, targets), and the targets.

    Inputs are a tensor, a tuple (or list) of positional arguments, or a dict of keyword arguments.

    Raises:
        InputError: the batch is not a pair.
    """
    if not (isinstance(batch, tuple | list) and len(batch) == 2):
        raise InputError(
            f"a batch is {_told(batch)}; expected a pair (inputs, targets). For other batches pass "
            "forward=, a function of a model and a batch that gives outputs and targets"
        )
    inputs, targets = batch
    if isinstance(inputs, Mapping):
        return model(**inputs), targets
    return model(*inputs) if isinstance(inputs, tuple | list) else model(inputs), targets


@dataclass(frozen=True, eq=False, repr=False)
class Evaluator:
    """A function of a module that gives the means of scores over batches; `evaluator` makes it."""

    batches: Iterable[Any]
    scores: Scores
    forward: OutputsAndTargets

    def __repr__(self) -> str:
        """What is measured, and on how many batches; the data would fill a screen."""
        count = f"{len(self.batches)} batches" if isinstance(self.batches, Sized) else "batches"
        return f"evaluator by {getattr(self.scores, '__name__', type(self.scores).__name__)} on {count}"

    @property
    def measures_classes(self) -> bool:
        """Whether outputs are class scores: the measure is loss, error or accuracy, and none of the user's own."""
        return self.scores in (classification, classification_with_accuracy)

    def __call__(self, model: nn.Module) -> dict[str, float]:
        """The mean of each score of a module, in evaluation mode and without gradients."""
        first = next(model.parameters(), None)
        device = torch.device("cpu") if first is None else first.device
        sums: dict[str, float] = {}
        counts: dict[str, int] = {}
        with torch.no_grad(), evaluating(model):
            for batch in self.batches:
                for name, each in self.scores(*self.forward(model, moved(batch, device))).items():
                    sums[name] = sums.get(name, 0.0) + float(each.sum())
                    counts[name] = counts.get(name, 0) + each.numel()
        if not counts or not all(counts.values()):
            raise InputError(
                "there is nothing to evaluate on: the data gave no batch, or no target that counts (all are -100); "
                "give labelled data that can be read more than once"
            )
        return {name: total / counts[name] for name, total in sums.items()}


def evaluator(
    data: Iterable[Any], *, scores: Scores = classification, forward: OutputsAndTargets = outputs_and_targets,
    keep: bool = True, device: torch.device | str | None = None,
) -> Evaluator:  # fmt: skip
    """Make `evaluate(model)` from batches of labelled data: it gives cross-entropy and error in percent.

    Args:
        data: Pairs (inputs, targets): a `DataLoader`, a list, any iterable.
        scores: Another measure: from outputs and targets to one number for each target, by name.
        forward: For other batches: from a model and a batch to outputs and targets.
        keep: Read the data once and keep the batches in memory: a landscape evaluates hundreds of times. Without, the
            data is read again for every network, so it must be possible to iterate over it again.
        device: Where kept batches are stored; default: where they are. They are moved to the model's device when used.

    Example:
        >>> data = [(torch.eye(3), torch.tensor([0, 1, 2])), (torch.eye(3)[:1], torch.tensor([2]))]
        >>> evaluator(data)(nn.Identity())["error"]
        25.0
    """
    check_arguments(
        data=(data, ITERABLE), scores=(scores, FUNCTION), forward=(forward, FUNCTION), keep=(keep, SWITCH),
        device=(device, optional(DEVICE)),
    )  # fmt: skip
    if not keep and isinstance(data, Iterator):
        raise InputError("data is an iterator, which can be read once only; give a DataLoader or a list, or keep=True")
    batches = [moved(batch, device) for batch in data] if keep else data
    if keep and not batches:
        raise InputError("data gave no batch; expected pairs (inputs, targets)")
    return Evaluator(batches, scores, forward)


def moved(batch: Any, device: torch.device | str | None) -> Any:
    """A batch with its tensors on a device; without a device the batch as it is."""
    return batch if device is None else pytree.tree_map_only(Tensor, lambda tensor: tensor.to(device), batch)


def _told(batch: Any) -> str:
    """The type of a batch, with its length if it has parts."""
    length = f" of {len(batch)}" if isinstance(batch, tuple | list | dict) else ""
    return type(batch).__name__ + length
