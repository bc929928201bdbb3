"""What measures networks: a function that `--evaluate` names, or loss and error on the labeled `--data`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from .data import inputs_and_labels
from .user_code import blaming, imported

METRICS = ("loss", "error", "accuracy")  # what is known of labeled data


def check_measures(options: Namespace) -> None:
    """Refuse to measure with nothing; looked at first, for it costs nothing."""
    if not options.data and not options.evaluate:
        raise InputError("something must measure the models: pass --data with labels, or --evaluate file.py:function")


def evaluation(options: Namespace, model: nn.Module) -> Callable[[nn.Module], Any]:
    """A function that measures models such as this one, the metric that counts first."""
    check_measures(options)
    metric = getattr(options, "metric", None)
    if options.evaluate:
        own = partial(_evaluated, imported(options.evaluate, "--evaluate"), options.evaluate)
        return partial(_led, own, metric) if metric else own
    inputs, labels = inputs_and_labels(options)
    if labels is None:
        raise InputError(f"--data {options.data} has no `labels`; add them, or pass --evaluate file.py:function")
    if metric not in (None, *METRICS):
        raise InputError(f"--metric {metric}: expected one of {', '.join(METRICS)}; for others pass --evaluate")
    known = labeled_evaluation(options, model, inputs, labels, accuracy=metric == "accuracy")
    return partial(_led, known, metric) if metric else known


def _led(function: Callable[[nn.Module], Any], metric: str, model: nn.Module) -> Any:
    """What a function says about a model, with a metric first."""
    found = function(model)
    values = found if isinstance(found, Mapping) else {"value": found}
    if metric not in values:
        raise InputError(f"--metric {metric}: --evaluate gives {', '.join(map(str, values))}; name one of them")
    return {metric: values[metric], **values}


def labeled_evaluation(
    options: Namespace, model: nn.Module, inputs: Tensor, labels: Tensor, *, accuracy: bool = False
) -> Callable[[nn.Module], Any]:
    """Loss and error on labeled inputs, and accuracy if it is wanted, once it is clear that the model takes them."""
    from ..landscape import classification, classification_with_accuracy, evaluator

    _check_labeled(model, inputs, labels, f"--data {options.data}")
    batches = list(zip(inputs.split(options.batch_size), labels.split(options.batch_size), strict=True))
    return evaluator(batches, scores=classification_with_accuracy if accuracy else classification)


def _evaluated(function: Callable[[nn.Module], Any], spec: str, model: nn.Module) -> Any:
    """What the user's function says about a model."""
    with blaming(f"--evaluate {spec} failed", "it is given a module, and returns a number or a dict of numbers"):
        return function(model)


def _check_labeled(model: nn.Module, inputs: Tensor, labels: Tensor, what: str) -> None:
    """Refuse inputs that the model does not take, and labels that are not those of its outputs."""
    if not len(inputs) or len(inputs) != len(labels):
        raise InputError(f"{what} has {len(inputs)} inputs and {len(labels)} labels; expected one label for each")
    shape = ",".join(map(str, inputs.shape[1:]))
    with (
        torch.no_grad(),
        blaming(
            f"{what}: the model cannot take inputs of shape {shape} and type {inputs.dtype}",
            "--input-shape changes the shape",
        ),
    ):
        outputs = model.eval()(inputs[:2])
    if not isinstance(outputs, Tensor):
        raise InputError(
            f"{what}: the model returns {type(outputs).__name__}, of which no loss is known; pass --evaluate "
            "file.py:function"
        )
    classes = outputs.shape[1] if outputs.dim() > 1 else 0
    if labels.is_floating_point() or int(labels.min()) < 0 or int(labels.max()) >= classes:
        raise InputError(
            f"{what}: labels of type {labels.dtype} from {labels.min():g} to {labels.max():g} for {classes} outputs; "
            f"expected whole numbers from 0 to {classes - 1}, or pass --evaluate file.py:function"
        )
