"""What is tried when a CRF is tuned: kernel shapes and weights, on a grid or at random."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass
from typing import Literal

import numpy as np

from densefield.crf.kernels import Bilateral, Kernel, Spatial
from densefield.errors import InputError

Criterion = Literal["negative_log_likelihood", "mean_iou", "pixel_accuracy"]
CRITERIA: tuple[Criterion, ...] = ("negative_log_likelihood", "mean_iou", "pixel_accuracy")


@dataclass(frozen=True)
class Setting:
    """Two kernels with the same width for both axes, and for all colours."""

    spatial_sigma: float = 3.0
    spatial_weight: float = 3.0
    bilateral_sigma_xy: float = 60.0
    bilateral_sigma_rgb: float = 10.0
    bilateral_weight: float = 5.0

    def kernels(self, shrink: int = 1) -> list[Kernel]:
        """The kernels, for images at 1/shrink of their size."""
        return [
            Spatial(self.spatial_sigma / shrink, weight=self.spatial_weight),
            Bilateral(self.bilateral_sigma_xy / shrink, self.bilateral_sigma_rgb, weight=self.bilateral_weight),
        ]


# Hardly a CRF at all: the marginals are those of the network.
FAINT = Setting(spatial_weight=0.01, bilateral_weight=0.01)


@dataclass(frozen=True)
class Space:
    """The values that are tried for each part of a setting: those of a grid, or random ones between their extremes."""

    spatial_sigma: tuple[float, ...] = (1.0, 3.0, 9.0)
    spatial_weight: tuple[float, ...] = (0.1, 1.0, 6.0)
    bilateral_sigma_xy: tuple[float, ...] = (10.0, 40.0, 120.0)
    bilateral_sigma_rgb: tuple[float, ...] = (3.0, 10.0, 30.0)
    bilateral_weight: tuple[float, ...] = (0.1, 1.0, 8.0)

    def __post_init__(self) -> None:
        """Checks all values."""
        for name, values in asdict(self).items():
            if not values or not all(math.isfinite(value) and value > 0 for value in values):
                raise InputError(f"{name} is {list(values)}, expected finite numbers above 0.")

    def grid(self) -> Iterator[Setting]:
        """Every combination, the last part fastest.

        >>> len(list(Space().grid()))
        243
        """
        return (Setting(*values) for values in itertools.product(*astuple(self)))

    def random(self, seed: int) -> Iterator[Setting]:
        """Settings without end, uniform in the logarithms; the first two are the usual one and one that is FAINT.

        Setting number n depends on the seed and n alone.

        >>> settings = list(itertools.islice(Space().random(seed=31), 3))
        >>> settings[0] == Setting(), 1 <= settings[2].spatial_sigma <= 9
        (True, True)
        """
        yield Setting()
        yield FAINT
        ends = np.log([(min(values), max(values)) for values in astuple(self)])
        for number in itertools.count(2):
            values = np.exp(np.random.default_rng([seed, number]).uniform(ends[:, 0], ends[:, 1]))
            yield Setting(*(float(f"{value:.4g}") for value in values))
