"""Files of mergekit, in the words of `transfuse run`.

In: the content of a YAML file. Out: the same with the keys and values of `config`, or one line that says why mergekit
is the tool for it. Keys that both have mean the same; those that only mergekit has are understood as far as they mean
something for networks that were trained independently of each other.
"""

from __future__ import annotations

from typing import Any

from ..errors import InputError

METHODS = {"linear": "vanilla"}  # what is called otherwise here
# Methods that work on differences to a common ancestor, or on the way from it.
ANCESTRAL = (
    "arcee_fusion", "breadcrumbs", "breadcrumbs_ties", "dare_linear", "dare_ties", "della", "della_linear", "karcher",
    "model_stock", "multislerp", "nearswap", "nuslerp", "sce", "slerp", "task_arithmetic", "ties",
)  # fmt: skip
IGNORED = ("int8_mask", "normalize")  # how masks are kept, which there are none of; shares are always normalised here


def in_own_words(content: dict[str, Any], path: str) -> dict[str, Any]:
    """The content of a file, as if it had been written for transfuse.

    Raises:
        InputError: it asks for what only mergekit does, or for what contradicts itself.
    """
    _check_purpose(content, path)
    found = dict(content)
    if isinstance(method := found.get("merge_method"), str):
        found["merge_method"] = METHODS.get(method, method)
    if "out_dtype" in found:
        found["dtype"] = found.pop("out_dtype")
    if isinstance(found.get("parameters"), dict):
        found["parameters"] = _parameters(found["parameters"], path)
    base = found.pop("base_model", None)
    if base is not None and isinstance(found.get("models"), list):
        found["models"] = _base_first(found["models"], base, path)
    if found.get("tokenizer_source") == "base":
        del found["tokenizer_source"]  # it comes from the first model, which the base is
    return found


def _check_purpose(content: dict[str, Any], path: str) -> None:
    """Refuse what does not fuse whole networks that were trained independently."""
    method = content.get("merge_method")
    if "slices" in content or "modules" in content or method == "passthrough":
        raise InputError(
            f"{path}: it puts layers of several models together (slices, modules, passthrough), and transfuse fuses "
            "whole networks of one architecture; use mergekit for it"
        )
    if method in ANCESTRAL:
        raise InputError(
            f"{path}: merge_method {method} is for models that were fine-tuned from a common ancestor, which networks "
            "trained independently do not have; use mergekit for it, or merge_method: auto here"
        )
    if content.get("tokenizer_source", "base") != "base" or "tokenizer" in content:
        raise InputError(
            f"{path}: it makes a tokenizer of several ones, and here rows of embeddings stay where they are; use "
            "mergekit for it, or leave tokenizer and tokenizer_source out: the tokenizer is that of the first model"
        )


def _parameters(parameters: dict[str, Any], path: str) -> dict[str, Any]:
    """Options of the method, without those that say what is the case here anyhow."""
    if parameters.get("normalize", True) is not True:
        raise InputError(
            f"{path}: normalize: {str(parameters['normalize']).lower()} adds models up instead of averaging them; use "
            "mergekit for it, or leave it out"
        )
    return {key: value for key, value in parameters.items() if key not in IGNORED}


def _base_first(models: list[Any], base: Any, path: str) -> list[Any]:
    """The models, the base before all others: configuration, tokenizer and names are taken from the first one."""
    first = [each for each in models if base == (each.get("model") if isinstance(each, dict) else each)]
    if not first:
        raise InputError(
            f"{path}: base_model {base} is none of the models; name it among them with its weight, or leave it out: "
            "networks that were trained independently have no ancestor"
        )
    return [*first, *(each for each in models if each not in first)]
