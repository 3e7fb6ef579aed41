"""One image of a dataset."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Sample:
    """One image (H, W, 3), its labels (H, W) from 0 to L-1 with 255 for void, or None where unknown, and its name."""

    image: npt.NDArray[np.uint8]
    label: npt.NDArray[np.uint8] | None
    id: str
