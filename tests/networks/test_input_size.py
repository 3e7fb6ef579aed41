"""Networks that see images at another size, and lists of images of different sizes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.nn.functional import interpolate  # noqa: E402

from densefield.errors import InputError, InputTypeError  # noqa: E402
from densefield.networks.adapter import as_network  # noqa: E402
from densefield.networks.network import checked_input_size, input_size_of  # noqa: E402
from densefield.networks.small import SmallNetwork  # noqa: E402
from densefield.networks.upsampling import upsample_cells, upsample_points  # noqa: E402
from tests.networks.test_networks import ALL, picture, seeded  # noqa: E402

SIZES = ((40, 64), (64, 40), (40, 64), (33, 50))


def plane(rows, columns):
    return (2 * rows[:, None] - 3 * columns + 1)[None, None]


@pytest.mark.parametrize("upsample, offset", [(upsample_points, 0.0), (upsample_cells, 3.5)])
@pytest.mark.parametrize("seen, size", [((48, 64), (48, 64)), ((48, 64), (75, 100)), ((64, 64), (31, 90))])
def test_scores_lie_at_the_same_place_of_the_picture_at_every_size(upsample, offset, seen, size):
    """Scores of a plane over the image that was seen are that plane over the image, away from its border."""
    coarse = plane(*(torch.arange(n // 8, dtype=torch.float64) * 8 + offset for n in seen))
    places = [(torch.arange(n, dtype=torch.float64) + 0.5) * m / n - 0.5 for n, m in zip(size, seen, strict=True)]
    fine = upsample(coarse, 8, size, seen)
    rows, columns = ((place >= offset) & (place <= n - 8 + offset) for place, n in zip(places, seen, strict=True))
    assert rows.sum() > 20 and columns.sum() > 20
    inner = fine[0, 0][rows][:, columns]
    torch.testing.assert_close(inner, plane(*places)[0, 0][rows][:, columns], rtol=0, atol=1e-10)


@pytest.mark.parametrize("upsample", [upsample_points, upsample_cells])
def test_gradients_of_upsampling_to_another_size_match_finite_differences(upsample):
    scores = torch.randn(1, 2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(31177))
    assert torch.autograd.gradcheck(lambda f: upsample(f, 4, (17, 9), (11, 15)), scores.requires_grad_())


@pytest.mark.parametrize("input_size", [None, (32, 40), 48])
@pytest.mark.parametrize("name", ALL)
def test_a_list_has_the_scores_of_each_image_alone(name, input_size):
    network = seeded(ALL[name]).eval().double()
    network.input_size = input_size
    images = [picture(3, *size, seed=100 + number).double() for number, size in enumerate(SIZES)]
    found = network(images)
    assert [tuple(each.shape) for each in found] == [(5, *size) for size in SIZES]
    for one, image in zip(found, images, strict=True):
        alone = network(image[None])[0]
        assert (one - alone).norm() <= 1e-10 * alone.norm()  # convolutions of a batch may sum in another order


def test_the_network_sees_the_resized_image():
    network = seeded(lambda: SmallNetwork(5, 32, "group")).eval()
    image = picture(2, 3, 60, 80)
    own = network.coarse_scores(interpolate(image, size=(48, 64), mode="bilinear", antialias=True))
    network.input_size = (48, 64)
    assert torch.equal(network(image), upsample_points(own, 8, (60, 80), (48, 64)))


def test_the_paper_s_input_of_306_pixels_has_scores_of_the_size_of_the_photo():
    network = seeded(ALL["deeplab 7x7"]).eval()
    network.input_size = (306, 306)
    seen = []
    network.top.register_forward_hook(lambda module, inputs, scores: seen.append(tuple(scores.shape)))
    found = network([picture(3, 375, 500), picture(3, 500, 333)])
    assert seen == [(2, 5, 40, 40)]
    assert [tuple(each.shape) for each in found] == [(5, 375, 500), (5, 500, 333)]


def test_a_gradient_reaches_every_parameter_through_images_of_different_sizes():
    network = seeded(lambda: SmallNetwork(5, 32, "group"))
    network.input_size = 48
    sum(each.square().mean() for each in network([picture(3, *size) for size in SIZES])).backward()
    assert all(parameter.grad.isfinite().all() and parameter.grad.any() for parameter in network.parameters())


@pytest.mark.parametrize(
    "size, input_size, expected",
    [
        ((375, 500), 384, (288, 384)),
        ((500, 375), 384, (384, 288)),
        ((334, 500), 384, (256, 384)),
        ((500, 500), 384, (384, 384)),
        ((499, 500), 90, (90, 90)),  # rounding never makes the shorter side the longer one
        ((100, 120), 384, (320, 384)),
        ((3, 500), 384, (16, 384)),
        ((1, 1), 32, (32, 32)),
    ],
)
def test_the_longer_side_is_the_input_size(size, input_size, expected):
    assert input_size_of(size, input_size) == expected


@pytest.mark.parametrize("wrong", ["306", 2.5, True, [306.0, 306], {"rows": 3}])
def test_an_input_size_of_another_type_is_rejected(wrong):
    with pytest.raises(InputTypeError, match=r"input_size is .*, expected rows and columns such as \(306, 306\)"):
        as_network(torch.nn.Conv2d(3, 2, 1), input_size=wrong)


@pytest.mark.parametrize("wrong", [0, -4, [306], [306, 0], []])
def test_an_input_size_that_is_no_size_is_rejected(wrong):
    with pytest.raises(InputError, match="expected rows and columns such as"):
        checked_input_size(wrong)


def test_lists_with_something_else_in_them_are_rejected():
    with pytest.raises(InputTypeError, match="the image is of type str, expected a torch tensor"):
        seeded(ALL["fcn8s"])(["photo.jpg"])
    with pytest.raises(InputError, match=r"expected \(batch, channels, rows, columns\)"):
        seeded(ALL["fcn8s"])([picture(1, 3, 9, 9)])
