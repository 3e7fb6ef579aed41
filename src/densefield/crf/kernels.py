"""Gaussian kernels: what a pixel is compared by, how wide, and how much it counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from densefield.crf.arrays import checked_numbers
from densefield.crf.compatibility import Weight, checked_weight
from densefield.errors import InputError
from densefield.filters.lattice_design import MAX_DIMENSION

Normalization = Literal["symmetric", "after", "before", "none"]
Widths = float | Sequence[float] | npt.NDArray[np.floating]
Matrix = npt.NDArray[np.float64]
K = TypeVar("K", bound="Kernel")

MOST_WIDTH = 1e15  # whose square, and that of numbers over it, single precision holds


@dataclass(frozen=True, eq=False)
class Kernel(ABC):
    """k(i,j) = exp(-½ (p_i - p_j)ᵀ Σ⁻¹ (p_i - p_j)), with a weight μ and a normalisation (paper, after Eq. 9)."""

    _: KW_ONLY
    weight: Weight = 1.0  # (), (L,) or (L, L); positive attracts
    normalization: Normalization = "symmetric"
    covariance: npt.ArrayLike | None = None  # Σ (d, d); the widths are its diagonal's roots where it is None

    def __post_init__(self) -> None:
        """Checks what can be checked without data, and keeps copies: a kernel stays what it was when it was made."""
        for field in fields(self):
            value = deepcopy(getattr(self, field.name))
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, field.name, value)
        if self.normalization not in get_args(Normalization):
            raise InputError(
                f"normalization is {self.normalization!r}, expected one of {', '.join(get_args(Normalization))}."
            )
        checked_weight(self.weight)
        for field in fields(self):
            if field.name.startswith("sigma"):
                checked_widths(getattr(self, field.name), field.name)
        if self.covariance is not None:
            checked_covariance(self.covariance)

    @property
    @abstractmethod
    def name(self) -> str:
        """What the kernel's parameters are called."""

    @property
    @abstractmethod
    def width_fields(self) -> Mapping[str, str]:
        """The field with the width of each compared part of a pixel: "position", "channel" or a custom feature."""

    def widths_of_parts(self) -> dict[str, Widths]:
        """The widths of each compared part of a pixel."""
        return {part: getattr(self, field) for part, field in self.width_fields.items()}

    def with_widths(self: K, widths: Mapping[str, Widths]) -> K:
        """The kernel with other widths for some parts.

        >>> Bilateral(60, 10).with_widths({"channel": 13}).sigma_rgb
        13
        """
        changed: dict[str, Any] = {self.width_fields[part]: each for part, each in widths.items()}
        return replace(self, **changed)

    def for_labels(self: K, labels: npt.NDArray[np.integer] | None, count: int) -> K:
        """The kernel for some of `count` labels, those that rows of scores are for; for all where it is None.

        >>> Spatial(3, weight=[1.0, 2.0, 4.0]).for_labels(np.array([0, 2]), 3).weight.tolist()
        [1.0, 4.0]
        """
        mu = np.asarray(self.weight)
        if labels is None or mu.ndim == 0 or len(mu) != count:
            return self
        return replace(self, weight=mu[labels] if mu.ndim == 1 else mu[np.ix_(labels, labels)])

    def describe(self) -> str:
        """Widths, weight and normalisation in one line, for print().

        >>> print(Bilateral(60, 10, weight=5).describe())
        sigma_xy 60, sigma_rgb 10, weight 5, symmetric
        """
        widths = {field.name: getattr(self, field.name) for field in fields(self) if field.name.startswith("sigma")}
        if self.covariance is not None:
            widths = {"covariance": self.covariance}
        parts = [f"{name} {in_short(value)}" for name, value in {**widths, "weight": self.weight}.items()]
        return ", ".join([*parts, self.normalization])

    def shape(self, dimensions: Mapping[str, int]) -> Matrix:
        """Widths σ (d,), or for a full covariance the matrix W (d, d) with WᵀW = Σ⁻¹.

        Features are p/σ or W p. `dimensions` says how many numbers each part has.

        >>> Bilateral(60, 10).shape({"position": 2, "channel": 3}).tolist()
        [60.0, 60.0, 10.0, 10.0, 10.0]
        """
        parts = self.widths_of_parts()
        d = sum(dimensions[part] for part in parts)
        if not 1 <= d <= MAX_DIMENSION:
            counts = ", ".join(f"{dimensions[part]} of {part}" for part in parts)
            raise InputError(
                f"the {self.name} kernel compares {d} dimensions ({counts}), expected 1 to {MAX_DIMENSION}. "
                "Give it fewer numbers per pixel, such as their principal components."
            )
        if self.covariance is not None:
            covariance = checked_covariance(self.covariance)
            if len(covariance) != d:
                raise InputError(
                    f"the covariance has shape {covariance.shape}, expected ({d}, {d}) for {', '.join(parts)}, in this "
                    "order."
                )
            return np.asarray(np.linalg.inv(np.linalg.cholesky(covariance)))
        each = []
        for part, given in parts.items():
            widths = checked_widths(given)
            if widths.ndim and len(widths) != dimensions[part]:
                raise InputError(
                    f"the {self.name} kernel has {len(widths)} widths for {part}, which has {dimensions[part]} "
                    "numbers: give one width, or one for each."
                )
            each.append(np.broadcast_to(widths, dimensions[part]))
        return np.concatenate(each)


