"""Tools that refine masks, one thin wrapper each: densefield, and what people use instead.

A tool takes an image (H, W, 3) of 8 bits and the rough input, a dictionary with one of `labels` (H, W), `probabilities`
and `logits` (L, H, W); it returns labels (H, W). Tools that take masks only get the most probable labels. Label 0 is
background. A tool whose package is missing raises ImportError; `unavailable` says so in one line.

pydensecrf has the parameters of its README. The distance of GrabCut's and the random walker's seeds, the guided
filter's radius and epsilon, and the domain transform's widths were chosen by hand on up to 20 photos of the train
split, one setting for all kinds. Those lengths are for photos whose longest side has 500 pixels, and grow with the
photo.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import distance_transform_edt
from scipy.special import softmax

import densefield as df

Image = npt.NDArray[np.uint8]  # (H, W, 3)
Labels = npt.NDArray[np.integer]  # (H, W)
Planes = npt.NDArray[np.float32]  # (L, H, W)
Given = Mapping[str, npt.NDArray[Any]]
Tool = Callable[[Image, Given], Labels]

SEED_DISTANCE = 10  # pixels from the mask's edge: pixels farther away keep their label
GUIDED_RADIUS, GUIDED_EPS = 12, (0.01 * 255) ** 2
TRANSFORM_WIDTH, TRANSFORM_COLOUR = 60, 0.4 * 255
SOLVER_RAMP = 16  # pixels from the mask's edge over which confidence grows from 0 to 1
SMALLEST_PROBABILITY = 0.05  # filters leave out labels that are less probable everywhere
GRABCUT_ITERATIONS, GRABCUT_PIXELS = 5, 25  # a colour mixture of fewer pixels is meaningless
WALKER_PIXELS = 300_000  # the random walker takes too long for larger photos


def nothing(image: Image, given: Given) -> Labels:
    """Return the input's labels."""
    return given["labels"] if "labels" in given else next(iter(given.values())).argmax(axis=0)


def densefield(image: Image, given: Given) -> Labels:
    """Refine with densefield's defaults."""
    return df.refine(image, **given).argmax(axis=0)


def pydensecrf(image: Image, given: Given) -> Labels:
    """Refine with pydensecrf and the parameters of its README, which do not grow with the photo."""
    from pydensecrf.densecrf import DenseCRF2D
    from pydensecrf.utils import unary_from_labels, unary_from_softmax

    height, width = image.shape[:2]
    if "labels" in given:
        values, numbers = np.unique(given["labels"], return_inverse=True)
        if len(values) == 1:
            return given["labels"]
        unary = unary_from_labels(numbers.astype(np.int32), len(values), gt_prob=0.7, zero_unsure=False)
    else:
        probabilities = _probabilities(given)
        values, unary = np.arange(len(probabilities)), unary_from_softmax(probabilities)
    crf = DenseCRF2D(width, height, len(values))
    crf.setUnaryEnergy(np.ascontiguousarray(unary, np.float32))
    crf.addPairwiseGaussian(sxy=3, compat=3)
    crf.addPairwiseBilateral(sxy=80, srgb=13, rgbim=np.ascontiguousarray(image), compat=10)
    return values[np.argmax(crf.inference(5), axis=0)].reshape(height, width)


def guided_filter(image: Image, given: Given) -> Labels:
    """Filter each label's plane with OpenCV's guided filter (He et al.), guided by the photo."""
    from cv2 import ximgproc

    labels, planes = _planes(given)
    radius = round(_grown(image, GUIDED_RADIUS))
    return labels[np.argmax([ximgproc.guidedFilter(image, plane, radius, GUIDED_EPS) for plane in planes], axis=0)]


def domain_transform(image: Image, given: Given) -> Labels:
    """Filter each label's plane with OpenCV's domain transform (Gastal and Oliveira), guided by the photo."""
    from cv2 import ximgproc

    labels, planes = _planes(given)
    width = _grown(image, TRANSFORM_WIDTH)
    return labels[np.argmax([ximgproc.dtFilter(image, plane, width, TRANSFORM_COLOUR) for plane in planes], axis=0)]


def bilateral_solver(image: Image, given: Given) -> Labels:
    """Solve for each label's plane with OpenCV's fast bilateral solver (Barron and Poole), with its defaults.

    Confidence grows with the distance to the mask's edge. Wheels of OpenCV may be built without this function.
    """
    import cv2
    from cv2 import ximgproc

    labels, planes = _planes(given)
    inside = _distance_inside(nothing(image, given))
    confidence = np.clip(inside / _grown(image, SOLVER_RAMP), 0, 1).astype(np.float32)
    try:
        solved = [ximgproc.fastBilateralSolverFilter(image, plane, confidence) for plane in planes]
    except cv2.error as error:
        if "EIGEN" in str(error):
            raise ImportError("this build of OpenCV has no fast bilateral solver, since it lacks Eigen") from error
        raise
    return labels[np.argmax(solved, axis=0)]


def grabcut(image: Image, given: Given) -> Labels:
    """Run OpenCV's GrabCut for each object, with seeds: pixels far from the mask's edge keep their label.

    Without seeds, GrabCut often takes whole surroundings of an object's colour, or loses the object.
    """
    return _grabcut(image, nothing(image, given), _grown(image, SEED_DISTANCE))


