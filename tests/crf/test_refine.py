"""Masks in one line."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import CRF, Custom, InputError, InputTypeError, Spatial, refine
from densefield.crf.unary import unary


def two_halves() -> tuple[np.ndarray, np.ndarray]:
    """An image of two colours, and its mask with the edge two columns off."""
    image = np.zeros((12, 16, 3), np.uint8)
    image[:, 8:] = 200
    mask = np.zeros((12, 16), np.int64)
    mask[:, 10:] = 1
    return image, mask


def probabilities_of(mask: np.ndarray, confidence: float = 0.7) -> np.ndarray:
    first = np.where(mask == 0, confidence, 1 - confidence)
    return np.stack([first, 1 - first])


def test_a_mask_is_drawn_to_the_edge():
    image, mask = two_halves()
    refined = refine(image, labels=mask)
    assert refined.shape == (2, 12, 16) and refined.dtype == np.float32
    assert np.array_equal(refined.argmax(0), image[..., 0] == 200)
    assert np.allclose(refined.sum(axis=0), 1, atol=1e-6)


def test_labels_probabilities_and_logits_that_say_the_same_give_the_same():
    image, mask = two_halves()
    p = probabilities_of(mask)
    results = [
        refine(image, labels=mask),
        refine(image, p),
        refine(image, logits=np.log(p)),
        refine(image, logits=np.log(p) + 3),
    ]
    for result in results[1:]:
        assert np.allclose(result, results[0], atol=1e-5)  # logits of either kind, rounded to single precision


def test_it_is_a_crf_on_those_scores():
    image, mask = two_halves()
    kernels = [Spatial(2, weight=1.5)]
    expected = CRF(kernels, iterations=3).solve(unary(labels=mask).scores, image).marginals
    assert np.array_equal(refine(image, labels=mask, kernels=kernels, iterations=3), expected)


def test_a_grey_image_will_do():
    image, mask = two_halves()
    assert np.array_equal(refine(image[..., 0], labels=mask).argmax(0), image[..., 0] == 200)


def test_a_mask_of_nothing_known_is_open_everywhere():
    image, mask = two_halves()
    assert np.allclose(refine(image, labels=np.full_like(mask, 255), void=255), 0.5, atol=1e-6)


# Labels take part only where they occur


@pytest.mark.parametrize("label", [2, 5, 13, 20, 150, 300])
def test_the_result_does_not_depend_on_the_number_of_a_label(label):
    image, mask = two_halves()
    expected = refine(image, labels=mask)
    refined = refine(image, labels=mask * label)
    assert refined.shape == (label + 1, 12, 16)
    assert np.array_equal(refined[[0, label]], expected)  # the same bits: the same computation
    assert refined.sum(axis=0) == pytest.approx(1, abs=1e-6)  # rounding; the other labels have none


def test_absent_labels_make_no_difference():
    image, mask = two_halves()
    expected = refine(image, labels=mask)
    refined = refine(image, labels=mask, num_labels=21)
    assert refined.shape == (21, 12, 16)
    assert np.array_equal(refined[:2], expected) and not refined[2:].any()


def test_labels_that_change_places_change_places_in_the_result():
    image, mask = two_halves()
    three = mask.copy()
    three[:4, :4] = 2
    order = np.array([7, 0, 3])
    refined, renumbered = refine(image, labels=three), refine(image, labels=order[three])
    assert np.allclose(renumbered[order], refined, atol=1e-6)  # sums over labels in another order


def test_a_mask_of_one_label_stays_that_label():
    image, mask = two_halves()
    refined = refine(image, labels=np.full_like(mask, 3))
    assert refined.shape == (4, 12, 16) and (refined[3] == 1).all() and not refined[:3].any()


@pytest.mark.parametrize("rank", [1, 2])
def test_weights_per_label_are_those_of_the_labels_that_occur(rank):
    image, mask = two_halves()
    rng = np.random.default_rng(20177)
    weight = rng.uniform(0.5, 2, 21) if rank == 1 else np.diag(rng.uniform(0.5, 2, 21)) - 0.1
    few = weight[[0, 13]] if rank == 1 else weight[np.ix_([0, 13], [0, 13])]
    expected = refine(image, labels=mask, kernels=[Spatial(2, weight=few)])
    refined = refine(image, labels=mask * 13, num_labels=21, kernels=[Spatial(2, weight=weight)])
    assert np.array_equal(refined[[0, 13]], expected) and not refined[1:13].any()
    with pytest.raises(InputError, match="for 21 labels, but there are 2"):
        refine(image, labels=mask * 13, kernels=[Spatial(2, weight=weight)])  # the mask shows 14


# Binary masks, void


@pytest.mark.parametrize("value", [127, 128, 254, 255])
@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_a_mask_of_0_and_a_grey_value_is_binary(value, dtype):
    image, mask = two_halves()
    assert np.array_equal(refine(image, labels=(mask * value).astype(dtype)), refine(image, labels=mask))


def test_a_mask_of_foreground_alone_is_binary_too():
    image, mask = two_halves()
    assert np.array_equal(refine(image, labels=np.full_like(mask, 255)).argmax(0), np.ones_like(mask))


def test_more_than_two_labels_make_255_unknown():
    image, mask = two_halves()
    refined = refine(image, labels=mask * 255, num_labels=21)
    assert refined.shape == (21, 12, 16) and (refined[0] == 1).all()  # 0 is the only label that is known


def test_void_says_which_value_is_unknown():
    image, mask = two_halves()
    holes = mask.copy()
    holes[3:6, 5:9] = 255
    expected = refine(image, labels=holes)
    assert (refine(image, labels=np.where(holes == 255, 9, holes), void=9) == expected).all()
    assert (refine(image, labels=np.where(holes == 255, -1, holes), void=-1) == expected).all()
    labelled = refine(image, labels=holes, void=None)
    assert labelled.shape == (256, 12, 16) and labelled[255].any()


def test_class_255_is_a_class_where_there_are_more_than_255():
    image, mask = two_halves()
    expected = refine(image, labels=mask)
    for count, labels in ((300, mask * 255), (None, np.where(mask == 1, 255, 256))):
        refined = refine(image, labels=labels, num_labels=count)
        assert refined[255].any() and np.array_equal(np.unique(refined.argmax(0)), np.unique(labels))
    assert np.array_equal(refine(image, labels=mask * 255, num_labels=300)[[0, 255]], expected)


# Anything that is an array


def test_booleans_are_a_mask():
    image, mask = two_halves()
    assert np.array_equal(refine(image, labels=mask == 1), refine(image, labels=mask))


def test_one_foreground_probability_will_do():
    image, mask = two_halves()
    p = probabilities_of(mask).astype(np.float32)
    assert np.allclose(refine(image, p[1]), refine(image, p), atol=1e-6)  # 1 - p, rounded


def test_pillow_images_and_tensors_are_arrays():
    Image = pytest.importorskip("PIL.Image")
    torch = pytest.importorskip("torch")
    image, mask = two_halves()
    expected = refine(image, labels=mask)
    photo, picture = Image.fromarray(image), Image.fromarray(mask.astype(np.uint8))
    assert np.array_equal(refine(photo, labels=picture), expected)
    assert np.array_equal(refine(torch.from_numpy(image), labels=torch.from_numpy(mask)), expected)
    few = photo.convert("P", palette=Image.Palette.ADAPTIVE)  # whose pixels are indices, not colours
    assert np.array_equal(refine(few, labels=picture).argmax(0), expected.argmax(0))
    binary = Image.fromarray(mask.astype(bool))
    assert binary.mode == "1" and np.array_equal(refine(photo, labels=binary), expected)


class Wrapped:
    """An array of another library."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        return self._values


