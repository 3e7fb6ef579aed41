from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.functional import interpolate  # noqa: E402

from densefield.errors import InputError, InputTypeError  # noqa: E402
from densefield.networks.adapter import as_network  # noqa: E402


class Returning(nn.Module):
    """A convolution that returns its scores in a given form."""

    def __init__(self, wrap, stride=4):
        super().__init__()
        torch.manual_seed(21211)
        self.convolution = nn.Conv2d(3, 5, 3, stride=stride, padding=1)
        self.wrap = wrap

    def forward(self, image):
        return self.wrap(self.convolution(image))


WRAPPINGS = {
    "tensor": lambda scores: scores,
    "torchvision": lambda scores: {"out": scores, "aux": torch.zeros(1, 5, 2, 2)},
    "transformers": lambda scores: SimpleNamespace(loss=None, logits=scores),
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("stride", [1, 3, 4, 32])
@pytest.mark.parametrize("size", [(1, 1), (20, 33), (64, 64)])
def test_scores_are_found_and_resized_to_the_image(wrapping, stride, size):
    module = Returning(WRAPPINGS[wrapping], stride)
    image = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(67))
    expected = interpolate(module.convolution(image), size=size, mode="bilinear", align_corners=False)
    assert torch.equal(as_network(module)(image), expected)


def test_scores_finer_than_the_image_are_resized():
    network = as_network(nn.ConvTranspose2d(3, 5, 2, stride=2))
    assert network(torch.zeros(1, 3, 7, 9)).shape == (1, 5, 7, 9)


def test_scores_of_the_images_size_stay_unchanged():
    module = Returning(WRAPPINGS["tensor"], stride=1)
    image = torch.randn(1, 3, 8, 9)
    assert torch.equal(as_network(module)(image), module.convolution(image))


def test_gradients_reach_the_module_and_the_image():
    module = Returning(WRAPPINGS["transformers"])
    image = torch.randn(1, 3, 8, 9, requires_grad=True)
    as_network(module)(image).square().sum().backward()
    assert image.grad.any() and module.convolution.weight.grad.any()


def test_training_and_evaluation_modes_reach_the_module():
    module = Returning(WRAPPINGS["tensor"])
    as_network(module).eval()
    assert not module.training


def test_a_module_may_take_any_number_of_channels():
    assert as_network(nn.Conv2d(5, 2, 1))(torch.zeros(1, 5, 4, 4)).shape == (1, 2, 4, 4)


def test_a_segformer_of_transformers_works_as_a_network():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(36137)
    config = transformers.SegformerConfig(
        num_labels=7, depths=[1, 1, 1, 1], hidden_sizes=[8, 8, 16, 16], decoder_hidden_size=16
    )
    module = transformers.SegformerForSemanticSegmentation(config)
    network = as_network(module).eval()
    image = torch.randn(2, 3, 75, 100)
    with torch.no_grad():
        scores = network(image)
        coarse = module(image).logits
    assert scores.shape == (2, 7, 75, 100)
    assert coarse.shape == (2, 7, 19, 25)
    assert torch.equal(scores, interpolate(coarse, size=(75, 100), mode="bilinear", align_corners=False))
    network.train()(image).square().mean().backward()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters() if parameter.grad is not None)
    assert module.decode_head.classifier.weight.grad.any()


def test_the_default_normalization_is_that_of_imagenet():
    assert as_network(nn.Identity()).normalization.mean == (123.675, 116.28, 103.53)
    network = as_network(nn.Identity(), mean=(1, 2, 3), std=(4, 5, 6))
    assert network.normalization(torch.tensor([5.0, 7.0, 9.0]).view(3, 1, 1)).flatten().tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("mean", "std"),
    [((0, 0, 0), (255,) * 3), ((0, 0, 0), (1, 1, 1)), ((104, 117, 123), (1, 1, 1)), ((0.5,) * 3, (2,) * 3)],
)
def test_a_normalization_of_colours_from_0_to_255_is_taken_as_it_is(mean, std):
    assert as_network(nn.Identity(), mean=mean, std=std).normalization == (mean, std)


