"""The keyword arguments of densefield.train are the keys of settings."""

from __future__ import annotations

import typing

import pytest

pytest.importorskip("torch")
pytest.importorskip("pydantic", reason="settings need it")

from densefield.errors import InputError, InputTypeError
from densefield.runs.config import Config
from densefield.training.options import KEYS, TrainOptions, config_of, to_tables

# Keys that the other arguments of densefield.train stand for, or that only settings need.
OTHERS = {
    "data": {"kind", "train", "val", "root", "sbd", "scenes"},
    "network": {"name", "num_classes", "embedding"},
    "crf": {"enabled", "iterations", "inference", "exclude_self", "operator", "halo", "axis_order", "kernels"},
    "optimizer": set(),
    "training": {"stage", "start_from"},
}


def test_every_key_of_settings_is_an_option_or_known_to_be_none():
    for table, field in Config.model_fields.items():
        keys = {f"{table}.{name}" for name in field.annotation.model_fields if name not in OTHERS[table]}
        assert keys == {key for key in KEYS.values() if key.startswith(f"{table}.")}, table


def test_no_key_is_in_two_tables_under_one_option():
    assert len(set(KEYS.values())) == len(KEYS) == len(TrainOptions.__annotations__) - 1  # lr is two keys


@pytest.mark.parametrize("option", sorted(KEYS))
def test_the_choices_of_an_option_are_those_of_the_settings(option):
    hint = typing.get_type_hints(TrainOptions)[option]
    if typing.get_origin(hint) is not typing.Literal:
        return
    table, _, name = KEYS[option].partition(".")
    assert hint == Config.model_fields[table].annotation.model_fields[name].annotation


def test_options_become_settings():
    config = config_of(to_tables({"steps": 7, "optimizer": "adamw", "lr": 0.5, "crop": (8, 9), "mirror": None}))
    assert (config.training.steps, config.optimizer.name, config.data.crop) == (7, "adamw", (8, 9))
    assert config.optimizer.lr_top == config.optimizer.lr_rest == 0.5 and config.data.mirror


def test_unknown_and_contradicting_options_are_errors():
    with pytest.raises(InputTypeError, match=r"train\(\) has no option 'batch_size'; did you mean batch\?"):
        to_tables({"batch_size": 3})
    with pytest.raises(InputTypeError, match=r"no option 'xyz'; expected some of steps, batch"):
        to_tables({"xyz": 3})
    with pytest.raises(InputError, match="lr and lr_rest are both given"):
        to_tables({"lr": 1, "lr_rest": 2})


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"crop": 32}, "crop: is 32, expected rows and columns such as [306, 306]"),
        ({"crop": (0, 5)}, "crop.0: is 0; should be greater than or equal to 1"),
        ({"lr": float("nan")}, "lr: is NaN; should be a finite number"),
        ({"lr_top": -1.0}, "lr_top: is -1.0; should be greater than 0"),
        ({"optimizer": "adam"}, """optimizer: is "adam"; should be 'sgd' or 'adamw'"""),
        ({"augment": False, "crop": (9, 9)}, "augment is false, but crop is set: remove one of them"),
    ],
)
def test_errors_of_values_name_the_options(options, line):
    with pytest.raises(InputError) as caught:
        config_of(to_tables(options), has_lr="lr" in options)
    assert str(caught.value) == f"the arguments cannot be used:\n  {line}"
