"""Learnt pairwise features: a network whose embedding a kernel of the CRF compares."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.func import functional_call  # noqa: E402

from densefield.crf.kernels import Custom, Spatial  # noqa: E402
from densefield.errors import InputError, InputTypeError  # noqa: E402
from densefield.networks.small import small_network  # noqa: E402
from densefield.nn.dense_crf import DenseCRF  # noqa: E402
from densefield.nn.segmenter import Segmenter  # noqa: E402

KERNELS = (Spatial(1.5, weight=0.5), Custom("embedding", sigma=[0.3, 0.2], sigma_xy=4, weight=2))


def photo(*size):
    generator = torch.Generator().manual_seed(5813)
    return torch.randint(256, size, dtype=torch.uint8, generator=generator)


class Pair(nn.Module):
    """A network that returns scores, and features with every `stride`th pixel."""

    def __init__(self, stride=1):
        super().__init__()
        torch.manual_seed(97)
        self.scores, self.features = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 2, 1, stride=stride)

    def forward(self, image):
        return self.scores(image / 255), self.features(image / 255)


def test_the_kernel_compares_the_features_that_the_network_returns():
    network, crf, image = Pair(), DenseCRF(3, KERNELS), photo(2, 3, 9, 11)
    scores, features = network(image.float())
    found = Segmenter(network, crf)(image)
    assert torch.equal(found, crf(scores, image, features={"embedding": features}))
    assert not torch.allclose(found, crf(scores, image, features={"embedding": 0 * features}), atol=1e-2)


def test_features_smaller_than_the_scores_are_upsampled():
    network, crf, image = Pair(stride=2), DenseCRF(3, KERNELS), photo(2, 3, 9, 11)
    scores, features = network(image.float())
    assert features.shape[2:] == (5, 6)
    larger = nn.functional.interpolate(features, size=(9, 11), mode="bilinear", align_corners=False)
    assert torch.equal(Segmenter(network, crf)(image), crf(scores, image, features={"embedding": larger}))


def test_the_name_of_the_feature_may_be_chosen():
    crf = DenseCRF(3, [Custom("depth", sigma=[0.3, 0.2], weight=2)])
    found = Segmenter(Pair(), crf, feature="depth")(photo(1, 3, 9, 11))
    assert found.shape == (1, 3, 9, 11)


@pytest.mark.parametrize("layer", ["mix.weight", "deep.weight", "fine.bias"])
def test_gradients_of_the_embedding_head_match_finite_differences(layer):
    """Through upsampling, the exact filter and the iterations, in float64."""
    torch.manual_seed(3307)
    network = small_network(num_classes=3, width=32, norm="group", embedding=2).double()
    crf = DenseCRF(3, KERNELS, method="exact", iterations=3).double()
    segmenter = Segmenter(network, crf)
    image = photo(1, 3, 7, 9)
    # The first channels of a long weight: every one is differentiated numerically.
    name, parameter = f"network.embedding_head.{layer}", network.embedding_head.get_parameter(layer)
    index = (slice(0, 2), slice(0, 4)) if layer == "deep.weight" else ()
    chosen = parameter[index].detach().clone().requires_grad_()

    def log_q(values):
        whole = parameter.detach().clone()
        whole[index] = values
        return functional_call(segmenter, {name: whole}, (image,))

    # The defaults of gradcheck; steps of 1e-6 do not cross the kinks of the rectifiers here.
    assert torch.autograd.gradcheck(log_q, (chosen,), eps=1e-6, atol=1e-6, rtol=1e-4)
    slope = torch.autograd.grad(log_q(chosen)[:, 0].sum(), chosen)[0]
    assert float(slope.abs().max()) > 1e-4  # not a gradient of zeros


@pytest.mark.parametrize("frozen", [False, True])
def test_the_embedding_learns_from_the_loss_of_the_marginals(frozen):
    """A step changes all parameters of the head, also if the scores are constant."""
    torch.manual_seed(4211)
    network = small_network(num_classes=3, width=32, norm="group", embedding=2)
    if frozen:
        network.top.requires_grad_(False)
    segmenter = Segmenter(network, DenseCRF(3, KERNELS))
    head = segmenter.network.embedding_head
    before = {name: value.clone() for name, value in head.state_dict().items()}
    optimizer = torch.optim.SGD(segmenter.parameters(), lr=1.0)
    segmenter(photo(2, 3, 24, 24))[:, 0].mean().backward()
    gradients = {name: parameter.grad for name, parameter in head.named_parameters()}
    assert all(each is not None and each.isfinite().all() and each.any() for each in gradients.values())
    optimizer.step()
    assert all((value - before[name]).abs().max() > 1e-5 for name, value in head.state_dict().items())


def test_lists_of_images_have_the_marginals_of_each_image_alone():
    torch.manual_seed(882)
    network = small_network(num_classes=3, width=32, norm="group", embedding=2)
    segmenter = Segmenter(network, DenseCRF(3, KERNELS)).eval()
    images = [photo(3, 17, 24), photo(3, 24, 16), photo(3, 17, 24)]
    with torch.no_grad():
        for spacing in (None, ((1.0, 1.0), (2.0, 2.0), (0.5, 0.5))):
            for number, found in enumerate(segmenter(images, None, spacing)):
                here = None if spacing is None else spacing[number : number + 1]
                alone = segmenter(images[number : number + 1], None, here)[0]
                # Convolutions of a batch sum in another order, and the weight of 2 enlarges the difference.
                torch.testing.assert_close(found, alone, rtol=1e-4, atol=1e-4)


def test_without_a_crf_the_features_are_not_used():
    network, image = Pair(), photo(1, 3, 9, 11)
    assert torch.equal(Segmenter(network)(image), network(image.float())[0].log_softmax(1))
    assert torch.equal(Segmenter(network).scores(image), network(image.float())[0])


def test_names_must_match():
    image = photo(1, 3, 9, 11)
    with pytest.raises(InputError, match=r"kernels compare 'embedding' .* the network returns scores alone"):
        Segmenter(nn.Conv2d(3, 3, 1), DenseCRF(3, KERNELS))(image)
    with pytest.raises(InputError, match=r"returns features, but no kernel compares them: add Custom\('embedding'"):
        Segmenter(Pair(), DenseCRF(3))(image)
    with pytest.raises(InputError, match=r"compare 'embedding' .* returns 'depth'"):
        Segmenter(Pair(), DenseCRF(3, KERNELS), feature="depth")(image)


class Returns(nn.Module):
    def __init__(self, output):
        super().__init__()
        self.output = output

    def forward(self, image):
        return self.output


@pytest.mark.parametrize(
    ("output", "error", "says"),
    [
        ((torch.zeros(1, 3, 9, 11),) * 3, InputError, "returned 3 values, expected scores, or scores and features"),
        ((torch.zeros(1, 3, 9, 11), torch.zeros(1, 2, 9, 12)), InputError, r"shape \(1, 2, 9, 12\).* at most as large"),
        ((torch.zeros(1, 3, 9, 11), torch.zeros(2, 2, 9, 11)), InputError, "of the same batch"),
        ((torch.zeros(1, 3, 9, 11), torch.zeros(1, 2, 99)), InputError, "of the same batch and axes"),
        ((torch.zeros(1, 3, 9, 11), "no"), InputTypeError, "features of type str"),
        ((torch.zeros(1, 3, 9, 11), torch.zeros(1, 2, 9, 11, dtype=torch.int32)), InputTypeError, "of torch.int32"),
        ((torch.zeros(1, 3, 9, 11), torch.zeros(1, 5, 9, 11)), InputError, "5 channels, but its kernel has widths"),
    ],
)
def test_other_outputs_are_rejected(output, error, says):
    with pytest.raises(error, match=says):
        Segmenter(Returns(output), DenseCRF(3, KERNELS))(photo(1, 3, 9, 11))
