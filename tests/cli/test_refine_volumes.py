"""`densefield refine` for volumes and rasters: options, folders, exit codes, and missing libraries."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("rich", reason="the command line needs rich")
pytest.importorskip("PIL", reason="the command line needs Pillow")
pytest.importorskip("nibabel", reason="NIfTI needs nibabel")

from typer.testing import CliRunner

from densefield import CRF, Bilateral, Spatial
from densefield.cli.app import app
from densefield.volumes import refine_file
from tests.support.volume_files import error_share, organ_volume, read_nifti, write_nifti

CASE = organ_volume((8, 40, 44))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a volume and its mask, and folders scans/ and masks/ of two pairs."""
    write_nifti(tmp_path / "ct.nii.gz", CASE.image)
    write_nifti(tmp_path / "mask.nii.gz", CASE.rough)
    for folder, values in (("scans", CASE.image), ("masks", CASE.rough)):
        (tmp_path / folder).mkdir()
        for name in ("case.1", "case.2"):
            write_nifti(tmp_path / folder / f"{name}.nii.gz", values)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*arguments: str):
    return CliRunner().invoke(app, ["refine", *arguments])


def test_a_volume_is_refined_as_in_python(here):
    answer = command("ct.nii.gz", "mask.nii.gz", "-o", "out.nii.gz")
    assert answer.exit_code == 0, answer.output
    refine_file("ct.nii.gz", "mask.nii.gz", "python.nii.gz")
    assert (read_nifti(here / "out.nii.gz") == read_nifti(here / "python.nii.gz")).all()
    assert error_share(read_nifti(here / "out.nii.gz"), CASE.truth) < 0.005


def test_folders_are_paired_by_name_and_resumed(here):
    answer = command("scans", "masks", "-o", "out")
    assert (answer.exit_code, answer.output) == (0, "densefield: refined: 2; failed: 0\n")
    assert sorted(path.name for path in (here / "out").iterdir()) == ["case.1.nii.gz", "case.2.nii.gz"]
    answer = command("scans", "masks", "-o", "out", "--skip-existing")
    assert "skipped, since the result exists: 2" in answer.output


def test_options_of_volumes(here):
    CRF([Spatial(2), Bilateral(9, 15, weight=4)], iterations=4).save("crf.toml")
    refine_file("ct.nii.gz", "mask.nii.gz", "p.nii", crf=CRF.load("crf.toml"), window=(-150, 250), spacing=(1, 1, 2))
    arguments = ("--crf", "crf.toml", "--window", "-150,250", "--spacing", "1,1,2", "--tile", "64")
    assert command("ct.nii.gz", "mask.nii.gz", "-o", "o.nii", *arguments).exit_code == 0
    assert (read_nifti(here / "p.nii") == read_nifti(here / "o.nii")).all()
    kernels = ("--sigma-xy", "9", "--sigma-rgb", "15", "--roughness")
    assert command("ct.nii.gz", "mask.nii.gz", "-o", "o.nii", *kernels, "3").exit_code == 2
    assert command("ct.nii.gz", "mask.nii.gz", "-o", "o.nii", *kernels[:4]).exit_code == 0


@pytest.mark.parametrize(
    "arguments, status, words",
    [
        (("-o", "out.png"), 2, "expected .nii or .nii.gz"),
        (("-o", "out.nii", "--window", "7"), 2, "it has 1 number, expected two"),
        (("-o", "out.nii", "--window", "low,high"), 2, "is not numbers separated by commas"),
        (("-o", "out.nii", "--window", "3,1"), 1, "--window is (3.0, 1.0), expected a lower number"),
        (("-o", "out.nii", "--spacing", "1,1"), 1, "--spacing is (1.0, 1.0), expected 3 numbers"),
        (("-o", "out.nii", "--soft"), 1, "--soft is for photos, but ct.nii.gz is a volume or raster"),
        (("-o", "out.nii", "--explain"), 1, "--explain is for photos"),
        (("-o", "out.nii", "--decode", "iou"), 1, "--decode is for photos"),
        (("-o", "out.nii", "--preview", "preview.png"), 1, "--preview is for photos"),
        (("-o", "out.nii", "--num-classes", "3"), 1, "expected 0 to 2"),
    ],
)
def test_wrong_options_are_one_message(here, arguments, status, words):
    answer = command("ct.nii.gz", "mask.nii.gz", *arguments)
    assert answer.exit_code == status and words in answer.output
    assert not (here / "out.nii").exists()


def test_options_of_volumes_are_errors_for_photos(here):
    from PIL import Image

    Image.new("RGB", (8, 8)).save("photo.png")
    Image.fromarray(np.eye(8, dtype=np.uint8)).save("mask.png")
    answer = command("photo.png", "mask.png", "-o", "out.png", "--window", "0,9")
    assert answer.exit_code == 1 and "--window is for volumes and rasters" in answer.output


def test_a_damaged_volume_is_one_line_and_the_others_continue(here):
    (here / "scans" / "case.1.nii.gz").write_bytes(b"\x1f\x8bnot")
    answer = command("scans", "masks", "-o", "out")
    assert answer.exit_code == 1
    assert "case.1.nii.gz cannot be read as NIfTI" in answer.output and "refined: 1; failed: 1" in answer.output


@pytest.mark.parametrize(
    "module, name, extra",
    [
        ("nibabel", "ct.nii.gz", "nifti"),
        ("rasterio", "geo.tif", "geotiff"),
        ("tifffile", "pages.tif", "tiff"),
        ("zarr", "a.zarr", "zarr"),
        ("pydicom", "series", "dicom"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(here, module, name, extra):
    header = b"II*\0\x08\0\0\0"
    georeferenced = header + b"\x01\0" + (34735).to_bytes(2, "little") + b"\x03\0\x01\0\0\0\x01\0\0\0" + b"\0\0\0\0"
    (here / "geo.tif").write_bytes(georeferenced)
    (here / "pages.tif").write_bytes(header + b"\0\0" + b"\x08\0\0\0")  # the next page
    (here / "a.zarr").mkdir()
    (here / "series").mkdir()
    (here / "series" / "1").write_bytes(b"\0" * 128 + b"DICM")
    code = f"import sys; sys.modules[{module!r}] = None; from densefield.cli.main import main; main()"
    mask = "mask.nii.gz"
    if module != "pydicom":
        mask = f"mask_{name}"
        (shutil.copytree if (here / name).is_dir() else shutil.copy)(here / name, here / mask)
    out = {"pydicom": "o.nii"}.get(module, f"o{name[name.find('.') :]}")
    answer = subprocess.run(
        [sys.executable, "-c", code, "refine", name, mask, "-o", out], capture_output=True, text=True
    )
    assert answer.returncode == 2
    assert f"which is not installed. Install it with: pip install 'densefield[{extra}]'" in answer.stderr
