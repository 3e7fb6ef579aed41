"""Files of DenseCRF, shared with the NumPy CRF."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from densefield import CRF, Bilateral, InputError, Spatial

torch = pytest.importorskip("torch")
from densefield import DenseCRF  # noqa: E402

KERNELS = (Spatial([2.7, 3.1], weight=[0.1, 0.7]), Bilateral(61.3, [9.7, 10.1, 60], weight=[[0.3, -0.1], [-0.1, 0.7]]))


def test_a_saved_module_is_loaded_unchanged(tmp_path: Path) -> None:
    """Files have enough digits to restore the parameters exactly; see test_dense_crf_exact."""
    crf = DenseCRF(2, KERNELS, iterations=7, halo=1, axis_order="yx", threads=1)
    for parameter in crf.parameters():
        parameter.data += 0.1
    crf.save(tmp_path / "crf.toml")
    back = DenseCRF.load(tmp_path / "crf.toml", 2, threads=1)
    assert back.to_numpy().options == crf.to_numpy().options
    for name, value in crf.values().items():
        assert np.allclose(back.values()[name], value, rtol=1e-6, atol=0), name
    for (name, one), two in zip(back.named_parameters(), crf.parameters(), strict=True):
        assert torch.allclose(one, two, rtol=2e-7, atol=1e-8), name  # the last bit of float32


def test_numpy_and_torch_read_the_same_file(tmp_path: Path) -> None:
    DenseCRF(2, KERNELS).save(tmp_path / "crf.toml")
    crf, module = CRF.load(tmp_path / "crf.toml"), DenseCRF.load(str(tmp_path / "crf.toml"), num_classes=2)
    for one, two in zip(crf.kernels, module.to_numpy().kernels, strict=True):
        dimensions = {"position": 2, "channel": 3}
        assert np.array_equal(one.shape(dimensions), two.shape(dimensions)) and np.array_equal(one.weight, two.weight)


def test_options_complete_the_file(tmp_path: Path) -> None:
    CRF([Bilateral(9, 20)]).save(tmp_path / "crf.toml")
    crf = DenseCRF.load(tmp_path / "crf.toml", 3, adjoint="recompute", channels=1, axes=3, threads=1, data_range=65535)
    assert (crf.adjoint, crf.channels, crf.axes, crf.options.threads, crf.options.data_range) == (
        "recompute",
        1,
        3,
        1,
        65535,
    )
    assert crf.bilateral.log_sigma.shape == (4,)


def test_a_file_for_another_number_of_classes_is_rejected(tmp_path: Path) -> None:
    DenseCRF(2, KERNELS).save(tmp_path / "crf.toml")
    with pytest.raises(InputError, match="2 classes"):
        DenseCRF.load(tmp_path / "crf.toml", num_classes=3)
