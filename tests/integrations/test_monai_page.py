"""The code on the page about MONAI runs, on small files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("monai", reason="needs MONAI")
nibabel = pytest.importorskip("nibabel", reason="the files are NIfTI")

PAGE = Path(__file__).parents[2] / "docs" / "integrations" / "monai.md"


@pytest.mark.filterwarnings("ignore:NvImgCodecPydicomReader")  # of MONAI, where pydicom is installed
@pytest.mark.filterwarnings("ignore:monai.transforms.*:FutureWarning")  # of a default of MONAI's Orientationd
def test_the_code_of_the_page_runs_from_files_to_masks(tmp_path: Path) -> None:
    import torch

    random = np.random.default_rng(6127)
    affine = np.diag([-1.5, 1.5, 4.0, 1.0])  # flipped, and resampled along the last axis
    paths = []
    for number in range(2):
        paths.append(str(tmp_path / f"{number}.nii.gz"))
        volume = random.normal(60, 20, (30, 28, 9 + number)).astype(np.float32)
        nibabel.save(nibabel.Nifti1Image(volume, affine), paths[-1])
    torch.manual_seed(8)
    names: dict[str, Any] = {"paths": paths}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(block, names)
    for number, mask in enumerate(names["masks"]):
        assert mask.shape == (1, 30, 28, 9 + number)
        assert np.allclose(mask.affine, affine)
        assert set(np.unique(mask)) <= {0.0, 1.0}
    assert torch.isfinite(names["loss"]) and float(names["logits"].grad.abs().sum()) > 0
    assert names["log_marginals"].shape == names["logits"].shape
    marginals, layer = names["log_marginals"].detach().exp(), names["layer"]
    expected = type(layer)(bilateral_color_sigma=0.1, update_factor=2.0)(names["logits"], names["image"]).detach()
    assert torch.equal(marginals, expected)
