"""A folder of DICOM slices is a volume, sorted by position, in rescaled values."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import InputError
from densefield.volumes import read_volume, refine_file, write_volume
from tests.support.volume_files import SPACING, error_share, organ_volume, read_nifti, write_dicom, write_nifti

pytest.importorskip("pydicom", reason="DICOM needs pydicom")
pytest.importorskip("nibabel", reason="NIfTI needs nibabel")
CASE = organ_volume()


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    return write_dicom(tmp_path_factory.mktemp("scan") / "series", CASE.image)


def test_slices_are_sorted_and_rescaled(series):
    volume = read_volume(series)
    assert volume.values.dtype == np.int16 and (volume.values == CASE.image).all()
    assert volume.spacing == SPACING
    # DICOM points left and posterior, NIfTI right and anterior.
    assert np.allclose(volume.affine @ [2, 1, 4, 1], [40 - 2 * 1.5, 30 - 1.5, 5 + 4 * 3.0, 1])


def test_a_series_is_refined_with_a_mask_in_nifti(series, tmp_path):
    place = read_volume(series).affine
    mask = write_nifti(tmp_path / "mask.nii.gz", CASE.rough, place)
    refine_file(series, mask, tmp_path / "refined.nii.gz")
    assert error_share(read_nifti(tmp_path / "refined.nii.gz"), CASE.truth) < 0.005
    flip = np.diag([1.0, -1, 1, 1])  # as converters store it
    flip[1, 3] = CASE.rough.shape[1] - 1
    flipped = write_nifti(tmp_path / "flipped.nii.gz", CASE.rough[:, ::-1], place @ flip)
    refine_file(series, flipped, tmp_path / "refined.nii.gz")
    assert error_share(read_nifti(tmp_path / "refined.nii.gz")[:, ::-1], CASE.truth) < 0.005


def test_results_of_argmax_are_written_at_the_place_of_a_series(series, tmp_path):
    write_volume(tmp_path / "out.nii.gz", CASE.truth.astype(np.int64), like=series)
    assert (read_nifti(tmp_path / "out.nii.gz") == CASE.truth).all()


def test_missing_slices_several_series_and_no_slices_are_errors(series, tmp_path):
    with pytest.raises(InputError, match=r"3 to 6 mm apart, .*: \S+\.dcm and \S+\.dcm are 6 mm apart"):
        read_volume(write_dicom(tmp_path / "gap", CASE.image, leave_out=5))
    both = write_dicom(tmp_path / "both", CASE.image[:4])
    for path in list(series.iterdir())[:3]:
        (both / path.name).write_bytes(path.read_bytes())
    with pytest.raises(InputError, match=r"holds 2 series .* Move each series to a folder of its own"):
        read_volume(both)
    cut = write_dicom(tmp_path / "cut", CASE.image[:4])
    first = sorted(cut.iterdir())[0]
    first.write_bytes(first.read_bytes()[:-900])
    with pytest.raises(InputError, match=first.name):
        read_volume(cut)
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="not a raster or volume"):
        read_volume(tmp_path / "none")


@pytest.mark.parametrize("element", ["PixelSpacing", "ImageOrientationPatient", "Columns"])
def test_headers_without_what_places_a_slice_are_errors(element, tmp_path):
    import pydicom

    folder = write_dicom(tmp_path / "series", CASE.image[:3])
    for path in folder.iterdir():
        header = pydicom.dcmread(path)
        delattr(header, element)
        header.save_as(path)
    with pytest.raises(InputError, match=f"series has slices with an incomplete header: .*{element}"):
        read_volume(folder)


def test_pixels_without_size_are_an_error(tmp_path):
    import pydicom

    folder = write_dicom(tmp_path / "series", CASE.image[:3])
    for path in folder.iterdir():
        header = pydicom.dcmread(path)
        header.PixelSpacing = [0, 1]
        header.save_as(path)
    with pytest.raises(InputError, match="series has pixels of the size 1 × 0 × 3 mm, expected lengths above 0"):
        read_volume(folder)


def changed(folder, **elements):
    """The series with elements of its last file set, or removed if None."""
    import pydicom

    path = max(folder.iterdir())
    header = pydicom.dcmread(path)
    for name, value in elements.items():
        if value is None:
            delattr(header, name)
        else:
            setattr(header, name, value)
    header.save_as(path)
    return path


@pytest.mark.parametrize("left", [0, 40, 4000])
def test_a_damaged_slice_at_the_end_of_the_volume_is_an_error_that_names_it(tmp_path, left):
    folder = write_dicom(tmp_path / "series", CASE.image[:4])
    path = next(each for each in folder.iterdir() if last_slice(each))
    path.write_bytes(path.read_bytes()[:left] if left < 100 else b"no DICOM at all" * left)
    with pytest.raises(InputError, match=f"named like its slices, but cannot be read as DICOM .{path.name}"):
        read_volume(folder)


def last_slice(path):
    import pydicom

    return pydicom.dcmread(path).ImagePositionPatient[2] == 5 + 3 * SPACING[2]


@pytest.mark.parametrize("whole", [False, True])
def test_a_slice_that_ends_before_its_position_is_an_error(tmp_path, whole):
    folder = write_dicom(tmp_path / "series", CASE.image[:4])
    path = next(each for each in folder.iterdir() if last_slice(each))
    if whole:
        import pydicom

        header = pydicom.dcmread(path)
        header.ImagePositionPatient = None
        header.save_as(path)
    else:
        path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InputError, match=f"{path.name} (has no ImagePositionPatient|cannot be read as DICOM)"):
        read_volume(folder)


def test_a_slice_without_a_preamble_is_read(tmp_path):
    folder = write_dicom(tmp_path / "series", CASE.image[:4])
    for count, path in enumerate(sorted(folder.iterdir())[1:3]):
        content = path.read_bytes()
        start = 132 if count else content.index(b"\x08\x00\x16\x00")  # without the file meta information too
        path.write_bytes(content[start:])
    assert (read_volume(folder).values == CASE.image[:4]).all()


def test_notes_reports_and_screenshots_are_left_out(tmp_path):
    from pydicom.uid import SecondaryCaptureImageStorage

    folder = write_dicom(tmp_path / "series", CASE.image[:5])
    for number in range(12):
        (folder / f"!{number}.jpg").write_bytes(b"a picture")
    place = 5 + 4 * SPACING[2]
    import pydicom

    path = next(each for each in folder.glob("*.dcm") if pydicom.dcmread(each).ImagePositionPatient[2] == place)
    header = pydicom.dcmread(path)
    header.SOPClassUID = header.file_meta.MediaStorageSOPClassUID = SecondaryCaptureImageStorage
    del header.ImagePositionPatient
    header.save_as(path)
    assert (read_volume(folder).values == CASE.image[:4]).all()


@pytest.mark.parametrize("position", [True, False])
def test_several_frames_in_a_file_are_an_error(tmp_path, position):
    folder = write_dicom(tmp_path / "series", CASE.image[:1])
    elements = {} if position else {"ImagePositionPatient": None}
    pixels = (CASE.image[:3].astype(np.int32) + 1024).astype(np.uint16).tobytes()
    changed(folder, NumberOfFrames=3, PixelData=pixels, **elements)
    with pytest.raises(InputError, match="is multi-frame DICOM with 3 frames, expected one slice in each file"):
        read_volume(folder)


@pytest.mark.parametrize("limit", [None, 60])
def test_padding_is_no_data(tmp_path, limit):
    import pydicom

    folder = write_dicom(tmp_path / "series", CASE.image[:3])
    for path in folder.iterdir():
        header = pydicom.dcmread(path)
        stored = header.pixel_array.copy()
        stored[:, :7] = 50
        header.PixelData = stored.tobytes()
        header.add_new(0x00280120, "US", 50)
        if limit is not None:
            header.add_new(0x00280121, "US", limit)
        header.save_as(path)
    missing = read_volume(folder).missing
    assert missing[..., :7].all() and not missing[..., 7:].any()
