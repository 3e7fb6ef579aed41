"""Photos with their true masks, and the rough inputs that a benchmark of mask refinement starts from.

Photos are those of PASCAL VOC 2012 in the folder `DENSEFIELD_SHARED`, by default `shared` next to the checkout.

A rough mask is made from the true mask by one of `RECIPES`. Void pixels are first filled with the nearest label, so the
rough mask does not show where void is. Lengths are in pixels of a photo whose longest side has 500, and grow with the
photo by `scale`. Random recipes are seeded by photo and kind. `NETWORK_KINDS` are real scores of a network instead.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import skimage.draw
import skimage.measure
from PIL import Image
from scipy.ndimage import distance_transform_edt

Mask = npt.NDArray[np.uint8]  # (H, W), labels
Planes = npt.NDArray[np.float32]  # (L, H, W)
Recipe = Callable[..., Mask]  # (truth, rng, scale=1.0) -> rough mask

VOID = 255
REFERENCE_SIDE = 500  # pixels: the longest side of a photo at scale 1
NETWORK_KINDS = ("network scores", "network argmax", "network low resolution")


@dataclass(frozen=True)
class Photo:
    """A photo with its true mask."""

    id: str
    image: npt.NDArray[np.uint8]  # (H, W, 3)
    truth: Mask  # (H, W), 255 is void


def shared_data() -> Path:
    """Return the folder of real data."""
    default = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("DENSEFIELD_SHARED", default)) / "data"
    if not folder.is_dir():
        raise SystemExit(f"there is no folder {folder}. Set DENSEFIELD_SHARED to the folder that contains data/.")
    return folder


def spread(ids: Sequence[str], limit: int | None) -> list[str]:
    """Return at most `limit` of the sorted ids, evenly spaced."""
    ordered = sorted(ids)
    if limit is None or limit >= len(ordered):
        return ordered
    return [ordered[(2 * place + 1) * len(ordered) // (2 * limit)] for place in range(limit)]


def photos(split: str, limit: int | None = None) -> Iterator[Photo]:
    """Iterate over photos of the official split "train" or "val"."""
    listing = shared_data() / "VOCdevkit/VOC2012/ImageSets/Segmentation" / f"{split}.txt"
    yield from map(_read, spread(listing.read_text(encoding="utf-8").split(), limit))


def network_photos(split: str, limit: int | None = None) -> Iterator[Photo]:
    """Iterate over photos that have scores of a network; all are of the official split "val".

    Of the sorted ids those at even positions are "train" here, those at odd positions "val".
    """
    ids = sorted(path.stem for path in (shared_data() / "logits").glob("*.npz"))
    yield from map(_read, spread(ids[{"train": 0, "val": 1}[split] :: 2], limit))


def _read(photo_id: str) -> Photo:
    folder = shared_data() / "VOCdevkit/VOC2012"
    with Image.open(folder / "JPEGImages" / f"{photo_id}.jpg") as picture:
        image = np.array(picture.convert("RGB"))
    with Image.open(folder / "SegmentationClass" / f"{photo_id}.png") as picture:
        truth = np.array(picture, np.uint8)
    return Photo(photo_id, image, truth)


def foreground(truth: Mask) -> Mask:
    """Return two labels: 1 for all objects together, 0 for background; void remains."""
    return np.where(truth == VOID, VOID, truth > 0).astype(np.uint8)


def resized(image: npt.NDArray[np.uint8], truth: Mask, longest_side: int) -> tuple[npt.NDArray[np.uint8], Mask]:
    """Return image (Lanczos) and truth (nearest) with this longest side."""
    height, width = truth.shape
    factor = longest_side / max(height, width)
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    larger = Image.fromarray(image).resize(size, Image.Resampling.LANCZOS)
    return np.array(larger), np.array(Image.fromarray(truth).resize(size, Image.Resampling.NEAREST))


def scale_of(longest_side: int) -> float:
    """Return the scale of recipes for photos resized to this longest side."""
    return longest_side / REFERENCE_SIDE


def filled(truth: Mask) -> Mask:
    """Return the mask with void pixels set to the nearest label; background if all are void."""
    void = truth == VOID
    if void.all():
        return np.zeros_like(truth)
    if not void.any():
        return truth
    rows, columns = distance_transform_edt(void, return_distances=False, return_indices=True)
    return np.asarray(truth[rows, columns])


def generator(photo_id: str, kind: str) -> np.random.Generator:
    """Return the random generator of a photo and a kind."""
    return np.random.default_rng(zlib.crc32(f"{photo_id} {kind}".encode()))


def rough_mask(photo: Photo, kind: str, scale: float = 1.0) -> Mask:
    """Return the rough mask of a photo by one of `RECIPES`."""
    return RECIPES[kind](photo.truth, generator(photo.id, kind), scale)


def true_mask(truth: Mask, rng: np.random.Generator, scale: float = 1.0) -> Mask:
    """Return the true mask, void filled."""
    return filled(truth).copy()


def blocks(truth: Mask, rng: np.random.Generator, scale: float = 1.0, *, side: int) -> Mask:
    """Return the most frequent label of each block; the grid starts at the top left, and a tie goes to the lower."""
    mask, side = filled(truth), max(1, round(side * scale))
    rows, columns = (np.arange(0, length, side) for length in mask.shape)
    labels = np.unique(mask)
    votes = [np.add.reduceat(np.add.reduceat(mask == label, rows, 0, int), columns, 1) for label in labels]
    winners = labels[np.argmax(votes, axis=0)]
    return np.repeat(np.repeat(winners, side, 0), side, 1)[: mask.shape[0], : mask.shape[1]]


def dilated(truth: Mask, rng: np.random.Generator, scale: float = 1.0, *, radius: int) -> Mask:
    """Return the mask with each object dilated by a disc over background, lower labels first."""
    mask = filled(truth)
    rough = mask.copy()
    for label in _objects(mask):
        rough[(rough == 0) & (distance_transform_edt(mask != label) <= radius * scale)] = label
    return rough


def eroded(truth: Mask, rng: np.random.Generator, scale: float = 1.0, *, radius: int) -> Mask:
    """Return the mask with each object eroded by a disc, on all sides except at the edge of the image."""
    mask = filled(truth)
    rough = mask.copy()
    for label in _objects(mask):
        inside = mask == label
        if not inside.all():
            rough[inside & (distance_transform_edt(inside) <= radius * scale)] = 0
    return rough


def polygons(truth: Mask, rng: np.random.Generator, scale: float = 1.0, *, tolerance: float = 6.0) -> Mask:
    """Return objects drawn as coarse polygons: their outlines, simplified by Douglas and Peucker's algorithm.

    An outline or hole that would vanish is treated by `_simplified`. Objects are drawn over background only, lower
    labels first.
    """
    mask = filled(truth)
    rough = np.zeros_like(mask)
    for label in _objects(mask):
        rough[(rough == 0) & _drawn_as_polygons(mask == label, tolerance * scale)] = label
    return rough


def _drawn_as_polygons(inside: npt.NDArray[np.bool_], tolerance: float) -> npt.NDArray[np.bool_]:
    """Return outlines filled and holes cleared, large ones first, so that islands in holes are kept."""
    drawn = np.zeros(inside.shape, bool)
    outlines = [line - 1 for line in skimage.measure.find_contours(np.pad(inside, 1).astype(float), 0.5)]
    areas = [_signed_area(line) for line in outlines]
    for place in np.argsort([-abs(area) for area in areas], kind="stable"):
        is_hole = areas[place] < 0
        corners = _simplified(outlines[place], tolerance, is_hole)
        if len(corners):
            drawn[skimage.draw.polygon(corners[:, 0], corners[:, 1], inside.shape)] = not is_hole
    return drawn


def _signed_area(outline: npt.NDArray[np.float64]) -> float:
    """Return the area inside a closed line (N, 2); it is negative for holes in the order of find_contours."""
    (y, x), (next_y, next_x) = outline[:-1].T, outline[1:].T
    return float((x * next_y - y * next_x).sum() / 2)


def _simplified(outline: npt.NDArray[np.float64], tolerance: float, is_hole: bool) -> npt.NDArray[np.float64]:
    """Return the corners of the polygon of an outline, at least three.

    For small or thin objects, whose polygon would have no area, the tolerance is halved until it has; such holes are
    dropped.
    """
    while tolerance > 0.25:
        corners = skimage.measure.approximate_polygon(outline, tolerance)
        if len(corners) > 3:  # the first corner is repeated
            return np.asarray(corners)
        if is_hole:
            return np.empty((0, 2))
        tolerance /= 2
    return outline


def shifted(truth: Mask, rng: np.random.Generator, scale: float = 1.0, *, distance: int = 5) -> Mask:
    """Return the mask shifted in a random direction; labels at the edge of the image are repeated."""
    mask, angle = filled(truth), rng.uniform(0, 2 * math.pi)
    moves = (round(distance * scale * math.sin(angle)), round(distance * scale * math.cos(angle)))
    rows, columns = (np.clip(np.arange(n) - move, 0, n - 1) for n, move in zip(mask.shape, moves, strict=True))
    return mask[np.ix_(rows, columns)]


def holes_and_specks(truth: Mask, rng: np.random.Generator, scale: float = 1.0, *, share: float = 0.02) -> Mask:
    """Return the mask with discs of radius 2 to 6 set to another of its labels, until they cover a share of it."""
    mask = filled(truth)
    rough, labels, covered = mask.copy(), np.unique(mask), np.zeros(mask.shape, bool)
    while len(labels) > 1 and covered.mean() < share:
        centre = tuple(rng.integers(mask.shape))
        disc = skimage.draw.disk(centre, rng.uniform(2, 6) * scale, shape=mask.shape)
        rough[disc] = rng.choice(labels[labels != mask[centre]])
        covered[disc] = True
    return rough


def _objects(mask: Mask) -> list[int]:
    return [int(label) for label in np.unique(mask) if label != 0]


RECIPES: dict[str, Recipe] = {
    **{f"blocks {side}": partial(blocks, side=side) for side in (8, 16, 24, 32)},
    **{f"dilated {radius}": partial(dilated, radius=radius) for radius in (4, 8, 12)},
    **{f"eroded {radius}": partial(eroded, radius=radius) for radius in (3, 6)},
    "polygons": polygons,
    "shifted": shifted,
    "holes and specks": holes_and_specks,
    "true": true_mask,
}


def network_input(photo: Photo, kind: str) -> dict[str, Planes | Mask]:
    """Return the network's `logits`, `labels` or `probabilities` in the photo's size, as an argument of `refine`.

    "network scores" are logits, given at 1/8 of the size; "network argmax" are their labels; "network low resolution"
    are probabilities at 1/16 of the size. All are enlarged bilinearly.
    """
    with np.load(shared_data() / "logits" / f"{photo.id}.npz") as file:
        scores = file["logits"].astype(np.float32)
    if kind == "network low resolution":
        return {"probabilities": upsampled(_halved(_softmax(scores)), photo.truth.shape)}
    enlarged = upsampled(scores, photo.truth.shape)
    return {"logits": enlarged} if kind == "network scores" else {"labels": enlarged.argmax(axis=0).astype(np.uint8)}


def upsampled(planes: Planes, size: tuple[int, ...]) -> Planes:
    """Return planes (L, h, w) enlarged bilinearly to (L, H, W), like torch with align_corners=False."""
    down, across = (_linear_weights(n, m) for n, m in zip(planes.shape[1:], size, strict=True))
    return np.asarray(down @ planes @ across.T)


def _linear_weights(old: int, new: int) -> npt.NDArray[np.float32]:
    """Return the weights (new, old) of linear interpolation between centres of pixels."""
    centres = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
    return np.maximum(0, 1 - np.abs(centres[:, None] - np.arange(old))).astype(np.float32)


def _softmax(scores: Planes) -> Planes:
    exponentials = np.exp(scores - scores.max(axis=0))
    return np.asarray(exponentials / exponentials.sum(axis=0))


def _halved(planes: Planes) -> Planes:
    """Return means of 2×2 pixels; the last row or column is repeated if its number is odd."""
    _, height, width = planes.shape
    even = np.pad(planes, ((0, 0), (0, height % 2), (0, width % 2)), mode="edge")
    return np.asarray(even.reshape(len(planes), (height + 1) // 2, 2, (width + 1) // 2, 2).mean(axis=(2, 4)))