def test_whatever_has_the_array_protocol_is_an_array():
    image, mask = two_halves()
    assert np.array_equal(refine(Wrapped(image), labels=Wrapped(mask)), refine(image, labels=mask))
    p = probabilities_of(mask)
    assert np.array_equal(refine(Wrapped(image), Wrapped(p)), refine(image, p))


# Pixels left out


def test_masked_elements_are_ignored():
    image, mask = two_halves()
    out = np.zeros(mask.shape, bool)
    out[2:5, 3:12] = True
    expected = refine(image, labels=mask, ignore=out)
    wrong = np.where(out, 77777, mask)  # what is masked must not be read
    assert np.array_equal(refine(image, labels=np.ma.array(wrong, mask=out)), expected)
    assert np.array_equal(refine(image, labels=mask, ignore=out & True), expected)
    photo = np.ma.array(image, mask=np.repeat(out[..., None], 3, axis=2))
    assert np.array_equal(refine(photo, labels=mask), expected)
    p = probabilities_of(mask)
    p[:, out] = np.nan
    from_p = refine(image, np.ma.array(p, mask=np.broadcast_to(out, p.shape)))
    assert np.allclose(from_p[:, ~out], expected[:, ~out], atol=1e-5)  # probabilities, rounded


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
    assert np.allclose(refine(image, logits=logits, ignore=out)[:, ~out], expected[:, ~out], atol=1e-5)


def test_masked_arrays_are_never_read_through_by_the_crf():
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
    assert np.array_equal(stretched, expected)  # halves and powers of two lose no bits


# A CRF of one's own


def test_a_crf_stands_in_for_kernels_and_iterations():
    image, mask = two_halves()
    crf = CRF([Spatial(2, weight=1.5)], iterations=3)
    assert np.array_equal(
        refine(image, labels=mask, crf=crf), refine(image, labels=mask, kernels=crf.kernels, iterations=3)
    )
    with pytest.raises(InputError, match=r"got crf= together with kernels= or iterations=.*crf.replace"):
        refine(image, labels=mask, crf=crf, iterations=5)
    with pytest.raises(InputTypeError, match=r"crf is a str, expected a CRF. For a file use CRF.load\(path\)"):
        refine(image, labels=mask, crf="crf.toml")


