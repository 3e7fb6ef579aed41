"""A CRF as plain tables: the keys of `crf.toml` and of `[crf]` in the config of a run."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from densefield.crf.compatibility import checked_weight
from densefield.crf.kernels import (
    Bilateral,
    Custom,
    Kernel,
    Normalization,
    Spatial,
    checked_covariance,
    checked_widths,
)
from densefield.crf.model import CRF, PHOTO_KERNELS
from densefield.crf.options import CRFOptions
from densefield.errors import DensefieldError, InputError

Table = Mapping[str, Any]
Compatibility = Literal["potts", "per_label", "matrix"]

KERNELS = "kernels"
OPTIONS = ("iterations", "inference", "exclude_self", "operator", "halo", "axis_order")
KINDS: dict[str, type[Kernel]] = {"spatial": Spatial, "bilateral": Bilateral, "custom": Custom}
_FIELDS = {
    "spatial": ("weight", "compatibility", "normalization", "sigma", "covariance"),
    "bilateral": ("weight", "compatibility", "normalization", "sigma_xy", "sigma_rgb", "covariance"),
    "custom": ("feature", "weight", "compatibility", "normalization", "sigma", "sigma_xy", "covariance"),
}
_WIDTHS = ("sigma", "sigma_xy", "sigma_rgb")


def crf_to_tables(crf: CRF) -> dict[str, Any]:
    """The options, and a table for each kernel.

    >>> crf_to_tables(CRF([Spatial(3, weight=2)]))["kernels"]
    [{'kind': 'spatial', 'weight': 2.0, 'normalization': 'symmetric', 'sigma': 3.0}]
    """
    if crf.options.inference == "sequential":
        raise InputError(
            "inference is 'sequential', which needs method='exact', and files have no method. "
            "Use crf.replace(inference='convergent') to save it."
        )
    tables: dict[str, Any] = {name: getattr(crf.options, name) for name in OPTIONS}
    tables[KERNELS] = [kernel_to_table(kernel) for kernel in crf.kernels]
    return tables


def crf_from_tables(tables: Table, num_classes: int | None = None, **options: Any) -> CRF:
    """The CRF of tables; `options` are further options of CRF, or override those of the tables.

    With `num_classes`, single weights are spread over the classes as each kernel's `compatibility` says.

    >>> crf_from_tables({"iterations": 3, "kernels": [{"kind": "spatial", "sigma": 2}]}, threads=1).options.iterations
    3
    """
    problems = crf_problems(tables, num_classes)
    if problems:
        raise InputError("\n".join(problems))
    return CRF(kernels_from_tables(tables.get(KERNELS), num_classes), **{**_options(tables), **options})


def kernels_from_tables(tables: Sequence[Table] | None, num_classes: int | None = None) -> tuple[Kernel, ...]:
    """The kernels of checked tables; None stands for the default kernels."""
    return PHOTO_KERNELS if tables is None else tuple(_kernel(table, num_classes) for table in tables)


def kernel_to_table(kernel: Kernel, compatibility: Compatibility = "potts") -> dict[str, Any]:
    """Every field of a kernel, arrays as lists; without widths if a covariance replaces them."""
    kind = next((name for name, each in KINDS.items() if isinstance(kernel, each)), None)
    if kind is None:
        raise InputError(
            f"a kernel is of type {type(kernel).__name__}, expected Spatial, Bilateral or Custom to write it."
        )
    table: dict[str, Any] = {"kind": kind}
    for name in _FIELDS[kind]:
        if name == "compatibility":
            if compatibility != "potts":
                table[name] = compatibility
            continue
        value = getattr(kernel, name)
        if value is None or (name in _WIDTHS and kernel.covariance is not None):
            continue
        table[name] = value if isinstance(value, str) else np.asarray(value, np.float64).tolist()
    return table


def crf_problems(tables: Table, num_classes: int | None = None, others: Collection[str] = ()) -> list[str]:
    """One line per unknown key and per invalid value, beginning with the key.

    `num_classes` is the number of classes that weights are for, if known; `others` are keys allowed besides.

    >>> crf_problems({"iteration": 5, "kernels": [{"kind": "spatial", "sigma": 0}]})  # doctest: +NORMALIZE_WHITESPACE
    ['iteration: unknown key; did you mean iterations?',
     'kernels.0.sigma: sigma is 0.0, expected finite numbers above 0.']
    """
    known = (*others, *OPTIONS, KERNELS)
    problems = [unknown_key(name, name, known) for name in tables if name not in known]
    for name in OPTIONS:
        if name in tables:
            problems += _option_problems(name, tables[name])
    if KERNELS in tables:
        problems += kernel_problems(tables[KERNELS], num_classes)
    if not problems:  # then kernels and options may still not fit together
        problems += _raised("inference", lambda: CRF(kernels_from_tables(tables.get(KERNELS)), **_options(tables)))
    return problems


def kernel_problems(kernels: object, num_classes: int | None = None) -> list[str]:
    """A line for each problem of a list of kernels."""
    if not isinstance(kernels, list | tuple):
        return [f"{KERNELS}: is {kernels!r}, expected a list of tables, each under a line [[{KERNELS}]]."]
    return [
        line for place, table in enumerate(kernels) for line in _problems_of(f"{KERNELS}.{place}", table, num_classes)
    ]


def unknown_key(place: str, name: str, known: Collection[str]) -> str:
    """The line for an unknown key, with the nearest known one.

    >>> unknown_key("crf.hallo", "hallo", ("halo", "kernels"))
    'crf.hallo: unknown key; did you mean halo?'
    """
    near = difflib.get_close_matches(name, known, n=1)
    return f"{place}: unknown key" + (f"; did you mean {near[0]}?" if near else f", expected {', '.join(known)}.")


def _options(tables: Table) -> dict[str, Any]:
    return {name: tables[name] for name in OPTIONS if name in tables}


def _option_problems(name: str, value: object) -> Iterator[str]:
    if name == "exclude_self" and not isinstance(value, bool):  # CRF accepts any truth value
        yield f"{name}: is {value!r}, expected true or false."
        return
    option: Any = {name: value}
    yield from _raised(name, lambda: CRFOptions(**option))


def _problems_of(place: str, table: object, num_classes: int | None) -> Iterator[str]:
    """The problems of one kernel."""
    if not isinstance(table, Mapping):
        yield f"{place}: is {table!r}, expected a table, under a line [[{KERNELS}]]."
        return
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        came = f"is {kind!r}" if "kind" in table else "is missing"
        yield f"{place}.kind: {came}, expected one of {', '.join(KINDS)}."
        return
    known = ("kind", *_FIELDS[kind])
    yield from (unknown_key(f"{place}.{name}", name, known) for name in table if name not in known)
    both = [name for name in _WIDTHS if name in table] if "covariance" in table else []
    if both:
        yield f"{place}.covariance: replaces the widths, but {' and '.join(both)} is given too: remove one of them."
    found = False
    for name, check in _CHECKS.items():
        if name in table and name in known:
            for line in _raised(f"{place}.{name}", lambda check=check, name=name: check(table[name])):  # type: ignore[misc]
                found = True
                yield line
    if not found:
        yield from _raised(f"{place}.weight", lambda: _checked_spread(table, num_classes))
        if kind == "custom":
            yield from _raised(f"{place}.feature", lambda: Custom(table.get("feature", "")))


def _checked_spread(table: Table, num_classes: int | None) -> None:
    """Raises if a weight is for another number of classes, or contradicts the compatibility."""
    weight = checked_weight(table.get("weight", 1.0), num_classes)
    form = table.get("compatibility")
    if form is not None and weight.ndim and form != get_args(Compatibility)[weight.ndim]:
        raise InputError(
            f"the weight has shape {weight.shape}, but compatibility is {form!r}: give a single weight, which is "
            "spread over the labels, or remove compatibility."
        )


def _checked_choice(value: object, name: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(f"is {value!r}, expected one of {', '.join(choices)}.")


_CHECKS: dict[str, Callable[[Any], object]] = {
    "weight": checked_weight,
    "compatibility": lambda value: _checked_choice(value, "compatibility", get_args(Compatibility)),
    "normalization": lambda value: _checked_choice(value, "normalization", get_args(Normalization)),
    "sigma": checked_widths,
    "sigma_xy": checked_widths,
    "sigma_rgb": checked_widths,
    "covariance": checked_covariance,
}


def _raised(place: str, check: Callable[[], object]) -> Iterator[str]:
    """The error of a check as a line, if it raises one."""
    try:
        check()
    except DensefieldError as error:
        yield f"{place}: {error}"


def _kernel(table: Table, num_classes: int | None) -> Kernel:
    fields = {name: value for name, value in table.items() if name not in ("kind", "compatibility")}
    form = table.get("compatibility", "potts")
    weight = checked_weight(fields.get("weight", 1.0))
    if num_classes is not None and weight.ndim == 0 and form != "potts":
        fields["weight"] = np.full(num_classes, weight) if form == "per_label" else weight * np.eye(num_classes)
    return KINDS[table["kind"]](**fields)
