"""refine() on masks, probabilities and logits."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import CRF, Custom, InputError, InputTypeError, InputWarning, Spatial, refine
from densefield.crf.model import PHOTO_KERNELS
from densefield.crf.unary import unary
from tests.support.two_halves import probabilities_of, two_halves


def test_a_mask_moves_to_the_edge_of_the_image():
    image, mask = two_halves()
    refined = refine(image, labels=mask)
    assert refined.shape == (2, 12, 16) and refined.dtype == np.float32
    assert np.array_equal(refined.argmax(0), image[..., 0] == 200)
    assert np.allclose(refined.sum(axis=0), 1, atol=1e-6)


def test_equivalent_labels_probabilities_and_logits_give_the_same():
    image, mask = two_halves()
    p = probabilities_of(mask)
    results = [
        refine(image, labels=mask, confidence=0.7, kernels=PHOTO_KERNELS),
        refine(image, probabilities=p, kernels=PHOTO_KERNELS),
        refine(image, logits=np.log(p), kernels=PHOTO_KERNELS),
        refine(image, logits=np.log(p) + 3, kernels=PHOTO_KERNELS),
    ]
    for result in results[1:]:
        assert np.allclose(result, results[0], atol=1e-5)  # logits rounded to float32


def test_refine_equals_a_crf_on_the_scores():
    image, mask = two_halves()
    kernels = [Spatial(2, weight=1.5)]
    expected = CRF(kernels, iterations=3).solve(unary(labels=mask).scores, image).marginals
    assert np.array_equal(refine(image, labels=mask, kernels=kernels, iterations=3), expected)


def test_a_grey_image_is_accepted():
    image, mask = two_halves()
    assert np.array_equal(refine(image[..., 0], labels=mask).argmax(0), image[..., 0] == 200)


def test_a_mask_of_void_pixels_gives_uniform_probabilities():
    image, mask = two_halves()
    assert np.allclose(refine(image, labels=np.full_like(mask, 255), void=255), 0.5, atol=1e-6)


# Array types


def test_boolean_masks_are_accepted():
    image, mask = two_halves()
    assert np.array_equal(refine(image, labels=mask == 1), refine(image, labels=mask))


def test_a_foreground_probability_is_accepted():
    image, mask = two_halves()
    p = probabilities_of(mask).astype(np.float32)
    assert np.allclose(refine(image, probabilities=p[1]), refine(image, probabilities=p), atol=1e-6)  # 1 - p, rounded


def test_pillow_images_and_tensors_are_accepted():
    Image = pytest.importorskip("PIL.Image")
    torch = pytest.importorskip("torch")
    image, mask = two_halves()
    expected = refine(image, labels=mask)
    photo, picture = Image.fromarray(image), Image.fromarray(mask.astype(np.uint8))
    assert np.array_equal(refine(photo, labels=picture), expected)
    assert np.array_equal(refine(torch.from_numpy(image), labels=torch.from_numpy(mask)), expected)
    few = photo.convert("P", palette=Image.Palette.ADAPTIVE)  # its pixels are indices, not colours
    assert np.array_equal(refine(few, labels=picture).argmax(0), expected.argmax(0))
    binary = Image.fromarray(mask.astype(bool))
    assert binary.mode == "1" and np.array_equal(refine(photo, labels=binary), expected)


class Wrapped:
    """An array type of another library."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        return self._values


def test_objects_with_the_array_protocol_are_accepted():
    image, mask = two_halves()
    assert np.array_equal(refine(Wrapped(image), labels=Wrapped(mask)), refine(image, labels=mask))
    p = probabilities_of(mask)
    assert np.array_equal(refine(Wrapped(image), probabilities=Wrapped(p)), refine(image, probabilities=p))


# Ignored pixels


