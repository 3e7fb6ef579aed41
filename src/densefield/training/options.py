"""The keyword arguments of densefield.train: the keys of a file of settings, without their tables."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any, Literal, TypedDict

from densefield.errors import InputError, InputTypeError
from densefield.runs.config import Config
from densefield.runs.settings import config_from


class TrainOptions(TypedDict, total=False):
    """The options of densefield.train. The page on training describes them; defaults are those of the settings."""

    # Steps
    steps: int
    batch: int
    accumulate: int
    seed: int
    precision: Literal["32-true", "bf16-mixed"]
    workers: int
    validate_every: int
    checkpoint_every: int
    log_every: int
    best_by: Literal["iou", "nll"]
    label_smoothing: float
    # Optimiser
    optimizer: Literal["sgd", "adamw"]
    lr: float
    lr_top: float
    lr_rest: float
    lr_crf: float
    momentum: float
    weight_decay: float
    weight_decay_crf: float
    bias_factor: float
    schedule: Literal["constant", "poly"]
    # Network
    network_options: dict[str, Any]
    pretrained: bool | str
    frozen: bool
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    multiple: int
    top_layers: tuple[str, ...]
    # CRF
    freeze: tuple[str, ...]
    test_iterations: int
    # Data
    data_options: dict[str, Any]
    held_out: int
    val_images: int
    train_iou_images: int
    longest_side: int
    network_size: int | tuple[int, int]
    augment: bool
    crop: tuple[int, int]
    scales: tuple[float, float]
    mirror: bool
    jitter: float


# Options whose keys are in several tables.
_RENAMED = {"optimizer": "optimizer.name", "network_options": "network.options", "data_options": "data.options"}


def _key(option: str) -> str:
    """The key of an option in settings."""
    if option in _RENAMED:
        return _RENAMED[option]
    fields = Config.model_fields
    return next(f"{table}.{option}" for table in fields if option in fields[table].annotation.model_fields)  # type: ignore[union-attr]


KEYS = {option: _key(option) for option in TrainOptions.__annotations__ if option != "lr"}


def to_tables(options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The tables of settings of these options; `lr` is the rate of all layers of the network.

    >>> to_tables({"steps": 100, "lr": 0.002})
    {'training': {'steps': 100}, 'optimizer': {'lr_top': 0.002, 'lr_rest': 0.002}}
    """
    options = dict(options)
    if "lr" in options:
        rates = [name for name in ("lr_top", "lr_rest") if name in options]
        if rates:
            raise InputError(f"lr and {rates[0]} are both given: lr is the rate of all layers of the network.")
        options["lr_top"] = options["lr_rest"] = options.pop("lr")
    tables: dict[str, dict[str, Any]] = {}
    for option, value in options.items():
        if option not in KEYS:
            close = difflib.get_close_matches(option, TrainOptions.__annotations__, 1)
            hint = (
                f"did you mean {close[0]}?" if close else f"expected some of {', '.join(TrainOptions.__annotations__)}."
            )
            raise InputTypeError(f"train() has no option {option!r}; {hint}")
        table, _, name = KEYS[option].partition(".")
        if value is not None:  # the default
            tables.setdefault(table, {})[name] = fspath(value) if isinstance(value, PathLike) else value
    return tables


def config_of(tables: Mapping[str, Any], *, has_lr: bool = False) -> Config:
    """The settings of densefield.train; errors name its arguments, such as crop in place of data.crop.

    Parameters
    ----------
    tables
        Those of to_tables(), completed.
    has_lr
        Whether `lr` was given, in place of `lr_top` and `lr_rest`.
    """
    try:
        return config_from(tables)
    except InputError as error:
        names = {key: option for option, key in KEYS.items()}
        names |= {"network.num_classes": "num_classes", "training.start_from": "start_from"}
        if has_lr:
            names |= dict.fromkeys(("optimizer.lr_top", "optimizer.lr_rest"), "lr")
        tables_of_keys = "|".join(Config.model_fields)
        first, *lines = str(error).splitlines()
        lines = [re.sub(rf"^  ({tables_of_keys}): ", "  ", line) for line in lines]
        lines = [re.sub(rf"\b({tables_of_keys})\.\w+", lambda key: names.get(key[0], key[0]), line) for line in lines]
        raise InputError("\n".join([first.replace("settings", "arguments"), *dict.fromkeys(lines)])) from None
