"""Images of every kind become colours 0…255."""

from __future__ import annotations

import struct
import warnings
import zlib

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="files need Pillow")

from PIL import PngImagePlugin  # noqa: E402

from densefield.errors import InputError, InputWarning  # noqa: E402
from densefield.images.reading import IMAGE_SUFFIXES, read_image, read_rgb  # noqa: E402

ROWS, COLUMNS = 5, 7
COLOURS = np.random.default_rng(33071).integers(0, 256, (ROWS, COLUMNS, 3)).astype(np.uint8)


def test_rgb_is_read_unchanged(tmp_path):
    Image.fromarray(COLOURS).save(tmp_path / "a.png")
    image = read_image(tmp_path / "a.png")
    assert image.dtype == np.uint8 and np.array_equal(image, COLOURS)


def test_grey_has_one_channel(tmp_path):
    Image.fromarray(COLOURS[..., 0]).save(tmp_path / "a.tif")
    assert np.array_equal(read_image(tmp_path / "a.tif"), COLOURS[..., 0])


def test_alpha_is_dropped(tmp_path):
    alpha = np.full((ROWS, COLUMNS, 1), 9, np.uint8)
    Image.fromarray(np.concatenate([COLOURS, alpha], 2)).save(tmp_path / "rgba.png")
    Image.fromarray(np.concatenate([COLOURS[..., :1], alpha], 2)).save(tmp_path / "la.png")
    assert np.array_equal(read_image(tmp_path / "rgba.png"), COLOURS)
    assert np.array_equal(read_image(tmp_path / "la.png"), COLOURS[..., 0])


def test_a_palette_becomes_rgb_with_transparency_or_without(tmp_path):
    indices = np.arange(ROWS * COLUMNS, dtype=np.uint8).reshape(ROWS, COLUMNS)
    picture = Image.fromarray(indices)
    picture.putpalette(COLOURS.reshape(-1).tobytes())
    picture.save(tmp_path / "a.png")
    picture.save(tmp_path / "b.png", transparency=bytes(range(35)))
    assert np.array_equal(read_image(tmp_path / "a.png"), COLOURS)
    assert np.array_equal(read_image(tmp_path / "b.png"), COLOURS)


def test_bits_become_black_and_white(tmp_path):
    Image.fromarray(COLOURS[..., 0] > 127).save(tmp_path / "a.png")
    assert np.array_equal(read_image(tmp_path / "a.png"), np.where(COLOURS[..., 0] > 127, 255, 0))


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bits_are_scaled_to_255_and_keep_their_fractions(tmp_path, suffix):
    deep = np.array([[0, 1, 257, 65535]], np.uint16)
    Image.fromarray(deep).save(tmp_path / f"a.{suffix}")
    image = read_image(tmp_path / f"a.{suffix}")
    assert image.dtype == np.float32
    assert image == pytest.approx(np.array([[0, 1 / 257, 1, 255]]), rel=1e-6)  # float32


def test_a_small_part_of_sixteen_bits_becomes_0_to_255_with_a_warning(tmp_path):
    deep = np.arange(1000, 2000, dtype=np.uint16).reshape(20, 50)
    Image.fromarray(deep).save(tmp_path / "a.png")
    with pytest.warns(InputWarning, match="less than a quarter"):
        image = read_image(tmp_path / "a.png")
    low, high = np.percentile(deep, (0.5, 99.5))
    assert image == pytest.approx(np.clip((deep - low) / (high - low), 0, 1) * 255, abs=1e-4)
    # Those of datasets have one scale.
    assert np.array_equal(read_rgb(tmp_path / "a.png")[..., 0], np.rint(deep / 257).astype(np.uint8))


def test_dark_pictures_with_sixteen_bits_per_colour_are_a_warning(tmp_path):
    write_deep_colours(tmp_path / "a.png", COLOURS.astype(int) * 16)
    with pytest.warns(InputWarning, match=r"a.png has 16 bits for each colour, of which the upper 8 are read"):
        read_image(tmp_path / "a.png")


