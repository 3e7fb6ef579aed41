"""refine() on probabilities and logits, with the learnt kernels."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import CRF, InputError, InputTypeError, _core, refine
from densefield.crf.unary import Unary
from densefield.refinement.colour_model import colour_model
from densefield.refinement.parameters import learnt, length_unit
from densefield.refinement.scores import LEAST_PROBABILITY, possible_labels, score_kernels
from tests.support.textured_photos import blob, dilated, photo

TRUTH = blob()
IMAGE = photo(TRUTH)
ROUGH = dilated(TRUTH, 2).astype(np.intp)


def soft(mask: np.ndarray, confidence: float = 0.6, classes: int = 2) -> np.ndarray:
    p = np.full((classes, *mask.shape), (1 - confidence) / (classes - 1), np.float32)
    np.put_along_axis(p, mask[None], confidence, axis=0)
    return p


def test_doubtful_probabilities_move_to_the_edge():
    refined = refine(IMAGE, probabilities=soft(ROUGH)).argmax(axis=0)
    assert (refined != TRUTH).sum() < 0.3 * (ROUGH != TRUTH).sum()


def test_widths_grow_with_the_image_and_its_spacing():
    small, large = score_kernels((375, 500)), score_kernels((1500, 2000))
    assert large[1].sigma_xy == pytest.approx(4 * small[1].sigma_xy)
    assert large[1].sigma_rgb == small[1].sigma_rgb and large[0].weight == small[0].weight
    assert score_kernels((375, 500), (2.0, 2.0))[0].sigma == 2 * small[0].sigma
    assert length_unit((30, 40)) == 1.0


def test_a_temperature_divides_the_scores():
    logits = 4 * np.log(soft(ROUGH, 0.9))
    assert np.array_equal(refine(IMAGE, logits=logits, temperature=1), refine(IMAGE, logits=logits))
    expected = refine(IMAGE, logits=logits / np.float32(2.5))
    assert np.allclose(refine(IMAGE, logits=logits, temperature=2.5), expected, atol=1e-6)
    p = soft(ROUGH, 0.9)
    expected = refine(IMAGE, logits=np.log(p) / np.float32(3))
    assert np.allclose(refine(IMAGE, probabilities=p, temperature=3), expected, atol=1e-6)


def test_labels_that_are_improbable_everywhere_get_probability_0():
    p = soft(ROUGH, 0.6, classes=5)
    p[3] = LEAST_PROBABILITY / 20
    p /= p.sum(axis=0)
    refined = refine(IMAGE, probabilities=p)
    assert refined.shape == p.shape and not refined[3].any() and (refined[[0, 1, 2, 4]] > 0).any(axis=(1, 2)).all()
    assert np.allclose(refined.sum(axis=0), 1, atol=1e-5)
    without = np.delete(p, 3, axis=0)
    expected = refine(IMAGE, logits=np.log(without))
    assert np.allclose(np.delete(refined, 3, axis=0), expected, atol=1e-6)


def test_labels_are_kept_if_they_are_probable_at_one_pixel():
    scores = np.full((4, 6, 7), -20, np.float32)
    scores[0], scores[1, 2, 3], scores[2, 5, 6] = 0, -6.8, -7.0  # log 0.001 is -6.91
    found = possible_labels(Unary(scores), threads=2)
    assert found.labels.tolist() == [0, 1] and found.num_classes == 4 and np.array_equal(found.scores, scores[:2])
    assert possible_labels(Unary(scores[:1]), threads=1).labels is None  # one label stays


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_invalid_scores_of_improbable_labels_are_refused(value):
    logits = np.zeros((3, *TRUTH.shape), np.float32)
    logits[2] = -30
    logits[2, 4, 5] = value
    with pytest.raises(InputError, match="NaN or infinity at 1 of"):
        refine(IMAGE, logits=logits)


def test_colours_of_the_most_probable_labels_are_added_to_the_scores():
    logits = 2 * np.log(soft(ROUGH, 0.7, classes=3))
    logits[2] -= 1
    given = logits.copy()
    scores = logits.reshape(3, -1).copy()
    colours = colour_model(IMAGE.reshape(-1, 3), scores.argmax(axis=0).astype(np.int32), 3, 1)
    colours.add_to(scores, learnt().scores.colour_weight)
    assert np.abs(scores - logits.reshape(3, -1)).max() > 0.1
    expected = CRF(score_kernels(TRUTH.shape)).marginals(scores.reshape(logits.shape), IMAGE)
    assert np.array_equal(refine(IMAGE, logits=logits), expected)
    assert np.array_equal(logits, given), "the argument is unchanged"


def test_colours_follow_the_data_range():
    logits = np.log(soft(ROUGH))
    expected = refine(IMAGE, logits=logits)
    scaled = refine(IMAGE.astype(np.float32) / 255, logits=logits, data_range=1)
    assert np.allclose(scaled, expected, atol=2e-3)  # a colour at the end of a bin may be rounded into the next


def test_ignored_pixels_do_not_change_colours():
    logits, ignore = np.log(soft(ROUGH)), np.zeros(TRUTH.shape, bool)
    ignore[:, :20] = True
    one, other = IMAGE.astype(np.float32), IMAGE.astype(np.float32)
    other[ignore] = np.nan
    expected = refine(one, logits=logits, ignore=ignore)[:, ~ignore]
    assert np.array_equal(refine(other, logits=logits, ignore=ignore)[:, ~ignore], expected)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_best_labels_are_the_first_with_the_highest_score(threads):
    scores = np.random.default_rng(9041).integers(0, 5, (7, 20_003)).astype(np.float32)
    out = np.empty(20_003, np.int32)
    _core.best_labels(scores, out, threads)
    assert np.array_equal(out, scores.argmax(axis=0))
    with pytest.raises(ValueError, match="points"):
        _core.best_labels(scores, out[1:], threads)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_largest_leads_are_the_largest_differences_to_the_best_score(threads):
    scores = np.random.default_rng(3071).normal(size=(7, 5003)).astype(np.float32)
    scores[4] -= 9
    out = np.empty(7, np.float32)
    _core.largest_leads(scores, out, threads)
    assert np.array_equal(out, (scores - scores.max(axis=0)).max(axis=1))
    with pytest.raises(ValueError, match="labels"):
        _core.largest_leads(scores, np.empty(6, np.float32), threads)


@pytest.mark.parametrize(
    "given, error, message",
    [
        ({"logits": soft(ROUGH), "roughness": 3}, InputError, "got roughness= without labels="),
        ({"logits": soft(ROUGH), "confidence": 0.8}, InputError, "got confidence= without labels=.*temperature="),
        ({"labels": ROUGH, "temperature": 2}, InputError, "got temperature= with labels=.*Use roughness="),
        ({"labels": ROUGH, "roughness": 2, "kernels": []}, InputError, "roughness= together with kernels="),
        ({"labels": ROUGH, "roughness": 2, "confidence": 0.9}, InputError, "roughness= together with confidence="),
        ({"labels": ROUGH, "roughness": 0}, InputError, "roughness is 0, expected the distance.*None estimates it"),
        ({"labels": ROUGH, "roughness": -1.5}, InputError, "roughness is -1.5, expected"),
        ({"labels": ROUGH, "roughness": np.nan}, InputError, "roughness is nan, expected"),
        ({"labels": ROUGH, "roughness": [1, 2]}, InputError, r"roughness is \[1, 2\], expected"),
        ({"labels": ROUGH, "roughness": "much"}, InputTypeError, "roughness is 'much', expected a number of pixels"),
        ({"logits": soft(ROUGH), "temperature": 0}, InputError, "temperature is 0, expected a finite number above 0"),
        ({"logits": soft(ROUGH), "temperature": "hot"}, InputTypeError, "temperature is 'hot', expected a number"),
        ({"labels": ROUGH[None, None]}, InputError, r"labels have shape \(1, 1, "),
        ({"labels": ROUGH, "iterations": -1}, InputError, "iterations is -1"),
        ({"labels": ROUGH, "spacing": (1.0,)}, InputError, "spacing is"),
        ({"labels": ROUGH, "threads": 0}, InputError, "threads is 0"),
        ({"labels": ROUGH, "data_range": (1, 2)}, InputError, "data_range has 2 numbers, but the image has 3"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(given, error, message):
    with pytest.raises(error, match=message):
        refine(IMAGE, **given)
