"""Requirements on every network: scores of the image's size, gradients, and errors that say what to do."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from densefield.errors import InputError, InputTypeError  # noqa: E402
from densefield.networks.adapter import as_network  # noqa: E402
from densefield.networks.deeplab import DeepLabEfficientNetLite0, DeepLabVGG16  # noqa: E402
from densefield.networks.fcn8s import FCN8sVGG16  # noqa: E402

FEW = {"widths": (4, 4, 6, 6, 8), "fully_connected": 16}
OURS = {
    "deeplab 7x7": lambda: DeepLabVGG16(5, "7x7", **FEW),
    "deeplab 4x4": lambda: DeepLabVGG16(5, "4x4", **FEW),
    "deeplab 3x3": lambda: DeepLabVGG16(5, "3x3", **FEW),
    "deeplab large-fov": lambda: DeepLabVGG16(5, "large-fov", **FEW),
    "fcn8s": lambda: FCN8sVGG16(5, **FEW),
    "lite0 at stride 16": lambda: DeepLabEfficientNetLite0(5),
    "lite0 at stride 8": lambda: DeepLabEfficientNetLite0(5, output_stride=8),
}
ALL = OURS | {"a user's": lambda: as_network(torch.nn.Conv2d(3, 5, 3, stride=4, padding=1))}


def seeded(make, seed=40961):
    torch.manual_seed(seed)
    return make()


def picture(*shape, seed=7321):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(params=ALL)
def network(request):
    return seeded(ALL[request.param])


@pytest.fixture(params=OURS)
def ours(request):
    return seeded(OURS[request.param])


@pytest.mark.parametrize("size", [(1, 1), (1, 2), (2, 1), (3, 5), (8, 8), (9, 9), (17, 33), (1, 70), (64, 31)])
def test_scores_have_the_size_of_the_image(network, size):
    scores = network.eval()(picture(2, 3, *size))
    assert scores.shape == (2, 5, *size)
    assert scores.isfinite().all()


def test_images_of_a_batch_are_independent(ours):
    ours.eval()
    images = picture(3, 3, 20, 27)
    # Threads may split a batch differently from one image: equal up to the rounding of float32 sums.
    torch.testing.assert_close(ours(images)[1:2], ours(images[1:2]), rtol=1e-4, atol=1e-5)


def test_every_parameter_gets_a_finite_gradient(ours):
    ours.train()
    image = picture(2, 3, 40, 33).requires_grad_()
    ours(image).square().sum().backward()
    assert image.grad.isfinite().all() and image.grad.any()
    for name, parameter in ours.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def test_a_seed_fixes_the_weights(ours, request):
    again = seeded(OURS[request.node.callspec.params["ours"]])
    other = seeded(OURS[request.node.callspec.params["ours"]], seed=40962)
    states = [network.state_dict() for network in (ours, again, other)]
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
    assert not all(torch.equal(value, states[2][name]) for name, value in states[0].items())


def test_a_state_dict_reproduces_a_network(ours, request):
    other = seeded(OURS[request.node.callspec.params["ours"]], seed=90018)
    image = picture(1, 3, 24, 19)
    before = other.eval()(image)
    other.load_state_dict(ours.state_dict())
    assert torch.equal(other(image), ours.eval()(image))
    assert not torch.equal(other(image), before)


def test_evaluation_is_repeatable_and_does_not_change_the_network(ours):
    ours.eval()
    state = {name: value.clone() for name, value in ours.state_dict().items()}
    image = picture(2, 3, 24, 24)
    assert torch.equal(ours(image), ours(image))
    assert all(torch.equal(value, state[name]) for name, value in ours.state_dict().items())


def test_float64_is_computed_in_float64(ours):
    image = picture(1, 3, 17, 12)
    precise = ours.eval().double()(image.double())
    assert precise.dtype == torch.float64
    torch.testing.assert_close(ours.float()(image).double(), precise, rtol=1e-3, atol=1e-4)  # float32 over 16 layers


def test_autocast_takes_images_in_float32(ours):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ours.eval()(picture(1, 3, 17, 12)).shape == (1, 5, 17, 12)


def test_normalization_takes_colours(network):
    colours = torch.randint(256, (1, 3, 6, 7), dtype=torch.uint8, generator=torch.Generator().manual_seed(55511))
    assert network.eval()(network.normalization(colours)).shape == (1, 5, 6, 7)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 1, 8, 8), r"\(1, 1, 8, 8\), 1 channels.*expand\(-1, 3, -1, -1\)"),
        ((1, 4, 8, 8), r"4 channels.*image\[:, :3\]"),
        ((1, 8, 8, 3), r"8 channels.*movedim\(-1, 1\)"),
        ((3, 8, 8), r"\(3, 8, 8\).*image\[None\]"),
        ((8, 8), r"\(8, 8\), expected \(batch"),
        ((0, 3, 8, 8), "at least one pixel"),
        ((1, 3, 0, 8), "at least one pixel"),
    ],
)
def test_an_image_of_the_wrong_shape_raises(ours, shape, message):
    with pytest.raises(InputError, match=message):
        ours.eval()(torch.zeros(shape))


def test_an_integer_image_raises(network):
    with pytest.raises(InputTypeError, match=r"torch.uint8.*network.normalization\(image\)"):
        network(torch.zeros(1, 3, 8, 8, dtype=torch.uint8))


def test_an_image_of_another_precision_raises(ours):
    with pytest.raises(InputTypeError, match=r"torch.float64.*weights have torch.float32.*image.to\(torch.float32\)"):
        ours(torch.zeros(1, 3, 8, 8, dtype=torch.float64))


def test_an_image_on_another_device_raises(ours):
    with pytest.raises(InputError, match="the image is on meta, but the network is on cpu"):
        ours(torch.zeros(1, 3, 8, 8, device="meta"))


def test_an_array_raises(network):
    with pytest.raises(InputTypeError, match="the image is of type list"):
        network([[0.0]])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_image_with_nan_or_infinity_raises(ours, value):
    image = torch.zeros(1, 3, 8, 8)
    image[0, 2, 3, 4] = value
    with pytest.raises(InputError, match=r"at 1 of 192 places, first at \(0, 2, 3, 4\)"):
        ours(image)


@pytest.mark.parametrize("make", [DeepLabVGG16, FCN8sVGG16, DeepLabEfficientNetLite0])
def test_an_invalid_number_of_classes_raises(make):
    with pytest.raises(InputError, match="num_classes is 0, expected 1 or more"):
        make(0)
    with pytest.raises(InputTypeError, match=r"num_classes is 2\.0"):
        make(2.0)
