"""The small network."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from densefield.errors import InputError  # noqa: E402
from densefield.networks.small import small_network  # noqa: E402


def test_scores_of_an_image_do_not_depend_on_its_batch():
    network = small_network(num_classes=3, norm="group")
    images = torch.randn(3, 3, 24, 32, generator=torch.Generator().manual_seed(977))
    with torch.no_grad():
        together, alone = network(images), torch.cat([network(image[None]) for image in images])
    # Convolutions of one image and of three may sum in another order: a few roundings of numbers around 1.
    assert torch.allclose(together, alone, atol=1e-5)


@pytest.mark.parametrize("size", [(1, 1), (2, 7), (33, 50)])
def test_images_of_any_size_get_a_score_at_every_pixel(size):
    assert small_network(num_classes=6).eval()(torch.zeros(1, 3, *size)).shape == (1, 6, *size)


def test_scores_are_translation_equivariant():
    network = small_network(num_classes=2).eval()
    image = torch.zeros(1, 3, 320, 320)
    image[..., 160, 160] = 3.0
    with torch.no_grad():
        still, moved = network(image), network(image.roll(network.stride, dims=3))
    inner = slice(2 * network.stride, -2 * network.stride)
    assert torch.allclose(still.roll(network.stride, dims=3)[..., inner, inner], moved[..., inner, inner], atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"), [({"width": 48}, "multiple of 32"), ({"norm": "layer"}, "batch, group")]
)
def test_invalid_arguments_raise(options, message):
    with pytest.raises(InputError, match=message):
        small_network(num_classes=2, **options)
