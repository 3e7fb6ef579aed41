"""Masks that were dilated, eroded or shifted are moved back to the edges of the image."""

from __future__ import annotations

import math

import numpy as np
import pytest

from densefield.crf.label_mask import label_mask
from densefield.refinement.mask_edges import MaskEdges
from densefield.refinement.registration import Displacement, register, sharpness
from densefield.refinement.rough_mask import mask_edges
from tests.support.textured_photos import blob, dilated, photo, shifted

TRUTH = blob()
IMAGE = photo(TRUTH)


def edges_of(mask: np.ndarray, image: np.ndarray = IMAGE) -> MaskEdges:
    return mask_edges(label_mask(mask.astype(np.uint8)), image.reshape(mask.size, -1), (1.0,) * mask.ndim, 1)


def registered(mask: np.ndarray, image: np.ndarray = IMAGE, most: float = math.inf) -> Displacement:
    (found,) = register(edges_of(mask, image).profiles, most)
    return found


@pytest.mark.parametrize("radius", [3, 5, 8, 11, -3, -5, -8, -11])
def test_dilated_and_eroded_masks_are_moved_back(radius):
    found = registered(dilated(TRUTH, radius))
    assert found.offset == pytest.approx(radius, abs=1)  # into the object if the mask is too large
    assert math.hypot(*found.shift) <= 1


@pytest.mark.parametrize("x, y", [(4, 0), (-5, 0), (0, 4), (0, -6), (3, 3), (-4, 2), (2, -5)])
def test_shifted_masks_are_moved_back(x, y):
    found = registered(shifted(TRUTH, x, y))
    assert found.shift == pytest.approx((-x, -y), abs=1)
    assert abs(found.offset) <= 1


@pytest.mark.parametrize("x, y, radius", [(3, -2, 4), (-4, 3, -3)])
def test_masks_that_were_dilated_and_shifted_are_moved_back(x, y, radius):
    found = registered(shifted(dilated(TRUTH, radius), x, y))
    assert found.offset == pytest.approx(radius, abs=1) and found.shift == pytest.approx((-x, -y), abs=1)


@pytest.mark.parametrize("radius", [4, -4])
def test_the_inner_label_is_the_smaller_one_whatever_its_number(radius):
    assert registered(~dilated(TRUTH, radius)) == registered(dilated(TRUTH, radius))
    swapped = registered(~dilated(blob(radius=50), radius), photo(blob(radius=50)))
    assert swapped.offset == pytest.approx(radius, abs=1)


def test_margins_of_the_displacement_give_the_true_mask():
    length = (edges_of(TRUTH).margins()[TRUTH] < 1).sum()
    for mask in (dilated(TRUTH, 5), dilated(TRUTH, -5), shifted(TRUTH, 4, -3)):
        edges, found = edges_of(mask), registered(mask)
        moved = np.where(edges.margins([[found.offset, *found.shift]]) < 0, ~mask, mask)
        assert (moved != TRUTH).sum() < length < (mask != TRUTH).sum() / 2  # less than a pixel along the edge


@pytest.mark.parametrize("seed", [5101, 5107, 5113, 5119])
def test_a_correct_mask_stays(seed):
    truth = blob(radius=20 + seed % 7, centre=(55, 70))
    assert registered(truth, photo(truth, seed)) == Displacement()


@pytest.mark.parametrize("seed", [6101, 6113, 6121, 6131])
def test_noise_moves_no_mask(seed):
    noise = np.random.default_rng(seed).integers(0, 256, (*TRUTH.shape, 3)).astype(np.uint8)
    for mask in (TRUTH, blob(radius=12)):
        assert registered(mask, noise) == Displacement()


@pytest.mark.parametrize("most", [0.5, 2.0, 3.0])
def test_the_displacement_is_limited(most):
    for mask in (dilated(TRUTH, 8), shifted(TRUTH, 5, 4), shifted(dilated(TRUTH, -4), 3, 0)):
        found = registered(mask, most=most)
        assert abs(found.offset) + math.hypot(*found.shift) <= most
    assert registered(dilated(TRUTH, 5), most=7.0).offset == pytest.approx(5, abs=1)


def test_only_the_pair_that_moved_is_displaced():
    truth = np.zeros((160, 240), int)
    truth[blob(truth.shape, 36, (80, 65))] = 1
    truth[blob(truth.shape, 30, (80, 175))] = 2
    mask = np.where(dilated(truth == 1, 5), 1, truth)
    edges = edges_of(mask, photo(truth))
    moved, stayed = (register(edges.profiles)[edges.pairs[0, label]] for label in (1, 2))
    assert moved.offset == pytest.approx(5, abs=1) and math.hypot(*moved.shift) <= 1
    assert stayed == Displacement()


def test_pairs_without_a_profile_stay():
    profile = edges_of(dilated(TRUTH, 5)).profiles[0]
    assert register([]) == [] and register([None, None]) == [Displacement(), Displacement()]
    first, second, third = register([None, profile, None])
    assert first == third == Displacement() and second.offset == pytest.approx(5, abs=1)


def test_volumes_are_moved_by_an_offset_only():
    distance = np.sqrt(sum((each - 20.0) ** 2 for each in np.indices((40, 42, 44))))
    truth, mask = distance < 11, distance < 15
    image = photo(truth.reshape(40, -1), seed=811).reshape(*truth.shape, 3)
    found = registered(mask, image)
    assert found.offset == pytest.approx(4, abs=1) and found.shift == (0.0, 0.0)
    assert registered(truth, image) == Displacement()


def test_sharpness_is_high_where_edges_agree_and_near_one_where_they_do_not():
    right, wrong = (edges_of(mask).profiles[0] for mask in (TRUTH, dilated(TRUTH, 10)))
    assert sharpness(right, Displacement()) > 2
    assert sharpness(wrong, Displacement()) < 1.5
    assert sharpness(wrong, Displacement(10.0)) > 2
