"""What `--model` and `--target` stand for: a network that can be built, and inputs for it.

In: a text. Out: a blueprint. The network's code is run.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..checkpoints import CONFIG, Transfer, check_described_size, configuration, described_shapes, model_class
from ..errors import InputError
from ..networks import NETWORKS
from .data import inputs_and_labels, tensors_in_file
from .transformers_inputs import inputs_by_config
from .user_code import blaming, imported


@dataclass(frozen=True)
class Blueprint:
    """A network that can be built, and an input for it if one is known.

    Args:
        build: Makes a module; its weights do not matter.
        inputs: Makes example inputs.
    """

    build: Callable[[], nn.Module]
    inputs: Callable[[], Any] | None = None


def blueprint(spec: str, arguments: Mapping[str, Any], flag: str = "--model") -> Blueprint:
    """The network that a text stands for.

    Raises:
        InputError: nothing is called so, or it cannot be imported.
    """
    if spec in NETWORKS:
        known = NETWORKS[spec]
        return Blueprint(
            lambda: _built(known.build, arguments, f"{flag} {spec}"), lambda: torch.randn(2, *known.input_shape)
        )
    path = Path(spec)
    if path.is_dir():
        return _hugging_face(path)
    if path.suffix == ".pt2" and path.is_file():
        return _exported(path, flag)
    if ":" in spec:
        factory = imported(spec, flag)
        return Blueprint(lambda: _built(factory, arguments, f"{flag} {spec}"))
    close = get_close_matches(spec, NETWORKS, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    raise InputError(
        f"{flag} {spec!r}: {meant}expected package.module:factory, file.py:factory, a Hugging Face folder, an export "
        f"archive (.pt2), or one of {', '.join(NETWORKS)}"
    )


def architecture_named(options: Namespace, paths: Sequence[str]) -> str | None:
    """The text that says what the architecture is: --model, or the first checkpoint if that is a folder that knows."""
    if options.model is not None:
        return str(options.model)
    first = next(iter(paths), "")
    return first if first and (Path(first) / CONFIG).is_file() else None


def blueprints_apart(opened: Transfer) -> list[Blueprint]:
    """The networks of folders that describe one class of networks with other tensors, as other depths have; else none.

    Raises:
        InputError: a configuration cannot be used.
    """
    folders = [each.path for each in opened.inputs]
    same = len({frozenset(each.tensors) for each in opened.inputs}) == 1
    if same or not all((folder / CONFIG).is_file() for folder in folders):
        return []
    plans = [_hugging_face(folder) for folder in folders]
    configs = [configuration(folder) for folder in folders]
    classes = {model_class(config) for config in configs}
    names = {frozenset(described_shapes(config)) for config in configs}
    return plans if len(classes) == 1 and len(names) > 1 else []


def _built(factory: Any, arguments: Mapping[str, Any], what: str) -> nn.Module:
    """The module that a factory makes."""
    given = ", ".join(f"{key}={value!r}" for key, value in arguments.items()) or "no arguments"
    with blaming(f"{what} with {given} failed", "check the arguments (KEY=VALUE)"):
        made = factory(**arguments)
    if not isinstance(made, nn.Module):
        raise InputError(f"{what} gives {type(made).__name__}; expected a class or function that makes a torch module")
    return made


def _hugging_face(path: Path) -> Blueprint:
    """The architecture that a folder's configuration names, and a few tokens, pixels or samples of sound for it."""
    config = configuration(path)
    check_described_size(path, config)
    return Blueprint(lambda: built_by_config(config), lambda: inputs_by_config(built_by_config(config), config, path))


def built_by_config(config: Any) -> nn.Module:
    """The network that a configuration of transformers describes, in evaluation mode."""
    config.use_cache = False  # a cache is state, not a result
    model: nn.Module = model_class(config)._from_config(config)
    return model.eval()


def _exported(path: Path, flag: str) -> Blueprint:
    """The program in an archive. Loading it runs what is in it, as with any --model."""
    with blaming(f"{flag} {path} cannot be loaded as an export archive", "save it again by this version of torch"):
        program = torch.export.load(path)

    def inputs() -> Any:
        if program.example_inputs is None:
            raise InputError(f"{flag} {path} holds no example inputs; pass --input-shape or --example-inputs")
        args, kwargs = program.example_inputs
        return dict(kwargs) if kwargs and not args else tuple(args)

    return Blueprint(lambda: _Exported(program.module(check_guards=False)), inputs)


class _Exported(nn.Module):
    """A program as a module that can be put into evaluation mode: it knows one mode only, and refuses to be asked.

    Names of its tensors are the program's own.
    """

    def __init__(self, program: nn.Module) -> None:
        super().__init__()
        self._modules.update(program._modules)
        self._parameters.update(program._parameters)
        self._buffers.update(program._buffers)
        self._program: nn.Module
        self.__dict__["_program"] = program

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the program computes with the tensors that are here."""
        return torch.func.functional_call(self._program, dict(self.state_dict(keep_vars=True)), args, kwargs)


def example_inputs(options: Namespace, plan: Blueprint) -> Any:
    """Inputs for tracing: those given, some of the data, or those that the network is known to take."""
    if options.example_inputs:
        tensors = tensors_in_file(options.example_inputs, "--example-inputs")
        return tensors["inputs"] if set(tensors) == {"inputs"} else tensors
    if options.input_shape:
        return torch.randn(2, *options.input_shape, generator=torch.Generator().manual_seed(0))
    if getattr(options, "data", None):
        return inputs_and_labels(options)[0][:2]
    if plan.inputs is not None:
        return plan.inputs()
    raise InputError(
        "inputs are needed to trace the model: pass --input-shape (such as 1,28,28), --example-inputs or --layout"
    )
