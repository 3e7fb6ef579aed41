"""Counts of images, kept in files and put together again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np

from densefield.errors import InputError
from densefield.metrics.image_scores import ImageScores, confusion_matrix, tally_images
from densefield.metrics.names import image_key
from densefield.metrics.result import SegmentationResult


def combine_images(images: Mapping[str, ImageScores], num_classes: int) -> SegmentationResult:
    """The measures of all images together, as SegmentationScores gives them for the same images; each has its name.

    `num_classes` is the number they were counted with.

    >>> import numpy as np
    >>> from densefield.metrics.image_scores import score_image
    >>> truth = np.zeros((1, 4), int)
    >>> images = {name: score_image(np.arange(4)[None] // n, truth, num_classes=4) for name, n in (("a", 2), ("b", 4))}
    >>> combine_images(images, num_classes=4).pixel_accuracy
    0.75
    """
    if not images:
        raise InputError("there are no images to put together, expected one or more.")
    each = list(images.values())
    cells, counts = np.concatenate([item.cells for item in each]), np.concatenate([item.counts for item in each])
    image = np.repeat(np.arange(len(each)), [len(item.cells) for item in each])
    log_loss, bins = np.array([item.log_loss for item in each]), np.stack([item.bins for item in each])
    keys = np.array([image_key(name) for name in images])
    return SegmentationResult(
        tally_images(image, cells, counts, log_loss, bins, num_classes),
        confusion_matrix(cells, counts, num_classes),
        keys,
    )


def image_scores_to_bytes(methods: Mapping[str, ImageScores]) -> bytes:
    """The counts of one image under several methods, as the content of an .npz file."""
    arrays = {
        f"{method}.{name}": np.asarray(getattr(scores, name))
        for method, scores in methods.items()
        for name in ImageScores.__dataclass_fields__
    }
    buffer = BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def read_image_scores(path: Path, methods: Sequence[str]) -> dict[str, ImageScores] | None:
    """What `image_scores_to_bytes` made, by method; None where the file is not there, or lacks one of the methods."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            if any(f"{method}.cells" not in arrays for method in methods):
                return None
            return {
                method: ImageScores(
                    arrays[f"{method}.cells"],
                    arrays[f"{method}.counts"],
                    float(arrays[f"{method}.log_loss"]),
                    arrays[f"{method}.bins"],
                )
                for method in methods
            }
    except FileNotFoundError:
        return None
    except Exception as error:  # damaged archives raise errors of many types
        raise InputError(f"{path} cannot be read: {error}. Remove it, and the image is counted again.") from error
