"""Which image and mask belong together, how their axes are told apart, and what of the mask's layout the result has."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import CRF, InputError, Spatial
from densefield.volumes import read_volume, refine_file
from tests.support.volume_files import (
    error_share,
    land_raster,
    organ_volume,
    read_geotiff,
    read_nifti,
    write_geotiff,
    write_nifti,
)
from tests.volumes.test_tiff_and_zarr import ome_zarr, write_tiff, zarr_array

CASE = organ_volume()
SCALE = [3.0, 1.5, 1.5]


def with_translation(path, values, unit="millimeter"):
    import zarr

    group = zarr.open(path)
    image = group.attrs["ome"]["multiscales"][0]
    image["datasets"][0]["coordinateTransformations"].append({"type": "translation", "translation": values})
    for axis in image["axes"]:
        axis["unit"] = unit
    group.attrs["ome"] = {"multiscales": [image]}
    return path


def test_translations_of_ome_zarr_must_agree(tmp_path):
    image = ome_zarr(tmp_path / "i.zarr", CASE.image, "zyx", SCALE, "0.5")
    mask = with_translation(ome_zarr(tmp_path / "m.zarr", CASE.rough, "zyx", SCALE, "0.5"), [0.0, 30.0, 30.0])
    with pytest.raises(InputError, match=r"m\.zarr begins at 30, 30, 0 mm .* but .*i\.zarr at 0, 0, 0 mm"):
        refine_file(image, mask, tmp_path / "o.zarr")
    with_translation(image, [0.0, 30.0, 30.0])
    refine_file(image, mask, tmp_path / "o.zarr")
    assert error_share(read_volume(tmp_path / "o.zarr").values, CASE.truth) < 0.005


def test_lengths_of_ome_zarr_are_compared_in_one_unit(tmp_path):
    image = with_translation(ome_zarr(tmp_path / "i.zarr", CASE.image, "zyx", SCALE, "0.5"), [9.0, 0.0, 6.0])
    large = [1000 * each for each in SCALE]
    mask = ome_zarr(tmp_path / "m.zarr", CASE.rough, "zyx", large, "0.5")
    with_translation(mask, [9000.0, 0.0, 6000.0], "micrometer")
    refine_file(image, mask, tmp_path / "o.zarr")
    with_translation(mask, [500.0, 0.0, 0.0], "micrometer")
    with pytest.raises(InputError, match=r"begins at 6000, 0, 9500 micrometer .* at 6, 0, 9 mm"):
        refine_file(image, mask, tmp_path / "o.zarr")
    with_translation(mask, [-500.0, 0.0, 0.0], "millimeter")
    with pytest.raises(InputError, match=r"pixels of 1500 × 1500 × 3000 mm, but those of .* 1\.5 × 1\.5 × 3 mm"):
        refine_file(image, mask, tmp_path / "o.zarr")


def test_channels_of_a_plain_zarr_volume_are_told_by_a_plain_zarr_mask(tmp_path):
    image = zarr_array(tmp_path / "i.zarr", np.stack([CASE.image, CASE.image // 2]))
    refine_file(image, zarr_array(tmp_path / "m.zarr", CASE.rough), tmp_path / "o.zarr")
    assert error_share(read_volume(tmp_path / "o.zarr").values, CASE.truth) < 0.005
    soft = np.stack([np.where(CASE.rough == label, 0.7, 0.1) for label in range(4)]).astype(np.float32)
    refine_file(image, write_nifti(tmp_path / "m.nii", CASE.rough), tmp_path / "o.nii")
    plain = zarr_array(tmp_path / "j.zarr", CASE.image)
    refine_file(plain, zarr_array(tmp_path / "p.zarr", soft), tmp_path / "q.zarr")
    assert read_volume(tmp_path / "o.nii").values.shape == CASE.truth.shape


def test_a_zarr_result_may_lie_in_the_group_of_its_image(tmp_path):
    zarr = pytest.importorskip("zarr", reason="Zarr needs zarr")
    image = ome_zarr(tmp_path / "i.zarr", CASE.image, "zyx", SCALE, "0.5")
    zarr.open(image).create_group("labels")
    mask = ome_zarr(tmp_path / "m.zarr", CASE.rough, "zyx", SCALE, "0.5")
    refine_file(image, mask, image / "labels" / "cells", tile=30)
    assert error_share(read_volume(image / "labels" / "cells").values, CASE.truth) < 0.005
    assert sorted(path.name for path in (image / "labels").iterdir()) == ["cells", "zarr.json"]
    with pytest.raises(InputError, match=r"cells has no ending, but has the format of .*: expected \.zarr"):
        refine_file(image, mask, tmp_path / "cells")


def test_shards_of_a_mask_are_kept(tmp_path):
    zarr = pytest.importorskip("zarr", reason="Zarr needs zarr")
    image = zarr_array(tmp_path / "i.zarr", CASE.image)
    mask = zarr_array(tmp_path / "m.zarr", CASE.rough, shards=(14, 32, 32))
    refine_file(image, mask, tmp_path / "o.zarr", tile=24)
    out = zarr.open(tmp_path / "o.zarr")
    assert (out.shards, out.chunks) == ((14, 32, 32), (14, 16, 16))
    assert error_share(out[:], CASE.truth) < 0.005
    soft = np.stack([np.where(CASE.rough == label, 0.7, 0.1) for label in range(4)]).astype(np.float32)
    options = {"dimension_names": list("czyx"), "shards": (4, 28, 32, 32)}
    refine_file(image, zarr_array(tmp_path / "p.zarr", soft, **options), tmp_path / "q.zarr")
    assert zarr.open(tmp_path / "q.zarr").shards == (4, 28, 32, 32)


def test_an_empty_folder_of_zarr_says_so(tmp_path):
    pytest.importorskip("zarr", reason="Zarr needs zarr")
    (tmp_path / "i.zarr").mkdir()
    with pytest.raises(InputError, match=r"i\.zarr cannot be read as Zarr: it holds no array and no group\.$"):
        read_volume(tmp_path / "i.zarr")


@pytest.mark.parametrize("units", [("mm", "micron"), ("meter", "mm")])
def test_units_of_nifti_must_agree(tmp_path, units):
    nibabel = pytest.importorskip("nibabel", reason="NIfTI needs nibabel")
    for name, values, unit in (("i", CASE.image, units[0]), ("m", CASE.rough, units[1]), ("n", CASE.rough, "unknown")):
        picture = nibabel.load(write_nifti(tmp_path / "a.nii", values))
        picture.header.set_xyzt_units(unit)
        nibabel.save(picture, tmp_path / f"{name}.nii.gz")
    with pytest.raises(InputError, match=f"i.nii.gz has lengths in {units[0]}, but .*m.nii.gz in {units[1]}: correct"):
        refine_file(tmp_path / "i.nii.gz", tmp_path / "m.nii.gz", tmp_path / "o.nii")
    refine_file(tmp_path / "i.nii.gz", tmp_path / "n.nii.gz", tmp_path / "o.nii")
    assert read_nifti(tmp_path / "o.nii").shape == CASE.rough.shape


@pytest.mark.parametrize("soft", [False, True])
def test_axes_of_size_1_of_a_nifti_mask_are_kept(tmp_path, soft):
    nibabel = pytest.importorskip("nibabel", reason="NIfTI needs nibabel")
    image = write_nifti(tmp_path / "i.nii", CASE.image)
    values = CASE.rough.T[..., None]
    if soft:
        values = np.stack([np.where(values == label, 0.7, 0.1) for label in range(4)], axis=-1).astype(np.float32)
    nibabel.save(nibabel.Nifti1Image(values, nibabel.load(image).affine), tmp_path / "m.nii")
    refine_file(image, tmp_path / "m.nii", tmp_path / "o.nii")
    found = np.asarray(nibabel.load(tmp_path / "o.nii").dataobj)
    assert found.shape == values.shape
    labels = found[..., 0, :].argmax(axis=-1) if soft else found[..., 0]
    assert error_share(labels.T, CASE.truth) < 0.005


def test_pages_are_bands_if_the_mask_has_one_page(tmp_path):
    case = land_raster(5)
    image = write_tiff(tmp_path / "i.tif", np.moveaxis(case.image, -1, 0), "QYX")
    refine_file(image, write_tiff(tmp_path / "m.tif", case.rough, "YX"), tmp_path / "o.tif")
    assert error_share(read_volume(tmp_path / "o.tif").values, case.truth) < 0.02


def test_a_picture_or_an_array_is_no_mask_of_a_raster_or_volume(tmp_path):
    pytest.importorskip("rasterio", reason="GeoTIFF needs rasterio")
    image = write_geotiff(tmp_path / "i.tif", CASE.image[0])
    np.save(tmp_path / "m.npy", CASE.rough[0])
    for out in ("o.npy", "o.tif"):
        with pytest.raises(InputError, match=r"m\.npy is no raster or volume, but .*i\.tif is: save the mask as NIfTI"):
            refine_file(image, tmp_path / "m.npy", tmp_path / out)


def test_images_have_any_number_of_bands(tmp_path, monkeypatch):
    pytest.importorskip("rasterio", reason="GeoTIFF needs rasterio")
    from densefield.volumes import refining, sample

    case = land_raster(150)
    image = write_geotiff(tmp_path / "i.tif", case.image)
    mask = write_geotiff(tmp_path / "m.tif", case.rough)
    refine_file(image, mask, tmp_path / "o.tif")
    assert error_share(read_geotiff(tmp_path / "o.tif"), case.truth) < 0.02
    monkeypatch.setitem(sample.WHOLE, 2, 40_000)  # more than the file has, but not with so many bands
    monkeypatch.setitem(sample.WINDOW_SIDE, 2, 64)
    monkeypatch.setattr(refining, "MOST_NUMBERS", 150 * 300 * 300)
    windows = sample.scan_mask(refining.open_pair(image, mask)[1], 150).windows
    assert 1 < len(windows) <= 16 * 64 / 150
    assert refine_file(image, mask, tmp_path / "o.tif").tiles > 1
    assert error_share(read_geotiff(tmp_path / "o.tif"), case.truth) < 0.03


@pytest.mark.parametrize("options, words", [({"crf": CRF([Spatial(2)])}, "crf="), ({"confidence": 0.8}, "confidence=")])
def test_a_crf_of_the_user_compares_at_most_14_bands(tmp_path, options, words):
    pytest.importorskip("rasterio", reason="GeoTIFF needs rasterio")
    case = land_raster(20)
    image = write_geotiff(tmp_path / "i.tif", case.image)
    mask = write_geotiff(tmp_path / "m.tif", case.rough)
    with pytest.raises(InputError, match=f"i.tif has 20 channels, expected at most 14 for {words}"):
        refine_file(image, mask, tmp_path / "o.tif", **options)
    refine_file(write_geotiff(tmp_path / "i.tif", case.image[..., :14]), mask, tmp_path / "o.tif", confidence=0.8)
