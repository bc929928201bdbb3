"""What `--model`, `--target`, `--data`, `--example-inputs` and `--evaluate` stand for.

In: texts. Out: modules, tensors, functions. Code named by the user is run here, and nowhere else.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor, nn

from ..checkpoints import open_checkpoint
from ..errors import InputError
from ..networks import NETWORKS


@dataclass(frozen=True)
class Blueprint:
    """A network that can be built, and an input for it if it is known.

    Args:
        build: Makes a module with whatever weights.
        inputs: Makes example inputs.
    """

    build: Callable[[], nn.Module]
    inputs: Callable[[], Any] | None = None


def pairs(texts: Sequence[str] | Mapping[str, Any], flag: str) -> dict[str, Any]:
    """`["width=3", "bias=true"]` as `{"width": 3, "bias": True}`: values are read as YAML."""
    if isinstance(texts, Mapping):
        return dict(texts)
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"{flag} {text!r}: expected KEY=VALUE")
        try:
            found[key.replace("-", "_")] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise InputError(f"{flag} {text!r}: {value!r} cannot be read") from error
    return found


def blueprint(spec: str, arguments: Mapping[str, Any], flag: str = "--model") -> Blueprint:
    """The network that a text stands for.

    Raises:
        InputError: nothing is called so, or it cannot be imported.
    """
    if spec in NETWORKS:
        known = NETWORKS[spec]
        return Blueprint(
            lambda: _called(known.build, arguments, f"{flag} {spec}"), lambda: torch.randn(2, *known.input_shape)
        )
    path = Path(spec)
    if path.is_dir():
        return _hugging_face(path)
    if path.suffix == ".pt2" and path.is_file():
        return _exported(path)
    if ":" in spec:
        factory = imported(spec, flag)
        return Blueprint(lambda: _module(_called(factory, arguments, f"{flag} {spec}"), f"{flag} {spec}"))
    close = get_close_matches(spec, NETWORKS, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    raise InputError(
        f"{flag} {spec!r}: {meant}expected package.module:factory, file.py:factory, a Hugging Face folder, an export "
        f"archive (.pt2), or one of {', '.join(NETWORKS)}"
    )


def imported(spec: str, flag: str) -> Any:
    """What `module:name` or `file.py:name` stands for."""
    place, _, name = spec.rpartition(":")
    try:
        module = _from_file(Path(place)) if place.endswith(".py") else _from_path(place)
    except FileNotFoundError as error:
        raise InputError(f"{flag} {spec}: there is no file {place}") from error
    except Exception as error:
        raise InputError(f"{flag} {spec}: {place} cannot be imported ({type(error).__name__}: {error})") from error
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            names = [each for each in vars(found) if not each.startswith("_") and callable(vars(found)[each])]
            listed = ", ".join(names[:12]) or "nothing"
            raise InputError(f"{flag} {spec}: {place} has no {part}; it has {listed}")
        found = getattr(found, part)
    return found


def _from_path(name: str) -> Any:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does; a console script does not
    return importlib.import_module(name)


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(path)
    name = f"_transfuse_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, f"{path} ends in .py"
    assert spec.loader is not None, f"{path} ends in .py"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.resolve()))  # its neighbours, as when it is run
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent.resolve()))
    return module


def _called(factory: Any, arguments: Mapping[str, Any], what: str) -> Any:
    try:
        return factory(**arguments)
    except Exception as error:
        given = ", ".join(f"{key}={value!r}" for key, value in arguments.items()) or "no arguments"
        raise InputError(
            f"{what} with {given} failed ({type(error).__name__}: {error}); check the arguments (KEY=VALUE)"
        ) from error


def _module(value: Any, what: str) -> nn.Module:
    if not isinstance(value, nn.Module):
        raise InputError(f"{what} gives {type(value).__name__}; expected a class or function that makes a torch module")
    return value


def _hugging_face(path: Path) -> Blueprint:
    """The architecture that a folder's configuration names, and a few tokens or pixels for it."""
    if not (path / "config.json").exists():
        raise InputError(f"--model {path}: the folder has no config.json; expected one that `transformers` wrote")
    import transformers

    try:
        config = transformers.AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise InputError(f"--model {path}: transformers cannot use its config.json ({error})") from error
    config.use_cache = False  # a cache is state, not a result
    names = config.architectures or []
    kind = next((getattr(transformers, name) for name in names if hasattr(transformers, name)), None)

    def build() -> nn.Module:
        model: nn.Module = kind._from_config(config) if kind else transformers.AutoModel.from_config(config)
        return model.eval()

    return Blueprint(build, lambda: _hugging_face_inputs(build(), config))


