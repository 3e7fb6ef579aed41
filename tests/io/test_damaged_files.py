"""A damaged file is read, or raises an error of one line that names it."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="files need Pillow")

from densefield.datasets.reading import read_labels  # noqa: E402
from densefield.errors import InputError  # noqa: E402
from densefield.images.masks import read_mask  # noqa: E402
from densefield.images.reading import read_image, read_rgb  # noqa: E402
from densefield.io.messages import failure_line  # noqa: E402
from densefield.runs.score_files import read_scores  # noqa: E402

COPIES = 150  # of each file
LIMIT = "1000000"  # pixels, so that headers that claim many of them cost no time


def saved(write, *arguments, **options) -> bytes:
    buffer = io.BytesIO()
    write(buffer, *arguments, **options)
    return buffer.getvalue()


def originals() -> dict[str, bytes]:
    random = np.random.default_rng(90217)
    photo = Image.fromarray(np.kron(random.integers(0, 256, (6, 8, 3)), np.ones((5, 5, 1))).astype(np.uint8))
    labels = np.kron(random.integers(0, 5, (6, 8)), np.ones((5, 5))).astype(np.int64)
    mask = Image.fromarray(labels.astype(np.uint8))
    shares = random.dirichlet(np.ones(5), labels.shape).transpose(2, 0, 1).astype(np.float32)
    return {
        "jpeg.jpg": saved(photo.save, "JPEG"),
        "progressive.jpg": saved(photo.save, "JPEG", progressive=True),
        "photo.png": saved(photo.save, "PNG"),
        "mask.png": saved(mask.save, "PNG"),
        "plain.tif": saved(mask.save, "TIFF"),
        "photo.tif": saved(photo.save, "TIFF"),
        "mask.gif": saved(mask.save, "GIF"),
        "photo.bmp": saved(photo.save, "BMP"),
        "photo.webp": saved(photo.save, "WEBP"),
        "photo.ppm": saved(photo.save, "PPM"),
        "labels.npy": saved(np.save, labels),
        "logits.npy": saved(np.save, np.log(shares)),
        "labels.npz": saved(np.savez, a=labels),
        "shares.npz": saved(np.savez_compressed, probabilities=shares),
        "several.npz": saved(np.savez_compressed, logits=np.log(shares), other=labels),
    }


def damaged(content: bytes, random: np.random.Generator) -> bytes:
    """The content truncated, with flipped bits, or with other bytes near the beginning or the end."""
    changed, how = bytearray(content), random.integers(5)
    if how == 0:
        return content[: random.integers(len(content))]
    if how == 1:
        changed[random.integers(len(changed))] ^= 1 << int(random.integers(8))
    elif how == 2:
        for place in random.integers(min(len(changed), 300), size=4):
            changed[place] = random.integers(256)
    elif how == 3:
        for place in random.integers(min(len(changed), 300), size=4):
            changed[-1 - place] = random.integers(256)
    else:
        place = random.integers(min(len(changed), 300))
        changed[place : place + 4] = (b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\xff\xff\xff\xff")[random.integers(3)]
    return bytes(changed)


@pytest.mark.parametrize("name", originals())
def test_a_damaged_file_is_read_or_raises_one_line(tmp_path, monkeypatch, name):
    monkeypatch.setenv("DENSEFIELD_MAX_PIXELS", LIMIT)
    readers = [read_mask, read_image, read_rgb, lambda path: read_labels(path, 21)]
    if name.endswith((".npy", ".npz")):
        readers = [read_mask, lambda path: read_mask(path, logits=True), read_scores]
    content, random = originals()[name], np.random.default_rng([60013, *name.encode()])
    refused, path = [], tmp_path / name
    for _ in range(COPIES):
        path.write_bytes(damaged(content, random))
        for read in readers:
            try:
                with warnings.catch_warnings():  # decoders warn about invalid tags, and sums may overflow
                    warnings.simplefilter("ignore")
                    read(path)
            except InputError as error:
                refused.append(str(error))
    assert len(refused) > COPIES / 10
    assert all(name in line and "\n" not in line and len(line) < 1500 for line in refused)


def test_a_failure_line_is_one_line_for_any_error(tmp_path):
    path = tmp_path / "a.npz"
    errors = [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), KeyError("x")]
    errors += [OSError(28, "No space left on device"), InputError("one\ntwo"), RecursionError("a\n" * 900)]
    lines = [failure_line(error, path) for error in errors]
    assert all(line.startswith(str(path)) and "\n" not in line and len(line) < 1000 for line in lines)
    assert [("out of memory" in line) for line in lines] == [True, True, False, False, False, False]
