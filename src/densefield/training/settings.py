"""Settings from a TOML file and the command line, checked all at once; and back to TOML."""

from __future__ import annotations

import copy
import difflib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from densefield.errors import InputError
from densefield.training.config import Config

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

STAGE2 = "stage2"
_TYPES = ("float", "constrained-float", "str", "bool", "int")  # parts of a key where pydantic had a choice of types

Tables = dict[str, Any]


def read_config(path: str | PathLike[str], settings: Sequence[str] = ()) -> Config:
    """The settings in a TOML file, changed by others such as ``"optimizer.lr_top=0.02"``.

    The file holds what differs from the defaults, and in the table `stage2` what differs in stage 2 from stage 1. All
    that is unknown or impossible is listed in one error.
    """
    tables = _read(Path(path))
    second = tables.pop(STAGE2, {})
    problems: list[str] = []
    for setting in settings:
        _set(tables, setting, problems)
    joint = copy.deepcopy(tables)
    if not isinstance(second, dict):
        problems.append(f"{STAGE2} is {second!r}, expected a table such as [{STAGE2}.training]")
    else:
        _merge(joint, second)
        for setting in settings:  # what is said on the command line holds in either stage
            _set(joint, setting, [])
    stage = _at(tables, "training", "stage")
    chosen, other = (joint, tables) if stage == 2 else (tables, joint)
    problems += _problems(chosen)
    problems += [line for line in _problems(other) if line not in problems]
    if problems:
        raise InputError(f"{path} cannot be used:" + "".join(f"\n  {line}" for line in problems))
    return _validated(chosen)


def config_from(tables: Mapping[str, Any]) -> Config:
    """The settings in nested dicts, as a checkpoint has them."""
    problems = _problems(tables)
    if problems:
        raise InputError("the settings cannot be used:" + "".join(f"\n  {line}" for line in problems))
    return _validated(tables)


def to_toml(config: Config) -> str:
    """All settings as text that read_config() understands.

    >>> print(to_toml(Config()).splitlines()[1])
    kind = "voc2012"
    """
    return "\n".join(_lines(config.model_dump(mode="json"), ())) + "\n"


def differences(one: Config, two: Config) -> list[str]:
    """A line for each setting that differs.

    >>> from densefield.training.config import TrainingConfig
    >>> differences(Config(), Config(training=TrainingConfig(steps=7)))
    ['training.steps: 6000, 7']
    """
    first, second = _flat(one.model_dump(mode="json")), _flat(two.model_dump(mode="json"))
    return [
        f"{key}: {first.get(key)}, {second.get(key)}"
        for key in sorted(first.keys() | second.keys())
        if first.get(key) != second.get(key)
    ]


def _read(path: Path) -> Tables:
    try:
        tables: Tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}. Name a file of settings, in TOML.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}.") from error
    return tables


def _validated(tables: Mapping[str, Any]) -> Config:
    # As JSON, where a list may be a tuple but neither true nor "1" is a number.
    return Config.model_validate_json(json.dumps(tables, default=str), strict=True)


def _problems(tables: Mapping[str, Any]) -> list[str]:
    try:
        _validated(tables)
    except ValidationError as error:
        return list(dict.fromkeys(_line(each) for each in error.errors(include_url=False)))
    return []


def _line(error: Any) -> str:
    """One problem: the key, what came, and what was expected."""
    place = [str(part) for part in error["loc"]]
    key = ".".join(part for part in place if part not in _TYPES and "[" not in part)
    if error["type"] == "extra_forbidden":
        known = _known_keys(place[:-1])
        near = difflib.get_close_matches(place[-1], known, n=1)
        return f"{key}: there is no such key" + (f"; is {near[0]} meant?" if near else f", only {', '.join(known)}")
    if error["type"] == "value_error":
        return f"{key}: {error['msg'].removeprefix('Value error, ')}"
    message = error["msg"][0].lower() + error["msg"][1:]
    return f"{key}: is {json.dumps(error['input'], default=str)}; {message.removeprefix('input ')}"


def _known_keys(place: Sequence[str]) -> list[str]:
    section: type[BaseModel] = Config
    for name in place:
        inner = section.model_fields[name].annotation
        assert isinstance(inner, type) and issubclass(inner, BaseModel)
        section = inner
    return list(section.model_fields)


def _set(tables: Tables, setting: str, problems: list[str]) -> None:
    """Takes a setting such as "training.steps=100"; what is no TOML is text."""
    key, equals, text = setting.partition("=")
    names = key.strip().split(".")
    if not equals or not all(names):
        problems.append(f"{setting!r}: expected section.key=value, such as training.steps=100")
        return
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    for name in names[:-1]:
        inner = tables.setdefault(name, {})
        if not isinstance(inner, dict):
            problems.append(f"{key}: {name} is no section")
            return
        tables = inner
    tables[names[-1]] = value


def _merge(tables: Tables, other: Tables) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(tables.get(key), dict):
            _merge(tables[key], value)
        else:
            tables[key] = copy.deepcopy(value)


def _at(tables: Tables, *names: str) -> object:
    found: Any = tables
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _lines(table: Mapping[str, Any], place: tuple[str, ...]) -> Iterator[str]:
    if place:
        yield f"[{'.'.join(place)}]"
    for key, value in table.items():
        if not isinstance(value, dict) and value is not None:
            yield f"{key} = {json.dumps(value, ensure_ascii=False)}"  # the same in TOML for all that settings hold
    for key, value in table.items():
        if isinstance(value, dict):
            yield from ["", *_lines(value, (*place, key))] if place else _lines(value, (key,))
    if len(place) == 1:
        yield ""


def _flat(table: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat.update(_flat(value, f"{place}{key}.") if isinstance(value, dict) else {f"{place}{key}": value})
    return flat