def test_masked_elements_are_ignored():
    image, mask = two_halves()
    out = np.zeros(mask.shape, bool)
    out[2:5, 3:12] = True
    expected = refine(image, labels=mask, ignore=out)
    wrong = np.where(out, 77777, mask)  # masked values must not be read
    assert np.array_equal(refine(image, labels=np.ma.array(wrong, mask=out)), expected)
    assert np.array_equal(refine(image, labels=mask, ignore=out & True), expected)
    photo = np.ma.array(image, mask=np.repeat(out[..., None], 3, axis=2))
    assert np.array_equal(refine(photo, labels=mask), expected)
    p = probabilities_of(mask)
    p[:, out] = np.nan
    from_p = refine(image, probabilities=np.ma.array(p, mask=np.broadcast_to(out, p.shape)), kernels=PHOTO_KERNELS)
    classic = refine(image, labels=mask, ignore=out, kernels=PHOTO_KERNELS)
    assert np.allclose(from_p[:, ~out], classic[:, ~out], atol=1e-5)  # probabilities, rounded


def test_ignored_pixels_may_hold_nan():
    image, mask = two_halves()
    out = np.zeros(mask.shape, bool)
    out[2:5, 3:12] = True
    expected = refine(image, labels=mask, ignore=out)
    photo = image.astype(np.float32)
    photo[out] = np.nan
    assert np.allclose(refine(photo, labels=mask, ignore=out)[:, ~out], expected[:, ~out], atol=1e-6)
    logits = np.log(probabilities_of(mask))
    logits[:, out] = np.nan
    expected = refine(image, logits=np.log(probabilities_of(mask)), ignore=out)
    assert np.allclose(refine(image, logits=logits, ignore=out)[:, ~out], expected[:, ~out], atol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf, -9999.0, 65535.0, 1e9])
def test_values_of_ignored_pixels_have_no_effect(value):
    image, mask = two_halves()
    out = np.zeros(mask.shape, bool)
    out[2:5, 3:12] = True
    photo = image.astype(np.float32)
    expected = refine(photo, labels=mask, ignore=out)
    photo[out] = value
    assert np.array_equal(refine(photo, labels=mask, ignore=out), expected)  # a warning would be an error
    assert np.array_equal(refine(np.ma.masked_where(np.repeat(out[..., None], 3, 2), photo), labels=mask), expected)
    with pytest.warns(InputWarning, match="data_range=1"):  # the range of the pixels that are not ignored
        refine(np.where(out[..., None], value, photo / 255), labels=mask, ignore=out)


@pytest.mark.parametrize("given", ["labels", "probabilities"])
def test_ignore_may_be_any_boolean_array(given):
    torch = pytest.importorskip("torch")
    Image = pytest.importorskip("PIL.Image")
    image, mask = two_halves()
    what = {"labels": mask} if given == "labels" else {"probabilities": probabilities_of(mask)}
    out = np.zeros(mask.shape, bool)
    out[2:5, 3:12] = True
    expected = refine(image, **what, ignore=out)
    for each in (torch.from_numpy(out), Image.fromarray(out), Wrapped(out)):
        assert np.array_equal(refine(image, **what, ignore=each), expected)
    photo = np.ma.array(image, mask=False)
    for pixels in (image, photo):
        for wrong in (out.astype(np.uint8), out.astype(float), out[:3]):
            with pytest.raises(InputError, match=r"ignore is \w+ \(.*\), expected a boolean array"):
                refine(pixels, **what, ignore=wrong)
        for wrong in (out.tolist(), "mask.png"):
            with pytest.raises(
                InputTypeError, match=r"ignore is (of type list|the path 'mask.png'), expected a boolean"
            ):
                refine(pixels, **what, ignore=wrong)


def test_the_crf_rejects_masked_arrays():
    image, mask = two_halves()
    scores = np.log(probabilities_of(mask))
    with pytest.raises(InputTypeError, match=r"the scores are a masked array.*ignore="):
        CRF().solve(np.ma.array(scores), image)
    with pytest.raises(InputTypeError, match=r"the image is a masked array.*ignore="):
        CRF().solve(scores, np.ma.array(image))


def test_spacing_stretches_the_kernels():
    image, mask = two_halves()
    kernels = [Spatial((2, 4), weight=2)]
    expected = refine(image, labels=mask, kernels=kernels)
    stretched = refine(image, labels=mask, kernels=[Spatial((1, 2), weight=2)], spacing=(0.5, 0.5))
    assert np.array_equal(stretched, expected)  # exact, since the factors are powers of two


