"""The fields of a checkpoint, all checked before any of them is used."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from densefield.errors import InputError
from densefield.runs.config import Config
from densefield.runs.settings import config_from

DIGEST = "sha256"
FIELDS = ("model", "optimizer", "position", "rng", "step", "stage", "config", "best", DIGEST)
MAX_STEPS = 1 << 62
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.bool, torch.uint8, torch.int32, torch.int64)
MAX_DEPTH = 8  # levels of dicts and lists


def content_digest(content: Mapping[str, Any]) -> str:
    """The SHA-256 of everything in a checkpoint but the digest itself: names, numbers, text, and bits of tensors.

    Raises if a field holds something else.

    >>> content_digest({"step": 1}) == content_digest({"step": 1, "sha256": "…"}) != content_digest({"step": 2})
    True
    """
    fields = {name: value for name, value in content.items() if name != DIGEST}
    digest = hashlib.sha256(f"M{len(fields)};".encode())
    for name, value in fields.items():
        _add(digest, name)
        try:
            _add(digest, value)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
    return digest.hexdigest()


def check_checkpoint(path: Path, content: object) -> dict[str, Any]:
    """The fields of a checkpoint; raises, in one line that names the file and the field."""
    if not isinstance(content, dict):
        raise InputError(
            f"{path} is not the checkpoint of a run: it holds an object of type {type(content).__name__}, expected a "
            "dict."
        )
    missing = [name for name in FIELDS if name not in content]
    if missing:
        raise InputError(
            f"{path} is not the checkpoint of a run: it lacks {', '.join(missing)}. Weights alone are named by "
            "network.pretrained in the settings of a run."
        )
    unknown = [str(name) for name in content if name not in FIELDS]
    if unknown:
        raise InputError(f"{path} is not the checkpoint of a run: it has an unknown field {unknown[0]!r}.")
    for problem in _problems(content):
        raise InputError(f"{path}: {problem}.")
    try:
        digest = content_digest(content)
    except InputError as error:
        raise InputError(f"{path}: {error}.") from None
    if digest != content[DIGEST]:
        raise InputError(
            f"{path} is damaged: its content does not have the checksum that was written with it. Use another "
            "checkpoint of the run, such as previous.pt, or a copy."
        )
    try:
        config = config_from(content["config"])
    except InputError as error:
        raise InputError(f"{path}: config: {' '.join(str(error).split())}") from error
    for problem in _mismatches(content, config):
        raise InputError(f"{path}: {problem}.")
    return content


def _problems(content: Mapping[str, Any]) -> Iterator[str]:
    """Problems of the fields, each with what was expected."""
    model, position, rng = content["model"], content["position"], content["rng"]
    for name, low, high in (("step", 0, MAX_STEPS), ("stage", 1, 2)):
        if type(content[name]) is not int or not low <= content[name] <= high:
            yield f"{name}: is {_shown(content[name])}, expected an integer from {low} to {high}"
    best = content["best"]
    if best is not None and not (isinstance(best, list) and len(best) == 2 and all(map(_is_metric, best))):
        yield f"best: is {_shown(best)}, expected a mean IoU and an NLL, or None"
    if not isinstance(content[DIGEST], str):
        yield f"{DIGEST}: is {_shown(content[DIGEST])}, expected text"
    if not isinstance(position, list) or len(position) != 2 or not all(type(n) is int and n >= 0 for n in position):
        yield f"position: is {_shown(position)}, expected two integers from 0"
    if not isinstance(model, dict) or not all(isinstance(name, str) for name in model):
        yield f"model: is {_shown(model)}, expected a state dict: names and tensors"
        return
    for name, value in model.items():
        if not isinstance(value, Tensor):
            yield f"model: {name} is {_shown(value)}, expected a tensor"
    if not any(name.startswith("network.") for name in model):
        yield "model: holds no weights of a network, expected names that begin with network."
    if not isinstance(rng, list) or not all(isinstance(states, dict) for states in rng):
        yield f"rng: is {_shown(rng)}, expected a list of states, one for each process"
        return
    for states in rng:
        if not _is_random_state(states.get("cpu")) or not set(states) <= {"cpu", "cuda"}:
            yield "rng: holds a value that is not a state of torch's random generator"
    if not isinstance(content["config"], dict):
        yield f"config: is {_shown(content['config'])}, expected the settings of a run"
    if not isinstance(content["optimizer"], dict):
        yield f"optimizer: is {_shown(content['optimizer'])}, expected the state of an optimiser"


def _mismatches(content: Mapping[str, Any], config: Config) -> Iterator[str]:
    """Fields that contradict the settings."""
    if content["stage"] != config.training.stage:
        yield f"stage: is {content['stage']}, but training.stage of its config is {config.training.stage}"


def _is_metric(value: object) -> bool:
    return isinstance(value, float) and not math.isinf(value)


def _is_random_state(value: object) -> bool:
    if not isinstance(value, Tensor):
        return False
    try:
        torch.Generator().set_state(value)
    except (RuntimeError, TypeError):
        return False
    return True


def _add(digest: Any, value: object, depth: int = 0) -> None:
    """Adds an unambiguous encoding of a value; raises for unusual tensors, deep nesting, and objects of other types."""
    if depth > MAX_DEPTH:
        raise InputError(f"is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Tensor):
        known = value.dtype in FLOATS + INTEGERS and not value.is_quantized
        if not known or value.layout != torch.strided or value.is_meta:
            raise InputError(f"holds a tensor of type {value.dtype} ({value.layout}), expected numbers")
        if value.numel() * value.element_size() > value.untyped_storage().nbytes():
            raise InputError(f"holds a tensor of shape {tuple(value.shape)} with less memory than it needs")
        plain = value.detach().cpu().contiguous()
        digest.update(f"T{plain.dtype}{tuple(plain.shape)};".encode())
        digest.update(plain.flatten().view(torch.uint8).numpy().data)
    elif isinstance(value, Mapping):
        digest.update(f"M{len(value)};".encode())
        for key, item in value.items():
            if not isinstance(key, str | int):
                raise InputError(f"has the key {_shown(key)}, expected a name or an integer")
            _add(digest, key, depth)
            _add(digest, item, depth + 1)
    elif isinstance(value, list | tuple):
        digest.update(f"L{len(value)};".encode())
        for item in value:
            _add(digest, item, depth + 1)
    elif isinstance(value, float):
        digest.update(b"F" + struct.pack("<d", value))
    elif value is not None and not isinstance(value, str | int):
        raise InputError(f"holds {_shown(value)}, expected numbers, text and tensors")
    else:
        text = f"{type(value).__name__}:{value}".encode("utf-8", "surrogatepass")
        digest.update(f"V{len(text)};".encode() + text)


def _shown(value: object) -> str:
    """A value in a message."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, int | float | str) and len(repr(value)) < 60:
        return repr(value)
    return f"an object of type {type(value).__name__}"
