"""The weights of VGG-16 are downloaded once, here from a local server."""

from __future__ import annotations

import hashlib

import pytest

pytest.importorskip("torch")

from densefield.networks import vgg16
from tests.support.range_server import serve

CONTENT = b"weights" * 1000


def test_weights_of_vgg16_are_downloaded_to_the_cache_once(tmp_path, monkeypatch):
    monkeypatch.setenv("DENSEFIELD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(vgg16, "_SHA256", hashlib.sha256(CONTENT).hexdigest())
    with serve({"weights.pth": CONTENT}) as server:
        monkeypatch.setattr(vgg16, "_URL", f"{server.url}/weights.pth")
        paths = [vgg16.imagenet_weights() for _ in range(2)]
    assert paths == [tmp_path / "cache" / "weights.pth"] * 2
    assert paths[0].read_bytes() == CONTENT and len(server.asked) == 1


def test_torchvisions_file_name_has_the_beginning_of_its_checksum():
    # The naming rule of download.pytorch.org, with which torch verifies its files.
    assert vgg16._URL.endswith(f"/vgg16-{vgg16._SHA256[:8]}.pth")
    assert len(bytes.fromhex(vgg16._SHA256)) == 32
