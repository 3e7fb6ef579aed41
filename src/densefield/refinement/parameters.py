"""Parameters of refinement: learnt on photos by benchmarks/learn_refinement.py, which writes learnt.json.

Lengths are multiples of a unit: a pixel for photos of up to 375 × 500, and more for larger ones in proportion to their
diagonal. Parameters for masks follow a power law in the roughness of the mask.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("learnt.json")
REFERENCE_DIAGONAL = 625.0  # pixels: that of a photo of 375 × 500


def length_unit(shape: Sequence[int], spacing: float = 1.0) -> float:
    """The length that widths are multiples of, for an image (H, W) or a volume (D, H, W) and the size of a pixel.

    >>> length_unit((375, 500)), length_unit((1500, 2000)), length_unit((50, 60))
    (1.0, 4.0, 1.0)
    """
    return spacing * max(1.0, math.hypot(*shape[-2:]) / REFERENCE_DIAGONAL)


@dataclass(frozen=True)
class PowerLaw:
    """value · roughness^power, for a roughness in units.

    Parameters
    ----------
    value
        The parameter at a roughness of one unit.
    power
        The exponent.

    >>> PowerLaw(10.0, 0.5)(4.0)
    20.0
    """

    value: float
    power: float = 0.0

    def __call__(self, roughness: float) -> float:
        """The parameter at a roughness in units."""
        return float(self.value * roughness**self.power)


@dataclass(frozen=True)
class MaskParameters:
    """The model of a rough mask.

    Parameters
    ----------
    strength
        Score by which a label is preferred far inside the mask.
    width
        Distance from the edge at which 63 % of that is reached, in units.
    colour_weight
        Factor of the log-likelihoods of colours.
    sigma, weight
        Width, in units, and weight of the spatial kernel.
    sigma_xy, sigma_rgb, bilateral_weight
        Widths, in units and in colours 0…255, and weight of the bilateral kernel.
    """

    strength: PowerLaw
    width: PowerLaw
    colour_weight: PowerLaw
    sigma: PowerLaw
    weight: PowerLaw
    sigma_xy: PowerLaw
    sigma_rgb: PowerLaw
    bilateral_weight: PowerLaw


@dataclass(frozen=True)
class ScoreParameters:
    """The model of a network's scores.

    Parameters
    ----------
    colour_weight
        Factor of the log-likelihoods of colours.
    sigma, weight
        Width, in units, and weight of the spatial kernel.
    sigma_xy, sigma_rgb, bilateral_weight
        Widths, in units and in colours 0…255, and weight of the bilateral kernel.
    """

    colour_weight: float
    sigma: float
    weight: float
    sigma_xy: float
    sigma_rgb: float
    bilateral_weight: float


@dataclass(frozen=True)
class Learnt:
    """All learnt parameters."""

    mask: MaskParameters
    scores: ScoreParameters


@cache
def learnt(path: Path = FILE) -> Learnt:
    """The learnt parameters.

    >>> learnt().mask.strength(1.0) > 0
    True
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    mask = {name: PowerLaw(**law) for name, law in content["mask"].items()}
    return Learnt(MaskParameters(**mask), ScoreParameters(**content["scores"]))


def as_json(parameters: Learnt) -> str:
    """The text of learnt.json.

    >>> as_json(learnt()) == FILE.read_text(encoding="utf-8")
    True
    """

    def rounded(value: Any) -> Any:
        return (
            {name: rounded(each) for name, each in value.items()} if isinstance(value, dict) else float(f"{value:.4g}")
        )

    return json.dumps(rounded(asdict(parameters)), indent=2) + "\n"
