"""propagate(): dense labels from scribbles."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import InputError, InputTypeError, InputWarning, propagate
from densefield.refinement.propagate import seed_distances


def two_discs(size: int = 48) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An image of two noisy discs on a background, its labels 1, 2 and 3, and one short stroke in each; 0 elsewhere."""
    rng = np.random.default_rng(7351)
    rows, columns = np.mgrid[:size, : 2 * size]
    labels = np.full((size, 2 * size), 3)
    labels[np.hypot(rows - size / 2, columns - size / 2) < size / 3] = 1
    labels[np.hypot(rows - size / 2, columns - 1.5 * size) < size / 3] = 2
    colours = np.array([[0, 0, 0], [200, 60, 40], [50, 80, 190], [110, 140, 90]])
    image = np.clip(colours[labels] + rng.normal(0, 12, (*labels.shape, 3)), 0, 255).astype(np.uint8)
    scribbles = np.zeros(labels.shape, np.int64)
    scribbles[size // 2, size // 2 - 4 : size // 2 + 4] = 1
    scribbles[size // 2 - 4 : size // 2 + 4, 3 * size // 2] = 2
    scribbles[2, 4:30] = 3
    return image, labels, scribbles


def test_three_strokes_label_the_whole_image():
    image, labels, scribbles = two_discs()
    q = propagate(image, scribbles)
    assert q.shape == (4, 48, 96) and q.dtype == np.float32
    assert (q.argmax(axis=0) == labels).mean() > 0.995  # pixels on the edge of a noisy disc may differ
    assert np.allclose(q.sum(axis=0), 1, atol=1e-5)  # single precision
    assert not q[0].any()


def test_scribbled_pixels_keep_their_label_even_where_the_image_disagrees():
    image, _, scribbles = two_discs()
    scribbles[24, 70] = 1  # a click inside the other disc
    scribbles[24, 2] = 2  # and one in the background
    q = propagate(image, scribbles).argmax(axis=0)
    assert (q == scribbles)[scribbles > 0].all()


def test_neither_the_value_of_unlabelled_pixels_nor_the_numbering_changes_the_result():
    image, _, scribbles = two_discs()
    expected = propagate(image, scribbles)
    assert np.array_equal(propagate(image, np.where(scribbles == 0, 255, scribbles - 1)), expected[1:])
    assert np.array_equal(propagate(image, np.where(scribbles == 0, -1, scribbles), unlabelled=-1), expected)
    renumbered = propagate(image, np.array([0, 9, 5, 30])[scribbles])
    assert renumbered.shape[0] == 31
    # The order of the labels changes the order of sums.
    assert np.allclose(renumbered[[9, 5, 30]], expected[1:], atol=1e-5)


def test_num_classes_counts_classes_without_a_scribble():
    image, _, scribbles = two_discs()
    q = propagate(image, scribbles, num_classes=6)
    assert q.shape[0] == 6 and not q[4:].any()
    assert np.array_equal(q[:4], propagate(image, scribbles))


def test_with_all_pixels_scribbled_the_labels_come_back():
    image, labels, _ = two_discs()
    assert np.array_equal(propagate(image, labels, unlabelled=0).argmax(axis=0), labels)


def test_ignored_pixels_have_no_effect():
    image, _, scribbles = two_discs()
    ignore = np.zeros(scribbles.shape, bool)
    ignore[:, 90:] = True
    noisy, drawn = image.astype(np.float32), scribbles.copy()
    noisy[ignore], drawn[ignore] = np.nan, 1
    q = propagate(noisy, drawn, ignore=ignore)
    again = propagate(np.where(ignore[..., None], 0, image), scribbles, ignore=ignore)
    assert np.array_equal(q[:, ~ignore], again[:, ~ignore])


def test_the_result_depends_on_spacing_only_by_its_ratio():
    image, _, scribbles = two_discs()
    expected = propagate(image, scribbles)
    assert np.allclose(propagate(image, scribbles, spacing=(0.25, 0.25)), expected, atol=1e-5)  # rounding
    assert not np.allclose(propagate(image, scribbles, spacing=(1, 3)), expected, atol=0.01)


def test_a_volume_is_labelled_from_strokes_in_one_plane():
    image, labels, scribbles = two_discs(30)
    volume = np.repeat(image[None, ..., 0], 5, axis=0)
    drawn = np.zeros(volume.shape, np.uint8)
    drawn[2] = scribbles
    found = propagate(volume, drawn, spacing=(1, 1, 2)).argmax(axis=0)
    assert (found == labels).mean() > 0.97
    assert (found[[0, 4]] == labels).mean() > 0.97


def test_other_ranges_of_colours_give_the_same():
    image, _, scribbles = two_discs()
    scaled = propagate(image / np.float32(255), scribbles, data_range=1)
    assert np.allclose(scaled, propagate(image, scribbles), atol=0.02)  # the bins of colours round differently
    with pytest.warns(InputWarning, match="data_range=1"):
        propagate(image / np.float32(255), scribbles)


def test_results_do_not_depend_on_the_number_of_threads():
    image, _, scribbles = two_discs()
    assert np.array_equal(propagate(image, scribbles, threads=1), propagate(image, scribbles, threads=2))


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda s: np.zeros_like(s), "hold no label besides 0, which means unlabelled"),
        (lambda s: np.where(s == 1, 1, 0), "hold only label 1 besides 0"),
        (lambda s: np.full_like(s, 255), "hold no label besides 255"),
        (lambda s: s[:-1], r"shape \(47, 96\), but the image has \(48, 96, 3\)"),
        (lambda s: s - 5, "range from -5"),
    ],
)
def test_scribbles_that_cannot_be_used_are_errors(change, message):
    image, _, scribbles = two_discs()
    with pytest.raises(InputError, match=message):
        propagate(image, change(scribbles))


