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

    Decoders raise errors of any type on damaged files (struct.error, IndexError, zlib.error, …). All of them become an
    InputError.
    """
    try:
        image: Image.Image
        with Image.open(path) as image:
            image.load()
        return image
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.") from None
    except UnidentifiedImageError:
        raise InputError(f"{path} is not an image that Pillow can read.") from None
    except Exception as error:
        raise InputError(f"{path} cannot be read: {cause(error)}.") from error


def count_frames(path: Path) -> int:
    """How many pictures a file holds; 1 where that cannot be told."""
    try:
        with Image.open(path) as image:
            return int(getattr(image, "n_frames", 1))
    except Exception:
        return 1


def cause(error: Exception) -> str:
    """What an error says, on one line and without a full stop; its type where it says nothing.

    >>> cause(ValueError("broken\\n  header.")), cause(EOFError())
    ('broken header', 'EOFError')
    """
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def image_suffixes() -> set[str]:
    """The endings, such as .jpg, of files that Pillow can read."""
    return {suffix for suffix, kind in Image.registered_extensions().items() if kind in Image.OPEN}
