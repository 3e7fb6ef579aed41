"""Values of the options of `densefield refine`: checks, and what they make together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from densefield.cli.refine_video import is_given

KERNEL_OPTIONS = ("sigma", "weight", "sigma_xy", "sigma_rgb", "bilateral_weight")


def above_0(value: float | None) -> float | None:
    """Raises unless a number is finite and above 0."""
    if value is not None and not 0 < value < math.inf:
        raise typer.BadParameter(f"{value} is not a finite number above 0.")
    return value


def finite(value: float | None) -> float | None:
    """Raises unless a number is finite."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value


def probability(value: float | None) -> float | None:
    """Raises unless a number is between 0 and 1."""
    if value is not None and not 0 < value < 1:
        raise typer.BadParameter(f"{value} is not between 0 and 1.")
    return value


def crf_of(given: dict[str, float], iterations: int) -> Any:
    """The CRF of options, with the defaults of `CRF` for those not given."""
    from densefield.crf.kernels import Bilateral, Spatial
    from densefield.crf.model import CRF, PHOTO_KERNELS

    spatial, bilateral = PHOTO_KERNELS
    assert isinstance(spatial, Spatial) and isinstance(bilateral, Bilateral)
    kernels = (
        Spatial(given.get("sigma", spatial.sigma), weight=given.get("weight", spatial.weight)),
        Bilateral(
            given.get("sigma_xy", bilateral.sigma_xy),
            given.get("sigma_rgb", bilateral.sigma_rgb),
            weight=given.get("bilateral_weight", bilateral.weight),
        ),
    )
    return CRF([kernel for kernel in kernels if kernel.weight != 0], iterations=iterations)


def check_alone(
    context: typer.Context,
    crf: Path | None,
    roughness: float | None,
    confidence: float | None,
    kernels: dict[str, float],
) -> None:
    """Raises if options are combined that replace each other."""
    if crf is not None:
        given = [*(["iterations"] if is_given(context, "iterations") else []), *kernels]
        if given:
            raise typer.BadParameter(
                f"{crf} has its own kernels and iterations: leave out {_flags(given)}.", param_hint="--crf"
            )
    instead = [*(["crf"] if crf is not None else []), *(["confidence"] if confidence is not None else []), *kernels]
    if roughness is not None and instead:
        raise typer.BadParameter(
            f"it is for the learnt kernels, which {_flags(instead)} replaces: leave out one of them.",
            param_hint="--roughness",
        )


def _flags(names: Sequence[str]) -> str:
    return " and ".join(f"--{name.replace('_', '-')}" for name in names)


def numbers_of(text: str | None, flag: str) -> tuple[float, ...] | None:
    """Numbers separated by commas."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not numbers separated by commas.", param_hint=flag) from None


def pair_of(numbers: tuple[float, ...] | None, flag: str) -> tuple[float, float] | None:
    """Two numbers; raises if there are fewer or more."""
    if numbers is None:
        return None
    if len(numbers) != 2:
        count = "1 number" if len(numbers) == 1 else f"{len(numbers)} numbers"
        raise typer.BadParameter(f"it has {count}, expected two.", param_hint=flag)
    return numbers[0], numbers[1]
