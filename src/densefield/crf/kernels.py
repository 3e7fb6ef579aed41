"""Gaussian kernels: the features they compare, their widths, weights and normalization."""

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

MOST_WIDTH = 1e15  # its square, and that of its reciprocal, fit in single precision


@dataclass(frozen=True, eq=False)
class Kernel(ABC):
    """k(i,j) = exp(-½ (p_i - p_j)ᵀ Σ⁻¹ (p_i - p_j)), with a weight μ and a normalization (paper, after Eq. 9).

    Parameters
    ----------
    weight
        μ: one number (Potts), one per class (L,), or a symmetric matrix (L, L). Positive weights attract.
    normalization
        K̂ of D = diag(K·1): "symmetric" D^-½ K D^-½, "after" D⁻¹ K, "before" K D⁻¹, or "none" K.
    covariance
        Σ (d, d), instead of widths.
    """

    _: KW_ONLY
    weight: Weight = 1.0
    normalization: Normalization = "symmetric"
    covariance: npt.ArrayLike | None = None

    def __post_init__(self) -> None:
        """Checks the fields, and copies arrays so that later changes do not reach the kernel."""
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
        for name, width in self._widths().items():
            checked_widths(width, name)
        if self.covariance is not None:
            checked_covariance(self.covariance)

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the kernel's parameters."""

    @property
    @abstractmethod
    def width_fields(self) -> Mapping[str, str]:
        """The field with the width of each compared part of a pixel: "position", "channel" or a custom feature."""

    def _widths(self) -> dict[str, Widths]:
        """The widths by field."""
        return {field: getattr(self, field) for field in self.width_fields.values()}

    def widths_of_parts(self) -> dict[str, Widths]:
        """The widths of each compared part of a pixel."""
        return {part: getattr(self, field) for part, field in self.width_fields.items()}

    def with_widths(self: K, widths: Mapping[str, Widths]) -> K:
        """The kernel with other `widths` for some parts.

        >>> Bilateral(60, 10).with_widths({"channel": 13}).sigma_rgb
        13
        """
        changed: dict[str, Any] = {self.width_fields[part]: each for part, each in widths.items()}
        return replace(self, **changed)

    def for_labels(self: K, labels: npt.NDArray[np.integer] | None, num_classes: int) -> K:
        """The kernel for some `labels` of `num_classes`; None stands for all.

        >>> Spatial(3, weight=[1.0, 2.0, 4.0]).for_labels(np.array([0, 2]), 3).weight.tolist()
        [1.0, 4.0]
        """
        mu = np.asarray(self.weight)
        if labels is None or mu.ndim == 0 or len(mu) != num_classes:
            return self
        return replace(self, weight=mu[labels] if mu.ndim == 1 else mu[np.ix_(labels, labels)])

    def describe(self) -> str:
        """Widths, weight and normalization in one line.

        >>> print(Bilateral(60, 10, weight=5).describe())
        sigma_xy 60, sigma_rgb 10, weight 5, symmetric
        """
        widths: Mapping[str, Any] = self._widths() if self.covariance is None else {"covariance": self.covariance}
        parts = [f"{name} {in_short(value)}" for name, value in {**widths, "weight": self.weight}.items()]
        return ", ".join([*parts, self.normalization])

    def shape(self, dimensions: Mapping[str, int]) -> Matrix:
        """Widths σ (d,) of features p/σ, or the matrix W (d, d) of features W p with WᵀW = Σ⁻¹.

        `dimensions` is the number of features of each part.

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
    """A kernel of position, which smooths.

    Parameters
    ----------
    sigma
        Width in pixels, or in the unit of `spacing`: one number, or one per axis in the order x, y(, z).
    weight, normalization, covariance
        Those of Kernel.

    >>> Spatial(3, weight=3).name
    'spatial'
    """

    sigma: Widths = 3.0

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
    """A kernel of position and colour: nearby pixels of similar colour agree.

    Parameters
    ----------
    sigma_xy
        Width in pixels: one number, or one per axis in the order x, y(, z).
    sigma_rgb
        Width in colour levels 0…255: one number, or one per channel.
    weight, normalization, covariance
        Those of Kernel.

    >>> Bilateral(sigma_xy=60, sigma_rgb=10, weight=5).name
    'bilateral'
    """

    sigma_xy: Widths = 60.0
    sigma_rgb: Widths = 10.0

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
    """A kernel of user-defined features, alone or together with positions.

    Parameters
    ----------
    feature
        Name under which ``features=`` passes them, up to 16 numbers per pixel.
    sigma
        Width: one number, or one per feature.
    sigma_xy
        Width in pixels, if positions are compared too: one number, or one per axis in the order x, y(, z).
    weight, normalization, covariance
        Those of Kernel. A covariance is that of the features; it excludes sigma_xy.

    >>> Custom("depth", sigma=0.2).widths_of_parts()
    {'depth': 0.2}
    >>> Custom("depth", sigma=0.2, sigma_xy=40).widths_of_parts()  # nearby pixels of similar depth
    {'position': 40, 'depth': 0.2}
    """

    feature: str = ""
    sigma: Widths = 1.0
    sigma_xy: Widths | None = None

    def __post_init__(self) -> None:
        """Checks the name too."""
        if not isinstance(self.feature, str) or not self.feature.isidentifier():
            raise InputError(f"feature is {self.feature!r}, expected a name such as 'depth' or 'normals'.")
        if self.feature in ("position", "channel", "spatial", "bilateral"):
            raise InputError(f"feature is {self.feature!r}, a name that is taken: choose another.")
        if self.covariance is not None and self.sigma_xy is not None:
            raise InputError("covariance and sigma_xy are both given: use sigma and sigma_xy to compare positions too.")
        super().__post_init__()

    @property
    def name(self) -> str:
        """The feature's name."""
        return self.feature

    @property
    def width_fields(self) -> Mapping[str, str]:
        """See Kernel."""
        return {**({} if self.sigma_xy is None else {"position": "sigma_xy"}), self.feature: "sigma"}


def in_short(value: npt.ArrayLike) -> str:
    """Numbers with four digits; equal numbers as one, more than five as shape and range.

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
    """The colour widths (C,), from the covariance if the kernel has one.

    >>> channel_widths(Bilateral(60, 10), 3).tolist()
    [10.0, 10.0, 10.0]
    """
    if kernel.covariance is not None:
        return np.sqrt(np.diag(np.asarray(kernel.covariance, np.float64)))[-channels:]
    return np.broadcast_to(np.asarray(kernel.widths_of_parts()["channel"], np.float64), channels)


def checked_widths(widths: Widths, name: str = "sigma") -> Matrix:
    """Widths as an array () or (n,) of finite positive numbers; `name` is for errors."""
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
