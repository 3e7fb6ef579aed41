"""GeoTIFF rasters of any number of bands are refined in windows, and keep their place."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import InputError
from densefield.volumes import read_volume, refine_file, write_volume
from tests.support.volume_files import error_share, land_raster, read_geotiff, write_geotiff

rasterio = pytest.importorskip("rasterio", reason="GeoTIFF needs rasterio")


@pytest.mark.parametrize(
    "bands, dtype", [(1, np.uint8), (3, np.uint8), (4, np.uint16), (13, np.uint16), (6, np.float32)]
)
def test_rasters_of_all_depths_are_refined(tmp_path, bands, dtype):
    case = land_raster(bands)
    values = case.image / 12 if dtype == np.uint8 else case.image / 10_000 if dtype == np.float32 else case.image
    image = write_geotiff(tmp_path / "image.tif", values.astype(dtype))
    mask = write_geotiff(tmp_path / "mask.tif", case.rough)
    out = tmp_path / "refined.tif"
    assert refine_file(image, mask, out).roughness is not None
    assert error_share(case.rough, case.truth) > 0.05
    assert error_share(read_geotiff(out), case.truth) < 0.02


def test_the_result_has_the_place_colours_and_tags_of_the_mask(tmp_path):
    case = land_raster(3)
    image = write_geotiff(tmp_path / "image.tif", case.image)
    mask = write_geotiff(tmp_path / "mask.tif", case.rough, nodata=99)
    with rasterio.open(mask, "r+") as file:
        file.write_colormap(1, {1: (10, 20, 200, 255)})
        file.update_tags(AUTHOR="a survey")
    refine_file(image, mask, tmp_path / "refined.tif", tile=64)
    with rasterio.open(tmp_path / "refined.tif") as out, rasterio.open(mask) as file:
        assert (out.crs, out.transform, out.nodata, out.dtypes) == (file.crs, file.transform, 99, ("uint8",))
        assert out.colormap(1)[1] == (10, 20, 200, 255) and out.tags()["AUTHOR"] == "a survey"
        assert out.profile["tiled"] and out.block_shapes == [(256, 256)]


def test_pixels_without_data_keep_their_label(tmp_path):
    case = land_raster(4)
    hole = np.s_[60:80, 20:110]
    results = []
    for value in (0.0, np.nan):
        values = case.image.astype(np.float32)
        values[hole] = value
        image = write_geotiff(tmp_path / "image.tif", values, nodata=value)
        refine_file(image, write_geotiff(tmp_path / "mask.tif", case.rough), tmp_path / "refined.tif")
        results.append(read_geotiff(tmp_path / "refined.tif"))
        assert (results[-1][hole] == case.rough[hole]).all()
    assert (results[0] == results[1]).all()


def test_no_data_of_a_mask_is_ignored_except_0(tmp_path):
    case = land_raster(3)
    image, out = write_geotiff(tmp_path / "image.tif", case.image), tmp_path / "refined.tif"
    labels = case.rough.copy()
    labels[:20] = 77
    refine_file(image, write_geotiff(tmp_path / "mask.tif", labels, nodata=77), out)
    assert (read_geotiff(out)[:20] == 77).all()
    refine_file(image, write_geotiff(tmp_path / "mask.tif", case.rough, nodata=0), out)
    assert error_share(read_geotiff(out), case.truth) < 0.02


@pytest.mark.parametrize("dtype, nodata", [("int16", -9999), ("int16", 9999), ("float32", -9999), ("float32", np.nan)])
def test_no_data_of_a_mask_is_no_label(dtype, nodata, tmp_path):
    case = land_raster(3)
    image, out = write_geotiff(tmp_path / "image.tif", case.image), tmp_path / "refined.tif"
    labels = case.rough.astype(dtype)
    labels[:20] = nodata
    done = refine_file(image, write_geotiff(tmp_path / "mask.tif", labels, nodata=nodata), out, num_classes=3)
    refined = read_geotiff(out)
    assert done.form == "labels" and refined.dtype == dtype
    assert np.array_equal(refined[:20], labels[:20], equal_nan=True)
    assert error_share(refined[20:], case.truth[20:]) < 0.02


def test_a_mask_without_data_is_an_error(tmp_path):
    image = write_geotiff(tmp_path / "image.tif", land_raster(3).image)
    mask = write_geotiff(tmp_path / "mask.tif", np.full((150, 180), 9, np.uint8), nodata=9)
    with pytest.raises(InputError, match="has no label: all its pixels are unknown or without data"):
        refine_file(image, mask, tmp_path / "refined.tif")


def test_probabilities_in_bands_stay_probabilities(tmp_path):
    case = land_raster(3)
    image = write_geotiff(tmp_path / "image.tif", case.image)
    soft = np.stack([np.where(case.rough == label, 0.8, 0.1) for label in range(3)], -1).astype(np.float32)
    done = refine_file(image, write_geotiff(tmp_path / "soft.tif", soft), tmp_path / "refined.tif", tile=64)
    with rasterio.open(tmp_path / "refined.tif") as file:
        refined = file.read()
    assert (done.form, refined.shape, refined.dtype) == ("probabilities", (3, *case.truth.shape), np.float32)
    assert error_share(refined.argmax(axis=0), case.truth) < error_share(case.rough, case.truth)


def test_a_mask_elsewhere_is_an_error(tmp_path):
    case = land_raster(3)
    image, out = write_geotiff(tmp_path / "image.tif", case.image), tmp_path / "refined.tif"
    with pytest.raises(InputError, match=r"EPSG:32632, but .* has EPSG:32633: reproject the mask"):
        refine_file(image, write_geotiff(tmp_path / "mask.tif", case.rough, crs="EPSG:32633"), out)
    moved = write_geotiff(
        tmp_path / "moved.tif", case.rough, transform=rasterio.Affine(10, 0, 500_005, 0, -10, 5_200_000)
    )
    with pytest.raises(InputError, match="up to 5 apart, and a pixel is 10"):
        refine_file(image, moved, out)


def test_degrees_of_longitude_are_shorter_than_those_of_latitude(tmp_path):
    path = write_geotiff(
        tmp_path / "image.tif",
        land_raster(1).image,
        crs="EPSG:4326",
        transform=rasterio.Affine(1e-4, 0, 10, 0, -1e-4, 60.0075),
    )
    assert read_volume(path).spacing == pytest.approx((1, 2), rel=1e-3)  # cos 60° = ½


def test_damaged_files_are_errors_that_name_the_file(tmp_path):
    case = land_raster(3)
    image = write_geotiff(tmp_path / "image.tif", case.image)
    mask = write_geotiff(tmp_path / "mask.tif", case.rough)
    cut = tmp_path / "cut.tif"
    cut.write_bytes(image.read_bytes()[: image.stat().st_size // 2])
    with pytest.raises(
        InputError, match=r"cut\.tif cannot be read: (?!Read failed)cut.tif, band 1: .* It may be damaged"
    ):
        refine_file(cut, mask, tmp_path / "refined.tif")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut.tif", "image.tif", "mask.tif"]


def test_rasters_are_written_like_others(tmp_path):
    case = land_raster(3)
    image = write_geotiff(tmp_path / "image.tif", case.image)
    write_volume(tmp_path / "labels.tif", case.truth, like=image)
    assert (read_volume(tmp_path / "labels.tif").values == case.truth).all()
    assert np.allclose(read_volume(tmp_path / "labels.tif").affine, read_volume(image).affine)


def test_a_fill_value_in_one_band_is_no_intensity(tmp_path):
    case = land_raster(3)
    values = case.image.astype(np.float32)
    for band in range(3):
        values[:, 50 * band : 50 * band + 20, band] = -3.4e38
    image = write_geotiff(tmp_path / "image.tif", values, nodata=-3.4e38)
    volume = read_volume(image)
    assert volume.missing.sum() == 3 * 20 * 150
    refine_file(image, write_geotiff(tmp_path / "mask.tif", case.rough), tmp_path / "refined.tif")
    refined, used = read_geotiff(tmp_path / "refined.tif"), ~volume.missing
    assert error_share(refined[used], case.truth[used]) < 0.03
    assert (refined[~used] == case.rough[~used]).all()


@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")  # of the files that the test writes
def test_ground_control_points_and_a_mask_band_are_kept(tmp_path):
    case = land_raster(3)
    corners = [(0, 0), (0, 180), (150, 0), (150, 180)]
    points = [rasterio.control.GroundControlPoint(row, col, 11 + col / 1e4, 47 - row / 1e4) for row, col in corners]
    place = {"height": 150, "width": 180, "driver": "GTiff", "dtype": "uint8", "crs": None}
    image, mask = tmp_path / "image.tif", tmp_path / "mask.tif"
    for path, values in ((image, np.moveaxis(case.image // 16, -1, 0).clip(0, 255)), (mask, case.rough[None])):
        with (
            rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
            rasterio.open(path, "w", count=len(values), **place) as file,
        ):
            file.gcps = points, rasterio.CRS.from_epsg(4326)
            file.write(values.astype(np.uint8))
            if path == mask:
                valid = np.full((150, 180), 255, np.uint8)
                valid[:10] = 0
                file.write_mask(valid)
    refine_file(image, mask, tmp_path / "refined.tif")
    with rasterio.open(tmp_path / "refined.tif") as file:
        found, crs = file.gcps
        assert [(each.row, each.col, each.x, each.y) for each in found] == [
            (each.row, each.col, each.x, each.y) for each in points
        ]
        assert crs.to_epsg() == 4326 and (file.dataset_mask() == valid).all()


def test_tags_of_bands_and_namespaces_are_kept(tmp_path):
    case = land_raster(3)
    image = write_geotiff(tmp_path / "image.tif", case.image)
    mask = write_geotiff(tmp_path / "mask.tif", case.rough)
    with rasterio.open(mask, "r+") as file:
        file.update_tags(AREA_OR_POINT="Point")
        file.update_tags(ns="SURVEY", YEAR="2024")
        file.update_tags(1, CLASS="land cover", STATISTICS_MEAN="7")
        file.update_tags(1, ns="SURVEY", SHEET="12")
        file.descriptions, file.scales, file.offsets, file.units = ("cover",), (0.5,), (1.0,), ("m",)
    refine_file(image, mask, tmp_path / "refined.tif")
    with rasterio.open(tmp_path / "refined.tif") as out, rasterio.open(mask) as file:
        assert out.tags()["AREA_OR_POINT"] == "Point" and out.transform == file.transform
        assert out.tags(ns="SURVEY") == {"YEAR": "2024"} and out.tags(1, ns="SURVEY") == {"SHEET": "12"}
        assert out.tags(1) == {"CLASS": "land cover"}
        assert (out.descriptions, out.scales, out.offsets, out.units) == (("cover",), (0.5,), (1.0,), ("m",))


@pytest.mark.parametrize("values", [1.0, 0.3])
def test_probabilities_that_do_not_sum_to_one_are_an_error(tmp_path, values):
    case = land_raster(3)
    image = write_geotiff(tmp_path / "image.tif", case.image)
    soft = np.stack([np.where(case.rough == label, 0.8, 0.1) for label in range(3)], -1).astype(np.float32)
    soft[100:, 20:] = values
    with pytest.raises(InputError, match=r"soft\.tif has probabilities that sum to .* over the classes, expected 1\."):
        refine_file(image, write_geotiff(tmp_path / "soft.tif", soft), tmp_path / "refined.tif")
    write_geotiff(tmp_path / "soft.tif", soft)
    refine_file(image, tmp_path / "soft.tif", tmp_path / "refined.tif", logits=True)
    soft[100:, 20:] = np.nan  # no data
    refine_file(image, write_geotiff(tmp_path / "soft.tif", soft), tmp_path / "refined.tif")
