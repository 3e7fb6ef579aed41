"""Files computed in tiles: the tiles cover the grid, and the result is that of the whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from densefield import CRF, Bilateral, Spatial
from densefield.volumes.grid import Grid, in_memory, missing_values
from densefield.volumes.label_plan import LabelPlan
from densefield.volumes.planning import VolumeOptions, make_plan
from densefield.volumes.sample import read_both, read_sample, scan_mask
from densefield.volumes.tiles import box_shape, even_sides, tiles
from tests.support.volume_files import error_share, land_raster, organ_volume


@pytest.mark.parametrize("shape, side, halo", [((7,), 3, 1), ((10, 21), (4, 30), (2, 5)), ((5, 6, 7), 2, (1, 0, 3))])
def test_cores_cover_the_grid_once_and_lie_in_their_halo(shape, side, halo):
    count, grid = np.zeros(shape, int), np.arange(np.prod(shape)).reshape(shape)
    parts = list(tiles(shape, side, halo))
    for part in parts:
        count[part.core] += 1
        assert (grid[part.outer][part.inner] == grid[part.core]).all()
        reach = [
            min(margin, core.start) for margin, core in zip(np.broadcast_to(halo, len(shape)), part.core, strict=True)
        ]
        assert [inner.start for inner in part.inner] == reach
    assert (count == 1).all()


def test_tiles_are_about_equally_large():
    assert even_sides((2049, 100), 2048) == (1025, 100)
    assert {box_shape(part.core) for part in tiles((300,), even_sides((300,), 128))} == {(100,)}


def refined(image: Grid, mask: Grid, side: int, **options) -> np.ndarray:
    plan = make_plan(image, mask, VolumeOptions(**options), threads=2)
    out = np.zeros(mask.shape, mask.dtype)
    for part in tiles(mask.shape, side, plan.halo):
        out[part.core] = plan.labels(read_both(image, mask, part.outer))[part.inner]
    return out


@pytest.mark.parametrize("options", [{}, {"roughness": 6.0}, {"crf": CRF([Spatial(1.5), Bilateral(8, 30, weight=4)])}])
@pytest.mark.parametrize("flat", [True, False])
def test_tiles_give_the_result_of_the_whole(flat, options):
    case = land_raster() if flat else organ_volume((16, 60, 70))
    image = in_memory(case.image, channels=case.image.shape[-1]) if flat else in_memory(case.image)
    mask = in_memory(case.rough)
    whole = refined(image, mask, 1000, **options)
    parts = refined(image, mask, 50 if flat else 24, **options)
    # Lattices of different tiles round differently, which decides where two labels are nearly equally probable.
    assert error_share(parts, whole) < 3e-3
    assert error_share(whole, case.rough) > 0.01


def test_labels_that_are_larger_in_a_tile_than_in_the_file_move_the_same_way():
    rows, columns = np.indices((120, 300))
    truth = (np.hypot(rows - 60, columns - 60) < 50).astype(np.uint8)  # smaller than the background, but not in tiles
    image = in_memory(truth * 1000.0)
    rough = (np.hypot(rows - 60, columns - 60) < 56).astype(np.uint8)
    plan = make_plan(image, in_memory(rough), VolumeOptions(), threads=1)
    assert isinstance(plan, LabelPlan) and plan.roughness is not None
    assert all(each.offset > 3 for each in plan.roughness.displacements)
    part = (slice(0, 120), slice(0, 118))
    result = plan.labels(read_both(image, in_memory(rough), part))
    assert error_share(result, truth[part]) < 1e-3


def test_large_files_are_planned_on_a_sample_in_which_all_labels_occur(monkeypatch):
    from densefield.volumes import sample

    monkeypatch.setattr(sample, "WHOLE", {2: 100, 3: 100})
    monkeypatch.setattr(sample, "WINDOW_SIDE", {2: 64, 3: 16})
    case = land_raster(shape=(200, 260))
    labels = case.rough.copy()
    labels[190:194, 3:7] = 9  # a rare label
    image, mask = in_memory(case.image, channels=6), in_memory(labels)
    scan = scan_mask(mask)
    assert scan.values is not None and scan.values.tolist() == [0, 1, 2, 9]
    assert 1 < len(scan.windows) <= sample.MOST_WINDOWS
    found = read_sample(image, mask, scan.windows)
    assert found.missing is not None and found.missing.any()
    assert np.isin([0, 1, 2, 9], found.mask[..., 0][~found.missing]).all()
    assert error_share(refined(image, mask, 80), case.truth) < 0.4 * error_share(labels, case.truth)


def test_missing_pixels_keep_their_label_and_have_no_effect():
    case = land_raster()
    missing = np.zeros(case.truth.shape, bool)
    missing[60:80, 20:110] = True
    results = []
    for value in (0, 40_000):
        values = np.where(missing[..., None], value, case.image).astype(np.uint16)
        image = in_memory(values, channels=6, missing=missing_values(values, value))
        results.append(refined(image, in_memory(case.rough), 1000))
    assert (results[0] == results[1]).all()
    assert (results[0][missing] == case.rough[missing]).all()
    assert error_share(results[0][~missing], case.truth[~missing]) < 0.02


def test_spacing_has_any_unit():
    case = organ_volume()
    fine = in_memory(case.image, spacing=(1.5, 1.5, 3.0))
    results = [
        refined(replace(fine, spacing=tuple(scale * each for each in fine.spacing)), in_memory(case.rough), 1000)
        for scale in (1.0, 1e-3)
    ]
    assert (results[0] == results[1]).all()
