"""The code on the page about data works."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="data need Pillow")

from densefield.datasets.reading import read_labels  # noqa: E402
from densefield.images.palette import voc_palette  # noqa: E402

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")


@pytest.fixture
def index_voc_colours():
    names: dict[str, object] = {}
    exec(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[-1], names)
    return names["index_voc_colours"]


def test_colours_of_voc_become_labels_again(index_voc_colours, tmp_path):
    labels = np.random.default_rng(14563).permutation(np.r_[np.arange(21), [255] * 9]).reshape(5, 6)
    Image.fromarray(voc_palette()[labels]).save(tmp_path / "colours.png")
    index_voc_colours(str(tmp_path / "colours.png"), str(tmp_path / "labels.png"))
    assert np.array_equal(read_labels(tmp_path / "labels.png", 21), labels)


def test_other_colours_raise(index_voc_colours, tmp_path):
    Image.fromarray(np.array([[[1, 2, 3], [255, 255, 255]]], np.uint8)).save(tmp_path / "colours.png")
    with pytest.raises(AssertionError, match="other colours"):
        index_voc_colours(str(tmp_path / "colours.png"), str(tmp_path / "labels.png"))
