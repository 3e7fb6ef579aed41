"""A CRF in a TOML file: its kernels and how it is run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from densefield.atomic import write_atomically
from densefield.crf.kernels import Bilateral, Kernel, Spatial
from densefield.crf.layer import DenseCRF
from densefield.errors import DensefieldError, InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

KINDS: dict[str, type[Kernel]] = {"spatial": Spatial, "bilateral": Bilateral}
SHAPES = ("sigma", "sigma_xy", "sigma_rgb", "covariance")
OPTIONS = ("iterations", "exclude_self", "operator", "halo")


def crf_to_toml(crf: DenseCRF) -> str:
    """The kernels as they are now, and the options.

    >>> print(crf_to_toml(DenseCRF(2, [Spatial(3, weight=2)])))
    iterations = 5
    exclude_self = false
    operator = "symmetric"
    halo = 0
    <BLANKLINE>
    [[kernels]]
    kind = "spatial"
    weight = 2.0
    normalization = "symmetric"
    sigma = [3.0, 3.0]
    <BLANKLINE>
    """
    lines = [f"{name} = {_toml(getattr(crf, name))}" for name in OPTIONS]
    for kernel in crf.to_numpy().kernels:
        kind = next((name for name, each in KINDS.items() if isinstance(kernel, each)), None)
        if kind is None:
            raise InputError(f"the kernel {kernel.name!r} is of features of one's own, which a file does not hold.")
        shapes = ("covariance",) if kernel.covariance is not None else SHAPES
        parts = {"kind": kind, "weight": kernel.weight, "normalization": kernel.normalization}
        parts |= {name: getattr(kernel, name) for name in shapes if getattr(kernel, name, None) is not None}
        lines += ["", "[[kernels]]", *(f"{name} = {_toml(value)}" for name, value in parts.items())]
    return "\n".join(lines) + "\n"


def write_crf(path: Path, crf: DenseCRF) -> None:
    """Writes the CRF to a file that `read_crf` reads."""
    write_atomically(path, crf_to_toml(crf).encode())


def read_crf(path: Path, labels: int) -> DenseCRF:
    """The CRF of a file, for so many labels."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} cannot be read as TOML: {error}.") from error
    tables = content.pop("kernels", None)
    if not isinstance(tables, list) or not tables:
        raise InputError(f"{path} has no [[kernels]], expected one or more, of kind {' or '.join(KINDS)}.")
    if not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{path} has kernels = {tables}, expected tables, each under a line [[kernels]].")
    for name in content:
        if name not in OPTIONS:
            raise InputError(f"{path} has the key {name!r}, expected {', '.join(OPTIONS)} and [[kernels]].")
    # The CRF checks the other options, but takes for this one all that Python holds to be true.
    if not isinstance(content.get("exclude_self", False), bool):
        raise InputError(f"{path}: exclude_self is {content['exclude_self']!r}, expected true or false.")
    try:
        return DenseCRF(labels, [_kernel(table) for table in tables], **content)
    except (DensefieldError, TypeError) as error:
        raise InputError(f"{path}: {error}") from error


def _kernel(table: dict[str, Any]) -> Kernel:
    given = dict(table)
    kind = given.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(f"a kernel has the kind {kind!r}, expected {' or '.join(KINDS)}.")
    known = set(KINDS[kind].__dataclass_fields__) - {"_"}
    for name in given:
        if name not in known:
            raise InputError(f"the {kind} kernel has the key {name!r}, expected {', '.join(sorted(known))}.")
    return KINDS[kind](**given)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, int):
        return str(value)
    array = np.asarray(value)
    if array.ndim:
        return f"[{', '.join(_toml(item) for item in array)}]"
    return repr(float(f"{float(array):.7g}"))  # parameters are learnt in single precision