@pytest.mark.parametrize(
    ("output", "error", "message"),
    [
        (lambda x: [x], InputTypeError, "returned an object of type list, expected a tensor of scores"),
        (lambda x: {"sem_seg": x}, InputTypeError, "returned an object of type dict with 'sem_seg'"),
        (lambda x: {}, InputTypeError, "returned an object of type dict with nothing in it"),
        (lambda x: {"out": None}, InputTypeError, "returned an object of type dict with 'out'"),
        (lambda x: x[:, 0], InputError, r"scores of shape \(1, 2, 2\)"),
        (lambda x: x.argmax(1, keepdim=True), InputTypeError, "returned torch.int64, .* not labels"),
        (lambda x: x[0], InputError, r"scores of shape \(5, 2, 2\)"),
        (lambda x: x.repeat(2, 1, 1, 1), InputError, r"scores of shape \(2, 5, 2, 2\) for an image of shape \(1, 3"),
        (lambda x: x[..., :0], InputError, "too small for the module"),
    ],
)
def test_invalid_outputs_of_a_module_raise(output, error, message):
    with pytest.raises(error, match=message):
        as_network(Returning(output))(torch.zeros(1, 3, 8, 8))


def test_an_object_that_is_not_a_module_raises():
    with pytest.raises(InputTypeError, match=r"expected a torch.nn.Module"):
        as_network(lambda image: image)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"mean": 0.5}, InputTypeError, "mean is 0.5, expected three numbers"),
        ({"mean": (1, 2)}, InputTypeError, "expected three numbers"),
        ({"mean": (1, 2, float("nan"))}, InputError, "expected finite numbers"),
        ({"std": (1, 0, 1)}, InputError, "expected numbers above zero"),
        (
            {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)},
            InputError,
            r"of colours 0…255: pass mean=\(123\.675, 116\.28, 103\.53\) and std=\(58\.395, 57\.12, 57\.375\)",
        ),
        ({"std": (0.5, 0.5, 0.5)}, InputError, r"pass mean=\(123\.675, 116\.28, 103\.53\) and std=\(127\.5, "),
        ({"mean": (0.5, 0.5, 0.5), "std": (1, 1, 1)}, InputError, r"mean=\(127\.5, .*std=\(255\.0, "),
    ],
)
def test_invalid_mean_and_std_raise(arguments, error, message):
    with pytest.raises(error, match=message):
        as_network(nn.Identity(), **arguments)


class Pair(nn.Module):
    """Scores at a quarter of the size, and features at half of it."""

    def forward(self, image):
        return image[:, :2, ::4, ::4], image[:, 1:, ::2, ::2]


@pytest.mark.parametrize("multiple", [1, 8])
def test_features_are_resized_to_the_image_as_scores_are(multiple):
    network = as_network(Pair(), multiple=multiple)
    image = torch.linspace(0, 1, 3 * 12 * 20).reshape(1, 3, 12, 20)
    scores, features = network(image)
    assert scores.shape == features.shape == (1, 2, 12, 20)
    padded = torch.nn.functional.pad(image, (0, -20 % multiple, 0, -12 % multiple))
    expected = torch.nn.functional.interpolate(padded[:, 1:, ::2, ::2], padded.shape[2:], mode="bilinear")
    assert torch.equal(features, expected[:, :, :12, :20])
    listed_scores, listed_features = network([image[0], image[0, :, :8, :8]])
    assert torch.equal(listed_scores[0], scores[0]) and torch.equal(listed_features[0], features[0])
    assert listed_features[1].shape == (2, 8, 8)


@pytest.mark.parametrize(
    ("features", "error", "says"),
    [
        (torch.zeros(1, 2, 4, 4).long(), InputTypeError, "features of torch.int64, expected floating point numbers"),
        ("none", InputTypeError, "features of type str"),
        (torch.zeros(2, 4, 4), InputError, r"features of shape \(2, 4, 4\) with scores of shape \(1, 3, 8, 8\)"),
    ],
)
def test_features_that_cannot_be_used_are_named(features, error, says):
    class Given(nn.Module):
        def forward(self, image):
            return image, features

    with pytest.raises(error, match=says):
        as_network(Given())(torch.zeros(1, 3, 8, 8))
