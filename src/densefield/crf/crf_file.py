"""A CRF in a TOML file: its kernels and options."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any, SupportsIndex

from densefield.crf.crf_tables import KERNELS, crf_from_tables, crf_problems, crf_to_tables
from densefield.crf.model import CRF
from densefield.errors import InputError
from densefield.io.files import write_atomically


def crf_to_toml(crf: CRF) -> str:
    """The TOML text of a CRF: kernels and options, without `method`, `threads` and `data_range`.

    Reading it gives the same float64 numbers. Written by hand because the base install needs NumPy alone.

    >>> from densefield import Spatial
    >>> print(crf_to_toml(CRF([Spatial([2.5, 3], weight=2)])))
    iterations = 5
    inference = "parallel"
    exclude_self = false
    operator = "symmetric"
    halo = 0
    axis_order = "xy"
    <BLANKLINE>
    [[kernels]]
    kind = "spatial"
    weight = 2.0
    normalization = "symmetric"
    sigma = [2.5, 3.0]
    <BLANKLINE>
    """
    tables = crf_to_tables(crf)
    lines = [f"{name} = {toml_value(value)}" for name, value in tables.items() if name != KERNELS]
    for table in tables[KERNELS]:
        lines += ["", f"[[{KERNELS}]]", *(f"{name} = {toml_value(value)}" for name, value in table.items())]
    if not tables[KERNELS]:  # without the key, a file has the default kernels
        lines.append(f"{KERNELS} = []")
    return "\n".join(lines) + "\n"


def write_crf(path: str | PathLike[str], crf: CRF) -> None:
    """Writes a CRF to a TOML file, completely or not at all."""
    write_atomically(Path(path), crf_to_toml(crf).encode())


def read_crf(path: str | PathLike[str], num_classes: int | None = None, **options: Any) -> CRF:
    """Reads a CRF from a TOML file.

    With `num_classes`, weights for another number of classes are an error, and single weights are spread over the
    classes as each kernel's `compatibility` says. `options` override those of the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_crf(Path(folder, "crf.toml"), CRF(iterations=7))
    ...     crf = read_crf(Path(folder, "crf.toml"), threads=2)
    >>> crf.options.iterations, [kernel.name for kernel in crf.kernels]
    (7, ['spatial', 'bilateral'])
    """
    return crf_from_tables(read_crf_tables(path, num_classes), num_classes, **options)


def read_crf_tables(path: str | PathLike[str], num_classes: int | None = None) -> dict[str, Any]:
    """The tables of a file, checked; one error lists all problems."""
    tables = read_toml(path, "a CRF as `densefield tune` or CRF.save() writes it")
    problems = crf_problems(tables, num_classes)
    if problems:
        raise InputError(problem_text(path, problems))
    return tables


def problem_text(path: str | PathLike[str], problems: list[str]) -> str:
    """One message for all problems of a file.

    >>> problem_text("crf.toml", ["halo: is true, expected an integer."])
    'crf.toml: halo: is true, expected an integer.'
    """
    if len(problems) == 1:
        return f"{path}: {problems[0]}"
    return f"{path} has {len(problems)} problems:" + "".join(f"\n  {line}" for line in problems)


def read_toml(path: str | PathLike[str], expected: str) -> dict[str, Any]:
    """The tables of a TOML file; `expected` says in errors what the file should be."""
    toml = _toml_parser()
    try:
        tables: dict[str, Any] = toml.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}, expected {expected}.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}. Expected {expected}.") from error
    except RecursionError:
        raise InputError(f"{path} is nested too deeply. Expected {expected}.") from None
    except (UnicodeDecodeError, toml.TOMLDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}. Expected {expected}.") from error
    return tables


def parse_toml_value(text: str) -> Any:
    """A text parsed as a TOML value; text that is not TOML is a string.

    >>> parse_toml_value("[1, 2.5]"), parse_toml_value("potts")
    ([1, 2.5], 'potts')
    """
    toml = _toml_parser()
    try:
        return toml.loads(f"value = {text}")["value"]
    except (toml.TOMLDecodeError, RecursionError):
        return text.strip()


def _toml_parser() -> ModuleType:
    name = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Python 3.10 needs tomli to read TOML. Install with: pip install tomli", name="tomli"
        ) from error


def toml_value(value: Any) -> str:
    """A string, boolean, number or nested list of them as TOML.

    >>> toml_value([True, 3, 0.1, "a"])
    '[true, 3, 0.1, "a"]'
    """
    if isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    return str(value.__index__()) if isinstance(value, SupportsIndex) else repr(float(value))
