"""The segmenter: scores and marginals."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from densefield.errors import InputError, InputTypeError  # noqa: E402
from densefield.networks.inputs import InputNormalization  # noqa: E402
from densefield.networks.small import small_network  # noqa: E402
from densefield.nn.dense_crf import DenseCRF  # noqa: E402
from densefield.nn.segmenter import Segmenter  # noqa: E402


def photo() -> torch.Tensor:
    return torch.randint(256, (2, 3, 9, 11), dtype=torch.uint8, generator=torch.Generator().manual_seed(8141))


def test_without_a_crf_the_marginals_are_the_softmax_of_the_scores():
    segmenter = Segmenter(nn.Conv2d(3, 4, 1))
    assert torch.equal(segmenter(photo()), torch.log_softmax(segmenter.scores(photo()), dim=1))


def test_with_a_crf_the_marginals_are_those_of_the_crf():
    network, crf = nn.Conv2d(3, 4, 1), DenseCRF(num_classes=4)
    assert torch.equal(Segmenter(network, crf)(photo()), crf(network(photo().float()), photo()))


@pytest.mark.parametrize("crf", [None, DenseCRF(num_classes=4)])
def test_the_network_gets_normalised_colours_and_the_crf_raw_colours(crf):
    network = nn.Conv2d(3, 4, 1)
    network.normalization = InputNormalization((10.0, 20.0, 30.0), (2.0, 4.0, 5.0))
    mean, std = (torch.tensor(values)[:, None, None] for values in network.normalization)
    scores = network((photo().float() - mean) / std)
    segmenter = Segmenter(network, crf)
    assert torch.equal(segmenter.scores(photo()), scores)
    assert torch.equal(segmenter(photo()), scores.log_softmax(1) if crf is None else crf(scores, photo()))


def test_ignored_pixels_are_ignored_by_the_crf():
    network, crf = nn.Conv2d(3, 4, 1), DenseCRF(num_classes=4)
    ignore = torch.zeros(2, 9, 11, dtype=torch.bool)
    ignore[1, :, 7:] = True
    found = Segmenter(network, crf)(photo(), ignore)
    assert torch.equal(found, crf(network(photo().float()), photo(), ignore=ignore))
    assert not torch.equal(found[1], Segmenter(network, crf)(photo())[1])
    alone = Segmenter(network)
    assert torch.equal(alone(photo(), ignore), alone(photo()))


def test_the_loss_has_gradients_in_every_parameter_of_network_and_crf():
    segmenter = Segmenter(small_network(num_classes=4, width=32), DenseCRF(num_classes=4))
    segmenter(photo())[:, 0].sum().backward()
    gradients = {name: each.grad for name, each in segmenter.named_parameters()}
    assert sum(name.startswith("crf.") for name in gradients) == 4
    assert all(each is not None and each.isfinite().all() and each.any() for each in gradients.values())


@pytest.mark.parametrize(("dtype", "found"), [(torch.bfloat16, torch.float32), (torch.float64, torch.float64)])
def test_scores_have_the_precision_of_the_network_and_marginals_at_least_single(dtype, found):
    segmenter = Segmenter(nn.Conv2d(3, 4, 1).to(dtype))
    assert segmenter.scores(photo()).dtype == dtype and segmenter(photo()).dtype == found


def photos():
    generator = torch.Generator().manual_seed(60017)
    return [
        torch.randint(256, (3, *size), dtype=torch.uint8, generator=generator) for size in ((9, 11), (12, 7), (9, 11))
    ]


@pytest.mark.parametrize("crf", [None, DenseCRF(num_classes=4)])
def test_a_list_of_images_has_the_marginals_of_each_image_alone(crf):
    torch.manual_seed(881)
    segmenter = Segmenter(small_network(num_classes=4, width=32, norm="group"), crf).eval()
    images = photos()
    ignore = [torch.zeros(image.shape[1:], dtype=torch.bool) for image in images]
    ignore[1][:, 5:] = True
    with torch.no_grad():
        for masks in (None, ignore):
            for number, one in enumerate(segmenter(images, masks)):
                alone = segmenter(images[number][None], None if masks is None else masks[number][None])[0]
                # Convolutions of a batch sum in another order, and the CRF's weights, 8 in all, enlarge the difference.
                torch.testing.assert_close(one, alone, rtol=1e-4, atol=1e-4)


def test_each_image_may_have_its_own_spacing():
    torch.manual_seed(882)
    segmenter = Segmenter(small_network(num_classes=4, width=32, norm="group"), DenseCRF(num_classes=4)).eval()
    images, spacing = torch.stack(photos()[::2]), ((2.0, 1.0), (0.5, 3.0))
    with torch.no_grad():
        found, scores = segmenter(images, None, spacing), segmenter.scores(images)
        for number, each in enumerate(spacing):
            here = slice(number, number + 1)
            expected = segmenter.crf(scores[here], images[here], spacing=each)
            torch.testing.assert_close(found[number], expected[0], rtol=1e-6, atol=1e-6)
            assert not torch.allclose(expected, segmenter.crf(scores[here], images[here]), atol=1e-3)


def test_lists_need_a_network_that_takes_them():
    with pytest.raises(InputTypeError, match=r"Conv2d takes a tensor: wrap it with densefield\.networks\.as_network"):
        Segmenter(nn.Conv2d(3, 4, 1))(photos())


def test_network_and_crf_must_have_the_same_number_of_classes():
    with pytest.raises(InputError, match="scores 5 classes, but the CRF has 4"):
        Segmenter(small_network(num_classes=5), DenseCRF(num_classes=4))


@pytest.mark.parametrize(("network", "crf"), [("vgg", None), (nn.Identity(), nn.Identity())])
def test_arguments_that_are_not_a_network_or_crf_are_rejected(network, crf):
    with pytest.raises(InputTypeError, match="expected a"):
        Segmenter(network, crf)
