"""Sizes in the configuration of a folder of transformers, for a result that is wider or narrower than its first input.

In: a configuration, and the shapes of the result. Out: a configuration of which transformers builds a model with these
shapes, found by trying: a size that stands in the configuration is replaced where tensors have another one now. Only
shapes are made, no numbers. Most families know one size for all layers: other widths in each cannot be written.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, islice, product
from typing import Any

import torch

from ..errors import InputError, listing
from .transformers_models import CONFIG, model_class

Shapes = Mapping[str, tuple[int, ...]]
Field = tuple[str, ...]  # keys that lead to a value in a configuration
TRIES = (
    200  # models that are built, of shapes alone, in search of sizes: seconds for a small one, a minute for a large one
)


def described_shapes(config: Any, kind: Any = None) -> dict[str, tuple[int, ...]]:
    """The shapes of all tensors in the state of the model that a configuration describes, of a class if given."""
    with torch.device("meta"):
        model = (kind or model_class(config))(config)
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def sizes_for(config: Any, wanted: Shapes, accept: Callable[[Any], bool] = lambda config: True) -> dict[Field, int]:
    """Values of a configuration with which its model has these shapes; none, if it has them already.

    Args:
        config: A configuration of transformers; it stays as it is.
        wanted: Shapes by the names of the module.
        accept: Whether a configuration will do: several may have the same shapes, with other numbers of heads.

    Raises:
        InputError: no values of its sizes give these shapes; it names tensors that differ.
    """
    own = described_shapes(config)
    fewest = _differences(own, wanted)
    if not fewest:
        return {}
    beside = own.keys() - wanted.keys()
    for changes in islice(_candidates(config.to_dict(), own, wanted), TRIES):
        tried = configured(config, changes)
        try:
            found = described_shapes(tried)
            differing = _differences(found, wanted)
            if not differing and found.keys() - wanted.keys() == beside:
                if accept(tried):
                    return changes
                differing = [f"with {told_sizes(changes)} the shapes fit, but it is another network that has them"]
        except (ValueError, ArithmeticError, RuntimeError, TypeError, AssertionError, LookupError):
            continue  # sizes that do not go together
        fewest = min(fewest, differing or fewest, key=len)
    raise InputError(
        listing(
            f"no sizes in {CONFIG} describe a result of these widths, so transformers could not load it; with the "
            "nearest ones:",
            fewest[:5],
        )
        + "\nWiden all layers alike (--target 'PATTERN=WIDTH' for a space of every layer), or write a file, no "
        "folder (-o OUT.safetensors)"
    )


def told_sizes(sizes: Mapping[Field, Any]) -> str:
    """Values of a configuration as text; of names of outputs, how many there are.

    Example:
        >>> told_sizes({("text_config", "hidden_size"): 48, ("n_head",): 8})
        'text_config.hidden_size 48, n_head 8'
    """
    told = {keys: f"of {len(value)}" if isinstance(value, dict) else value for keys, value in sizes.items()}
    return ", ".join(f"{'.'.join(keys)} {value}" for keys, value in told.items())


def _differences(own: Shapes, wanted: Shapes) -> list[str]:
    return [
        f"{name} would be {list(own.get(name, ()))}, and is {list(shape)}"
        for name, shape in wanted.items()
        if own.get(name) != shape
    ]


def _candidates(content: Mapping[str, Any], own: Shapes, wanted: Shapes) -> Iterator[dict[Field, int]]:
    """Values of sizes to be tried, the fewest changes first."""
    resized = sorted(
        {
            (before, after)
            for name, shape in wanted.items()
            for before, after in zip(own.get(name, ()), shape, strict=False)
            if before != after
        }
    )
    before = dict(_sizes(content))
    choices = {field: found for field, value in before.items() if (found := _values(value, resized))}
    for count in range(1, len(choices) + 1):
        for fields in combinations(choices, count):
            for values in product(*(choices[field] for field in fields)):
                yield dict(zip(fields, values, strict=True))


def _values(value: int, resized: list[tuple[int, int]]) -> list[int]:
    """What may become of a size: the new one of an axis that had it, or a share of that, such as a number of heads."""
    equal = [after for before, after in resized if before == value]
    shares = [
        after * value // before for before, after in resized if before % value == 0 and after * value % before == 0
    ]
    return [each for each in dict.fromkeys([*equal, *shares]) if each > 0 and each != value]


def _sizes(content: Mapping[str, Any], path: Field = ()) -> Iterator[tuple[Field, int]]:
    """All whole numbers above 1 in a configuration and those of its parts, with the keys that lead to them.

    Numbers of tokens and of labels are none of them: they name what networks read and tell.
    """
    for key, value in content.items():
        if isinstance(value, dict) and key.endswith("_config"):
            yield from _sizes(value, (*path, key))
        elif isinstance(value, int) and not isinstance(value, bool) and value > 1 and not key.endswith("_id"):
            yield (*path, key), value


def configured(config: Any, changes: Mapping[Field, Any]) -> Any:
    """A copy of a configuration with other values."""
    changed = copy.deepcopy(config)
    for (*parts, last), value in changes.items():
        place = changed
        for part in parts:
            place = place[part] if isinstance(place, dict) else getattr(place, part)
        if isinstance(place, dict):
            place[last] = value
        else:
            setattr(place, last, value)
    return changed