def grabcut_without_seeds(image: Image, given: Given) -> Labels:
    """Run OpenCV's GrabCut for each object; the mask's labels are only probable."""
    return _grabcut(image, nothing(image, given), None)


def _grabcut(image: Image, rough: Labels, seed_distance: float | None) -> Labels:
    """Return the objects' cuts; where several overlap, the rough label if it is among them, or else the lowest."""
    refined = np.zeros_like(rough)
    for label in np.unique(rough):
        if label != 0:
            cut = _grabcut_object(image, rough == label, seed_distance)
            refined[cut & ((refined == 0) | (rough == label))] = label
    if (rough == 0).any():
        return refined
    return np.where(refined == 0, rough, refined)  # no background to give pixels to


def _grabcut_object(
    image: Image, inside: npt.NDArray[np.bool_], seed_distance: float | None
) -> npt.NDArray[np.bool_]:  # (H, W)
    import cv2

    if min(inside.sum(), (~inside).sum()) < GRABCUT_PIXELS:
        return inside
    state = np.where(inside, cv2.GC_PR_FGD, cv2.GC_PR_BGD).astype(np.uint8)
    if seed_distance is not None:
        state[_far_inside(inside, seed_distance)] = cv2.GC_FGD
        state[_far_inside(~inside, seed_distance)] = cv2.GC_BGD
    cv2.setRNGSeed(4711)
    colours = np.zeros((2, 1, 65))  # mixtures of background and foreground
    try:
        cv2.grabCut(image, state, None, colours[0], colours[1], GRABCUT_ITERATIONS, cv2.GC_INIT_WITH_MASK)
    except cv2.error:  # no pixels are left for one of the mixtures
        return inside
    return (state == cv2.GC_FGD) | (state == cv2.GC_PR_FGD)


def random_walker(image: Image, given: Given) -> Labels:
    """Run scikit-image's random walker with its defaults, from pixels far from the mask's edge."""
    from skimage.segmentation import random_walker

    rough = nothing(image, given)
    values = np.unique(rough)
    if len(values) == 1:
        return rough
    seeds = np.zeros(rough.shape, np.int32)
    for number, value in enumerate(values, 1):
        seeds[_far_inside(rough == value, _grown(image, SEED_DISTANCE))] = number
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about probabilities slightly above 1
        return values[random_walker(image, seeds, beta=130, mode="cg_j", channel_axis=-1) - 1]


TOOLS: dict[str, Tool] = {
    "nothing": nothing,
    "densefield": densefield,
    "pydensecrf": pydensecrf,
    "GrabCut": grabcut,
    "GrabCut without seeds": grabcut_without_seeds,
    "guided filter": guided_filter,
    "domain transform": domain_transform,
    "bilateral solver": bilateral_solver,
    "random walker": random_walker,
}

SLOW = ("GrabCut without seeds", "random walker")  # seconds for a photo


def too_large(name: str, image: Image) -> bool:
    """Return whether a tool takes too long for an image of this size."""
    return name == "random walker" and image.shape[0] * image.shape[1] > WALKER_PIXELS


def unavailable(name: str) -> str | None:
    """Return one line that says why a tool is skipped; None if it can run here."""
    image = np.zeros((24, 32, 3), np.uint8)
    image[:, 14:] = 200
    labels = np.zeros((24, 32), np.uint8)
    labels[:, 16:] = 1
    try:
        TOOLS[name](image, {"labels": labels})
    except ImportError as error:
        return f"{name} is skipped: {error} (the packages of peers come with the extra densefield[peers])"
    return None


def versions() -> str:
    """Return the versions of the peers' packages."""
    found = []
    for package in ("pydensecrf2", "opencv-contrib-python-headless", "scikit-image"):
        with suppress(PackageNotFoundError):
            found.append(f"{package} {version(package)}")
    return ", ".join(found)


def _grown(image: Image, length: float) -> float:
    """Return a length for the size of this image."""
    return max(1.0, length * max(image.shape[:2]) / 500)


def _probabilities(given: Given) -> Planes:
    return given["probabilities"] if "probabilities" in given else softmax(given["logits"], axis=0)


def _planes(given: Given) -> tuple[Labels, Iterator[Planes]]:
    """Return the labels that take part (K,), and the plane (H, W) of each: its probability, or 0 and 1."""
    if "labels" in given:
        labels = np.unique(given["labels"])
        return labels, ((given["labels"] == label).astype(np.float32) for label in labels)
    probabilities = _probabilities(given)
    labels = np.flatnonzero(probabilities.max(axis=(1, 2)) >= SMALLEST_PROBABILITY)
    return labels, (np.ascontiguousarray(probabilities[label], np.float32) for label in labels)


def _distance_inside(labels: Labels) -> npt.NDArray[np.float64]:
    """Return the distance of each pixel to the nearest pixel of another label."""
    distance = np.full(labels.shape, np.inf)
    values = np.unique(labels)
    for value in values if len(values) > 1 else []:
        inside = labels == value
        distance[inside] = distance_transform_edt(inside)[inside]
    return distance


def _far_inside(inside: npt.NDArray[np.bool_], distance: float) -> npt.NDArray[np.bool_]:
    """Return the pixels farther than `distance` from the region's edge; of narrow regions, the inner half."""
    depth = distance_transform_edt(inside)
    return depth > min(distance, depth.max() / 2)
