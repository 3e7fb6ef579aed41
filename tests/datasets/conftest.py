"""Fixtures of the tests of datasets."""

from __future__ import annotations

import pytest


@pytest.fixture
def official(monkeypatch):
    """Numbers of images at which the small copy of PASCAL VOC is complete."""
    from densefield.datasets import voc  # not at the top: modules that skip without Pillow import this file too
    from tests.support.tiny_voc import OFFICIAL

    for split, count in OFFICIAL.items():
        monkeypatch.setitem(voc.OFFICIAL, split, count)


@pytest.fixture
def voc_root(tmp_path, official):
    """A folder with a small, complete PASCAL VOC 2012."""
    from tests.support.tiny_voc import write_voc

    write_voc(tmp_path)
    return tmp_path
