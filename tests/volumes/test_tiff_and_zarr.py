"""TIFF files of several pages and bands, and Zarr arrays, are refined and written in their own form."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from densefield import InputError
from densefield.volumes import read_volume, refine_file, write_volume
from densefield.volumes.formats import open_pair, volume_kind
from densefield.volumes.grid import check_same_place
from tests.support.volume_files import SPACING, error_share, land_raster, organ_volume

CASE = organ_volume()


def write_tiff(path, values, axes, **options):
    tifffile = pytest.importorskip("tifffile", reason="TIFF needs tifffile")
    options.setdefault("photometric", "minisblack")
    tifffile.imwrite(path, values, metadata={"axes": axes, **options.pop("metadata", {})}, **options)
    return path


def test_pages_are_planes(tmp_path):
    image, mask = write_tiff(tmp_path / "i.tif", CASE.image, "ZYX"), write_tiff(tmp_path / "m.tif", CASE.rough, "ZYX")
    done = refine_file(image, mask, tmp_path / "o.tif", spacing=SPACING)
    refined = read_volume(tmp_path / "o.tif")
    assert done.shape == refined.values.shape == CASE.truth.shape and refined.values.dtype == np.uint8
    assert error_share(refined.values, CASE.truth) < 0.005


@pytest.mark.parametrize("last", [True, False])
def test_bands_come_first_or_last(tmp_path, last):
    case = land_raster(6)
    values = case.image if last else np.moveaxis(case.image, -1, 0)
    options = {"planarconfig": "contig"} if last else {}
    image = write_tiff(tmp_path / "i.tif", values, "YXS" if last else "CYX", **options)
    assert read_volume(image).values.shape == case.image.shape
    refine_file(image, write_tiff(tmp_path / "m.tif", case.rough, "YX"), tmp_path / "o.tif")
    assert error_share(read_volume(tmp_path / "o.tif").values, case.truth) < 0.02


def test_imagej_and_ome_say_how_large_a_voxel_is(tmp_path):
    imagej = write_tiff(
        tmp_path / "i.tif",
        CASE.rough,
        "ZYX",
        imagej=True,
        resolution=(2.0, 2.0),
        metadata={"spacing": 1.5, "unit": "um"},
    )
    assert (read_volume(imagej).spacing, read_volume(imagej).unit) == ((0.5, 0.5, 1.5), "µm")
    sizes = {"PhysicalSizeX": 0.5, "PhysicalSizeY": 0.25, "PhysicalSizeZ": 2.0}
    ome = write_tiff(tmp_path / "i.ome.tif", CASE.rough, "ZYX", ome=True, metadata=sizes)
    assert read_volume(ome).spacing == (0.5, 0.25, 2.0)


OME = {"PhysicalSizeX": 0.5, "PhysicalSizeY": 0.25, "PhysicalSizeZ": 2.0, "PhysicalSizeXUnit": "mm"}
SIZED = {
    "imagej": {"imagej": True, "resolution": (2.0, 4.0), "metadata": {"spacing": 2.0, "unit": "mm"}},
    "ome": {"ome": True, "metadata": OME},
}
NUMBERS = {
    "i8": [-3, 0, 70000],
    "u8": [0, 9, 1 << 31],
    "i4": [0, 300],
    "i1": [-5, 9],
    "f8": [0.5, 1 / 3],
    "f4": [0, 0.1],
}


@pytest.mark.parametrize("form", SIZED)
@pytest.mark.parametrize("stored", NUMBERS)
@pytest.mark.parametrize("name", ["o.tif", "o.ome.tif"])
def test_numbers_of_any_type_keep_their_values_and_the_size_of_a_voxel(tmp_path, form, stored, name):
    like = write_tiff(tmp_path / "i.tif", CASE.rough, "ZYX", **SIZED[form])
    values = np.resize(np.array(NUMBERS[stored], stored), CASE.rough.shape)
    write_volume(tmp_path / name, values, like=like)
    result = read_volume(tmp_path / name)
    assert (result.values == values).all() and (result.spacing, result.unit) == ((0.5, 0.25, 2.0), "mm")
    write_volume(tmp_path / name, np.stack([values, values]), like=like)
    result = read_volume(tmp_path / name)
    assert (result.values == values[..., None]).all() and result.spacing == (0.5, 0.25, 2.0)


@pytest.mark.parametrize("stored", [np.uint8, np.int16, np.int32, np.float32])
def test_a_refined_mask_of_ome_has_its_size_of_a_voxel(tmp_path, stored):
    image = write_tiff(tmp_path / "i.ome.tif", CASE.image, "ZYX", **SIZED["ome"])
    mask = write_tiff(tmp_path / "m.ome.tif", CASE.rough.astype(stored), "ZYX", **SIZED["ome"])
    refine_file(image, mask, tmp_path / "o.tif")
    result = read_volume(tmp_path / "o.tif")
    assert (result.spacing, result.unit) == ((0.5, 0.25, 2.0), "mm")
    assert result.values.dtype == (np.uint8 if stored == np.float32 else stored)


def test_integers_that_no_type_of_ome_has_are_an_error(tmp_path):
    like = write_tiff(tmp_path / "i.tif", CASE.rough, "ZYX", **SIZED["ome"])
    with pytest.raises(InputError, match=r"o\.tif have type int64 and reach 4294967296, .* at most 32 bits"):
        write_volume(tmp_path / "o.tif", np.full(CASE.rough.shape, 1 << 32), like=like)


def test_colours_of_labels_are_kept_if_the_type_is_that_of_the_colours(tmp_path):
    tifffile = pytest.importorskip("tifffile", reason="TIFF needs tifffile")
    colours = np.random.default_rng(9034).integers(0, 65536, (3, 256)).astype(np.uint16)
    like = write_tiff(tmp_path / "i.tif", CASE.rough, "ZYX", photometric="palette", colormap=colours)
    for stored, kept in ((np.uint8, True), (np.uint16, False)):
        write_volume(tmp_path / "o.tif", CASE.rough.astype(stored), like=like)
        with tifffile.TiffFile(tmp_path / "o.tif") as file:
            assert (file.pages[0].colormap is not None) == kept


def test_other_axes_are_errors(tmp_path):
    path = write_tiff(tmp_path / "i.tif", np.zeros((2, 3, 20, 20), np.uint8), "TZYX")
    with pytest.raises(InputError, match=r"i\.tif has"):
        read_volume(path)


def test_a_damaged_file_is_an_error_that_names_it(tmp_path, capsys):
    pytest.importorskip("tifffile", reason="TIFF needs tifffile")
    (tmp_path / "i.tif").write_bytes(b"II*\0junkjunk")
    with pytest.raises(InputError, match=r"i\.tif cannot be read as TIFF"):
        read_volume(tmp_path / "i.tif")
    assert capsys.readouterr().err == ""


def test_ordinary_pictures_are_photos(tmp_path):
    case = land_raster(3)
    photo = write_tiff(tmp_path / "rgb.tif", (case.image / 12).astype(np.uint8), "YXS", photometric="rgb")
    assert volume_kind(photo) is None
    for name, values, axes in (("f", case.image[..., 0].astype(np.float32), "YX"), ("p", CASE.image, "ZYX")):
        assert volume_kind(write_tiff(tmp_path / f"{name}.tif", values, axes)) == "tiff"
    assert volume_kind(write_tiff(tmp_path / "big.tif", case.truth, "YX", bigtiff=True)) == "tiff"


def zarr_array(path, values, version=3, **options):
    zarr = pytest.importorskip("zarr", reason="Zarr needs zarr")
    chunks = tuple(min(16, size) for size in values.shape)
    array = zarr.create_array(
        path, shape=values.shape, dtype=values.dtype, chunks=chunks, zarr_format=version, **options
    )
    array[:] = values
    return path


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_arrays_are_refined_in_tiles(tmp_path, version):
    image = zarr_array(tmp_path / "i.zarr", CASE.image, version)
    mask = zarr_array(tmp_path / "m.zarr", CASE.rough, version)
    done = refine_file(image, mask, tmp_path / "o.zarr", spacing=SPACING, tile=24)
    import zarr

    out = zarr.open(tmp_path / "o.zarr", mode="r")
    assert done.tiles == 6 and out.metadata.zarr_format == version
    assert (out.chunks, out.dtype) == ((14, 16, 16), np.uint8)
    assert error_share(out[:], CASE.truth) < 0.005


@pytest.mark.parametrize("last", [True, False])
def test_channels_of_an_array_are_told_by_the_mask_or_by_names(tmp_path, last):
    case = land_raster(4)
    values = case.image if last else np.moveaxis(case.image, -1, 0)
    mask = zarr_array(tmp_path / "m.zarr", case.rough)
    refine_file(zarr_array(tmp_path / "i.zarr", values), mask, tmp_path / "o.zarr")
    assert error_share(read_volume(tmp_path / "o.zarr").values, case.truth) < 0.02
    named = zarr_array(tmp_path / "n.zarr", values, dimension_names=list("yxc" if last else "cyx"))
    assert read_volume(named).values.shape == case.image.shape


def ome_zarr(path, values, axes, scale, version):
    zarr = pytest.importorskip("zarr", reason="Zarr needs zarr")
    group = zarr.create_group(path, zarr_format=2 if version == "0.4" else 3)
    array = group.create_array("s0", shape=values.shape, dtype=values.dtype, chunks=(1, 14, 16, 16)[-values.ndim :])
    array[:] = values
    kinds = {"c": {"type": "channel"}, "t": {"type": "time"}}
    image = {
        "axes": [{"name": name, **kinds.get(name, {"type": "space", "unit": "millimeter"})} for name in axes],
        "datasets": [{"path": "s0", "coordinateTransformations": [{"type": "scale", "scale": scale}]}],
    }
    group.attrs.update({"multiscales": [image]} if version == "0.4" else {"ome": {"multiscales": [image]}})
    return path


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_ome_zarr_has_axes_and_a_scale(tmp_path, version):
    scale = [3.0, 1.5, 1.5]
    image = ome_zarr(tmp_path / "i.zarr", CASE.image[None], "czyx", [1, *scale], version)
    mask = ome_zarr(tmp_path / "m.zarr", CASE.rough, "zyx", scale, version)
    refine_file(image, mask, tmp_path / "o.zarr")
    refined = read_volume(tmp_path / "o.zarr")
    assert (refined.spacing, refined.unit) == (SPACING, "mm")
    assert error_share(refined.values, CASE.truth) < 0.005
    soft = np.stack([np.where(CASE.rough == label, 0.7, 0.1) for label in range(4)]).astype(np.float32)
    refine_file(image, ome_zarr(tmp_path / "p.zarr", soft, "czyx", [1, *scale], version), tmp_path / "q.zarr", tile=30)
    refined = read_volume(tmp_path / "q.zarr").values
    assert refined.shape == (*CASE.truth.shape, 4)
    assert error_share(refined.argmax(axis=-1), CASE.truth) < 0.005


def test_a_result_replaces_an_older_one_only_when_it_is_complete(tmp_path, monkeypatch):
    from densefield.volumes import refining

    image, mask = zarr_array(tmp_path / "i.zarr", CASE.image), zarr_array(tmp_path / "m.zarr", CASE.rough)
    older = zarr_array(tmp_path / "o.zarr", CASE.truth * 0)

    def fail(*_):
        raise InputError("interrupted")

    monkeypatch.setattr(refining, "read_both", fail)
    with pytest.raises(InputError, match="interrupted"):
        refine_file(image, mask, older)
    monkeypatch.undo()
    assert not read_volume(older).values.any()
    refine_file(image, mask, older)
    assert read_volume(older).values.any()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["i.zarr", "m.zarr", "o.zarr"]


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_a_folder_with_anything_besides_a_result_is_not_replaced(tmp_path, version):
    image = ome_zarr(tmp_path / "i.zarr", CASE.image, "zyx", [3.0, 1.5, 1.5], version)
    mask = zarr_array(tmp_path / "m.zarr", CASE.rough, 2 if version == "0.4" else 3)
    for like, values in ((image, CASE.rough), (mask, CASE.rough), (image, np.stack([CASE.rough] * 3))):
        for _ in range(2):
            write_volume(tmp_path / "o.zarr", values, like=like)  # a result replaces an older one
    (tmp_path / "o.zarr" / "0" / "keep.txt").write_text("precious")
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "x.zarr" / "keep.txt").write_text("precious")
    (tmp_path / "f.zarr").write_text("precious")
    messages = {
        "o.zarr": r"such as 0/keep\.txt: it is not replaced",
        "i.zarr": r"such as s0/\S+: it is not replaced",
        "x.zarr": "is a folder that is not a Zarr store",
        "f.zarr": "is a file, expected a new folder",
    }
    for name, message in messages.items():
        before = sorted((tmp_path / name).rglob("*"))
        with pytest.raises(InputError, match=message):
            write_volume(tmp_path / name, CASE.rough, like=mask)
        if name != "i.zarr":
            with pytest.raises(InputError, match=message):
                refine_file(image, mask, tmp_path / name)
        assert sorted((tmp_path / name).rglob("*")) == before


def test_labels_like_an_image_lack_its_display_settings(tmp_path):
    image = ome_zarr(tmp_path / "i.zarr", CASE.image, "zyx", [3.0, 1.5, 1.5], "0.4")
    import zarr

    zarr.open_group(image, mode="r+").attrs["omero"] = {"channels": [{"window": {"start": -100, "end": 300}}]}
    write_volume(tmp_path / "o.zarr", CASE.rough, like=image)
    attributes = zarr.open_group(tmp_path / "o.zarr", mode="r").attrs
    assert "multiscales" in attributes and "omero" not in attributes


def test_groups_without_an_image_and_odd_axes_are_errors(tmp_path):
    zarr = pytest.importorskip("zarr", reason="Zarr needs zarr")
    zarr.create_group(tmp_path / "g.zarr")
    with pytest.raises(InputError, match="without an image of OME-Zarr"):
        read_volume(tmp_path / "g.zarr")
    with pytest.raises(InputError, match=r"has shape \(2, 3, 20, 20\) without names"):
        read_volume(zarr_array(tmp_path / "a.zarr", np.zeros((2, 3, 20, 20), np.uint8)))
    with pytest.raises(InputError, match="has the axes t, y, x"):
        read_volume(zarr_array(tmp_path / "t.zarr", np.zeros((3, 20, 20), np.uint8), dimension_names=list("tyx")))
    (tmp_path / "empty.zarr").mkdir()
    with pytest.raises(InputError, match="cannot be read as Zarr"):
        read_volume(tmp_path / "empty.zarr")


@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize("bands", [None, 4])
def test_a_result_like_an_image_has_the_channels_of_its_values(tmp_path, version, bands):
    case, scale = land_raster(4), [3.0, 1.5]
    values, axes = (case.truth, "yx") if bands is None else (np.moveaxis(case.image, -1, 0), "cyx")
    image = ome_zarr(tmp_path / "i.zarr", values, axes, [1.0, *scale][-len(axes) :], version)
    write_volume(tmp_path / "labels.zarr", case.truth == 1, like=image)
    labels = read_volume(tmp_path / "labels.zarr")
    assert (labels.values == (case.truth == 1)).all() and labels.values.dtype == np.uint8
    soft = np.random.default_rng(9033).random((2, *case.truth.shape)).astype(np.float32)
    write_volume(tmp_path / "soft.zarr", soft, like=image)
    read = read_volume(tmp_path / "soft.zarr")
    assert (np.moveaxis(read.values, -1, 0) == soft).all() and read.spacing == (1.5, 3.0)
    plain = zarr_array(tmp_path / "plain.zarr", case.truth)
    write_volume(tmp_path / "soft_plain.zarr", soft, like=plain)
    assert (np.moveaxis(read_volume(tmp_path / "soft_plain.zarr").values, -1, 0) == soft).all()


def test_zarr_arrays_with_unnamed_dimensions_are_planes_rows_and_columns(tmp_path):
    zarr_array(tmp_path / "i.zarr", CASE.image, dimension_names=[None, None, None])
    assert read_volume(tmp_path / "i.zarr").values.shape == CASE.image.shape


def test_pixels_without_size_are_an_error(tmp_path):
    path = ome_zarr(tmp_path / "i.zarr", CASE.image, "zyx", [3.0, 0.0, 1.5], "0.5")
    with pytest.raises(InputError, match=r"i\.zarr has pixels of the size 1\.5 × 0 × 3 .*, expected lengths above 0"):
        read_volume(path)


def test_stacks_of_imagej_in_descending_order_have_a_distance_of_planes(tmp_path):
    form = {"imagej": True, "resolution": (0.5, 0.5), "metadata": {"spacing": -3.0, "unit": "um"}}
    path = write_tiff(tmp_path / "i.tif", CASE.image.astype(np.uint16), "ZYX", **form)
    assert read_volume(path).spacing == (2.0, 2.0, 3.0)


def paged(path, values, **options):
    """A file whose pages are written one by one, as a loop over planes does."""
    tifffile = pytest.importorskip("tifffile", reason="TIFF needs tifffile")
    for plane in values:
        tifffile.imwrite(path, plane, append=True, photometric="minisblack", **options)
    return path


def test_pages_that_were_written_one_by_one_are_planes(tmp_path):
    image, mask = paged(tmp_path / "i.tif", CASE.image), paged(tmp_path / "m.tif", CASE.rough)
    refine_file(image, mask, tmp_path / "o.tif", spacing=SPACING)
    refined = read_volume(tmp_path / "o.tif").values
    assert refined.shape == CASE.truth.shape and error_share(refined, CASE.truth) < 0.005


def test_thumbnails_are_left_out_and_other_images_are_errors(tmp_path):
    path = paged(paged(tmp_path / "i.tif", CASE.image[:1]), CASE.image[:1, ::4, ::4])
    assert read_volume(path).values.shape == CASE.image.shape[1:]
    with pytest.raises(InputError, match=r"larger\.tif holds 2 images of the sizes 12×14, 48×56, expected one"):
        read_volume(paged(paged(tmp_path / "larger.tif", CASE.image[:1, ::4, ::4]), CASE.image[:1]))


def test_positions_of_ome_are_an_error(tmp_path):
    tifffile = pytest.importorskip("tifffile", reason="TIFF needs tifffile")
    with tifffile.TiffWriter(tmp_path / "i.ome.tif") as file:
        for _ in range(2):
            file.write(CASE.image, metadata={"axes": "ZYX"}, photometric="minisblack")
    with pytest.raises(InputError, match=r"holds 2 images of the sizes 14×48×56, 14×48×56, expected one"):
        read_volume(tmp_path / "i.ome.tif")


def test_lengths_in_several_units_are_in_that_of_x(tmp_path):
    sizes = {"PhysicalSizeX": 200.0, "PhysicalSizeY": 200.0, "PhysicalSizeZ": 0.5, "PhysicalSizeZUnit": "µm"}
    units = {"PhysicalSizeXUnit": "nm", "PhysicalSizeYUnit": "nm"}
    volume = read_volume(write_tiff(tmp_path / "i.ome.tif", CASE.image, "ZYX", metadata={**sizes, **units}))
    assert (volume.spacing, volume.unit) == ((200.0, 200.0, 500.0), "nm")
    path = ome_zarr(tmp_path / "i.zarr", CASE.image, "zyx", [0.5, 200.0, 200.0], "0.5")
    import zarr

    group = zarr.open(path)
    image = group.attrs["ome"]["multiscales"][0]
    for axis, unit in zip(image["axes"], ("micrometer", "nanometer", "nanometer"), strict=True):
        axis["unit"] = unit
    group.attrs["ome"] = {"multiscales": [image]}
    volume = read_volume(path)
    assert (volume.spacing, volume.unit) == ((200.0, 200.0, 500.0), "nanometer")


def test_sizes_of_pixels_must_agree(tmp_path):
    image = ome_zarr(tmp_path / "i.zarr", CASE.image, "zyx", [3.0, 1.5, 1.5], "0.5")
    mask = ome_zarr(tmp_path / "m.zarr", CASE.rough, "zyx", [3.0, 3.0, 3.0], "0.5")
    with pytest.raises(InputError, match=r"m\.zarr has pixels of 3 × 3 × 3 mm, but those of .* have 1\.5 × 1\.5"):
        refine_file(image, mask, tmp_path / "o.zarr")
    without = zarr_array(tmp_path / "n.zarr", CASE.rough)
    refine_file(image, without, tmp_path / "o.zarr")
    assert error_share(read_volume(tmp_path / "o.zarr").values, CASE.truth) < 0.005


@pytest.mark.parametrize("compression", ["lzw", "packbits", "zlib", None])
def test_the_compression_of_a_mask_is_kept(tmp_path, compression):
    tifffile = pytest.importorskip("tifffile", reason="TIFF needs tifffile")
    pytest.importorskip("imagecodecs", reason="LZW needs imagecodecs")
    mask = write_tiff(tmp_path / "m.tif", CASE.rough, "ZYX", compression=compression)
    refine_file(write_tiff(tmp_path / "i.tif", CASE.image, "ZYX"), mask, tmp_path / "o.tif", spacing=SPACING)
    with tifffile.TiffFile(mask) as given, tifffile.TiffFile(tmp_path / "o.tif") as out:
        assert out.pages[0].compression == given.pages[0].compression
    assert error_share(read_volume(tmp_path / "o.tif").values, CASE.truth) < 0.005


def test_a_compression_that_needs_a_missing_package_is_named(tmp_path):
    pytest.importorskip("imagecodecs", reason="LZW needs imagecodecs")
    path = write_tiff(tmp_path / "m.tif", CASE.rough, "ZYX", compression="lzw")
    code = (
        f"import sys; sys.modules['imagecodecs'] = None; import densefield.volumes as v; v.read_volume({str(path)!r})"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    words = "m.tif has a compression that needs imagecodecs, which is not installed. Install it with: pip install"
    assert words in answer.stderr and "damaged" not in answer.stderr.splitlines()[-1]


def test_a_file_without_pages_has_a_damaged_header(tmp_path):
    pytest.importorskip("tifffile", reason="TIFF needs tifffile")
    (tmp_path / "cut.tif").write_bytes(b"II*\0\xff\xff\0\0" + bytes(90))  # its first page begins after its end
    with pytest.raises(InputError, match=r"cut\.tif cannot be read as TIFF: its header is damaged or incomplete\.$"):
        read_volume(tmp_path / "cut.tif")


@pytest.mark.parametrize(("unit", "other"), [(None, "millimeter"), ("millimeter", None), ("furlong", "micrometer")])
def test_lengths_in_unknown_units_are_not_compared(tmp_path, unit, other):
    zarr = pytest.importorskip("zarr", reason="Zarr needs zarr")
    for name, length in (("image.zarr", unit), ("mask.zarr", other)):
        group = zarr.open_group(tmp_path / name, mode="w", zarr_format=2)
        group.create_array("0", data=np.zeros((4, 8, 8), np.uint8))
        axes = [{"name": axis, "type": "space"} | ({"unit": length} if length else {}) for axis in "zyx"]
        scaled = {"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1, 1, 1]}]}
        group.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": [scaled]}]
    image, mask = open_pair(tmp_path / "image.zarr", tmp_path / "mask.zarr")
    check_same_place(image, mask)
    assert image.unit != mask.unit and image.spacing == mask.spacing
