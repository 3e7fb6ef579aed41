"""Label masks: label values, binary masks and void."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import InputError, Spatial, refine
from tests.support.two_halves import two_halves

# Labels that occur


@pytest.mark.parametrize("label", [2, 5, 13, 20, 150, 300])
def test_the_result_does_not_depend_on_the_number_of_a_label(label):
    image, mask = two_halves()
    expected = refine(image, labels=mask)
    refined = refine(image, labels=mask * label)
    assert refined.shape == (label + 1, 12, 16)
    assert np.array_equal(refined[[0, label]], expected)  # bitwise: the same computation
    assert refined.sum(axis=0) == pytest.approx(1, abs=1e-6)  # rounding; other labels have probability 0


def test_absent_labels_have_no_effect():
    image, mask = two_halves()
    expected = refine(image, labels=mask)
    refined = refine(image, labels=mask, num_classes=21)
    assert refined.shape == (21, 12, 16)
    assert np.array_equal(refined[:2], expected) and not refined[2:].any()


def test_permuted_labels_permute_the_result():
    image, mask = two_halves()
    three = mask.copy()
    three[:4, :4] = 2
    order = np.array([7, 0, 3])
    refined, renumbered = refine(image, labels=three), refine(image, labels=order[three])
    assert np.allclose(renumbered[order], refined, atol=1e-6)  # sums over labels in another order


def test_a_mask_of_one_label_stays_that_label():
    image, mask = two_halves()
    refined = refine(image, labels=np.full_like(mask, 3))
    assert refined.shape == (4, 12, 16) and (refined[3] == 1).all() and not refined[:3].any()


@pytest.mark.parametrize("rank", [1, 2])
def test_weights_per_label_are_selected_for_the_labels_in_the_mask(rank):
    image, mask = two_halves()
    rng = np.random.default_rng(20177)
    weight = rng.uniform(0.5, 2, 21) if rank == 1 else np.diag(rng.uniform(0.5, 2, 21)) - 0.1
    few = weight[[0, 13]] if rank == 1 else weight[np.ix_([0, 13], [0, 13])]
    expected = refine(image, labels=mask, kernels=[Spatial(2, weight=few)])
    refined = refine(image, labels=mask * 13, num_classes=21, kernels=[Spatial(2, weight=weight)])
    assert np.array_equal(refined[[0, 13]], expected) and not refined[1:13].any()
    with pytest.raises(InputError, match="weights for 21 classes, but the mask has 14: pass num_classes=21"):
        refine(image, labels=mask * 13, kernels=[Spatial(2, weight=weight)])  # the mask has 14 classes


# Binary masks, void


@pytest.mark.parametrize("value", [127, 128, 254, 255, 65535])
@pytest.mark.parametrize("dtype", [np.uint16, np.int64])
def test_a_mask_of_0_and_a_grey_value_is_binary(value, dtype):
    image, mask = two_halves()
    assert np.array_equal(refine(image, labels=(mask * value).astype(dtype)), refine(image, labels=mask))


def test_a_mask_of_0_and_a_grey_value_is_binary_with_void_pixels_too():
    image, mask = two_halves()
    holes = mask * 255
    holes[3:6, 5:9] = 128
    expected = mask.copy()
    expected[3:6, 5:9] = 9
    assert np.array_equal(refine(image, labels=holes, void=128), refine(image, labels=expected, void=9))


def test_a_mask_of_foreground_only_is_binary():
    image, mask = two_halves()
    assert np.array_equal(refine(image, labels=np.full_like(mask, 255)).argmax(0), np.ones_like(mask))


def test_with_more_than_two_labels_255_is_void():
    image, mask = two_halves()
    refined = refine(image, labels=mask * 255, num_classes=21)
    assert refined.shape == (21, 12, 16) and (refined[0] == 1).all()  # 0 is the only known label


def test_void_sets_the_value_of_unknown_pixels():
    image, mask = two_halves()
    holes = mask.copy()
    holes[3:6, 5:9] = 255
    expected = refine(image, labels=holes)
    assert (refine(image, labels=np.where(holes == 255, 9, holes), void=9) == expected).all()
    assert (refine(image, labels=np.where(holes == 255, -1, holes), void=-1) == expected).all()
    labelled = refine(image, labels=holes, void=None)
    assert labelled.shape == (256, 12, 16) and labelled[255].any()


def test_with_more_than_255_classes_255_is_a_class():
    image, mask = two_halves()
    expected = refine(image, labels=mask)
    for count, labels in ((300, mask * 255), (None, np.where(mask == 1, 255, 256))):
        refined = refine(image, labels=labels, num_classes=count)
        assert refined[255].any() and np.array_equal(np.unique(refined.argmax(0)), np.unique(labels))
    assert np.array_equal(refine(image, labels=mask * 255, num_classes=300)[[0, 255]], expected)
