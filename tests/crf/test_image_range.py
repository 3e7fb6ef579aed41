"""Images outside 0…255 give a warning, and data_range declares their range."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from densefield import CRF, Bilateral, InputError, InputWarning, Spatial, refine
from densefield.crf.image_range import in_image_units


def scene(dtype: type = np.uint8) -> tuple[np.ndarray, np.ndarray]:
    """A noisy image of two colours, and a mask with the edge shifted by two columns."""
    image = np.zeros((24, 32, 3))
    image[:, 16:] = (190, 120, 60)
    image += np.random.default_rng(70121).uniform(0, 20, image.shape)
    mask = np.zeros((24, 32), np.uint8)
    mask[:, 18:] = 1
    return image.astype(np.uint8).astype(dtype), mask


IMAGE, MASK = scene()
UNIT = IMAGE / 255
NORMALISED = ((UNIT - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)).astype(np.float32)
DEEP = IMAGE.astype(np.uint16) * 257


@pytest.mark.parametrize(
    "image, cure",
    [
        (UNIT, r"looks like colours from 0 to 1.*Pass image \* 255, or data_range=1\."),
        (UNIT.astype(np.float32), "data_range=1"),
        (UNIT * 1.06 - 0.03, "data_range=1"),  # slightly beyond, as after resizing
        (UNIT.astype(np.float16), "data_range=1"),
        (NORMALISED, "looks like a network's normalised input.*Pass the original image"),
        (UNIT * 2 - 1, "normalised"),
        (DEEP, "looks like more than 8 bits.*Pass data_range=65535"),
        (DEEP.astype(np.float32), "data_range=65535"),
        (IMAGE.astype(np.uint16) * 16, "data_range=4095"),
        (
            IMAGE.astype(np.float64) * 300 - 20000,
            "Pass data_range=.*or data_range=255 if sigma_rgb has the image",
        ),
    ],
)
def test_images_of_another_range_give_a_warning(image, cure):
    with pytest.warns(InputWarning, match=cure):
        refine(image, labels=MASK)
    with pytest.warns(InputWarning, match=cure):
        CRF().solve(np.zeros((2, 24, 32), np.float32), image)


@pytest.mark.parametrize(
    "image",
    [
        IMAGE,
        IMAGE.astype(np.float32),
        IMAGE.astype(np.int64),
        IMAGE.astype(np.float32) - 128,  # only differences matter
        IMAGE.astype(np.float32) * 1.02 - 3,  # slightly beyond, as after resizing
        (IMAGE / 16).astype(np.uint8),  # a dark image
        (IMAGE / 16).astype(np.float32),
        (IMAGE / 100).astype(np.uint8),
        (IMAGE / 100).astype(np.uint16),
        np.zeros_like(IMAGE, np.float32),
        IMAGE.astype(np.uint16),
    ],
)
def test_images_that_may_be_in_0_to_255_give_no_warning(image):
    refine(image, labels=MASK)  # a warning is an error here


def test_widths_that_fit_the_image_give_no_warning():
    for image, width in ((UNIT, 0.04), (NORMALISED, 0.2), (DEEP, 2570)):
        refine(image, labels=MASK, kernels=[Bilateral(60, width, weight=5)])
    refine(UNIT, labels=MASK, kernels=[Spatial(3)])  # uses no colours


def test_the_warning_names_the_calling_line_and_comes_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            refine(UNIT, labels=MASK)
    assert [each.filename for each in caught] == [__file__]


@pytest.mark.parametrize("image, data_range", [(UNIT, 1), (UNIT, [1.0, 1.0, 1.0]), (DEEP, 65535)])
def test_the_range_can_be_given(image, data_range):
    expected = refine(IMAGE, labels=MASK)
    refined = refine(image, labels=MASK, data_range=data_range)
    # Features are rounded differently after division by other widths; no pixel is at a tie.
    assert np.allclose(refined, expected, atol=1e-4)
    assert np.array_equal(refined.argmax(0), expected.argmax(0))


def test_normalised_images_have_a_range_for_each_channel():
    exact = CRF(method="exact")  # lattices differ for shifted colours
    expected = refine(IMAGE, labels=MASK, crf=exact)
    refined = refine(NORMALISED, labels=MASK, crf=exact, data_range=1 / np.array([0.229, 0.224, 0.225]))
    assert np.allclose(refined, expected, atol=1e-5)  # the image is rounded to float32


def test_a_covariance_is_scaled_as_widths_are():
    covariance = np.diag([400.0, 400.0, 100.0, 100.0, 100.0])
    covariance[0, 2] = covariance[2, 0] = 50.0
    scaled = in_image_units(Bilateral(covariance=covariance), np.array(1.0), axes=2).covariance
    factors = np.array([1, 1, 1 / 255, 1 / 255, 1 / 255])
    assert np.allclose(scaled, covariance * factors * factors[:, None], rtol=1e-12)


def test_a_range_for_another_number_of_channels_is_rejected_by_name():
    with pytest.raises(InputError, match="data_range has 2 numbers, but the image has 3 channels"):
        refine(IMAGE, labels=MASK, data_range=[1, 2])


@pytest.mark.parametrize("data_range", [0, -1, np.inf, [], [[1.0]]])
def test_an_invalid_range_is_rejected(data_range):
    with pytest.raises(InputError, match=r"data_range is .*, expected a finite number above 0, or one per channel"):
        CRF(data_range=data_range)


# Alpha


def test_a_constant_alpha_channel_makes_no_difference():
    expected = refine(IMAGE, labels=MASK)
    for alpha in (255, 0):
        four = np.concatenate([IMAGE, np.full((24, 32, 1), alpha, np.uint8)], axis=2)
        assert np.array_equal(refine(four, labels=MASK), expected)
    grey = np.stack([IMAGE[..., 0], np.full((24, 32), 255, np.uint8)], axis=2)
    assert np.array_equal(refine(grey, labels=MASK), refine(IMAGE[..., 0], labels=MASK))


def test_a_fourth_channel_that_varies_or_has_a_width_is_used():
    four = np.concatenate([IMAGE, IMAGE[..., :1] // 2], axis=2)
    assert not np.array_equal(refine(four, labels=MASK), refine(IMAGE, labels=MASK))
    opaque = np.concatenate([IMAGE, np.full((24, 32, 1), 255, np.uint8)], axis=2)
    kernels = [Bilateral(60, [10.0, 10.0, 10.0, 10.0], weight=5)]
    assert refine(opaque, labels=MASK, kernels=kernels).shape == (2, 24, 32)


# Scores of another kind


def test_probabilities_and_energies_passed_as_scores_give_a_warning():
    p = np.random.default_rng(40063).dirichlet([1.0] * 3, (24, 32)).transpose(2, 0, 1)
    with pytest.warns(InputWarning, match="the scores are probabilities: they sum to one"):
        CRF().solve(p, IMAGE)
    with pytest.warns(InputWarning, match="the scores are energies, -log p.*Pass -energies"):
        refine(IMAGE, logits=-np.log(p))
