"""explain() finds wrong images, axes and scores."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import Bilateral, Spatial, explain
from densefield.diagnose.result import percent
from tests.support.small_photo import (
    HEIGHT,
    IMAGE,
    KERNELS,
    MASK,
    WIDTH,
    first_problem,
    only_problem,
    problems,
    rough,
    soft,
    softmax,
)

# The image


def test_colours_from_zero_to_one_are_found():
    found = first_problem(explain(IMAGE / 255, labels=rough(MASK), kernels=KERNELS))
    assert "not in the range 0…255" in found.what
    assert found.cure == "Pass image * 255, or data_range=1."
    assert "sigma_rgb is 12" in found.numbers
    assert problems(explain(IMAGE / 255, labels=rough(MASK), kernels=KERNELS, data_range=1)) == []


def test_colours_from_zero_to_one_are_no_problem_with_matching_widths():
    kernels = (Spatial(2, weight=2), Bilateral(20, 12 / 255, weight=3))
    assert problems(explain(IMAGE / 255, labels=rough(MASK), kernels=kernels)) == []


def test_normalised_network_input_passed_as_image_is_found():
    shifted = (IMAGE / 255 - 0.45) / 0.225
    found = first_problem(explain(shifted, labels=rough(MASK), kernels=KERNELS))
    assert "Pass the original image" in found.cure


def test_uint8_images_of_a_tiny_range_are_found():
    found = first_problem(explain(MASK, labels=rough(MASK), kernels=KERNELS))  # a mask passed as image
    assert "ranges from 0 to 1," in found.numbers and "Check how the image was read" in found.cure


def test_an_image_of_one_colour_is_found():
    found = first_problem(explain(np.full_like(IMAGE, 7), labels=rough(MASK), kernels=KERNELS))
    assert "one colour" in found.what and "every value is 7" in found.numbers


def test_an_image_that_no_kernel_uses_is_not_checked():
    assert problems(explain(np.full_like(IMAGE, 7), labels=rough(MASK), kernels=KERNELS[:1])) == []


# Axes


def test_channels_first_are_found():
    found = only_problem(explain(IMAGE.transpose(2, 0, 1), labels=MASK))
    assert "channels first" in found.what and "(3, 36, 50)" in found.numbers


def test_labels_last_are_found():
    probabilities = softmax(soft(MASK, 5))
    found = only_problem(explain(IMAGE, probabilities=np.moveaxis(probabilities, 0, -1)))
    assert "classes last" in found.what and "(36, 50, 5)" in found.numbers


def test_channels_first_and_labels_last_are_both_found():
    findings = explain(IMAGE.transpose(2, 0, 1), logits=np.moveaxis(soft(MASK, 5), 0, -1))
    assert ["channels first" in findings[0].what, "classes last" in findings[1].what, len(findings)] == [True, True, 2]


@pytest.mark.parametrize("form", ["labels", "logits"])
def test_swapped_rows_and_columns_are_found(form):
    given = {"labels": MASK.T} if form == "labels" else {"logits": soft(MASK).swapaxes(1, 2)}
    found = only_problem(explain(IMAGE, **given))
    assert "Rows and columns" in found.what


# The scores


@pytest.mark.parametrize("labels", [2, 21])
def test_probabilities_passed_as_logits_are_found(labels):
    findings = explain(IMAGE, logits=softmax(soft(rough(MASK), labels, 6)), kernels=KERNELS)
    assert "The logits are probabilities" in problems(findings)[0]
    assert f"{np.e / (np.e + labels - 1):.3g}" in findings[0].numbers


@pytest.mark.parametrize("labels", [2, 21])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_softmax_applied_twice_is_found(labels, dtype):
    twice = softmax(softmax(soft(rough(MASK), labels, 8))).astype(dtype)
    findings = explain(IMAGE, probabilities=twice, kernels=KERNELS)
    assert "softmax had been taken twice" in problems(findings)[0]


def test_nearly_uniform_probabilities_are_a_note():
    unsure = softmax(soft(rough(MASK), 2, 0.0) * np.float32(0.1))
    findings = explain(IMAGE, probabilities=unsure, kernels=KERNELS)
    assert next(f for f in findings if "nearly even" in f.what).severity == "note"


@pytest.mark.parametrize("labels", [2, 21])
def test_energies_passed_as_logits_are_found(labels):
    energies = -np.log(softmax(soft(rough(MASK), labels)))
    found = explain(IMAGE, logits=energies, kernels=KERNELS)[0]
    assert "energies" in found.what and found.numbers == "exp(-logits) sums to one"


def test_log_probabilities_are_not_reported_as_energies():
    assert problems(explain(IMAGE, logits=np.log(softmax(soft(rough(MASK)))), kernels=KERNELS)) == []


@pytest.mark.parametrize("value", [127, 128, 254, 255])
def test_a_binary_mask_is_a_note(value):
    findings = explain(IMAGE, labels=value * rough(MASK), kernels=KERNELS)
    assert problems(findings) == []
    assert findings[0].what == f"The mask is binary: {value} is label 1."
    assert findings[-1] == explain(IMAGE, labels=rough(MASK), kernels=KERNELS)[-1]


def test_a_mask_of_0_and_255_with_255_as_void_is_found():
    found = explain(IMAGE, labels=255 * MASK, kernels=KERNELS, void=255)[0]
    assert found.severity == "problem" and "only 0 and 255" in found.what
    share = float(MASK.mean())
    assert percent(share) in found.numbers and percent(1 - share) in found.numbers


def test_a_mask_of_void_pixels_is_found():
    found = only_problem(explain(IMAGE, labels=np.full_like(MASK, 255), kernels=KERNELS, void=255))
    assert "Every pixel of the mask is unknown" in found.what


def test_uniform_scores_are_found():
    found = only_problem(explain(IMAGE, logits=np.zeros((3, HEIGHT, WIDTH)), kernels=KERNELS))
    assert "No pixel prefers any label" in found.what


def test_a_blank_input_is_found():
    found = only_problem(explain(IMAGE, labels=np.ones_like(MASK), kernels=KERNELS))
    assert "same label everywhere" in found.what and "label 1 is the only one at 1800 pixels" in found.numbers
    logits = np.stack([np.zeros(MASK.shape), np.full(MASK.shape, 3.0)])
    found = only_problem(explain(IMAGE, logits=logits, kernels=KERNELS))
    assert "same label everywhere" in found.what and "label 1 has the highest score at all 1800" in found.numbers


def test_a_single_label_is_found():
    found = only_problem(explain(IMAGE, logits=np.zeros((1, HEIGHT, WIDTH))))
    assert "one label" in found.what
