"""NIfTI volumes are refined in mm, and written back with their affine, header and type."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from densefield import CRF, Bilateral, InputError, Spatial
from densefield.volumes import read_volume, refine_file, write_volume
from tests.support.volume_files import error_share, organ_volume, read_nifti, write_nifti

nibabel = pytest.importorskip("nibabel", reason="NIfTI needs nibabel")
CASE = organ_volume()


@pytest.fixture
def files(tmp_path):
    image = write_nifti(tmp_path / "ct.nii.gz", CASE.image)
    mask = write_nifti(tmp_path / "mask.nii.gz", CASE.rough)
    return image, mask, tmp_path / "refined.nii.gz"


def test_a_rough_mask_is_refined_and_a_true_one_kept(files, tmp_path):
    image, mask, out = files
    done = refine_file(image, mask, out)
    assert (done.form, done.shape, done.tiles) == ("labels", CASE.truth.shape, 1)
    assert error_share(CASE.rough, CASE.truth) > 0.03
    assert error_share(read_nifti(out), CASE.truth) < 0.005
    refine_file(image, write_nifti(tmp_path / "true.nii", CASE.truth), out)
    assert error_share(read_nifti(out), CASE.truth) < 0.005


def test_values_that_no_file_can_have_are_an_error(files):
    image, _, out = files
    for values in (None, CASE.rough.astype(np.complex64), np.zeros(CASE.rough.shape, np.longdouble), CASE.rough[:-1]):
        if getattr(values, "dtype", None) != np.float64:  # which longdouble is on some systems
            with pytest.raises(InputError, match=r"values have shape .* expected numbers \(14, 48, 56\)"):
                write_volume(out, values, like=image)


def test_a_folder_in_place_of_the_result_is_an_error_before_anything_is_computed(files):
    image, mask, out = files
    out.mkdir()
    for write in (lambda: refine_file(image, mask, out), lambda: write_volume(out, CASE.rough, like=mask)):
        with pytest.raises(InputError, match=r"refined\.nii\.gz is a folder, expected the name of a file"):
            write()


def test_an_image_without_a_number_is_an_error(files, tmp_path):
    _, mask, out = files
    image = write_nifti(tmp_path / "nan.nii", np.full(CASE.image.shape, np.nan, np.float32))
    with pytest.raises(InputError, match=r"nan\.nii holds NaN and infinity alone"):
        refine_file(image, mask, out)


def test_an_affine_of_zeros_is_an_error(files, tmp_path):
    header = nibabel.load(files[0]).header
    header.set_sform(None, 1)
    content = bytearray(gzip.decompress(files[0].read_bytes()))
    header["srow_x"] = header["srow_y"] = header["srow_z"] = 0
    content[:348] = header.binaryblock[:348]
    (tmp_path / "zero.nii").write_bytes(content)
    with pytest.raises(InputError, match=r"zero\.nii has pixels of the size .* expected lengths above 0"):
        read_volume(tmp_path / "zero.nii")


@pytest.mark.parametrize("window", [None, (-150, 250)])
def test_intensities_far_from_the_mask_do_not_matter(files, tmp_path, window):
    _, mask, out = files
    far = CASE.image.copy()
    far[:, :3, :4] = 3000  # metal, and beyond the reach of the mask's edges
    refine_file(write_nifti(tmp_path / "metal.nii", far), mask, out, window=window)
    assert error_share(read_nifti(out), CASE.truth) < 0.005


def test_affine_header_and_type_are_those_of_the_mask(files, tmp_path):
    _, _, out = files
    turn = np.array([[0.8, -0.6, 0, 3], [0.6, 0.8, 0, -7], [0, 0, 1, 11], [0, 0, 0, 1.0]]) @ np.diag([1.5, 1.5, 3, 1])
    picture = nibabel.Nifti1Image(CASE.rough.T.astype(np.int16), turn)
    picture.header["descrip"] = b"drawn by hand"
    picture.set_qform(turn, code=1)
    nibabel.save(picture, tmp_path / "turned.nii.gz")
    write_nifti(tmp_path / "turned_ct.nii.gz", CASE.image, turn)
    done = refine_file(tmp_path / "turned_ct.nii.gz", tmp_path / "turned.nii.gz", out)
    result = nibabel.load(out)
    assert np.allclose(result.affine, turn, atol=1e-6)  # float32 in the header
    assert (result.get_data_dtype(), bytes(result.header["descrip"]).rstrip(b"\0")) == (np.int16, b"drawn by hand")
    assert (int(result.header["qform_code"]), done.tiles) == (1, 1)


@pytest.mark.parametrize("stored", [np.float64, np.int64])
def test_labels_of_any_type_are_labels(files, tmp_path, stored):
    image, mask, out = files
    refine_file(image, mask, out)
    expected = read_nifti(out)
    refine_file(image, write_nifti(tmp_path / "other.nii.gz", CASE.rough.astype(stored)), out)
    assert (read_nifti(out) == expected).all()
    assert nibabel.load(out).get_data_dtype() == (np.uint8 if stored == np.float64 else np.int64)


def test_a_binary_mask_keeps_its_values_and_unknown_voxels_get_labels(files, tmp_path):
    image, _, out = files
    refine_file(image, write_nifti(tmp_path / "binary.nii", np.where(CASE.rough == 1, 255, 0).astype(np.uint8)), out)
    assert np.unique(read_nifti(out)).tolist() == [0, 255]
    unknown = CASE.truth.copy()
    unknown[:, 20:26] = 255
    refine_file(image, write_nifti(tmp_path / "unknown.nii", unknown), out)
    assert error_share(read_nifti(out), CASE.truth) < 0.005


def test_probabilities_stay_probabilities(files, tmp_path):
    image, _, out = files
    soft = np.stack([np.where(CASE.rough == label, 0.7, 0.1) for label in range(4)]).astype(np.float32)
    done = refine_file(image, write_nifti(tmp_path / "soft.nii", soft), out)
    refined = read_nifti(out)
    assert (done.form, refined.shape, refined.dtype.kind) == ("probabilities", soft.shape, "f")
    assert np.allclose(refined.sum(axis=0), 1, atol=1e-5)
    assert error_share(refined.argmax(axis=0), CASE.truth) < 0.005
    logits = write_nifti(tmp_path / "logits.nii", np.log(soft))
    assert refine_file(image, logits, out, logits=True).form == "probabilities"
    assert np.allclose(read_nifti(out), refined, atol=1e-4)


def test_one_probability_per_voxel_is_that_of_label_1(files, tmp_path):
    image, _, out = files
    soft = np.where(CASE.rough == 1, 0.8, 0.2).astype(np.float32)
    refine_file(image, write_nifti(tmp_path / "soft.nii", soft), out)
    refined = read_nifti(out)
    assert refined.shape == CASE.truth.shape
    assert error_share(refined > 0.5, CASE.truth == 1) < error_share(CASE.rough == 1, CASE.truth == 1) / 2


def test_a_crf_of_the_user_has_widths_in_mm_and_levels(files):
    image, mask, out = files
    crf = CRF([Spatial(2, weight=1), Bilateral(9, 15, weight=4)], iterations=4)
    refine_file(image, mask, out, crf=crf, window=(-150, 250))
    volume, rough = read_volume(image), read_volume(mask)
    levels = np.clip((volume.values.astype(np.float32) + 150) * (255 / 400), 0, 255)
    labels = np.array([0, 1, 3])
    scores = np.full((3, *rough.values.shape), np.log(0.15), np.float32)
    for row, label in enumerate(labels):
        scores[row][rough.values == label] = np.log(0.7)
    expected = labels[crf.marginals(scores, levels, spacing=volume.spacing).argmax(axis=0)]
    assert error_share(read_nifti(out), expected) < 1e-4  # rounding of the levels


def test_the_same_voxels_in_another_order_are_the_same_place(files, tmp_path):
    image, mask, out = files
    refine_file(image, mask, out)
    expected = read_nifti(out)
    flipped = nibabel.as_closest_canonical(nibabel.Nifti1Image(CASE.rough.T, np.diag([1.5, 1.5, 3.0, 1.0])))
    turned = nibabel.Nifti1Image(
        np.asarray(flipped.dataobj).transpose(2, 0, 1)[::-1],
        flipped.affine @ np.array([[0, 1, 0, 0], [0, 0, 1, 0], [-1, 0, 0, len(CASE.rough) - 1], [0, 0, 0, 1.0]]),
    )
    nibabel.save(turned, tmp_path / "turned.nii")
    refine_file(image, tmp_path / "turned.nii", tmp_path / "out.nii")
    back = np.asarray(nibabel.load(tmp_path / "out.nii").dataobj)[::-1].transpose(1, 2, 0).T
    assert error_share(back, expected) < 2e-3  # the lattice depends a little on the order of the axes


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda labels: labels[:, :, :-1], "expected the same size"),
        (lambda labels: labels.astype(np.int32) * 100_000, "labels from 0 to 300000, expected 0 to 65535"),
        (lambda labels: labels.astype(np.int16) - 1, "labels from -1 to 2"),
        (lambda labels: np.stack([labels] * 3), "expected integers without channels"),
        (lambda labels: (labels * 0.37).astype(np.float32), "values from 0 to 1.11"),
    ],
)
def test_a_mask_that_does_not_fit_is_an_error(files, tmp_path, change, words):
    image, _, out = files
    with pytest.raises(InputError, match=words):
        refine_file(image, write_nifti(tmp_path / "wrong.nii", change(CASE.rough)), out)
    assert not out.exists()


def test_a_mask_without_labels_is_an_error_and_one_of_a_single_label_stays(files, tmp_path):
    image, _, out = files
    blank = write_nifti(tmp_path / "blank.nii", np.full_like(CASE.rough, 7))
    with pytest.raises(InputError, match="all its pixels are unknown"):
        refine_file(image, blank, out, void=7)
    refine_file(image, blank, out)
    assert (read_nifti(out) == 7).all()


def test_a_mask_elsewhere_is_an_error(files, tmp_path):
    image, _, out = files
    moved = np.diag([1.5, 1.5, 3.0, 1.0])
    moved[0, 3] = 0.5
    with pytest.raises(InputError, match=r"their corners are up to 0\.5 apart, and a pixel is 1\.5"):
        refine_file(image, write_nifti(tmp_path / "moved.nii", CASE.rough, moved), out)


def test_damaged_files_are_errors_that_name_the_file(files, tmp_path):
    image, mask, out = files
    cut = tmp_path / "cut.nii.gz"
    cut.write_bytes(image.read_bytes()[:3000])
    for first, second in ((cut, mask), (image, cut)):
        with pytest.raises(InputError, match=r"cut\.nii\.gz cannot be read as NIfTI"):
            refine_file(first, second, out)
    with pytest.raises(InputError, match="there is no file"):
        refine_file(tmp_path / "none.nii", mask, out)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"window": (3, 1)}, "window is"),
        ({"spacing": (1, 1)}, "expected 3 numbers"),
        ({"tile": 2}, "tile is 2"),
        ({"num_classes": 3}, "expected 0 to 2"),
        ({"temperature": 2.0}, "temperature= with a mask of labels"),
        ({"crf": CRF(), "roughness": 2.0}, "roughness= together with crf="),
        ({"crf": CRF(), "iterations": 2}, "crf= together with iterations="),
        ({"roughness": -1.0}, "roughness is -1.0"),
        ({"confidence": 0.2}, "confidence is 0.2"),
    ],
)
def test_wrong_arguments_are_errors(files, arguments, words):
    image, mask, out = files
    with pytest.raises(InputError, match=words):
        refine_file(image, mask, out, **arguments)


def test_a_result_has_the_format_of_the_mask(files, tmp_path):
    image, mask, _ = files
    with pytest.raises(InputError, match=r"expected \.nii or \.nii\.gz"):
        refine_file(image, mask, tmp_path / "refined.png")
    with pytest.raises(InputError, match="also an input"):
        refine_file(image, mask, mask)
    assert (read_nifti(mask) == CASE.rough).all()


def test_volumes_are_written_like_others(files, tmp_path):
    image, _, _ = files
    write_volume(tmp_path / "labels.nii.gz", CASE.truth, like=image)
    volume = read_volume(tmp_path / "labels.nii.gz")
    assert (volume.values == CASE.truth).all()
    assert np.allclose(volume.spacing, (1.5, 1.5, 3)) and volume.missing is None
    with pytest.raises(InputError, match="expected numbers"):
        write_volume(tmp_path / "labels.nii.gz", CASE.truth[0], like=image)


@pytest.mark.parametrize("dtype, stored", [("bool", "uint8"), ("int64", "int64"), ("float16", "float32")])
def test_values_of_any_type_are_written(files, tmp_path, dtype, stored):
    write_volume(tmp_path / "out.nii.gz", CASE.truth.astype(dtype), like=files[0])
    found = read_volume(tmp_path / "out.nii.gz").values
    assert found.dtype == stored and (found == CASE.truth.astype(dtype)).all()


@pytest.mark.parametrize("unit, factor, name", [("unknown", 1, "mm"), ("micron", 1, "µm"), ("meter", 1000, "mm")])
def test_the_header_says_the_unit_of_lengths(files, tmp_path, unit, factor, name):
    import nibabel

    picture = nibabel.load(files[0])
    picture.header.set_xyzt_units(unit)
    nibabel.save(picture, tmp_path / "scan.nii.gz")
    found = read_volume(tmp_path / "scan.nii.gz")
    assert found.unit == name and np.allclose(found.spacing, factor * np.array([1.5, 1.5, 3]))