def _hugging_face_inputs(model: Any, config: Any) -> dict[str, Tensor]:
    if model.main_input_name == "input_ids":
        words = torch.arange(5, 5 + 2 * 8).view(2, 8) % int(config.vocab_size)
        inputs = {"input_ids": words}
        return {**inputs, "decoder_input_ids": words} if config.is_encoder_decoder else inputs
    if model.main_input_name == "pixel_values":
        side = config.image_size if isinstance(config.image_size, int) else max(config.image_size)
        return {"pixel_values": torch.randn(2, getattr(config, "num_channels", 3), side, side)}
    raise InputError(
        f"no inputs are known for {type(model).__name__}; pass --example-inputs with its {model.main_input_name}"
    )


def _exported(path: Path) -> Blueprint:
    """A program in an archive. Loading it runs what is in it, as with any --model."""
    program = torch.export.load(path)

    def inputs() -> Any:
        if program.example_inputs is None:
            raise InputError(f"--model {path} holds no example inputs; pass --input-shape or --example-inputs")
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
        tensors = tensors_in(options.example_inputs, "--example-inputs")
        return tensors["inputs"] if set(tensors) == {"inputs"} else tensors
    if options.input_shape:
        return torch.randn(2, *options.input_shape, generator=torch.Generator().manual_seed(0))
    if getattr(options, "data", None):
        return data_of(options)[0][:2]
    if plan.inputs is not None:
        return plan.inputs()
    raise InputError(
        "inputs are needed to trace the model: pass --input-shape (such as 1,28,28), --example-inputs or --layout"
    )


def tensors_in(path: str, flag: str) -> dict[str, Tensor]:
    """Tensors by name in a file."""
    file = Path(path)
    if not file.exists():
        raise InputError(f"{flag} {path}: there is no such file")
    if file.suffix in (".npz", ".npy"):
        import numpy as np

        try:
            content = np.load(file, allow_pickle=False)
            arrays = {"inputs": content} if file.suffix == ".npy" else dict(content)
            return {name: torch.from_numpy(array) for name, array in arrays.items()}
        except (ValueError, OSError, TypeError) as error:
            raise InputError(f"{flag} {path} cannot be read as arrays ({error})") from error
    return dict(open_checkpoint(file).tensors)


def data_of(options: Namespace) -> tuple[Tensor, Tensor | None]:
    """Inputs, in the shape that was asked for, and labels if there are any."""
    labels: Tensor | None
    if options.data == "digits":
        from ..demo import digits

        inputs, labels = digits("test")
    else:
        tensors = tensors_in(options.data, "--data")
        if "inputs" not in tensors:
            raise InputError(f"--data {options.data} has {', '.join(tensors)}; expected `inputs` (and `labels`)")
        inputs, labels = tensors["inputs"], tensors.get("labels")
    if options.input_shape:
        try:
            inputs = inputs.reshape(len(inputs), *options.input_shape)
        except RuntimeError as error:
            raise InputError(
                f"--data {options.data}: inputs of shape {list(inputs.shape[1:])} do not fit --input-shape "
                f"{','.join(map(str, options.input_shape))}"
            ) from error
    return inputs, labels


def check_measures(options: Namespace) -> None:
    """Refuse to measure with nothing; looked at first, for it costs nothing."""
    if not options.data and not options.evaluate:
        raise InputError("something must measure the models: pass --data with labels, or --evaluate file.py:function")


def evaluation(options: Namespace, model: nn.Module) -> Callable[[nn.Module], Any]:
    """What measures models such as this one: a function of the user's, or loss and error on labeled data."""
    if options.evaluate:
        function: Callable[[nn.Module], Any] = imported(options.evaluate, "--evaluate")
        return function
    check_measures(options)
    inputs, labels = data_of(options)
    if labels is None:
        raise InputError(f"--data {options.data} has no `labels`; add them, or pass --evaluate file.py:function")
    _check_labeled(model, inputs, labels, f"--data {options.data}")
    from ..landscape import evaluator

    return evaluator(list(zip(inputs.split(options.batch_size), labels.split(options.batch_size), strict=True)))


def _check_labeled(model: nn.Module, inputs: Tensor, labels: Tensor, what: str) -> None:
    """Whether a model takes these inputs, and the labels are those of its outputs."""
    if not len(inputs) or len(inputs) != len(labels):
        raise InputError(f"{what} has {len(inputs)} inputs and {len(labels)} labels; expected one label for each")
    try:
        with torch.no_grad():
            outputs = model.eval()(inputs[:2])
    except Exception as error:
        shape = ",".join(map(str, inputs.shape[1:]))
        raise InputError(
            f"{what}: the model cannot take inputs of shape {shape} and type {inputs.dtype} ({error}); --input-shape "
            "changes the shape"
        ) from error
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
