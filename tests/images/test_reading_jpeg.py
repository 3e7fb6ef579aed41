"""JPEG files are read equally by both decoders."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="files need Pillow")

from densefield.datasets import FolderDataset  # noqa: E402
from densefield.datasets.reading import read_photo  # noqa: E402
from densefield.errors import InputError  # noqa: E402
from densefield.images import reading  # noqa: E402
from densefield.images.reading import fast_jpeg  # noqa: E402


@pytest.fixture
def photo(tmp_path):
    colours = np.random.default_rng(1187).integers(0, 256, (40, 56, 3)).astype(np.uint8)
    Image.fromarray(colours).save(tmp_path / "photo.jpg", quality=90)
    return tmp_path / "photo.jpg"


@pytest.fixture
def decoder(monkeypatch):
    """Replace simplejpeg by a fake that returns sevens of this size, or raises; `asked` lists its inputs."""
    fake = SimpleNamespace(size=(40, 56), asked=[])

    def decode_jpeg(content: bytes, colorspace: str) -> np.ndarray:
        fake.asked.append((content, colorspace))
        if fake.size is None:
            raise ValueError("corrupt")
        return np.full((*fake.size, 3), 7, np.uint8)

    fake.decode_jpeg = decode_jpeg
    fake.decode_jpeg_header = lambda content: (*(fake.size or (40, 56)), "YCbCr", "420")
    monkeypatch.setattr(reading, "_simplejpeg", lambda: fake)
    return fake


def by_pillow(path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def test_colours_equal_those_of_pillow(photo):
    pytest.importorskip("simplejpeg")
    colours = fast_jpeg(photo)
    assert colours.shape == (40, 56, 3) and colours.dtype == np.uint8 and colours.flags.writeable
    # The decoders share libjpeg-turbo, but maybe in different versions, which may round colours differently.
    assert np.abs(colours.astype(int) - by_pillow(photo)).max() <= 1
    photo.write_bytes(photo.read_bytes()[:-2])
    assert fast_jpeg(photo) is None


def test_datasets_use_simplejpeg_if_installed(photo, decoder):
    for folder in ("images", "masks"):
        (photo.parent / folder).mkdir()
    photo.rename(photo.parent / "images" / "photo.JPG")
    Image.new("L", (56, 40), 1).save(photo.parent / "masks" / "photo.png")
    sample = FolderDataset(photo.parent)[0]
    assert (sample.image == 7).all() and [how for _, how in decoder.asked] == ["RGB"]


def test_pillow_reads_files_that_simplejpeg_cannot(photo, decoder):
    decoder.size = None
    assert np.array_equal(read_photo(photo), by_pillow(photo)) and len(decoder.asked) == 1


def test_simplejpeg_respects_the_pixel_limit(photo, decoder, monkeypatch):
    monkeypatch.setenv("DENSEFIELD_MAX_PIXELS", str(40 * 56))
    assert (read_photo(photo) == 7).all()
    monkeypatch.setenv("DENSEFIELD_MAX_PIXELS", str(40 * 56 - 1))
    decoder.asked.clear()
    with pytest.raises(InputError, match=r"56 × 40 pixels, more than the limit of 2239.*DENSEFIELD_MAX_PIXELS"):
        read_photo(photo)
    assert decoder.asked == []


def test_a_photo_that_needs_rotation_is_read_by_pillow(photo, decoder):
    rotated = Image.open(photo)
    rotated.getexif()[0x0112] = 6  # by 90 degrees
    rotated.save(photo, exif=rotated.getexif())
    assert read_photo(photo, (40, 56)).shape == (40, 56, 3)
    colours = read_photo(photo, (56, 40))
    assert colours.shape == (56, 40, 3) and not (colours == 7).all()


def test_other_formats_are_not_passed_to_simplejpeg(tmp_path, decoder):
    Image.new("RGB", (5, 4), (1, 2, 3)).save(tmp_path / "image.png")
    assert (read_photo(tmp_path / "image.png") == (1, 2, 3)).all() and decoder.asked == []


@pytest.mark.parametrize("there", [True, False])
def test_simplejpeg_is_imported_if_installed(monkeypatch, there):
    module = SimpleNamespace(__spec__=object(), decode_jpeg=None) if there else None
    monkeypatch.setitem(sys.modules, "simplejpeg", module)
    if not there:
        monkeypatch.setattr(reading, "find_spec", lambda name: None)
    reading._simplejpeg.cache_clear()
    try:
        assert reading._simplejpeg() is module
    finally:
        reading._simplejpeg.cache_clear()


def test_one_channel_becomes_three(tmp_path):
    Image.fromarray(np.full((9, 9), 80, np.uint8)).save(tmp_path / "grey.jpg")
    assert read_photo(tmp_path / "grey.jpg").shape == (9, 9, 3) and (read_photo(tmp_path / "grey.jpg") == 80).all()


def test_errors_name_the_file_and_what_to_do(photo, decoder):
    with pytest.raises(InputError, match=r"no file .*gone\.jpg"):
        read_photo(photo.with_name("gone.jpg"))
    photo.write_bytes(photo.read_bytes()[:700])
    decoder.size = None
    with pytest.raises(InputError, match=r"photo\.jpg cannot be read.*Download it again"):
        read_photo(photo)
