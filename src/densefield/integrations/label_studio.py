"""Label Studio: brush strokes, polygons, rectangles and keypoints in, dense brush regions out.

`label_studio_prediction` is for one image, such as in a machine learning backend; `refine_label_studio_export` is for
files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from densefield.errors import InputError, InputTypeError
from densefield.integrations.label_studio_regions import is_region, only_label, region_pixels
from densefield.integrations.label_studio_rle import encode_brush
from densefield.refinement import propagate, refine

Mode = Literal["scribbles", "mask"]
Regions = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class DrawnLabels:
    """The regions of an image as a mask.

    Parameters
    ----------
    mask
        (H, W): the number of the label of each pixel, from 1 in the order of `names`; 0 where nothing is drawn.
    names
        The labels.
    from_name, to_name
        The names of the control and of the image in the labelling configuration.
    points
        The labels of keypoints, each of which marks one pixel.
    """

    mask: npt.NDArray[np.int32]
    names: tuple[str, ...]
    from_name: str
    to_name: str
    points: tuple[str, ...] = ()


def drawn_labels(regions: Regions, shape: tuple[int, int], labels: Sequence[str] | None = None) -> DrawnLabels:
    """The regions as a mask; later ones cover earlier ones. Results that are not regions, such as choices, are skipped.

    Parameters
    ----------
    regions
        The ``result`` of an annotation, or of the context that a backend receives.
    shape
        Rows and columns of the image.
    labels
        The labels that may occur, in the order of their numbers; by default those that occur, sorted.

    >>> point = {"type": "keypointlabels", "from_name": "label", "to_name": "image", "original_width": 4,
    ...          "original_height": 2, "value": {"x": 60, "y": 10, "width": 1, "keypointlabels": ["cat"]}}
    >>> drawn = drawn_labels([point], (2, 4))
    >>> drawn.mask.tolist(), drawn.names, drawn.from_name
    ([[0, 0, 1, 0], [0, 0, 0, 0]], ('cat',), 'label')
    """
    if not isinstance(regions, list | tuple):
        raise InputTypeError(
            f"the regions are of type {type(regions).__name__}, expected a list: the result of an annotation."
        )
    if isinstance(labels, str):
        raise InputTypeError(f"labels is {labels!r}, expected a list such as [{labels!r}].")
    if labels is not None and len(set(labels)) < len(labels):
        raise InputError(f"labels are {', '.join(map(repr, labels))}, expected different ones.")
    shapes = [region for region in regions if is_region(region)]
    if not shapes:
        raise InputError(
            "the annotation has no brush, polygon, rectangle or keypoint with a label: draw one of each label, the "
            "background too."
        )
    found = [only_label(region) for region in shapes]
    names = tuple(labels) if labels is not None else tuple(sorted(set(found)))
    unknown = sorted(set(found) - set(names))
    if unknown:
        raise InputError(f"unknown label {unknown[0]!r}, expected one of {', '.join(map(repr, names))}.")
    mask = np.zeros(shape, np.int32)
    for region, name in zip(shapes, found, strict=True):
        mask[region_pixels(region, shape)] = names.index(name) + 1
    # Regions of all kinds can come from one brush control, or from a control each: results are brushes.
    brush = next((region for region in shapes if region["type"] == "brushlabels"), shapes[0])
    from_name, to_name = str(brush.get("from_name", "label")), str(brush.get("to_name", "image"))
    points = [name for region, name in zip(shapes, found, strict=True) if region["type"] == "keypointlabels"]
    return DrawnLabels(mask, names, from_name, to_name, tuple(points))


def label_studio_prediction(
    image: Any,  # (H, W, C) or (H, W)
    regions: Regions,
    *,
    mode: Mode = "scribbles",
    labels: Sequence[str] | None = None,
    background: str | None = None,
    from_name: str | None = None,
) -> dict[str, Any]:
    """A prediction of Label Studio: a brush region for each label, from the regions drawn on an image.

    Parameters
    ----------
    image
        (H, W, C) or (H, W), colours 0…255; or a Pillow image, which is turned as its EXIF data say, as browsers do.
    regions
        The ``result`` of an annotation: brush, polygon, rectangle and keypoint regions.
    mode
        "scribbles": drawn pixels keep their label, and the others receive one of the labels. "mask": whole objects are
        drawn, by brushes, polygons or rectangles, and their edges move to those of the image; what is not drawn is
        background.
    labels
        The labels that may occur; by default those that occur.
    background
        The label of the background, which gets no region in the result; None to return all labels.
    from_name
        The name of the brush control in the labelling configuration; by default that of the first brush region, or of
        the first region.

    >>> from densefield.integrations.label_studio_rle import decode_brush
    >>> image = np.zeros((4, 8), np.uint8)
    >>> image[:, 4:] = 200
    >>> region = {"type": "keypointlabels", "from_name": "points", "to_name": "image"}
    >>> left, right = {"x": 5, "y": 50, "keypointlabels": ["sky"]}, {"x": 95, "y": 50, "keypointlabels": ["sea"]}
    >>> regions = [{**region, "value": left}, {**region, "value": right}]
    >>> prediction = label_studio_prediction(image, regions, background="sky", from_name="brush")
    >>> [(each["value"]["brushlabels"], each["from_name"]) for each in prediction["result"]]
    [(['sea'], 'brush')]
    >>> decode_brush(prediction["result"][0]["value"]["rle"], 4, 8)[0].astype(int).tolist()
    [0, 0, 0, 0, 1, 1, 1, 1]
    """
    pixels = _image_array(image)
    drawn = drawn_labels(regions, (pixels.shape[0], pixels.shape[1]), labels)
    prediction, _ = dense_prediction(pixels, drawn, mode, background, from_name)
    return prediction


def _image_array(image: Any) -> npt.NDArray[Any]:
    """The pixels of an image as a browser shows it."""
    if isinstance(image, Image.Image):
        image = ImageOps.exif_transpose(image)
        if image.mode not in ("L", "RGB", "F") and not image.mode.startswith("I"):  # a palette, for instance
            image = image.convert("RGB")
    pixels = np.asarray(image)
    if pixels.ndim not in (2, 3):
        came = f"of shape {pixels.shape}" if pixels.ndim else f"of type {type(image).__name__}"
        raise InputTypeError(f"the image is {came}, expected an array (rows, columns, 3), or a Pillow image.")
    return pixels


def dense_prediction(
    image: npt.NDArray[Any], drawn: DrawnLabels, mode: Mode, background: str | None, from_name: str | None
) -> tuple[dict[str, Any], npt.NDArray[np.intp]]:
    """The prediction, and the labels (H, W) as numbers, 0 for none."""
    if mode not in ("scribbles", "mask"):
        raise InputError(f"mode is {mode!r}, expected 'scribbles' or 'mask'.")
    if background is not None and background not in drawn.names:
        raise InputError(f"background is {background!r}, expected one of {', '.join(map(repr, drawn.names))}.")
    if mode == "mask" and drawn.points:
        raise InputError(
            f"a keypoint of {drawn.points[0]!r} marks one pixel, but mode is 'mask', in which whole objects are drawn: "
            "draw them by brushes, polygons or rectangles, or use mode 'scribbles'."
        )
    if mode == "scribbles":
        if len(np.unique(drawn.mask[drawn.mask > 0])) < 2:
            raise InputError("two labels or more are needed: draw on the background too, with a label of its own.")
        q = propagate(image, drawn.mask, unlabelled=0, num_classes=len(drawn.names) + 1)
    else:
        q = refine(image, labels=drawn.mask, void=None, num_classes=len(drawn.names) + 1)
    dense = q.argmax(axis=0)
    if background is not None:
        dense[dense == drawn.names.index(background) + 1] = 0
    result = [
        _brush_region(dense == number, name, drawn, from_name, float(q[number][dense == number].mean()))
        for number, name in enumerate(drawn.names, start=1)
        if (dense == number).any()
    ]
    score = float(q.max(axis=0).mean())
    return {"model_version": "densefield", "score": score, "result": result}, dense


def _brush_region(
    mask: npt.NDArray[np.bool_], name: str, drawn: DrawnLabels, from_name: str | None, score: float
) -> dict[str, Any]:
    height, width = mask.shape
    return {
        "id": f"densefield-{drawn.names.index(name) + 1}",
        "type": "brushlabels",
        "from_name": from_name or drawn.from_name,
        "to_name": drawn.to_name,
        "original_width": width,
        "original_height": height,
        "image_rotation": 0,
        "score": score,
        "value": {"format": "rle", "rle": encode_brush(mask), "brushlabels": [name]},
    }
