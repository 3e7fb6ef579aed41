"""Reading images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from densefield.errors import InputError

Pixels = npt.NDArray[np.uint8] | npt.NDArray[np.float32]

ORIENTATION = 0x0112  # EXIF's tag; 5 to 8 swap width and height
SIXTEEN_BITS = ("I", "I;16", "I;16L", "I;16B", "I;16N")


def read_image(path: Path, size: tuple[int, int] | None = None) -> Pixels:
    """Colours 0…255 of an image of any format that Pillow reads, (H, W, 3), or (H, W) where it is grey.

    16 bits are scaled to 0…255 and keep their fractions; alpha is dropped. Pixels are taken as they are stored. Only
    where they have the given size (rows, columns) after the rotation that EXIF asks for, and not before, they are
    rotated.
    """
    image = open_image(path)
    turned = (image.width, image.height) == size  # size is (rows, columns): equal where the sides are swapped
    if turned and (image.height, image.width) != size and image.getexif().get(ORIENTATION, 1) >= 5:
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


def open_image(path: Path) -> Image.Image:
    """The first frame of an image file, read to its end; errors name the file."""
    try:
        image: Image.Image
        with Image.open(path) as image:
            image.load()
        return image
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.") from None
    except UnidentifiedImageError:
        raise InputError(f"{path} is not an image that Pillow can read.") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from error


def image_suffixes() -> set[str]:
    """The endings, such as .jpg, of files that Pillow can read."""
    return {suffix for suffix, kind in Image.registered_extensions().items() if kind in Image.OPEN}