def test_an_empty_image_gives_an_empty_result():
    image = np.zeros((0, 5, 3), np.uint8)
    assert refine(image, labels=np.zeros((0, 5), np.uint8)).shape == (2, 0, 5)
    assert refine(image, np.zeros((3, 0, 5))).shape == (3, 0, 5)
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
            "probabilities are a list, expected a floating point.*labels=",
        ),
        (
            {"probabilities": HALF.astype(int)},
            InputTypeError,
            "probabilities have dtype int64.*For a mask of labels use labels=",
        ),
        ({"probabilities": np.ones(3)}, InputError, r"probabilities have shape \(3,\), expected \(labels, rows"),
        ({"probabilities": np.ones((0, 2, 3))}, InputError, r"probabilities have shape \(0, 2, 3\), expected \(labels"),
        ({"probabilities": 4 * HALF}, InputError, "range from 2 to 2, expected 0 to 1. For raw scores use logits="),
        ({"probabilities": HALF * np.nan}, InputError, r"hold NaN at 6 of 6 pixels.*ignore=numpy.isnan\(prob"),
        ({"probabilities": HALF / 2}, InputError, "sum to 0.5 … 0.5 over the labels .first axis., expected 1"),
        ({"probabilities": np.full((2, 3, 4), 0.25)}, InputError, r"use numpy.moveaxis\(probabilities, -1, 0\)"),
        ({"labels": [[0, 1]]}, InputTypeError, "labels are a list, expected an array of integers"),
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
        ({"probabilities": np.full((2, 2), 1.5)}, InputError, "range from -0.5 to 1.5, expected 0 to 1"),
        ({"probabilities": HALF[:1]}, InputError, r"sum to 0.5.*one foreground.*probabilities\[0\]"),
        (
            {"labels": np.full((2, 3), -1)},
            InputError,
            "labels range from -1 to -1, expected 0 to 1, or 255 where",
        ),
        ({"labels": np.full((2, 3), 4), "num_labels": 3}, InputError, "labels range from 4 to 4, expected 0 to 2"),
        ({"labels": np.zeros((2, 3), int), "num_labels": 0}, InputError, "num_labels is 0, expected an integer from 2"),
        ({"labels": np.zeros((2, 3), int), "num_labels": 1}, InputError, "num_labels is 1, expected an integer from 2"),
        (
            {"labels": np.zeros((2, 3), int), "num_labels": 2.5},
            InputError,
            "num_labels is 2.5, expected an integer",
        ),
        (
            {"labels": np.zeros((2, 3), int), "num_labels": True},
            InputError,
            "num_labels is True, expected an integer",
        ),
        ({"labels": np.zeros((2, 3), int), "confidence": 1.0}, InputError, "confidence is 1.0, expected more than 0.5"),
        (
            {"labels": np.zeros((2, 3), int), "confidence": 0.5},
            InputError,
            "an even guess among the 2 labels, and less than 1",
        ),
        ({"labels": np.zeros((2, 3), int), "confidence": np.nan}, InputError, "confidence is nan, expected more than"),
        (
            {"labels": np.zeros((2, 3), int), "confidence": "high"},
            InputTypeError,
            "confidence is 'high', expected a number",
        ),
        (
            {"labels": np.zeros((2, 3), int), "confidence": np.array([0.7, 0.8])},
            InputError,
            "confidence is .*expected more than 0.5",
        ),
        (
            {"labels": np.zeros((2, 3), int), "kernels": [Custom("depth")]},
            InputError,
            r"a kernel compares 'depth'.*Use CRF\(kernels\).solve\(scores, image, features={'depth': array}\)",
        ),
        ({"logits": np.zeros((2, 2, 3), int)}, InputTypeError, "scores have dtype int64.*labels=mask"),
        ({"logits": np.full((2, 2, 3), np.inf)}, InputError, "scores hold NaN or infinity at 12 of 12 places"),
    ],
)
def test_what_cannot_be_refined_is_refused(given, error, message):
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
        (IMAGE.tolist(), InputTypeError, r"the image is a list, expected a numpy array.*numpy.asarray\(image\)"),
        (None, InputError, "no image was given"),
        (np.full((2, 3, 3), np.nan), InputError, "the image holds NaN or infinity at 6 of 6 pixels.*ignore="),
        (np.zeros((16, 24, 3), np.uint8), InputError, "The scores are smaller than the image: upsample them first"),
    ],
)
def test_what_is_no_image_is_refused(image, error, message):
    with pytest.raises(error, match=message):
        refine(image, HALF)


def test_a_tensor_that_requires_a_gradient_is_refused_with_the_cure():
    torch = pytest.importorskip("torch")
    with pytest.raises(InputTypeError, match=r"tensor.detach\(\).cpu\(\).numpy\(\)"):
        refine(IMAGE, torch.from_numpy(HALF).requires_grad_())