def test_wrong_types_are_errors():
    image, _, scribbles = two_discs()
    with pytest.raises(InputTypeError, match=r"the scribbles are the path 'a.png'"):
        propagate(image, "a.png")
    with pytest.raises(InputTypeError, match="dtype float64, expected integers"):
        propagate(image, scribbles.astype(float))
    with pytest.raises(InputError, match="unlabelled is True"):
        propagate(image, scribbles, unlabelled=True)


def test_distances_to_seeds_are_those_of_scipy():
    ndimage = pytest.importorskip("scipy.ndimage")
    rng = np.random.default_rng(2088)
    seeds = np.where(rng.random(6 * 9 * 11) < 0.03, rng.integers(0, 3, 594), -1).astype(np.int32)
    found = seed_distances(seeds, 3, (6, 9, 11), (0.5, 1.25, 3.0), threads=2)
    for label in range(3):
        expected = ndimage.distance_transform_edt((seeds != label).reshape(6, 9, 11), sampling=(3.0, 1.25, 0.5))
        assert np.allclose(found[label].reshape(6, 9, 11), expected, rtol=1e-6)  # single precision


def test_clicks_on_a_photo_beat_the_nearest_click(shared):
    pictures, ndimage = pytest.importorskip("PIL.Image"), pytest.importorskip("scipy.ndimage")
    image = np.asarray(pictures.open(shared / "data/VOCdevkit/VOC2012/JPEGImages/2007_000063.jpg"))
    truth = np.asarray(pictures.open(shared / "data/VOCdevkit/VOC2012/SegmentationClass/2007_000063.png"))
    scribbles = np.full(truth.shape, 255)
    for x, y, label in [[335, 318, 9], [273, 158, 12], [44, 88, 0], [19, 283, 0], [430, 88, 0], [464, 273, 0]]:
        scribbles[y, x] = label
    rows, columns = ndimage.distance_transform_edt(scribbles == 255, return_distances=False, return_indices=True)
    counted = truth != 255
    accuracy = {
        name: (labels == truth)[counted].mean()
        for name, labels in {
            "nearest": scribbles[rows, columns],
            "propagate": propagate(image, scribbles).argmax(axis=0),
        }.items()
    }
    assert accuracy["propagate"] > accuracy["nearest"] + 0.05
