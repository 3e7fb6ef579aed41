"""Settings read from a TOML file and the command line, checked all at once, and written as TOML."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from densefield.crf.crf_file import parse_toml_value, problem_text, read_crf_tables, read_toml
from densefield.crf.crf_tables import KERNELS, unknown_key
from densefield.errors import InputError
from densefield.runs.config import Config
from densefield.runs.crf_config import CRFConfig
from densefield.runs.references import OBJECT, is_own

STAGE2 = "stage2"
CRF_FILE = "file"  # in [crf]: a CRF to start from, whose keys the others of [crf] override
_TYPES = ("float", "constrained-float", "str", "bool", "int")  # pydantic adds these to keys with several types

Tables = dict[str, Any]


def read_config(path: str | PathLike[str], settings: Sequence[str] = ()) -> Config:
    """The settings in a TOML file, with overrides such as ``"optimizer.lr_top=0.02"``.

    All unknown keys and invalid values, of the file and of the overrides, are listed in one error.

    Parameters
    ----------
    path
        The file. It holds the settings that differ from the defaults, and in the table `stage2` those of stage 2 that
        differ from stage 1. ``crf.file`` names a CRF to start from, relative to the folder of this file.
    settings
        Keys and values, in TOML, that override the file in both stages. ``crf.kernels.0.weight=2`` changes the first
        kernel of the list. ``crf.file=`` is relative to the working directory and replaces the CRF of the file.
    """
    try:
        return _read_config(path, settings)
    except RecursionError:
        raise InputError(f"{path}, or a setting of the command line, is nested too deeply: no setting is.") from None


def _read_config(path: str | PathLike[str], settings: Sequence[str]) -> Config:
    tables = read_toml(path, "a file of settings such as those in configs/")
    second = tables.pop(STAGE2, {})
    unread: list[str] = []
    if not isinstance(second, dict):
        unread.append(f"{STAGE2}: is {second!r}, expected a table such as [{STAGE2}.training]")
        second = {}
    for part in (tables, second):
        _read_crf_file(part, Path(path).parent, unread)
    of_file = _problems(tables, _joint(tables, second))
    of_settings: list[str] = []
    ordered = sorted(settings, key=lambda setting: setting.partition("=")[0].strip() != f"crf.{CRF_FILE}")
    for setting in ordered:
        _set(tables, setting, of_settings)
    joint = _joint(tables, second)
    for setting in ordered:  # the command line overrides both stages
        _set(joint, setting, [])
    training = tables.get("training")
    is_second = isinstance(training, dict) and training.get("stage") == 2
    chosen, other = (joint, tables) if is_second else (tables, joint)
    found = _problems(chosen, other)
    of_settings += [line for line in found if line not in of_file]
    remaining = unread + [line for line in of_file if line in found]  # those that the command line does not cure
    if remaining or of_settings:
        lines = [problem_text(path, remaining)] if remaining else []
        raise InputError("\n".join([*lines, *(_naming_setting(path, line, ordered) for line in of_settings)]))
    return _validated(chosen)


def _joint(tables: Tables, second: Tables) -> Tables:
    """The tables of stage 2."""
    joint = copy.deepcopy(tables)
    _merge(joint, second)
    return joint


def _naming_setting(path: str | PathLike[str], problem: str, settings: Sequence[str]) -> str:
    """A problem of the command line, with the setting that it comes from; with file and all if there is no telling."""
    keys = {setting: setting.partition("=")[0].strip() for setting in settings}
    place, _, what = problem.partition(": ")
    for setting, key in keys.items():
        if key == place:
            return f"--set {setting}: {what}"
    near = [each for each, key in keys.items() if key.startswith(f"{place}.") or place.startswith(f"{key}.")]
    named = " ".join(f"--set {setting}" for setting in near or settings)
    return f"{named}: {problem}" if near else f"{path} with {named}: {problem}"


def config_from(tables: Mapping[str, Any]) -> Config:
    """The settings in nested dicts, as in a checkpoint."""
    problems = _problems(tables)
    if problems:
        raise InputError("the settings cannot be used:" + "".join(f"\n  {line}" for line in problems))
    return _validated(tables)


def to_toml(config: Config) -> str:
    """All settings as TOML that read_config() reads, without those that have no effect.

    >>> print(to_toml(Config()).splitlines()[1])
    kind = "voc2012"
    """
    import tomli_w

    unused = {
        "data": {"root", "sbd", "scenes"} if is_own(config.data.kind) else set(),
        "network": {"pretrained"} if config.network.name == OBJECT else set(),
    }
    return tomli_w.dumps(config.model_dump(mode="json", exclude_none=True, exclude=unused))


def differences(one: Config, two: Config) -> list[str]:
    """A line for each setting that differs.

    >>> from densefield.runs.config import TrainingConfig
    >>> differences(Config(), Config(training=TrainingConfig(steps=7)))
    ['training.steps: 6000, 7']
    """
    first, second = _flat(one.model_dump(mode="json")), _flat(two.model_dump(mode="json"))
    return [
        f"{key}: {first.get(key)}, {second.get(key)}"
        for key in sorted(first.keys() | second.keys())
        if first.get(key) != second.get(key)
    ]


def _read_crf_file(tables: Tables, folder: Path, problems: list[str]) -> None:
    """Replaces the key `file` of [crf] by the content of that file; other keys of [crf] override it."""
    crf = tables.get("crf")
    if not isinstance(crf, dict) or CRF_FILE not in crf:
        return
    name = crf.pop(CRF_FILE)
    if not isinstance(name, str):
        problems.append(f"crf.{CRF_FILE}: is {name!r}, expected the name of a file")
        return
    try:
        tables["crf"] = {**read_crf_tables(folder / name), **crf}
    except InputError as error:
        problems.append(f"crf.{CRF_FILE}: {error}")


def _validated(tables: Mapping[str, Any]) -> Config:
    # As JSON: in strict mode it takes lists for tuples, but neither true nor "1" for numbers.
    return Config.model_validate_json(json.dumps(tables, default=str), strict=True)


def _problems(*stages: Mapping[str, Any]) -> list[str]:
    """A line for each problem of these tables, without repetition."""
    lines: list[str] = []
    for tables in stages:
        try:
            _validated(tables)
        except ValidationError as error:
            lines += [line for each in error.errors(include_url=False) for line in _problem_lines(each)]
    return list(dict.fromkeys(lines))


def _problem_lines(error: Any) -> list[str]:
    """A line for each problem of one error: the key, what came, and what was expected."""
    place = [str(part) for part in error["loc"]]
    key = ".".join(part for part in place if part not in _TYPES and "[" not in part)
    if error["type"] == "extra_forbidden":
        if place == [KERNELS]:
            return [f"{key}: unknown key; in settings the kernels are listed under [[crf.{KERNELS}]]"]
        return [unknown_key(key, place[-1], _known_keys(place[:-1]))]
    if error["type"] == "value_error":
        lines = error["msg"].removeprefix("Value error, ").splitlines()
        # Problems of kernels name their keys themselves.
        prefix = {(): "", ("crf", KERNELS): "crf."}.get(error["loc"], f"{key}: ")
        return [f"{prefix}{line}" for line in lines]
    message = error["msg"][0].lower() + error["msg"][1:]
    return [f"{key}: is {json.dumps(error['input'], default=str)}; {message.removeprefix('input ')}"]


def _known_keys(place: Sequence[str]) -> list[str]:
    section: type[BaseModel] = Config
    for name in place:
        inner = section.model_fields[name].annotation
        assert isinstance(inner, type) and issubclass(inner, BaseModel)
        section = inner
    return [*section.model_fields, *([CRF_FILE] if section is CRFConfig else [])]


def _set(tables: Tables, setting: str, problems: list[str]) -> None:
    """Applies a setting such as "training.steps=100"; a value that is not TOML is a string."""
    key, equals, text = setting.partition("=")
    key = key.strip()
    names = key.split(".")
    if not equals or not all(names):
        problems.append(f"{key}: expected section.key=value, such as training.steps=100")
        return
    value = parse_toml_value(text)
    if names == ["crf", CRF_FILE]:
        part: Tables = {"crf": {CRF_FILE: value}}
        _read_crf_file(part, Path(), problems)
        _merge(tables, part)
        return
    place: Any = tables
    for depth, name in enumerate(names):
        if isinstance(place, list) and not (name.isdecimal() and int(name) < len(place)):
            count, parent = len(place), names[depth - 1]
            problems.append(f"{key}: {parent} has {count} items, expected a number below {count} after it")
            return
        if not isinstance(place, dict | list):
            problems.append(f"{key}: {names[depth - 1]} is not a section")
            return
        if names[: depth + 1] == ["crf", KERNELS] != names and name not in place:
            problems.append(f"{key}: no kernels are listed, expected some under [[crf.{KERNELS}]] of the settings")
            return
        step: Any = int(name) if isinstance(place, list) else name
        if depth == len(names) - 1:
            place[step] = value
        else:
            place = place[step] if isinstance(place, list) else place.setdefault(name, {})


def _merge(tables: Tables, other: Tables) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(tables.get(key), dict):
            _merge(tables[key], value)
        else:
            tables[key] = copy.deepcopy(value)


def _flat(table: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            value = {str(number): item for number, item in enumerate(value)}
        flat.update(_flat(value, f"{place}{key}.") if isinstance(value, dict) else {f"{place}{key}": value})
    return flat
