"""The .mat files of SBD are read; errors name the file."""

from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip("PIL", reason="data need Pillow")
scipy_io = pytest.importorskip("scipy.io", reason=".mat files need scipy")

from densefield.datasets.reading import read_segmentation  # noqa: E402
from densefield.datasets.voc import find_sbd  # noqa: E402
from densefield.errors import DensefieldError, InputError  # noqa: E402
from tests.support.tiny_voc import EXTRA, labels_of, write_sbd  # noqa: E402


@pytest.fixture
def mat(tmp_path):
    return write_sbd(tmp_path) / "cls" / f"{EXTRA[0]}.mat"


def test_segmentations_are_labels(mat):
    assert np.array_equal(read_segmentation(mat), labels_of(EXTRA[0], "sbd"))


@pytest.mark.parametrize("below", ["", "benchmark_RELEASE", "benchmark_RELEASE/dataset"])
def test_sbd_is_found_from_each_folder_above_it(mat, tmp_path, below):
    assert find_sbd(tmp_path / below) == mat.parents[1]


def test_a_folder_without_masks_is_not_sbd(tmp_path):
    assert find_sbd(tmp_path) is None


def test_errors_name_truncated_files(mat):
    mat.write_bytes(mat.read_bytes()[:-40])
    with pytest.raises(InputError, match=rf"{EXTRA[0]}\.mat cannot be read as a \.mat file of SBD.*Download it again"):
        read_segmentation(mat)


def test_errors_name_other_mat_files(tmp_path):
    path = tmp_path / "other.mat"
    scipy_io.savemat(path, {"other": 1})
    with pytest.raises(InputError, match=r"other\.mat cannot be read"):
        read_segmentation(path)
    scipy_io.savemat(path, {"GTcls": {"Segmentation": np.ones((2, 2)), "Boundaries": np.ones(3)}})
    with pytest.raises(InputError, match=r"no integer labels \(rows, columns\) in GTcls\.Segmentation"):
        read_segmentation(path)
    with pytest.raises(InputError, match=r"no file .*gone\.mat"):
        read_segmentation(tmp_path / "gone.mat")


def test_without_scipy_the_error_names_the_command_that_installs_it(mat, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.io", None)  # the import system treats this as not installed
    with pytest.raises(DensefieldError, match=r"need scipy.*pip install scipy"):
        read_segmentation(mat)
