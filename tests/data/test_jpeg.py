"""JPEG files are read alike by either decoder."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="files need Pillow")

from densefield.data import jpeg  # noqa: E402
from densefield.data.jpeg import read_jpeg  # noqa: E402
from densefield.errors import InputError  # noqa: E402


@pytest.fixture
def photo(tmp_path):
    colours = np.random.default_rng(1187).integers(0, 256, (40, 56, 3)).astype(np.uint8)
    Image.fromarray(colours).save(tmp_path / "photo.jpg", quality=90)
    return tmp_path / "photo.jpg"


def by_pillow(path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def test_colours_are_those_of_pillow(photo):
    colours = read_jpeg(photo)
    assert colours.shape == (40, 56, 3) and colours.dtype == np.uint8
    # The decoders share libjpeg-turbo, but need not be of the same version: a colour may round otherwise.
    assert np.abs(colours.astype(int) - by_pillow(photo)).max() <= 1


def test_simplejpeg_is_used_where_it_is_installed(photo, monkeypatch):
    asked = []

    def decode_jpeg(content: bytes, colorspace: str) -> np.ndarray:
        asked.append((content, colorspace))
        return np.full((2, 3, 3), 7, np.uint8)

    monkeypatch.setattr(jpeg, "_simplejpeg", lambda: SimpleNamespace(decode_jpeg=decode_jpeg))
    assert (read_jpeg(photo) == 7).all() and asked == [(photo.read_bytes(), "RGB")]


def test_what_simplejpeg_cannot_read_pillow_does(photo, monkeypatch):
    def decode_jpeg(content: bytes, colorspace: str) -> np.ndarray:
        raise ValueError("four channels")

    monkeypatch.setattr(jpeg, "_simplejpeg", lambda: SimpleNamespace(decode_jpeg=decode_jpeg))
    assert np.array_equal(read_jpeg(photo), by_pillow(photo))


def test_simplejpeg_is_found_by_its_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "simplejpeg", SimpleNamespace(__spec__=object(), decode_jpeg=None))
    assert jpeg._simplejpeg() is sys.modules["simplejpeg"]


def test_one_channel_becomes_three(tmp_path):
    Image.fromarray(np.full((9, 9), 80, np.uint8)).save(tmp_path / "grey.jpg")
    assert (read_jpeg(tmp_path / "grey.jpg") == 80).all()


@pytest.mark.parametrize("decoder", [None, "simplejpeg"])
def test_errors_name_the_file(photo, monkeypatch, decoder):
    def decode_jpeg(content: bytes, colorspace: str) -> np.ndarray:
        raise ValueError("corrupt")

    if decoder is not None:
        monkeypatch.setattr(jpeg, "_simplejpeg", lambda: SimpleNamespace(decode_jpeg=decode_jpeg))
    with pytest.raises(InputError, match=r"no file .*gone\.jpg"):
        read_jpeg(photo.with_name("gone.jpg"))
    photo.write_bytes(photo.read_bytes()[:700])
    with pytest.raises(InputError, match=r"photo\.jpg cannot be read"):
        read_jpeg(photo)