@dataclass(frozen=True, eq=False)
class Spatial(Kernel):
    """Pixels near each other: p is the position, σ in pixels (or in the unit of `spacing`).

    >>> Spatial(3, weight=3).name
    'spatial'
    """

    sigma: Widths = 3.0  # one width, or one per axis in the order x, y(, z)

    @property
    def name(self) -> str:
        """'spatial'."""
        return "spatial"

    @property
    def width_fields(self) -> Mapping[str, str]:
        """See Kernel."""
        return {"position": "sigma"}


@dataclass(frozen=True, eq=False)
class Bilateral(Kernel):
    """Pixels near each other and alike in colour: p is position and channels, colours 0…255.

    >>> Bilateral(sigma_xy=60, sigma_rgb=10, weight=5).name
    'bilateral'
    """

    sigma_xy: Widths = 60.0  # one width, or one per axis in the order x, y(, z)
    sigma_rgb: Widths = 10.0  # one width, or one per channel, however many there are

    @property
    def name(self) -> str:
        """'bilateral'."""
        return "bilateral"

    @property
    def width_fields(self) -> Mapping[str, str]:
        """See Kernel."""
        return {"position": "sigma_xy", "channel": "sigma_rgb"}


@dataclass(frozen=True, eq=False)
class Custom(Kernel):
    """Points alike in features of your own, which are given by this name: any number of them, up to 16.

    >>> Custom("depth", sigma=0.2).widths_of_parts()
    {'depth': 0.2}
    """

    feature: str = ""
    sigma: Widths = 1.0  # one width, or one per feature

    def __post_init__(self) -> None:
        """Checks the name as well."""
        if not isinstance(self.feature, str) or not self.feature.isidentifier():
            raise InputError(f"feature is {self.feature!r}, expected a name such as 'depth' or 'normals'.")
        if self.feature in ("position", "channel", "spatial", "bilateral"):
            raise InputError(f"feature is {self.feature!r}, a name that is taken: choose another.")
        super().__post_init__()

    @property
    def name(self) -> str:
        """The feature's name."""
        return self.feature

    @property
    def width_fields(self) -> Mapping[str, str]:
        """See Kernel."""
        return {self.feature: "sigma"}


def in_short(value: npt.ArrayLike) -> str:
    """Numbers with four digits: one where all are the same, and of more than five the shape and range.

    >>> in_short([3.0, 3.0]), in_short([1.0, 2.5]), in_short(np.eye(21))
    ('3', '(1, 2.5)', '21×21 from 0 to 1')
    """
    array = np.asarray(value, np.float64)
    if array.ndim < 2 and (array == array.flat[0]).all():
        return f"{array.flat[0]:.4g}"
    if array.ndim == 1 and len(array) <= 5:
        return f"({', '.join(f'{each:.4g}' for each in array)})"
    return f"{'×'.join(map(str, array.shape))} from {array.min():.4g} to {array.max():.4g}"


def channel_widths(kernel: Kernel, channels: int) -> Matrix:
    """The widths (C,) of colours, from a covariance where the kernel has one.

    >>> channel_widths(Bilateral(60, 10), 3).tolist()
    [10.0, 10.0, 10.0]
    """
    if kernel.covariance is not None:
        return np.sqrt(np.diag(np.asarray(kernel.covariance, np.float64)))[-channels:]
    return np.broadcast_to(np.asarray(kernel.widths_of_parts()["channel"], np.float64), channels)


def checked_widths(widths: Widths, name: str = "sigma") -> Matrix:
    """Widths as an array () or (n,) of finite numbers above 0; errors call them by the name."""
    array = checked_numbers(widths, name, "a width, or one for each axis")
    if array.ndim > 1:
        raise InputError(f"{name} has shape {array.shape}, expected a width, or one for each axis.")
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise InputError(f"{name} is {array.tolist()}, expected finite numbers above 0.")
    if (array > MOST_WIDTH).any():
        raise InputError(f"{name} is {array.tolist()}, expected no number beyond {MOST_WIDTH:g}.")
    return array


def checked_covariance(given: npt.ArrayLike) -> Matrix:
    """A covariance as an array (d, d), symmetric and positive definite.

    >>> checked_covariance([[4, 0], [0, 1]]).tolist()
    [[4.0, 0.0], [0.0, 1.0]]
    """
    covariance = checked_numbers(given, "the covariance", "a symmetric matrix (d, d)")
    if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1]:
        raise InputError(f"the covariance has shape {covariance.shape}, expected a square matrix (d, d).")
    if not np.isfinite(covariance).all():
        raise InputError("the covariance holds NaN or infinity, expected finite numbers.")
    if not np.allclose(covariance, covariance.T, rtol=1e-5, atol=1e-8 * np.abs(covariance).max(initial=0)):
        raise InputError("the covariance is not symmetric. Use (c + c.T) / 2.")
    symmetric: Matrix = (covariance + covariance.T) / 2
    try:
        np.linalg.cholesky(symmetric)
    except np.linalg.LinAlgError:
        least = float(np.linalg.eigvalsh(symmetric)[0])
        raise InputError(
            f"the covariance is not positive definite: its least eigenvalue is {least:.3g}, expected all above 0. "
            "Add a small multiple of the unit matrix, numpy.eye(d)."
        ) from None
    return symmetric
