"""Example inputs for models of `transformers`, made from their configuration: tokens, pixels, sound.

In: a model, its configuration, its folder. Out: the arguments of one call by name, always the same ones. Only what the
call of the model takes is made; what is made of numbers is drawn, for zeros would let units pass for one another.
"""

from __future__ import annotations

import inspect
import json
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..files import read_text

LENGTH = 8  # tokens, or frames of sound; enough for every position to have neighbours
SIDE = 224  # pixels, where neither the configuration nor the preprocessor says how many: what most were trained on
_FIRST = 5  # ids below are reserved by most tokenizers: padding, start, end, unknown, mask


def inputs_by_config(model: Any, config: Any, folder: Path) -> dict[str, Tensor]:
    """Example inputs for a model, by what its call takes.

    Raises:
        InputError: nothing is known of the model's main input.
    """
    taken = set(inspect.signature(model.forward).parameters)
    main = model.main_input_name
    makers = {"input_ids": _tokens, "pixel_values": _pixels, "input_values": _sound, "input_features": _features}
    if main not in makers:
        known = f"{', '.join(makers)} are"
        raise InputError(
            f"no inputs are known for {type(model).__name__}: its main input is {main}, and only {known} made; pass "
            f"--example-inputs with its {main}"
        )
    names = [main]
    if {"vision_config", "text_config"} <= set(vars(config)) and "pixel_values" in taken and _looks_both_ways(model):
        names = ["input_ids", "pixel_values"]
    inputs = {name: makers[name](_part(config, name), model, folder) for name in names}
    if config.is_encoder_decoder and "decoder_input_ids" in taken:
        inputs["decoder_input_ids"] = _tokens(config, model, folder)
    return inputs


def _looks_both_ways(model: Any) -> bool:
    """Whether a model compares images with texts, which come side by side, and does not speak of images."""
    return hasattr(model, "text_projection") or hasattr(model, "logit_scale")


def _part(config: Any, name: str) -> Any:
    """The configuration of the part of a model that reads a certain input."""
    return getattr(config, "text_config" if name == "input_ids" else "vision_config", None) or config


def _drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def _tokens(config: Any, model: Any, folder: Path) -> Tensor:
    """Token ids [2, 8]; one text alone for classifiers that find its end by padding and have none."""
    ends = type(model).__name__.endswith("ForSequenceClassification") and config.pad_token_id is None
    count = 1 if ends else 2
    return torch.arange(_FIRST, _FIRST + count * LENGTH).view(count, LENGTH) % int(config.vocab_size)


def _pixels(config: Any, model: Any, folder: Path) -> Tensor:
    """Pixels [2, channels, height, width]."""
    side = getattr(config, "image_size", None) or _preprocessed(folder) or SIDE
    height, width = (side, side) if isinstance(side, int) else side
    return _drawn(2, getattr(config, "num_channels", 3), height, width)


def _preprocessed(folder: Path) -> list[int] | None:
    """Height and width of the images that the preprocessor in a folder makes; nothing if it does not say."""
    path = folder / "preprocessor_config.json"
    try:
        content = json.loads(read_text(path)) if path.is_file() else {}
        size: Any = content.get("crop_size") or content.get("size")
        return [int(size["height"]), int(size["width"])]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _sound(config: Any, model: Any, folder: Path) -> Tensor:
    """Samples of sound [2, time], so many that a few frames are left; or a spectrogram [2, time, bins]."""
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):
        return _drawn(2, config.max_length, config.num_mel_bins)
    return _drawn(2, prod(config.conv_stride) * LENGTH + sum(config.conv_kernel))


def _features(config: Any, model: Any, folder: Path) -> Tensor:
    """A spectrogram: [2, bins, time] of the one length that Whisper takes, [2, time, bins] for other models."""
    if hasattr(config, "num_mel_bins"):
        return _drawn(2, config.num_mel_bins, 2 * config.max_source_positions)
    bins = getattr(config, "input_feat_per_channel", None) or config.feature_projection_input_dim
    return _drawn(2, 4 * LENGTH, bins)
