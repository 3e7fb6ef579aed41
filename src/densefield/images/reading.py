"""Reading images."""

from __future__ import annotations

from collections.abc import Iterable
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

from densefield.errors import InputError, warn
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
FULL = 65535.0
PERCENTILES = (0.5, 99.5)  # as in volumes and rasters
SMALL = 1 / 4  # of the 16 bits: if most pixels lie in a smaller part, that part becomes 0…255


def read_image(path: Path, size: tuple[int, int] | None = None) -> Pixels:
    """Read the colours 0…255 of an image, (H, W, 3), or (H, W) if it is grey.

    16 bits are scaled to 0…255 and keep their fractions; alpha is dropped. If most pixels use a small part of the 16
    bits, such as the data of a camera with 12 bits, percentiles become 0 and 255, with a warning.

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
    pixels = stored_pixels(path, size)
    if pixels.dtype != np.uint16:
        _warn_of_lost_bits(path, pixels)
        return pixels.astype(np.uint8, copy=False)
    low, high = used_range([pixels])
    if (low, high) != (0.0, FULL):
        warn_of_small_range("of each such picture")
    return levels(pixels, low, high)


def stored_pixels(path: Path, size: tuple[int, int] | None = None) -> npt.NDArray[Any]:
    """The pixels of an image as `read_image` describes, but 16 bits of grey as they are stored.

    Parameters
    ----------
    path, size
        Those of `read_image`.
    """
    image = open_image(path)
    rotated = (image.width, image.height) == size  # size is (rows, columns): equal if the sides are swapped
    if rotated and (image.height, image.width) != size and _orientation(image) >= 5:
        image = ImageOps.exif_transpose(image)
    if image.mode in SIXTEEN_BITS:
        values = np.asarray(image)
        if values.min() < 0 or values.max() > FULL:
            raise InputError(f"{path} has values from {values.min()} to {values.max()}, expected 8 or 16 bits.")
        return values.astype(np.uint16)
    if image.mode == "F":
        raise InputError(f"{path} has floating point pixels, expected 8 or 16 bits per channel: convert it.")
    if image.mode in ("1", "L", "LA"):
        return np.asarray(image.convert("L"))
    if image.mode == "P":
        image = image.convert("RGBA")  # Pillow warns of palettes with transparency otherwise
    return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))


def used_range(pictures: Iterable[npt.NDArray[Any]]) -> tuple[float, float]:
    """The values of 16 bits that become 0 and 255: 0 and 65535, or percentiles if most pixels are in a small part.

    Parameters
    ----------
    pictures
        The values of each picture that has the same scale.

    >>> used_range([np.arange(4096, dtype=np.uint16)]), used_range([np.arange(65536).astype(np.uint16)])
    ((20.475, 4074.525), (0.0, 65535.0))
    """
    low, high = FULL, 0.0
    for pixels in pictures:
        least, most = (float(each) for each in np.percentile(pixels, PERCENTILES))
        if least == most:  # such as a few objects in a large picture
            least, most = float(pixels.min()), float(pixels.max())
        low, high = min(low, least), max(high, most)
    return (low, high) if 0 < high - low < SMALL * FULL else (0.0, FULL)


def levels(pixels: npt.NDArray[Any], low: float, high: float) -> npt.NDArray[np.float32]:
    """Values of 16 bits as levels 0…255; those beyond `low` and `high` are clipped.

    Parameters
    ----------
    pixels
        The values.
    low, high
        The values that become 0 and 255.
    """
    if (low, high) == (0.0, FULL):
        return (pixels / 257).astype(np.float32)  # 65535 becomes 255
    scaled: npt.NDArray[np.float32] = np.clip((pixels - low) * (255 / (high - low)), 0, 255).astype(np.float32)
    return scaled


def warn_of_small_range(whose: str) -> None:
    """Warns that percentiles became 0 and 255. The message names no file, so that Python shows it once.

    Parameters
    ----------
    whose
        What the percentiles are those of.
    """
    warn(
        "most pixels of a picture with 16 bits use less than a quarter of 0…65535: the percentiles 0.5 and 99.5 "
        f"{whose} become 0 and 255."
    )


def _warn_of_lost_bits(path: Path, colours: npt.NDArray[Any]) -> None:
    """Warns of a dark picture with 16 bits for each colour, of which Pillow reads the upper 8."""
    if colours.ndim == 3 and colours.max(initial=0) < SMALL * 255 and _has_deep_colours(path):
        warn(
            f"{path} has 16 bits for each colour, of which the upper 8 are read, and these only reach "
            f"{colours.max(initial=0)} of 255: scale its values to 0…65535, or save it with 8 bits."
        )


def _has_deep_colours(path: Path) -> bool:
    """Whether a PNG or TIFF file has 16 bits for each of several colours."""
    with path.open("rb") as file:
        image = _identify(path, file)
        if image.format == "PNG":
            file.seek(0)
            return bool(file.read(25)[24] == 16)
        bits = getattr(image, "tag_v2", {}).get(258, (8,))
        return bool(max(bits) == 16)


def read_rgb(path: Path, size: tuple[int, ...] | None = None) -> npt.NDArray[np.uint8]:
    """Read an image as uint8 (H, W, 3), with three equal channels if it is grey; JPEG by the fastest decoder installed.

    16 bits are divided by 257, whatever part of them is used, so that all images of a dataset have one scale.

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
    pixels = stored_pixels(path, None if size is None else (size[0], size[1]))
    rounded = np.rint(levels(pixels, 0.0, FULL)) if pixels.dtype == np.uint16 else pixels
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
