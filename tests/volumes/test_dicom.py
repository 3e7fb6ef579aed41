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
    with pytest.raises(InputError, match="3 to 6 mm apart"):
        read_volume(write_dicom(tmp_path / "gap", CASE.image, leave_out=5))
    both = write_dicom(tmp_path / "both", CASE.image[:4])
    for path in list(series.iterdir())[:3]:
        (both / path.name).write_bytes(path.read_bytes())
    with pytest.raises(InputError, match="holds 2 series"):
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
