"""Colours from pixel values: the inverse of image processors of transformers, and warnings where it cannot be."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch", reason="pixel values are tensors")

import torch

from densefield.errors import InputError, InputTypeError, InputWarning
from densefield.integrations import PixelValues

IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}


def processor(**changes: object) -> SimpleNamespace:
    return SimpleNamespace(
        **{"do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, **IMAGENET, **changes}
    )


def photo(seed: int = 60317) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (24, 36, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SegformerImageProcessor", {}),
        ("MaskFormerImageProcessor", {}),
        ("Mask2FormerImageProcessor", {}),
        ("BeitImageProcessor", {"do_center_crop": False}),
        ("DPTImageProcessor", {}),
        ("MobileViTImageProcessor", {"do_center_crop": False}),
    ],
)
def test_the_colours_of_an_image_come_back(name, options):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("PIL", reason="image processors need it")
    made = getattr(transformers, name)(do_resize=False, **options)
    pixel_values = made(images=photo(), return_tensors="pt")["pixel_values"]
    colours = PixelValues.of_processor(made).colours(pixel_values)[0, :, :24, :36]
    # Sums and products of numbers up to 255 in float32.
    assert np.abs(colours.movedim(0, -1).numpy() - photo()).max() < 1e-3


@pytest.mark.parametrize(
    ("changes", "mean", "std"),
    [
        ({}, [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]),
        ({"do_rescale": False}, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ({"do_normalize": False}, [0, 0, 0], [255, 255, 255]),
        ({"image_mean": 0.5, "image_std": 0.5}, [127.5] * 3, [127.5] * 3),
        ({"rescale_factor": 1 / 127.5, "image_mean": 1.0, "image_std": 1.0}, [127.5] * 3, [127.5] * 3),
    ],
)
def test_the_arithmetic_follows_the_settings_of_the_processor(changes, mean, std):
    found = PixelValues.of_processor(processor(**changes))
    assert found.mean == pytest.approx(mean) and found.std == pytest.approx(std) and not found.bgr


def test_half_precision_becomes_single_precision():
    colours = PixelValues((127.5,) * 3, (127.5,) * 3).colours(torch.ones(1, 3, 2, 2, dtype=torch.bfloat16))
    assert colours.dtype == torch.float32 and (colours == 255).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda image: image, r"stand for colours from .* to 1.*e\+04, expected 0…255"),
        (lambda image: image / 255, "lie between 0 and 1, which looks like an image that was not normalised"),
        (lambda image: image / 127.5 * 4 - 4, "stand for colours from -126 to 357.3"),
    ],
)
def test_pixel_values_of_another_arithmetic_warn(make, message):
    image = torch.from_numpy(photo()).movedim(-1, 0)[None].float()
    with pytest.warns(InputWarning, match=message):
        assert PixelValues.of_processor(processor()).warn_unless_plausible(make(image))


def test_ignored_pixels_are_not_checked():
    found = PixelValues.of_processor(processor())
    image = torch.from_numpy(photo()).movedim(-1, 0)[None]
    pixel_values = (image - torch.tensor(found.mean).view(3, 1, 1)) / torch.tensor(found.std).view(3, 1, 1)
    pixel_values[..., 20:, :] = -1e3
    ignore = torch.zeros(1, 24, 36, dtype=torch.bool)
    ignore[:, 20:] = True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not found.warn_unless_plausible(pixel_values, ignore)
        found.warn_unless_plausible(pixel_values, torch.ones_like(ignore))
    with pytest.warns(InputWarning, match="stand for colours from -5.827"):
        found.warn_unless_plausible(pixel_values)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (object(), InputTypeError, "is of type object, expected one of transformers"),
        (processor(image_mean=[0.5]), InputError, r"mean \(0.5,\)"),
        (processor(image_std=None), InputError, r"std \(\)"),
        (processor(image_std=[1, 1, 0]), InputError, "three above 0"),
    ],
)
def test_other_processors_raise(given, error, message):
    with pytest.raises(error, match=message):
        PixelValues.of_processor(given)


def test_a_configuration_is_that_of_to_config():
    found = PixelValues.of_processor(processor(do_flip_channel_order=True))
    assert PixelValues.of_config(found.to_config()) == found


@pytest.mark.parametrize(
    "fields",
    [
        {"mean": [1]},
        {"mean": [1, 2], "std": [1, 1], "bgr": False},
        {"mean": "abc", "std": [1, 1, 1], "bgr": False},
        {"mean": [1, 2, 3], "std": [1, 0, 1], "bgr": False},
        {"mean": [1, 2, float("nan")], "std": [1, 1, 1], "bgr": False},
        {"mean": [1, 2, 3], "std": [1, 1, 1], "bgr": "no"},
        [1],
    ],
)
def test_a_configuration_that_cannot_be_is_named(fields):
    with pytest.raises(InputError, match=r"^pixel_values of the configuration is .*, expected mean with three numbers"):
        PixelValues.of_config(fields)
