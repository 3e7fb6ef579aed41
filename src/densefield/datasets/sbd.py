"""The Semantic Boundaries Dataset (SBD): more masks for images of PASCAL VOC, as .mat files. Needs scipy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.errors import DensefieldError, InputError

CLASSES = 20  # those of VOC without the background


def find_sbd(root: Path) -> Path | None:
    """The folder with cls/ and img/ in or below this one, as the archive has it."""
    places = (root, root / "dataset", root / "benchmark_RELEASE" / "dataset")
    return next((place for place in places if (place / "cls").is_dir()), None)


def read_segmentation(path: Path) -> npt.NDArray[np.integer]:
    """The label of each pixel, (H, W), from cls/ID.mat; SBD has no void."""
    labels = _ground_truth(path, "Segmentation")
    if not isinstance(labels, np.ndarray) or labels.ndim != 2 or not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"{path} has no whole labels (rows, columns) in GTcls.Segmentation. Fetch it again.")
    return labels


def read_boundaries(path: Path) -> npt.NDArray[np.bool_]:
    """Which pixels are on the boundary of each of the 20 classes, (20, H, W), from cls/ID.mat."""
    cells = _ground_truth(path, "Boundaries")
    if not isinstance(cells, np.ndarray) or cells.dtype != object or cells.size != CLASSES:
        raise InputError(f"{path} has no boundaries of {CLASSES} classes in GTcls.Boundaries. Fetch it again.")
    return np.stack([_dense(cell) for cell in cells.ravel()])


def need_scipy() -> None:
    """Raises where scipy is not installed."""
    try:
        import scipy.io  # type: ignore[import-untyped]  # noqa: F401
    except ModuleNotFoundError as error:
        raise DensefieldError(
            "the .mat files of SBD need scipy, which is not installed. Install it with: pip install scipy"
        ) from error


def _ground_truth(path: Path, field: str) -> Any:
    """A field of the structure GTcls."""
    need_scipy()
    from scipy.io import loadmat

    if not path.is_file():
        raise InputError(f"there is no file {path}. Unpack SBD again.")
    try:
        return loadmat(path, variable_names=["GTcls"])["GTcls"][0, 0][field]
    except Exception as error:  # what the reader raises at damaged files is of any kind
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{path} cannot be read as a .mat file of SBD ({reason}). Fetch it again.") from error


def _dense(cell: Any) -> npt.NDArray[np.bool_]:
    return np.asarray(cell.toarray() if hasattr(cell, "toarray") else cell).astype(np.bool_)
