"""Errors of DenseCRF say what was passed, what was expected, and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from densefield import Bilateral, Custom, InputError, InputTypeError, Spatial

torch = pytest.importorskip("torch")
from densefield import DenseCRF  # noqa: E402


def random(*shape: int, seed: int = 4669) -> Any:
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape), dtype=torch.float32)


def colours(*shape: int, seed: int = 201) -> Any:
    return torch.tensor(np.random.default_rng(seed).uniform(0, 255, shape), dtype=torch.float32)


SCORES, IMAGE = random(2, 3, 4, 5), colours(2, 3, 4, 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 0}, "num_classes is 0, expected an integer, 1 or more"),
        ({"channels": 2.5}, "channels is 2.5"),
        ({"adjoint": "forget"}, "adjoint is 'forget', expected one of store, recompute"),
        ({"method": "fast"}, "method is 'fast'"),
        ({"iterations": -1}, "iterations is -1"),
        ({"kernels": [Spatial(3, weight=-1)]}, r"weight of the spatial kernel is -1.0.* give a matrix"),
        ({"kernels": [Spatial(3, weight=[1.0, 0.0, 2.0])]}, r"is \[1.0, 0.0, 2.0\], expected more than 0"),
        ({"kernels": [Spatial(3, weight=[1.0, 2.0])]}, "which is for 2 classes, but there are 3"),
        ({"kernels": [Spatial([1, 2, 3])]}, "3 widths for position, which has 2"),
        ({"kernels": [Bilateral()], "channels": 15}, r"compares 17 dimensions \(2 of position, 15 of channel\)"),
        ({"kernels": [Custom(feature="num_classes")]}, "'num_classes', a name that the module itself uses"),
        ({"kernels": [Custom(feature="a"), Custom(feature="a", sigma=[1, 2])]}, "one by 1 widths and one by 2"),
    ],
)
def test_invalid_options_raise(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DenseCRF(**{"num_classes": 3, **arguments})


@pytest.mark.parametrize(
    ("scores", "options", "message"),
    [
        (
            random(3, 4, 5),
            {"image": IMAGE},
            "which is for 4 classes, but there are 3. There is no batch axis: pass scores",
        ),
        (random(4, 5), {}, r"shape \(4, 5\), expected \(batch, classes, rows, columns\)"),
        (random(2, 4, 5, 3), {"image": IMAGE}, r"The classes are the last axis: use scores.movedim\(-1, 1\)"),
        (random(2, 3, 4, 5, 6), {"image": IMAGE}, "Make the module with axes=3"),
        (SCORES, {}, "no image was given: pass image="),
        (SCORES, {"image": colours(2, 4, 5, 3)}, r"channels come last: use image.movedim\(-1, 1\)"),
        (SCORES, {"image": colours(2, 1, 4, 5)}, "make the module with channels=1"),
        (SCORES, {"image": colours(3, 3, 4, 5)}, r"expected \(2, 3, 4, 5\)"),
        (SCORES, {"image": colours(3, 4, 5)}, r"The image has no batch axis: pass image\[None\]"),
        (SCORES, {"image": colours(4, 5, 3)}, r"no batch axis, and its channels come last: use image.movedim\(-1, 0\)"),
        (SCORES, {"image": colours(2, 3, 5, 4)}, r"Rows and columns are swapped: use image.transpose\(-2, -1\)"),
        (
            SCORES,
            {"image": colours(2, 3, 32, 40)},
            r"scores are 4×5 and the image 32×40: upsample the scores, torch.nn.functional.interpolate\(scores, "
            r"size=image.shape\[-2:\], mode='bilinear', align_corners=False\)",
        ),
        (random(3, 3, 5), {"image": IMAGE}, r"1 axes of pixels, but the kernels have widths for 2. There is no batch"),
        (random(3, 8), {}, r"\(3, 8\), expected .* There is no batch axis"),
        (SCORES, {"image": torch.tensor(1.0)}, r"the image has shape \(\)"),
        (SCORES, {"image": IMAGE, "features": {"depth": IMAGE}}, "'depth', which no kernel compares"),
        (SCORES, {"image": IMAGE, "spacing": (1, 1, 1)}, "expected 2 numbers above 0"),
        (SCORES, {"image": IMAGE, "ignore": torch.zeros(2, 4, 5)}, "expected a boolean tensor"),
        (
            SCORES,
            {"image": IMAGE, "ignore": torch.zeros(4, 5, dtype=torch.bool)},
            r"\(4, 5\), .* It has no batch axis: pass ignore\[None\]",
        ),
        (SCORES, {"image": IMAGE.to("meta")}, "the image is on meta, but the scores are on cpu"),
        (SCORES.log(), {"image": IMAGE}, r"hold NaN or infinity at \d+ of 120 places, first at \(0, "),
        (SCORES, {"image": IMAGE / 0}, "the image holds NaN or infinity"),
        (list(SCORES), {"image": IMAGE}, "list of 2, but image is of type Tensor"),
        ([SCORES[:1]], {"image": [IMAGE[:1]]}, r"Items of a list have no batch axis: pass the tensor itself"),
        (list(SCORES), {"image": [IMAGE[0]]}, "list of 2, but image is a list of 1"),
    ],
)
def test_wrong_input_raises_and_says_what_to_do(scores: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DenseCRF(3)(scores, **options)


@pytest.mark.parametrize(
    ("scores", "options", "message"),
    [
        (SCORES.numpy(), {"image": IMAGE}, "For numpy arrays use densefield.CRF"),
        (SCORES.long(), {"image": IMAGE}, "expected floating point numbers"),
        (SCORES, {"image": IMAGE.numpy()}, r"the image is of type ndarray.*torch.from_numpy\(image\).movedim"),
        (SCORES, {"image": IMAGE > 9}, "the image has dtype torch.bool"),
        ([SCORES[0].numpy()], {"image": [IMAGE[0]]}, "a list with an element of type ndarray"),
    ],
)
def test_input_of_the_wrong_type_raises_and_says_what_to_do(scores: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputTypeError, match=message):
        DenseCRF(3)(scores, **options)


def test_a_missing_feature_is_named() -> None:
    crf = DenseCRF(3, [Custom(feature="depth")])
    with pytest.raises(InputError, match="compares 'depth', but features= has nothing"):
        crf(SCORES)
    with pytest.raises(InputError, match="feature 'depth' has 3 channels, but its kernel has widths for 1"):
        crf(SCORES, features={"depth": IMAGE})


def test_a_point_cloud_with_swapped_axes_is_recognised() -> None:
    crf = DenseCRF(4, [Custom(feature="xyz", sigma=[1.0] * 3)])
    scores, xyz = random(1, 4, 50), random(1, 3, 50, seed=3)
    with pytest.raises(
        InputError, match=r"for 50 classes.* The classes are the last axis: use scores.transpose\(1, 2\)"
    ):
        crf(scores.transpose(1, 2), features={"xyz": xyz})
    with pytest.raises(
        InputError, match=r"'xyz' has shape \(1, 50, 3\).* channels come last: use feature.transpose\(1, 2"
    ):
        crf(scores, features={"xyz": xyz.transpose(1, 2)})
    with pytest.raises(InputError, match=r"\(4, 50\), expected .* There is no batch axis: pass scores\[None\]"):
        crf(scores[0], features={"xyz": xyz})
    with pytest.raises(InputError, match=r"Feature 'xyz' has no batch axis: pass feature\[None\]"):
        crf(scores, features={"xyz": xyz[0]})


def test_the_code_that_errors_recommend_works() -> None:
    scores, image = random(2, 3, 4, 5), colours(2, 3, 32, 40)
    large = torch.nn.functional.interpolate(scores, size=image.shape[-2:], mode="bilinear", align_corners=False)
    assert DenseCRF(3)(large, image).shape == (2, 3, 32, 40)
    assert DenseCRF(3)(SCORES[0][None], IMAGE[0][None]).shape == (1, 3, 4, 5)
    numpy_image = IMAGE[0].movedim(0, -1).numpy()
    assert DenseCRF(3)(SCORES[:1], torch.from_numpy(numpy_image).movedim(-1, 0)[None]).shape == (1, 3, 4, 5)


def test_large_scores_are_not_reported_as_infinite() -> None:
    scores = torch.full((1, 2, 20, 20), 6e4, dtype=torch.float16)  # their sum is infinite in float16
    assert bool(DenseCRF(2)(scores, colours(1, 3, 20, 20)).isfinite().all())


def test_errors_of_features_name_their_image_or_kernel():
    scores, image = torch.zeros(2, 2, 6, 7), torch.zeros(2, 3, 6, 7)
    image[:, :, 2:] = 200.0
    image[1, 0, 2, 3] = torch.nan
    with pytest.raises(InputError, match=r"the image holds NaN or infinity at 1 of 84 pixels, first at \(1, 2, 3\)"):
        DenseCRF(2)(scores, image)
    image[1, 0, 2, 3] = 0.0
    for width in (1e-38, 1e-12):
        with pytest.raises(InputError, match=r"the bilateral kernel compares numbers that span .* of its widths"):
            DenseCRF(2, [Spatial(3), Bilateral(60, width)])(scores, image)


def test_options_are_replaced_together() -> None:
    crf = DenseCRF(3, [Spatial(2)], iterations=2)
    scores = random(1, 3, 4, 5)
    with pytest.raises(AttributeError, match=r"crf.options = crf.options.replace\(iterations=…\)"):
        crf.iterations = 9
    crf.options = crf.options.replace(iterations=9)
    assert torch.equal(crf(scores), DenseCRF(3, [Spatial(2)], iterations=9)(scores))
    with pytest.raises(InputError, match="data_range is part of the parameters' units"):
        crf.options = crf.options.replace(data_range=1.0)
    with pytest.raises(AttributeError, match=r"options\.replace"):
        crf.to_numpy().threads = 2
    for each in (crf, crf.to_numpy()):
        with pytest.raises(InputTypeError, match="options are of type dict, expected CRFOptions"):
            each.options = {"iterations": 3}


def test_options_may_be_numbers_of_numpy() -> None:
    scores = random(1, 3, 4, 5)
    crf = DenseCRF(3, [Spatial(2)], iterations=np.int64(2), halo=np.int8(1), threads=np.int32(2))
    assert torch.equal(crf(scores), DenseCRF(3, [Spatial(2)], iterations=2, halo=1, threads=2)(scores))
