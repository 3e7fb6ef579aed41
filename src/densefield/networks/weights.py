"""Reading, checking and loading weights."""

from __future__ import annotations

import pickle
import re
import warnings
import zipfile
from collections.abc import Collection, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from densefield.errors import InputError, InputTypeError

Weights = str | PathLike[str] | Mapping[str, Tensor]  # a file, or a state dict

_MAX_NAMES = 40  # in a message; a wrong file has hundreds


def load_weights(network: nn.Module, weights: Weights) -> None:
    """Load a state dict, or a file of one, into a network; if a key does not fit, all such keys are listed.

    Parameters
    ----------
    network
        The network; it stays unchanged if there is an error.
    weights
        A state dict; or a file of torch.save(), of which only tensors are read; or a file ``*.safetensors``.

    >>> load_weights(nn.Linear(2, 1), {"weight": torch.ones(1, 3), "offset": torch.ones(1)})
    Traceback (most recent call last):
        ...
    densefield.errors.InputError: the weights do not fit the network.
      missing: bias
      unexpected: offset
      of another shape: weight (1, 3), expected (1, 2)
    """
    state = network.state_dict()
    given = checked_weights(weights, {name: tuple(value.shape) for name, value in state.items()})
    network.load_state_dict(given)


def checked_weights(
    weights: Weights,
    shapes: Mapping[str, tuple[int, ...]],  # of all needed keys
    ignored: Collection[str] = (),  # keys that may exist and are not loaded
) -> dict[str, Tensor]:
    """The needed weights; raises and lists keys that are missing, unexpected, of another shape or not finite."""
    if isinstance(weights, Mapping):
        given, source = _checked_mapping(weights, "the weights"), "the weights do"
    elif isinstance(weights, str | PathLike):
        given, source = read_weights(weights), f"the weights in {weights} do"
    else:
        raise InputTypeError(
            f"weights is of type {type(weights).__name__}, expected a state dict or the name of a file."
        )
    wanted = {name: value for name, value in given.items() if name in shapes}
    problems = {
        "missing": (name for name in shapes if name not in given),
        "unexpected": (name for name in given if name not in shapes and name not in ignored),
        "of another shape": (
            f"{name} {tuple(value.shape)}, expected {shapes[name]}"
            for name, value in wanted.items()
            if tuple(value.shape) != shapes[name]
        ),
        "with NaN or infinity": (
            name for name, value in wanted.items() if not (value.is_meta or bool(value.isfinite().all()))
        ),
    }
    lines = [f"\n  {problem}: {listed}" for problem, names in problems.items() if (listed := _list(names))]
    if lines:
        raise InputError(f"{source} not fit the network.{''.join(lines)}")
    return wanted


def read_weights(path: str | PathLike[str]) -> dict[str, Tensor]:
    """Read the state dict in a file of torch.save(), of which only tensors are read, or in ``*.safetensors``.

    Parameters
    ----------
    path
        The file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save({"bias": torch.ones(2)}, Path(folder) / "weights.pth")
    ...     read_weights(Path(folder) / "weights.pth")
    {'bias': tensor([1., 1.])}
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file of weights {path}: pass an existing file, or a state dict.")
    if path.suffix == ".safetensors":
        return _checked_mapping(_read_safetensors(path), str(path))
    return _checked_mapping(load_tensors(path, "the file that torch.save(network.state_dict(), …) writes"), str(path))


def load_tensors(path: Path, expected: str) -> Any:
    """Read a file of torch.save() that holds only tensors, numbers, text, lists and dicts.

    Other objects are refused, since unpickling them would run code of the file. Errors say what is
    `expected`.
    """
    try:
        if _is_compressed(path):  # torch.save() does not compress; a compressed file could unpack to any size
            raise InputError(f"{path} is compressed, expected what torch.save() writes: unpack and save it again.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickles that torch did not write
            return torch.load(path, map_location="cpu", weights_only=True)
    except InputError:
        raise
    except Exception as error:  # the unpickler raises errors of any type
        reason = _refusal(path, error)
    raise InputError(f"{path} {reason} Expected {expected}.")  # torch's own message advises to run the code


def _is_compressed(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist())


def _refusal(path: Path, error: Exception) -> str:
    """Why the file was refused, and what to do."""
    if isinstance(error, FileNotFoundError):
        return "does not exist."
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror}."
    named = re.search(r"GLOBAL ([\w.]+)", str(error))
    if named is not None and isinstance(error, pickle.UnpicklingError):
        return (
            f"holds {named[1]}, not only tensors. It was not read, since that would run code of the file: save the "
            "tensors alone in the program that wrote it."
        )
    if "TorchScript" in str(error):
        return "is a TorchScript archive, not a state dict. Save torch.jit.load(…).state_dict()."
    if path.stat().st_size == 0:
        return "is empty."
    return "is damaged, cut short, or not a file of torch.save(). Copy or download it again."


def _read_safetensors(path: Path) -> Any:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{path} needs safetensors, which is not installed. Install it with: pip install safetensors",
            name=error.name,
        ) from error
    try:
        return load_file(path)
    except SafetensorError as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"{path} cannot be read as safetensors, it may be cut short. ({reason})") from error


def _checked_mapping(weights: Any, source: str) -> dict[str, Tensor]:
    if not isinstance(weights, Mapping):
        raise InputTypeError(
            f"{source} holds an object of type {type(weights).__name__}, expected a state dict: names and tensors."
        )
    others = [str(name) for name, value in weights.items() if not isinstance(value, Tensor)]
    if others:
        raise InputTypeError(
            f"{source} holds values that are not tensors: {_list(others)}. If one of them is the state dict, pass that."
        )
    return dict(weights)


def _list(names: Iterable[str]) -> str:
    known = list(names)
    more = [f"and {len(known) - _MAX_NAMES} more"] if len(known) > _MAX_NAMES else []
    return "; ".join([*known[:_MAX_NAMES], *more])
