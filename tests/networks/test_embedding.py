"""Networks with an embedding of every pixel."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from densefield.errors import InputError  # noqa: E402
from densefield.filters.lattice_design import MAX_DIMENSION  # noqa: E402
from densefield.networks.deeplab import deeplab_efficientnet_lite0  # noqa: E402
from densefield.networks.embedding import MAX_EMBEDDING  # noqa: E402
from densefield.networks.small import small_network  # noqa: E402

NETWORKS = [small_network, deeplab_efficientnet_lite0]


@pytest.mark.parametrize("build", NETWORKS)
def test_the_scores_are_those_of_the_network_without_an_embedding(build):
    image = torch.randn(1, 3, 50, 67, generator=torch.Generator().manual_seed(61))
    outputs = []
    for embedding in (0, 4):
        torch.manual_seed(17)
        with torch.no_grad():
            outputs.append(build(5, embedding=embedding).eval()(image))
    alone, (scores, features) = outputs
    assert torch.equal(alone, scores)
    assert features.shape == (1, 4, 50, 67) and features.std() > 1e-3


@pytest.mark.parametrize("build", NETWORKS)
def test_a_list_of_images_gives_two_lists(build):
    generator = torch.Generator().manual_seed(62)
    images = [torch.randn(3, *size, generator=generator) for size in ((40, 55), (48, 33), (40, 55))]
    torch.manual_seed(18)
    network = build(5, embedding=2).eval()
    with torch.no_grad():
        scores, features = network(images)
        for number, image in enumerate(images):
            for found, alone in zip((scores[number], features[number]), network(image[None]), strict=True):
                # Convolutions of a batch sum in another order.
                torch.testing.assert_close(found, alone[0], rtol=1e-4, atol=1e-4)
    assert network([]) == ([], [])


def test_the_embedding_lies_on_the_pixels_of_the_image():
    """Where the image steps from low to high, the embedding does, at any size that the network sees."""
    network = small_network(3, width=32, norm="group", embedding=1).eval()
    head = network.embedding_head
    with torch.no_grad():
        for weight in (network.stem[0][0].weight, head.fine.weight, head.deep.weight):
            weight.zero_()
        network.stem[0][0].weight[:, 0, 1, 1] = head.fine.weight[0, 0, 1, 1] = 1.0
        head.mix.weight.fill_(1.0)
    image = torch.zeros(1, 3, 64, 64)
    image[..., 31:] = 1.0
    for size in (None, 96):
        network.input_size = size
        with torch.no_grad():
            row = network(image)[1][0, 0, 32]
        middle = (row[0] + row[-1]) / 2
        # The step is between columns 30 and 31; the embedding is interpolated between every second column.
        assert row[29] < middle < row[32] and row[0] == row[26] and row[-1] == row[35]


@pytest.mark.parametrize("embedding", [-1, 15, 2.0, True])
def test_other_numbers_of_channels_are_rejected(embedding):
    for build in NETWORKS:
        with pytest.raises(InputError, match="expected a number of channels up to 14"):
            build(5, embedding=embedding)


def test_the_largest_embedding_and_the_position_fit_a_lattice():
    assert MAX_EMBEDDING == MAX_DIMENSION - 2