# Custom CRFs


def test_a_crf_replaces_kernels_and_iterations():
    image, mask = two_halves()
    crf = CRF([Spatial(2, weight=1.5)], iterations=3)
    assert np.array_equal(
        refine(image, labels=mask, crf=crf), refine(image, labels=mask, kernels=crf.kernels, iterations=3)
    )
    with pytest.raises(InputError, match=r"got crf= together with kernels= or iterations=.*crf.replace"):
        refine(image, labels=mask, crf=crf, iterations=5)
    with pytest.raises(InputTypeError, match=r"crf is of type str, expected a CRF. For a file use CRF.load\(path\)"):
        refine(image, labels=mask, crf="crf.toml")


def test_an_empty_image_gives_an_empty_result():
    image = np.zeros((0, 5, 3), np.uint8)
    assert refine(image, labels=np.zeros((0, 5), np.uint8)).shape == (2, 0, 5)
    assert refine(image, probabilities=np.zeros((3, 0, 5))).shape == (3, 0, 5)
    assert refine(image, logits=np.zeros((3, 0, 5))).shape == (3, 0, 5)


IMAGE = np.zeros((2, 3, 3), np.uint8)
HALF = np.full((2, 2, 3), 0.5)


@pytest.mark.parametrize(
    "given, error, message",
    [
        ({}, InputError, "got neither probabilities nor labels nor logits, expected exactly one"),
        ({"probabilities": HALF, "logits": HALF}, InputError, "got probabilities and logits, expected exactly one"),
        (
            {"probabilities": [0.5]},
            InputTypeError,
            "probabilities are of type list, expected a floating point.*labels=",
        ),
        (
            {"probabilities": HALF.astype(int)},
            InputTypeError,
            "probabilities have dtype int64.*For a mask of labels use labels=",
        ),
        ({"probabilities": np.ones(3)}, InputError, r"probabilities have shape \(3,\), expected \(classes, rows"),
        (
            {"probabilities": np.ones((0, 2, 3))},
            InputError,
            r"probabilities have shape \(0, 2, 3\), expected \(classes",
        ),
        ({"probabilities": 4 * HALF}, InputError, "range from 2 to 2, expected 0 to 1. For raw scores use logits="),
        ({"probabilities": HALF * np.nan}, InputError, r"hold NaN at 6 of 6 pixels.*ignore=numpy.isnan\(prob"),
        ({"probabilities": HALF / 2}, InputError, "sum to 0.5 … 0.5 over the labels .first axis., expected 1"),
        ({"probabilities": np.full((2, 3, 4), 0.25)}, InputError, r"use numpy.moveaxis\(probabilities, -1, 0\)"),
        ({"labels": [[0, 1]]}, InputTypeError, "labels are of type list, expected an array of integers"),
        ({"labels": np.zeros((2, 3))}, InputTypeError, "labels have dtype float64, expected integers.*probabilities="),
        ({"labels": "mask.png"}, InputTypeError, r"labels are the path 'mask.png'.*PIL.Image.open\('mask.png'\)"),
        ({"labels": np.zeros((2, 3, 3), np.uint8)}, InputError, "a picture in colours, expected integers"),
        (
            {"labels": np.full((2, 3), 2**31)},
            InputError,
            "labels go up to 2147483648, expected less than 65536.*uni",
        ),
        ({"labels": np.full((2, 3), 2**62)}, InputError, "labels go up to 4611686018427387904, expected less than"),
        ({"labels": np.zeros((2, 3), int), "void": "white"}, InputError, "void is 'white', expected the integer that"),
        ({"probabilities": np.full((2, 2), 1.5)}, InputError, "range from 1.5 to 1.5, expected 0 to 1"),
        ({"probabilities": HALF[:1]}, InputError, r"sum to 0.5.*one foreground.*probabilities\[0\]"),
        (
            {"labels": np.full((2, 3), -1)},
            InputError,
            "labels range from -1 to -1, expected 0 to 1, or 255 where",
        ),
        ({"labels": np.full((2, 3), 4), "num_classes": 3}, InputError, "labels range from 4 to 4, expected 0 to 2"),
        (
            {"labels": np.zeros((2, 3), int), "num_classes": 0},
            InputError,
            "num_classes is 0, expected an integer from 2",
        ),
        (
            {"labels": np.zeros((2, 3), int), "num_classes": 1},
            InputError,
            "num_classes is 1, expected an integer from 2",
        ),
        (
            {"labels": np.zeros((2, 3), int), "num_classes": 2.5},
            InputError,
            "num_classes is 2.5, expected an integer",
        ),
        (
            {"labels": np.zeros((2, 3), int), "num_classes": True},
            InputError,
            "num_classes is True, expected an integer",
        ),
        (
            {"labels": np.zeros((2, 3), int), "confidence": 1.0},
            InputError,
            "confidence is 1.0, expected a number above 0.5",
        ),
        (
            {"labels": np.zeros((2, 3), int), "confidence": 0.5},
            InputError,
            "at which 2 labels are equally probable, and below 1",
        ),
        (
            {"labels": np.zeros((2, 3), int), "confidence": np.nan},
            InputError,
            "confidence is nan, expected a number above",
        ),
        (
            {"labels": np.zeros((2, 3), int), "confidence": "high"},
            InputTypeError,
            "confidence is 'high', expected a number",
        ),
        (
            {"labels": np.zeros((2, 3), int), "confidence": np.array([0.7, 0.8])},
            InputError,
            "confidence is .*expected a number above 0.5",
        ),
        (
            {"labels": np.zeros((2, 3), int), "kernels": [Custom("depth")]},
            InputError,
            r"a kernel compares 'depth'.*Use CRF\(kernels\).solve\(scores, image, features={'depth': array}\)",
        ),
        (
            {"probabilities": np.full((2, 3), np.nan)},
            InputError,
            r"NaN at 6 of 6.*ignore=numpy.isnan\(prob\w+\)\.",
        ),
        ({"logits": np.zeros((2, 3))}, InputError, r"logits have shape \(2, 3\), expected \(classes.*numpy.stack"),
        ({"labels": np.zeros((2, 3, 1), int)}, InputError, r"labels have shape \(2, 3, 1\).*Use labels\[..., 0\]"),
        ({"labels": np.zeros((2, 3, 5), int)}, InputError, r"For one-hot labels use labels.argmax\(axis=-1\)"),
        ({"labels": np.zeros((1, 2), int)}, InputError, r"\(1, 2\), but the image has \(2, 3, 3\).*without blending"),
        ({"labels": np.zeros((3, 2), int)}, InputError, "Rows and columns are swapped"),
        ({"logits": np.zeros((2, 2, 3), int)}, InputTypeError, "scores have dtype int64.*labels=mask"),
        ({"logits": np.full((2, 2, 3), np.inf)}, InputError, "scores hold NaN or infinity at 12 of 12 places"),
    ],
)
def test_invalid_arguments_are_rejected(given, error, message):
    with pytest.raises(error, match=message):
        refine(IMAGE, **given)


@pytest.mark.parametrize(
    "image, error, message",
    [
        (
            "photo.jpg",
            InputTypeError,
            r"the image is the path 'photo.jpg'.*asarray\(PIL.Image.open\('photo.jpg'\)\)",
        ),
        (IMAGE.tolist(), InputTypeError, r"the image is of type list, expected a numpy array.*numpy.asarray\(image\)"),
        (None, InputError, "no image was given"),
        (np.full((2, 3, 3), np.nan), InputError, "the image holds NaN or infinity at 6 of 6 pixels.*ignore="),
        (np.zeros((16, 24, 3), np.uint8), InputError, "The scores are smaller than the image: upsample them first"),
    ],
)
def test_an_image_of_the_wrong_type_is_rejected(image, error, message):
    with pytest.raises(error, match=message):
        refine(image, probabilities=HALF)


def test_a_tensor_that_requires_gradients_is_rejected_with_the_cure():
    torch = pytest.importorskip("torch")
    with pytest.raises(InputTypeError, match=r"tensor.detach\(\).float\(\).cpu\(\).numpy\(\)"):
        refine(IMAGE, probabilities=torch.from_numpy(HALF).requires_grad_())
