"""Reading images."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import (  # the plugins register their decoders
    BmpImagePlugin,  # noqa: F401
    GifImagePlugin,  # noqa: F401
    Image,
    ImageOps,
    JpegImagePlugin,  # noqa: F401
    PngImagePlugin,  # noqa: F401
    PpmImagePlugin,  # noqa: F401
    TiffImagePlugin,  # noqa: F401
    WebPImagePlugin,  # noqa: F401
)

from densefield.errors import InputError
from densefield.io.messages import cause
from densefield.io.untrusted import check_pixels

Pixels = npt.NDArray[np.uint8] | npt.NDArray[np.float32]

ORIENTATION = 0x0112  # EXIF tag; 5 to 8 swap width and height
# Allowed decoders, by Pillow's names. Others, such as that of EPS, start programs or are little tested.
FORMATS = ("PNG", "JPEG", "TIFF", "BMP", "WEBP", "GIF", "PPM")
FORMAT_NAMES = "PNG, JPEG, TIFF, BMP, WebP, GIF or PPM"
IMAGE_SUFFIXES = {
    *(".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".tif", ".tiff", ".bmp", ".webp", ".gif"),
    *(".ppm", ".pgm", ".pbm", ".pnm"),
}
SIXTEEN_BITS = ("I", "I;16", "I;16L", "I;16B", "I;16N")  # Pillow's modes


def read_image(path: Path, size: tuple[int, int] | None = None) -> Pixels:
    """Read the colours 0…255 of an image, (H, W, 3), or (H, W) if it is grey.

    16 bits are scaled to 0…255 and keep their fractions; alpha is dropped.

    Parameters
    ----------
    path
        The file to read.
    size
        Expected rows and columns. Pixels are taken as stored; the EXIF rotation is applied only if the image has this
        size after it and not before.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("RGB", (6, 4), (200, 100, 0)).save(Path(folder, "a.png"))
    ...     read_image(Path(folder, "a.png")).shape
    (4, 6, 3)
    """
    image = open_image(path)
    rotated = (image.width, image.height) == size  # size is (rows, columns): equal if the sides are swapped
    if rotated and (image.height, image.width) != size and _orientation(image) >= 5:
        image = ImageOps.exif_transpose(image)
    if image.mode in SIXTEEN_BITS:
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise InputError(f"{path} has values from {values.min()} to {values.max()}, expected 8 or 16 bits.")
        scaled: Pixels = (values / 257).astype(np.float32)  # 65535 becomes 255
        return scaled
    if image.mode == "F":
        raise InputError(f"{path} has floating point pixels, expected 8 or 16 bits per channel: convert it.")
    if image.mode in ("1", "L", "LA"):
        return np.asarray(image.convert("L"))
    if image.mode == "P":
        image = image.convert("RGBA")  # Pillow warns of palettes with transparency otherwise
    return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))


def read_rgb(path: Path, size: tuple[int, ...] | None = None) -> npt.NDArray[np.uint8]:
    """Read an image as uint8 (H, W, 3), with three equal channels if it is grey; JPEG by the fastest decoder installed.

    Parameters
    ----------
    path, size
        Those of `read_image`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("L", (6, 4), 70).save(Path(folder, "a.png"))
    ...     read_rgb(Path(folder, "a.png"))[0, 0].tolist()
    [70, 70, 70]
    """
    fast = fast_jpeg(path) if path.suffix.lower() in (".jpg", ".jpeg") else None
    if fast is not None and (size is None or fast.shape[:2] == size):
        return fast
    pixels = read_image(path, None if size is None else (size[0], size[1]))
    rounded = pixels if pixels.dtype == np.uint8 else np.rint(pixels)
    colours = rounded.astype(np.uint8)  # a copy, since Pillow's array is read-only
    return colours if colours.ndim == 3 else np.repeat(colours[..., None], 3, axis=2)


def fast_jpeg(path: Path) -> npt.NDArray[np.uint8] | None:
    """Read a JPEG file as (H, W, 3) by simplejpeg; None if that is not installed or cannot read the file.

    It uses libjpeg-turbo as Pillow does, without Pillow's copies, and refuses files that are cut short.
    """
    decoder = _simplejpeg()
    if decoder is None:
        return None
    try:
        content = path.read_bytes()
        height, width, *_ = decoder.decode_jpeg_header(content)
    except (OSError, ValueError):
        return None
    check_pixels(path, width, height)
    try:
        colours: npt.NDArray[np.uint8] = decoder.decode_jpeg(content, colorspace="RGB")
    except ValueError:
        return None
    return colours


@cache
def _simplejpeg() -> Any:
    return import_module("simplejpeg") if find_spec("simplejpeg") is not None else None


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation; 1, which is no rotation, if the data is damaged."""
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:
        return 1


def open_image(path: Path) -> Image.Image:
    """Decode the first frame of an image file; any error is an InputError that names the file.

    The format is one of FORMATS, whatever the suffix, and the number of pixels is limited. Decoders raise errors of any
    type on damaged files (struct.error, IndexError, …).
    """
    try:
        with path.open("rb") as file:
            image = _identify(path, file)
            check_pixels(path, *image.size)
            image.load()
        return image
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.") from None
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path} cannot be read: {cause(error)}.") from error


def _identify(path: Path, file: BinaryIO) -> Image.Image:
    """Read the header with the first allowed decoder that accepts it.

    This is Image.open() without its limit on pixels, which is a global variable of Pillow.
    """
    prefix = file.read(16)
    for name in FORMATS:
        decoder, accepts = Image.OPEN.get(name, (None, None))
        if decoder is None or accepts is None or accepts(prefix) is not True:  # text: the format is not installed
            continue
        file.seek(0)
        try:
            return decoder(file, str(path))
        except SyntaxError:  # the header does not fit the format
            continue
    raise InputError(f"{path} is not an image: expected {FORMAT_NAMES}.")


def count_frames(path: Path) -> int:
    """Number of pictures in a file; 1 if it cannot be determined."""
    try:
        with path.open("rb") as file:
            return int(getattr(_identify(path, file), "n_frames", 1))
    except Exception:
        return 1
