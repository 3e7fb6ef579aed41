"""Malicious and huge files raise before memory is allocated, and only allowed decoders open files."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="files need Pillow")

from densefield.errors import InputError  # noqa: E402
from densefield.images.masks import read_mask  # noqa: E402
from densefield.images.reading import FORMATS, IMAGE_SUFFIXES, open_image, read_image  # noqa: E402
from densefield.io.untrusted import (  # noqa: E402
    MAX_PIXELS,
    max_pixels,
    read_array,
)

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"


def first(names: list[str]) -> str:
    return names[0]


def npy(shape: tuple[int, ...], content: bytes = b"", dtype: str = "<f4") -> bytes:
    """A .npy file that claims this shape."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": dtype, "fortran_order": False, "shape": shape})
    return buffer.getvalue() + content


def npz(path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def png_of(width: int, height: int) -> bytes:
    """A PNG whose header claims this size."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = chunk(b"IDAT", zlib.compress(bytes(100)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + rows + chunk(b"IEND", b"")


def peak_of(call) -> int:
    """Peak memory of Python and NumPy in bytes during a call that raises."""
    tracemalloc.start()
    try:
        with pytest.raises(InputError):
            call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["x.png", "x.eps", "x.jpg"])
def test_an_eps_file_never_starts_ghostscript(tmp_path, monkeypatch, name):
    (tmp_path / name).write_bytes(EPS)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a program was started"))
    with pytest.raises(InputError, match=r"is not an image: expected PNG, JPEG, TIFF, BMP, WebP, GIF or PPM"):
        open_image(tmp_path / name)
    with pytest.raises(InputError, match="is not an image"):
        read_mask(tmp_path / name)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tif", ".bmp", ".webp", ".gif", ".ppm"])
def test_every_allowed_format_is_read_by_its_content(tmp_path, suffix):
    path = tmp_path / f"picture{suffix}"
    Image.new("RGB", (6, 4), (200, 100, 0)).save(path)
    assert open_image(path).format in FORMATS and suffix in IMAGE_SUFFIXES
    renamed = path.rename(tmp_path / "picture.dat")
    assert read_image(renamed).shape == (4, 6, 3)


def test_other_formats_raise(tmp_path):
    Image.new("RGB", (6, 4)).save(tmp_path / "a.tga")
    Image.new("RGB", (6, 4)).save(tmp_path / "a.ico")
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(InputError, match="is not an image"):
            open_image(path)
    assert not {".eps", ".tga", ".ico", ".fits", ".pdf"} & IMAGE_SUFFIXES


def test_the_error_names_the_environment_variable_of_the_pixel_limit(tmp_path, monkeypatch):
    Image.new("L", (30, 20)).save(tmp_path / "a.png")
    monkeypatch.setenv("DENSEFIELD_MAX_PIXELS", "600")
    assert open_image(tmp_path / "a.png").size == (30, 20)
    monkeypatch.setenv("DENSEFIELD_MAX_PIXELS", "599")
    with pytest.raises(
        InputError, match=r"a\.png has 30 × 20 pixels, more than the limit of 599.*DENSEFIELD_MAX_PIXELS"
    ):
        open_image(tmp_path / "a.png")
    for text in ("many", "-3", "0", "1.5"):
        monkeypatch.setenv("DENSEFIELD_MAX_PIXELS", text)
        with pytest.raises(InputError, match=r"DENSEFIELD_MAX_PIXELS is .* expected a positive integer"):
            max_pixels()


def test_the_pixel_limit_may_exceed_that_of_pillow(tmp_path, monkeypatch):
    (tmp_path / "large.png").write_bytes(png_of(20_000, 20_000))
    with pytest.raises(InputError, match="more than the limit of 134217728"):
        open_image(tmp_path / "large.png")
    monkeypatch.setenv("DENSEFIELD_MAX_PIXELS", str(10**12))
    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load", lambda self: None)  # 1.2 GB otherwise
    assert open_image(tmp_path / "large.png").size == (20_000, 20_000)


def test_a_header_that_claims_many_pixels_allocates_no_memory(tmp_path):
    (tmp_path / "bomb.png").write_bytes(png_of(60_000, 60_000))
    assert MAX_PIXELS < 60_000**2 and peak_of(lambda: open_image(tmp_path / "bomb.png")) < 10_000_000


@pytest.mark.parametrize("shape", [(10**6, 10**6), (2**62,), (2**40, 2**40, 2**40), (1 << 26, 1)])
def test_an_array_header_larger_than_the_file_allocates_no_memory(tmp_path, shape):
    (tmp_path / "a.npy").write_bytes(npy(shape, bytes(64)))
    npz(tmp_path / "a.npz", {"a.npy": npy(shape, bytes(64))})
    for name in ("a.npy", "a.npz"):
        assert peak_of(lambda name=name: read_array(tmp_path / name, first)) < 1_000_000


def test_a_zip_bomb_raises_by_its_header(tmp_path, monkeypatch):
    monkeypatch.setenv("DENSEFIELD_MAX_PIXELS", "1000")
    npz(tmp_path / "bomb.npz", {"a.npy": npy((3000, 3000), bytes(4 * 9_000_000))})
    assert (tmp_path / "bomb.npz").stat().st_size < 40_000
    assert peak_of(lambda: read_array(tmp_path / "bomb.npz", first)) < 1_000_000
    with pytest.raises(InputError, match=r"\(3000, 3000\).*36000000 bytes, more than the limit of 32000.*MAX_PIXELS"):
        read_array(tmp_path / "bomb.npz", first)


def test_a_zip_with_a_wrong_member_size_raises(tmp_path):
    content = npy((50, 40), bytes(8000))
    npz(tmp_path / "a.npz", {"a.npy": content})
    lie = (tmp_path / "a.npz").read_bytes().replace(struct.pack("<I", len(content)), struct.pack("<I", 200))
    (tmp_path / "a.npz").write_bytes(lie)
    with pytest.raises(InputError, match=r"a\.npz (is cut short|cannot be read as an array)"):
        read_array(tmp_path / "a.npz", first)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"not an array", "cannot be read as an array"),
        (npy((3,), dtype="|O"), "holds Python objects"),
        (npy((-3,)), "expected integers from 0"),
        (npy((2, 2), bytes(15)), "is cut short"),
        (b"\x93NUMPY\x09\x00" + npy((2,))[8:], "version"),
        (b"\x93NUMPY\x01\x00\x10\x00{'shape': ((((((", "cannot be read as an array"),
        (b"", "cannot be read as an array"),
    ],
)
def test_members_that_are_not_arrays_raise_one_line(tmp_path, content, reason):
    (tmp_path / "a.npy").write_bytes(content)
    npz(tmp_path / "a.npz", {"a.npy": content})
    for name in ("a.npy", "a.npz"):
        with pytest.raises(InputError, match=reason) as caught:
            read_array(tmp_path / name, first)
        assert str(tmp_path / name) in str(caught.value) and "\n" not in str(caught.value)


def test_encryption_and_unknown_compression_raise_one_line(tmp_path):
    npz(tmp_path / "a.npz", {"a.npy": npy((2,), bytes(8))})
    content = bytearray((tmp_path / "a.npz").read_bytes())
    central = content.index(b"PK\x01\x02")
    for place, value in ((8, 1), (10, 99)):  # the encryption flag (RuntimeError) and the method (NotImplementedError)
        changed = bytearray(content)
        changed[central + place] = value
        (tmp_path / "a.npz").write_bytes(changed)
        with pytest.raises(InputError, match=r"a\.npz cannot be read as an array"):
            read_array(tmp_path / "a.npz", first)


@pytest.mark.parametrize(
    ("dtype", "label"), [(np.int64, 10**6), (np.int64, 2**62), (np.uint64, 2**63 + 5), (np.int32, 65536)]
)
def test_label_values_are_limited(tmp_path, dtype, label):
    np.save(tmp_path / "mask.npy", np.array([[0, label]], dtype))
    with pytest.raises(InputError, match=rf"mask\.npy has label {label}, expected labels below 65536"):
        read_mask(tmp_path / "mask.npy")
    if label < 2**63:
        assert read_mask(tmp_path / "mask.npy", void=label).labels().tolist() == [[0, -1]]


def test_reading_images_does_not_load_the_other_decoders():
    code = "import sys, densefield.images.reading; print([m for m in sys.modules if 'EpsImage' in m or 'Fits' in m])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
