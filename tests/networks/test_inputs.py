from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from densefield.errors import InputError, InputTypeError  # noqa: E402
from densefield.networks.inputs import IMAGENET, InputNormalization  # noqa: E402


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32, torch.float64])
def test_channels_are_shifted_and_scaled(dtype):
    image = torch.tensor([10, 20, 30], dtype=dtype).view(1, 3, 1, 1).expand(2, 3, 4, 5)
    result = InputNormalization(mean=(10, 10, 10), std=(1, 2, 4))(image)
    assert result.shape == (2, 3, 4, 5)
    assert result.dtype == (dtype if dtype.is_floating_point else torch.float32)
    assert result[1, :, 2, 3].tolist() == [0.0, 5.0, 5.0]


def test_a_single_image_is_accepted():
    assert IMAGENET(torch.zeros(3, 4, 5)).shape == (3, 4, 5)


@pytest.mark.parametrize("shape", [(4, 5), (1, 4, 5), (4, 5, 3), (2, 4, 6, 6)])
def test_an_image_without_three_channels_raises(shape):
    with pytest.raises(InputError, match=r"expected \(…, 3, H, W\)"):
        IMAGENET(torch.zeros(shape))


@pytest.mark.parametrize(
    "image, message", [(torch.zeros(3, 4, 5, dtype=torch.bool), "dtype torch.bool"), ([[[0.0]]], "is of type list")]
)
def test_an_image_of_the_wrong_type_raises(image, message):
    with pytest.raises(InputTypeError, match=message):
        IMAGENET(image)


def test_padding_with_the_fill_colour_is_normalised_to_about_zero():
    seen = IMAGENET(torch.tensor(IMAGENET.fill)[:, None, None])
    assert seen.abs().max() <= 0.5 / min(IMAGENET.std)  # rounding by half a step
    assert InputNormalization(mean=(-3.0, 300.0, 0.4), std=(1, 1, 1)).fill == (0, 255, 0)
