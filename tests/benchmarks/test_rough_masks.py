"""Rough inputs of the refinement benchmark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("skimage")
pytest.importorskip("scipy")
pytest.importorskip("PIL")

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("the source distribution has no benchmarks", allow_module_level=True)


@pytest.fixture(scope="module")
def rough() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        import rough_masks

        yield rough_masks
        sys.modules.pop("rough_masks")


@pytest.fixture
def truth() -> np.ndarray:
    """A disc of label 7 with a void ring, a bar of label 15 that touches the edge of the image, and background."""
    y, x = np.mgrid[:90, :130]
    radius = np.hypot(y - 40, x - 45)
    mask = np.zeros((90, 130), np.uint8)
    mask[20:70, 95:] = 15
    mask[radius < 30] = 255
    mask[radius < 27] = 7
    return mask


KINDS = [
    *(f"blocks {side}" for side in (8, 16, 24, 32)),
    *("dilated 4", "dilated 8", "dilated 12", "eroded 3", "eroded 6"),
    *("polygons", "shifted", "holes and specks", "true"),
]


def test_the_kinds_are_all_listed_here(rough: Any) -> None:
    assert list(rough.RECIPES) == KINDS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_a_rough_mask_has_the_shape_and_labels_of_the_truth_without_void(
    rough: Any, truth: np.ndarray, kind: str, scale: float
) -> None:
    before = truth.copy()
    photo = rough.Photo("2007_000032", np.zeros((90, 130, 3), np.uint8), truth)
    mask = rough.rough_mask(photo, kind, scale)
    assert mask.shape == truth.shape and mask.dtype == np.uint8
    assert set(np.unique(mask)) <= {0, 7, 15}
    assert np.array_equal(truth, before)
    assert np.array_equal(mask, rough.rough_mask(photo, kind, scale))
    assert not np.shares_memory(mask, truth)


@pytest.mark.parametrize("kind", KINDS)
def test_void_of_another_form_gives_the_same_mask_if_it_is_filled_alike(
    rough: Any, truth: np.ndarray, kind: str
) -> None:
    filled = rough.filled(truth)
    first, second = (rough.RECIPES[kind](mask, rough.generator("a", kind)) for mask in (truth, filled))
    assert np.array_equal(first, second)


def test_void_is_filled_with_the_nearest_label(rough: Any) -> None:
    assert rough.filled(np.array([[3, 255, 255, 255, 255, 0]], np.uint8)).tolist() == [[3, 3, 3, 0, 0, 0]]
    assert rough.filled(np.full((2, 2), 255, np.uint8)).tolist() == [[0, 0], [0, 0]]


def test_blocks_are_constant_and_follow_the_majority(rough: Any, truth: np.ndarray) -> None:
    mask = rough.RECIPES["blocks 16"](truth, rough.generator("a", "b"))
    filled = rough.filled(truth)
    for top in range(0, 90, 16):
        for left in range(0, 130, 16):
            block = np.s_[top : top + 16, left : left + 16]
            assert np.unique(mask[block]).tolist() == [np.bincount(filled[block].ravel()).argmax()]


@pytest.mark.parametrize("radius", [4, 8, 12])
def test_dilated_objects_contain_the_objects_and_reach_as_far_as_the_radius(
    rough: Any, truth: np.ndarray, radius: int
) -> None:
    mask, filled = rough.RECIPES[f"dilated {radius}"](truth, None), rough.filled(truth)
    assert np.array_equal(mask[filled > 0], filled[filled > 0])
    assert mask[19 - radius + 1, 110] == 15 and mask[19 - radius, 110] == 0


@pytest.mark.parametrize("radius", [3, 6])
def test_eroded_objects_lie_inside_the_objects_and_keep_the_edge_of_the_image(
    rough: Any, truth: np.ndarray, radius: int
) -> None:
    mask, filled = rough.RECIPES[f"eroded {radius}"](truth, None), rough.filled(truth)
    assert np.array_equal(mask[mask > 0], filled[mask > 0])
    assert mask[20 + radius - 1, 129] == 0 and mask[20 + radius, 129] == 15


def test_a_mask_of_one_object_everywhere_is_not_eroded(rough: Any) -> None:
    everywhere = np.full((9, 9), 4, np.uint8)
    assert np.array_equal(rough.RECIPES["eroded 3"](everywhere, None), everywhere)


def test_polygons_keep_large_holes_and_small_objects_and_are_close_to_the_outline(rough: Any) -> None:
    y, x = np.mgrid[:120, :120]
    radius = np.hypot(y - 60, x - 60)
    truth = ((radius < 50) & (radius > 25)).astype(np.uint8)
    truth[5:8, 5:9] = 1
    mask = rough.RECIPES["polygons"](truth, None)
    assert mask[60, 60] == 0 and mask[6, 6] == 1
    from_outline = np.minimum(abs(radius - 50), abs(radius - 25))
    assert np.array_equal(mask[(from_outline > 7) & (radius < 60)], truth[(from_outline > 7) & (radius < 60)])
    assert (mask != truth).any()


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_a_shifted_mask_has_moved_by_five_pixels_times_the_scale(rough: Any, scale: float) -> None:
    truth = np.zeros((60, 60), np.uint8)
    truth[30, 30] = 1
    for name in "abc":
        row, column = np.argwhere(rough.RECIPES["shifted"](truth, rough.generator(name, "shifted"), scale))[0]
        assert abs(np.hypot(row - 30, column - 30) - 5 * scale) < 0.75  # rounded to pixels in both directions


def test_holes_and_specks_cover_about_two_percent(rough: Any, truth: np.ndarray) -> None:
    changed = rough.RECIPES["holes and specks"](truth, rough.generator("a", "b")) != rough.filled(truth)
    assert 0.005 < changed.mean() < 0.03
    only = np.full((20, 20), 3, np.uint8)
    assert np.array_equal(rough.RECIPES["holes and specks"](only, rough.generator("a", "b")), only)


def test_generators_differ_by_photo_and_kind(rough: Any) -> None:
    names = [("a", "shifted"), ("b", "shifted"), ("a", "true")]
    assert len({rough.generator(*name).integers(2**60) for name in names}) == 3


def test_a_choice_of_photos_is_evenly_spaced(rough: Any) -> None:
    ids = [str(number) for number in range(9, -1, -1)]
    assert rough.spread(ids, None) == sorted(ids)
    assert rough.spread(ids, 2) == ["2", "7"]
    assert rough.spread(ids, 30) == sorted(ids)


def test_foreground_joins_all_objects_and_keeps_void(rough: Any, truth: np.ndarray) -> None:
    joined = rough.foreground(truth)
    assert np.array_equal(joined == 255, truth == 255)
    assert np.array_equal(joined == 1, (truth > 0) & (truth < 255))


def test_resized_photos_have_the_longest_side_and_the_labels(rough: Any, truth: np.ndarray) -> None:
    image, larger = rough.resized(np.full((90, 130, 3), 80, np.uint8), truth, 260)
    assert image.shape == (180, 260, 3) and (image == 80).all()
    assert larger.shape == (180, 260) and np.array_equal(larger[::2, ::2], truth)


def test_planes_are_enlarged_like_torch_does(rough: Any) -> None:
    torch = pytest.importorskip("torch")
    planes = np.random.default_rng(3107).standard_normal((3, 5, 7)).astype(np.float32)
    expected = torch.nn.functional.interpolate(torch.from_numpy(planes)[None], (33, 50), mode="bilinear")[0].numpy()
    # Both interpolate in float32, whose rounding is 1e-7 of values of about 3.
    np.testing.assert_allclose(rough.upsampled(planes, (33, 50)), expected, atol=1e-5)


def test_photos_of_networks_are_split_in_halves_without_overlap(rough: Any, shared: Path) -> None:
    folder = shared / "data/logits"
    if not folder.is_dir():
        pytest.skip(f"no folder {folder}")
    ids = sorted(path.stem for path in folder.glob("*.npz"))
    train, val = (next(rough.network_photos(split, 1)).id for split in ("train", "val"))
    assert ids.index(train) % 2 == 0 and ids.index(val) % 2 == 1


@pytest.mark.parametrize(
    "kind, name",
    [("network scores", "logits"), ("network argmax", "labels"), ("network low resolution", "probabilities")],
)
def test_network_inputs_have_the_size_of_the_photo(rough: Any, shared: Path, kind: str, name: str) -> None:
    if not (shared / "data/logits").is_dir():
        pytest.skip("no logits")
    photo = next(rough.network_photos("train", 1))
    ((found, values),) = rough.network_input(photo, kind).items()
    assert found == name and values.shape[-2:] == photo.truth.shape == photo.image.shape[:2]
    if name == "probabilities":
        np.testing.assert_allclose(values.sum(axis=0), 1, atol=1e-5)  # float32 sums of 21 numbers
