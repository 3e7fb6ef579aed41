"""Reading images."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

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
from densefield.io.limits import check_pixels
from densefield.io.printable import cause as cause

Pixels = npt.NDArray[np.uint8] | npt.NDArray[np.float32]

ORIENTATION = 0x0112  # EXIF's tag; 5 to 8 swap width and height
# The decoders that may see a file, by Pillow's names. Others, such as that of EPS, start programs or are little tested.
FORMATS = ("PNG", "JPEG", "TIFF", "BMP", "WEBP", "GIF", "PPM")
KINDS = "PNG, JPEG, TIFF, BMP, WebP, GIF or PPM"
SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".tif", ".tiff", ".bmp", ".webp", ".gif"),
    *(".ppm", ".pgm", ".pbm", ".pnm"),
)
SIXTEEN_BITS = ("I", "I;16", "I;16L", "I;16B", "I;16N")


def read_image(path: Path, size: tuple[int, int] | None = None) -> Pixels:
    """Colours 0…255 of an image, (H, W, 3), or (H, W) where it is grey.

    16 bits are scaled to 0…255 and keep their fractions; alpha is dropped. Pixels are taken as they are stored. They
    are rotated as EXIF says only where they have the given size (rows, columns) after that rotation and not before.
    """
    image = open_image(path)
    turned = (image.width, image.height) == size  # size is (rows, columns): equal where the sides are swapped
    if turned and (image.height, image.width) != size and _orientation(image) >= 5:
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


def _orientation(image: Image.Image) -> int:
    """The rotation that EXIF asks for; 1, which is none, where its data is damaged."""
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:
        return 1


def open_image(path: Path) -> Image.Image:
    """The first frame of an image file, completely decoded; errors name the file.

    The format is one of FORMATS, whatever the suffix says, and the number of pixels is at most that of
    `densefield.io.limits.max_pixels`. Decoders raise errors of any type on damaged files (struct.error, IndexError,
    zlib.error, …). All of them become an InputError.
    """
    try:
        with path.open("rb") as file:
            image = _identified(path, file)
            check_pixels(path, *image.size)
            image.load()
        return image
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.") from None
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path} cannot be read: {cause(error)}.") from error


def _identified(path: Path, file: BinaryIO) -> Image.Image:
    """The image with its header read, by the first allowed decoder that accepts it.

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
        except SyntaxError:  # the beginning of the file does not fit the format
            continue
    raise InputError(f"{path} is not an image: expected {KINDS}.")


def count_frames(path: Path) -> int:
    """How many pictures a file holds; 1 where that cannot be told."""
    try:
        with path.open("rb") as file:
            return int(getattr(_identified(path, file), "n_frames", 1))
    except Exception:
        return 1


def image_suffixes() -> set[str]:
    """The endings of image files, such as .jpg."""
    return set(SUFFIXES)
