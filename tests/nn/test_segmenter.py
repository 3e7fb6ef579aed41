"""The segmenter: scores, then marginals."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from densefield.errors import InputError, InputTypeError  # noqa: E402
from densefield.networks.small import small_network  # noqa: E402
from densefield.nn.dense_crf import DenseCRF  # noqa: E402
from densefield.nn.segmenter import Segmenter  # noqa: E402


def photo() -> torch.Tensor:
    return torch.randint(256, (2, 3, 9, 11), dtype=torch.uint8, generator=torch.Generator().manual_seed(8141))


def test_without_a_crf_the_marginals_are_the_softmax_of_the_scores():
    segmenter = Segmenter(nn.Conv2d(3, 4, 1))
    input = photo() / 255
    assert torch.equal(segmenter(input), torch.log_softmax(segmenter.scores(input), dim=1))


def test_with_a_crf_they_are_those_of_the_crf_on_the_scores_and_the_colours():
    network, crf = nn.Conv2d(3, 4, 1), DenseCRF(num_classes=4)
    input, colours = photo() / 255, photo()
    assert torch.equal(Segmenter(network, crf)(input, colours), crf(network(input), colours))


def test_pixels_to_ignore_are_those_of_the_crf():
    network, crf = nn.Conv2d(3, 4, 1), DenseCRF(num_classes=4)
    input, colours = photo() / 255, photo()
    ignore = torch.zeros(2, 9, 11, dtype=torch.bool)
    ignore[1, :, 7:] = True
    found = Segmenter(network, crf)(input, colours, ignore)
    assert torch.equal(found, crf(network(input), colours, ignore=ignore))
    assert not torch.equal(found[1], Segmenter(network, crf)(input, colours)[1])
    alone = Segmenter(network)
    assert torch.equal(alone(input, colours, ignore), alone(input))


def test_the_loss_has_gradients_in_every_parameter_of_network_and_crf():
    segmenter = Segmenter(small_network(num_classes=4, width=32), DenseCRF(num_classes=4))
    segmenter(photo() / 255, photo())[:, 0].sum().backward()
    gradients = {name: each.grad for name, each in segmenter.named_parameters()}
    assert sum(name.startswith("crf.") for name in gradients) == 4
    assert all(each is not None and each.isfinite().all() and each.any() for each in gradients.values())


def test_half_precision_scores_become_marginals_in_single_precision():
    network = nn.Conv2d(3, 4, 1).bfloat16()
    assert Segmenter(network)((photo() / 255).bfloat16()).dtype == torch.float32


def test_a_crf_without_an_image_says_what_it_needs():
    with pytest.raises(InputError, match="colours 0…255"):
        Segmenter(nn.Conv2d(3, 4, 1), DenseCRF(num_classes=4))(photo() / 255)


def test_network_and_crf_have_as_many_labels():
    with pytest.raises(InputError, match="scores 5 classes, but the CRF has 4"):
        Segmenter(small_network(num_classes=5), DenseCRF(num_classes=4))


@pytest.mark.parametrize(("network", "crf"), [("vgg", None), (nn.Identity(), nn.Identity())])
def test_what_is_no_network_or_crf_is_refused(network, crf):
    with pytest.raises(InputTypeError, match="expected a"):
        Segmenter(network, crf)
