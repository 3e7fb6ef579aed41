"""Shrinking images and labels."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("PIL", reason="images are shrunk by Pillow")

from densefield.datasets.sample import Sample
from densefield.datasets.transforms import ShrunkDataset, shrunk_image, shrunk_size
from densefield.errors import InputError


class Blocks:
    """One image of 2×2 blocks of 4×4 pixels, with and without labels, and a small one."""

    classes, ids = ("a", "b"), ("labelled", "unlabelled", "small")

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Sample:
        blocks = np.kron(np.array([[0, 1], [1, 0]], np.uint8), np.ones((4, 4), np.uint8))
        image = np.repeat(blocks[..., None] * 200, 3, axis=2)
        if index == 2:
            return Sample(image[:3, :3], blocks[:3, :3], "small")
        return Sample(image, blocks if index == 0 else None, self.ids[index])


def test_colours_and_labels_are_downscaled_together():
    sample = ShrunkDataset(Blocks(), 2)[0]
    assert sample.labels.tolist() == [[0, 1], [1, 0]] and sample.id == "labelled"
    # The filter extends into the neighbouring blocks.
    assert sample.image.shape == (2, 2, 3)
    assert (sample.image[sample.labels == 0] < 100).all() and (sample.image[sample.labels == 1] > 100).all()


def test_images_without_labels_shrink_like_those_with_labels():
    dataset = ShrunkDataset(Blocks(), 2)
    assert dataset[1].labels is None
    np.testing.assert_array_equal(dataset[1].image, dataset[0].image)
    np.testing.assert_array_equal(shrunk_image(Blocks()[0].image, 2), dataset[0].image)


def test_small_images_stay_unchanged():
    sample, dataset = Blocks()[2], ShrunkDataset(Blocks(), 3)
    np.testing.assert_array_equal(dataset[2].image, sample.image)
    np.testing.assert_array_equal(dataset[2].labels, sample.labels)
    assert len(dataset) == 3 and dataset.ids == Blocks.ids and dataset.classes == Blocks.classes


@pytest.mark.parametrize(
    ("size", "longest", "wanted"), [((500, 375), 288, (288, 216)), ((1, 1), 1, (1, 1)), ((1000, 1), 10, (10, 1))]
)
def test_sizes_keep_their_proportions_and_at_least_one_pixel(size, longest, wanted):
    assert shrunk_size(size, longest) == wanted


def test_a_longest_side_of_zero_raises():
    with pytest.raises(InputError, match="longest_side is 0, expected 1 or more"):
        ShrunkDataset(Blocks(), 0)
