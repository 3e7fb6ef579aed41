"""Units of length: sizes of a pixel whose axes have different ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from densefield.errors import InputError

# Of the names in OME-TIFF and ImageJ, and of those in OME-Zarr.
METRES = {
    **{"pm": 1e-12, "Å": 1e-10, "nm": 1e-9, "µm": 1e-6, "mm": 1e-3, "cm": 1e-2, "m": 1.0, "in": 0.0254},
    **{"picometer": 1e-12, "angstrom": 1e-10, "nanometer": 1e-9, "micrometer": 1e-6, "millimeter": 1e-3},
    **{"centimeter": 1e-2, "meter": 1.0, "inch": 0.0254},
}


def in_unit_of_x(path: Path, sizes: Sequence[float], units: Sequence[str]) -> tuple[float, ...]:
    """The sizes of a pixel along x, y(, z), each with a unit of its own, in the unit of x.

    >>> in_unit_of_x(Path("cells.ome.tif"), (200, 200, 0.5), ("nm", "nm", "µm"))
    (200.0, 200.0, 500.0)
    """
    first = units[0]
    unknown = [unit for unit in units if unit not in METRES]
    if unknown and any(unit != first for unit in units):
        raise InputError(
            f"{path} has pixels with sizes in {', '.join(units)} along x, y, z, expected one unit, or lengths such as "
            f"{', '.join(list(METRES)[2:5])}."
        )
    factors = [1.0 if unit == first else METRES[unit] / METRES[first] for unit in units]
    return tuple(float(f"{size * factor:.12g}") for size, factor in zip(sizes, factors, strict=True))