def write_deep_colours(path, values):
    """A PNG with 16 bits for each colour, which Pillow cannot write."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", COLUMNS, ROWS, 16, 2, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    path.write_bytes(content)


def test_sixteen_bits_per_colour_are_read(tmp_path):
    write_deep_colours(tmp_path / "a.png", COLOURS.astype(int) * 257)
    assert np.array_equal(read_image(tmp_path / "a.png"), COLOURS)


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr"])
def test_other_colour_spaces_become_rgb(tmp_path, mode):
    Image.new("RGB", (4, 3), (200, 30, 90)).convert(mode).save(tmp_path / "a.jpg", quality=100)
    image = read_image(tmp_path / "a.jpg")
    assert image.shape == (3, 4, 3)
    assert abs(image.astype(int) - (200, 30, 90)).max() <= 6  # JPEG is lossy


class TestExif:
    """A photo stored in landscape, 5 rows and 7 columns, and displayed in portrait."""

    @pytest.fixture
    def photo(self, tmp_path):
        exif = Image.Exif()
        exif[0x0112] = 6  # display rotated by 90 degrees clockwise
        Image.fromarray(COLOURS).save(tmp_path / "a.png", exif=exif)
        return tmp_path / "a.png"

    def test_pixels_are_not_rotated(self, photo):
        assert np.array_equal(read_image(photo), COLOURS)
        assert np.array_equal(read_image(photo, (ROWS, COLUMNS)), COLOURS)

    def test_pixels_are_rotated_if_only_then_the_mask_fits(self, photo):
        assert np.array_equal(read_image(photo, (COLUMNS, ROWS)), np.rot90(COLOURS, -1))

    def test_without_a_matching_size_nothing_is_rotated(self, photo):
        assert np.array_equal(read_image(photo, (3, 3)), COLOURS)

    def test_without_exif_nothing_is_rotated(self, tmp_path):
        Image.fromarray(COLOURS).save(tmp_path / "b.png")
        assert np.array_equal(read_image(tmp_path / "b.png", (COLUMNS, ROWS)), COLOURS)


def test_errors_name_the_file(tmp_path):
    with pytest.raises(InputError, match=r"no file .*missing\.png"):
        read_image(tmp_path / "missing.png")
    (tmp_path / "text.png").write_text("not an image")
    with pytest.raises(InputError, match=r"text\.png is not an image"):
        read_image(tmp_path / "text.png")
    with pytest.raises(InputError, match="cannot be read"):
        read_image(tmp_path)
    Image.fromarray(np.zeros((64, 64, 3), np.uint8) + COLOURS[0, 0]).save(tmp_path / "content.bmp")
    (tmp_path / "half.bmp").write_bytes((tmp_path / "content.bmp").read_bytes()[:900])
    with pytest.raises(InputError, match=r"half\.bmp cannot be read"):
        read_image(tmp_path / "half.bmp")
    Image.fromarray(np.zeros((2, 2), np.float32)).save(tmp_path / "float.tif")
    with pytest.raises(InputError, match=r"float\.tif has floating point"):
        read_image(tmp_path / "float.tif")
    Image.fromarray(np.full((2, 2), 70000, np.int32)).save(tmp_path / "deep.tif")
    with pytest.raises(InputError, match=r"deep\.tif has values from 70000"):
        read_image(tmp_path / "deep.tif")


def test_suffixes_are_those_that_pillow_reads():
    assert {".png", ".jpg", ".jpeg", ".tif", ".webp"} <= IMAGE_SUFFIXES
    assert ".pdf" not in IMAGE_SUFFIXES  # which Pillow only writes


@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "bmp", "gif", "webp"])
def test_pictures_with_damaged_bytes_raise_only_input_errors(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    Image.fromarray(np.kron(COLOURS, np.ones((4, 4, 1), np.uint8))).save(path)
    content = path.read_bytes()
    rng = np.random.default_rng(52301)
    messages = []
    for _ in range(200):
        damaged = bytearray(content)
        for place in rng.integers(0, min(len(content), 400), 6):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged[: rng.integers(len(content) // 2, len(content) + 1)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns about some damage and continues
            try:
                read_image(path)
            except InputError as error:
                messages.append(str(error))
    assert len(messages) > 20 and all(str(path) in message for message in messages)


@pytest.mark.parametrize("kind", [struct.error, IndexError, zlib.error, EOFError, OverflowError, MemoryError])
def test_any_error_of_a_decoder_names_the_file(tmp_path, monkeypatch, kind):
    Image.fromarray(COLOURS).save(tmp_path / "a.png")

    def broken(*_: object) -> None:
        raise kind("bad\nblock.")

    monkeypatch.setattr(PngImagePlugin.PngImageFile, "load", broken)
    with pytest.raises(InputError, match=r"a\.png cannot be read: bad block\.$"):
        read_image(tmp_path / "a.png")


def test_damaged_exif_data_is_ignored(tmp_path, monkeypatch):
    Image.fromarray(COLOURS).save(tmp_path / "a.png")

    def broken(*_: object) -> None:
        raise struct.error("unpack requires a buffer of 2 bytes")

    monkeypatch.setattr(PngImagePlugin.PngImageFile, "getexif", broken)
    assert np.array_equal(read_image(tmp_path / "a.png", (COLUMNS, ROWS)), COLOURS)
