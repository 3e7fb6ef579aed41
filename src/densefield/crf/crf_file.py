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
    """The text of a file that `read_crf` reads: options and kernels, but not `method`, `threads` and `data_range`.

    Numbers have as many digits as it takes to get the same float64 back.

    >>> from densefield import Spatial
    >>> print(crf_to_toml(CRF([Spatial([2.5, 3], weight=2)])))
    iterations = 5
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
    if not tables[KERNELS]:  # a file without the key has the default kernels
        lines.append(f"{KERNELS} = []")
    return "\n".join(lines) + "\n"


def write_crf(path: str | PathLike[str], crf: CRF) -> None:
    """Writes a CRF to a file that `read_crf` reads.

    * ``path``: the file, such as ``crf.toml``. It is replaced completely or not at all.
    * ``crf``: the CRF; for a DenseCRF pass ``crf.to_numpy()``.
    """
    write_atomically(Path(path), crf_to_toml(crf).encode())


def read_crf(path: str | PathLike[str], num_classes: int | None = None, **options: Any) -> CRF:
    """The CRF in a file that `write_crf`, or `densefield tune`, wrote.

    * ``labels``: the number of labels, if it is known. Weights for another number are then an error, and a single
      weight with a `compatibility` is spread over the labels.
    * ``options``: arguments of CRF that the file does not hold (``method``, ``threads``, ``data_range``), or that
      override those of the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_crf(Path(folder, "crf.toml"), CRF(iterations=7))
    ...     crf = read_crf(Path(folder, "crf.toml"), threads=2)
    >>> crf.iterations, [kernel.name for kernel in crf.kernels]
    (7, ['spatial', 'bilateral'])
    """
    return crf_from_tables(read_crf_tables(path, num_classes), num_classes, **options)


def read_crf_tables(path: str | PathLike[str], num_classes: int | None = None) -> dict[str, Any]:
    """The tables of a file, checked; every problem is listed in one error."""
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
    """The value that a text stands for in TOML; text that is not TOML is a string.

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
