"""The model card of a result: what was done to which files, in Markdown, with the header that model hubs read.

In: the provenance of a result and, for a folder of transformers, its configuration. Out: a text. Like the provenance it
depends neither on the time nor on the machine's folders.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import printable
from .model_hubs import CARD
from .provenance import Provenance
from .records import size_told

TEXTS = {
    "fuse": (
        "Fused from {count} independently trained networks of one architecture. Units were matched by\n"
        "`{method}` ({citation}), carried to a common order and averaged.",
        "Its tensors have the names of those of the first input; unless another width or type was asked for, it is\n"
        "loaded wherever that one is. Its accuracy was not measured by writing it: before use, compare it with its\n"
        "inputs on data of yours.",
    ),
    "align": (
        "The network with share 1 below, its units brought to the order (and scale) of the other one's, to which they\n"
        "were matched by `{method}` ({citation}).",
        "It computes what it did before, up to rounding, and is loaded wherever it was. It may now be averaged\n"
        "with, or compared to, the network to which it was aligned.",
    ),
}


# What a model is for, as model hubs call it, by a part of the name of its class; the first that is there counts.
TASKS = {
    "WhisperForConditionalGeneration": "automatic-speech-recognition",
    "Speech2TextForConditionalGeneration": "automatic-speech-recognition",
    "ForCausalLM": "text-generation",
    "LMHeadModel": "text-generation",
    "ForConditionalGeneration": "text2text-generation",
    "ForMaskedLM": "fill-mask",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
    "ForMultipleChoice": "multiple-choice",
    "ForImageClassification": "image-classification",
    "ForSemanticSegmentation": "image-segmentation",
    "ForObjectDetection": "object-detection",
    "ForDepthEstimation": "depth-estimation",
    "ForAudioClassification": "audio-classification",
    "ForCTC": "automatic-speech-recognition",
    "CLIPModel": "zero-shot-image-classification",
}


def card(provenance: Provenance, name: str, config: Mapping[str, Any] | None = None, task: str = "") -> str:
    """A model card in Markdown, with the header that model hubs read.

    Args:
        provenance: What was done.
        name: The name of the result.
        config: The configuration of the result, if it is a folder of transformers.
        task: What the first input says it is for, as model hubs call it; empty: told by the class of the model.
    """
    rows = "\n".join(
        f"| {_markdown(source.name)} | {source.weight:.4g} | {size_told(source.bytes)} "
        f"| `{' '.join(source.sha256.values())}` |"
        for source in provenance.sources
    )
    options = _markdown(", ".join(f"{key} {value}" for key, value in provenance.options.items())) or "defaults"
    used = ", ".join(f"{package} {number}" for package, number in provenance.versions.items())
    objective = "" if provenance.objective is None else f", objective {provenance.objective:.6g}"
    done, use = TEXTS[provenance.verb]
    classes = _classes(config)
    return f"""---
{_header(provenance, config, task or _task(classes))}---
{marker(name)}

# {_markdown(name)}

{done.format(count=len(provenance.sources), method=provenance.method, citation=provenance.citation)}

| input | share | size | SHA-256 |
|---|---|---|---|
{rows}

- Method: `{provenance.method}`, options: {options}, seed {provenance.seed}
- Ended: {_markdown(provenance.status)}{objective}
{_turned(provenance)}- Made with {used}

## Do it again

    {printable(provenance.command)}

## Use

{use}
{_snippet(name, classes)}"""


def _turned(provenance: Provenance) -> str:
    """The line that says which spaces were rotated; nothing where none was."""
    folded = "; norms over these are folded into the layers that read them" if provenance.verb == "fuse" else ""
    names = ", ".join(map(_markdown, provenance.rotated))
    return f"- Rotated, and not only permuted, were the units of {names}{folded}\n" if names else ""


def _header(provenance: Provenance, config: Mapping[str, Any] | None, task: str) -> str:
    """The lines that model hubs read; a licence only where all inputs have the same."""
    licenses = [source.license for source in provenance.sources]
    agreed = licenses[0] if licenses and all(each == licenses[0] for each in licenses) else {}
    lines = [f"library_name: {'pytorch' if config is None else 'transformers'}"]
    lines += [f"pipeline_tag: {json.dumps(task)}"] if task else []
    lines += [f"{key}: {json.dumps(value)}" for key, value in agreed.items()]
    lines += ["tags: [merge, model-fusion, transfuse]", "base_model:"]
    lines += [f"- {json.dumps(source.name)}" for source in provenance.sources]
    lines += ["base_model_relation: merge"] if provenance.verb == "fuse" and config is not None else []
    return "".join(f"{line}\n" for line in lines)


def _classes(config: Mapping[str, Any] | None) -> list[str]:
    """The classes that a configuration names, without what is no name."""
    named = (config or {}).get("architectures")
    return [each for each in named if isinstance(each, str) and each.isidentifier()] if isinstance(named, list) else []


def _task(classes: list[str]) -> str:
    """What a model of these classes is for, as model hubs call it; nothing where that is not known."""
    return next((task for part, task in TASKS.items() if classes and part in classes[0]), "")


def _snippet(name: str, classes: list[str]) -> str:
    """Lines of Python that load a result with transformers, and one that brings it to a model hub."""
    if not classes:
        return ""
    place = json.dumps(printable(name))
    return f"""
    from transformers import {classes[0]}

    model = {classes[0]}.from_pretrained({place})

To share it, look it through and push it: `model.push_to_hub("YOUR-NAME/...")` in Python, or `hf upload
YOUR-NAME/... FOLDER` in a shell, which takes all files of the folder.
"""


def _markdown(text: str) -> str:
    """A text that Markdown shows as it is: no markup, no tags, no end of the line or of the table's cell."""
    return re.sub(r"([\\`*\[\]<>|&#!~$])", r"\\\1", printable(text))


def marker(name: str) -> str:
    """The line by which a card is known as written for a certain file."""
    return f"<!-- transfuse: card of {html.escape(printable(name), quote=False)} -->"


def is_card_of(path: Path, name: str) -> bool:
    """Whether a file is the card that was written for a result of that name."""
    return path.is_file() and marker(name) in path.read_text("utf-8", errors="replace")


def card_path(out: Path) -> Path:
    """`README.md` in or beside a result; under another name where somebody else's README stands there."""
    if out.is_dir():
        return out / CARD
    usual = out.parent / CARD
    if not usual.exists() or is_card_of(usual, out.name):
        return usual
    return out.parent / f"{out.name}.{CARD}"
