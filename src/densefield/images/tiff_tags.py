"""The tags of a TIFF mask that its result has too: the size of a pixel, as resolution or by ImageJ or OME."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PIL import Image
from PIL.TiffImagePlugin import ImageFileDirectory_v2

DESCRIPTION = 270
RESOLUTION = (282, 283, 296)  # along x and y, and their unit
ASCII = 2  # the type of a tag
BYTES = "latin-1"  # Pillow's encoding of texts, which keeps all bytes


def kept_tags(picture: Image.Image) -> dict[int, Any]:
    """The resolution of a TIFF picture, and its description if it is of ImageJ or OME; none of other pictures."""
    tags: Mapping[int, Any] = getattr(picture, "tag_v2", {})
    found = {tag: tags[tag] for tag in RESOLUTION if tag in tags}
    text = tags.get(DESCRIPTION)
    if isinstance(text, str) and (text.startswith("ImageJ=") or "<OME" in text):
        found[DESCRIPTION] = text
    return found


def tiff_info(tags: Mapping[int, Any], *, described: bool) -> ImageFileDirectory_v2:
    """Tags as Pillow writes them; without the description unless the result has its type of pixels."""
    info = ImageFileDirectory_v2()
    for tag, value in tags.items():
        if tag != DESCRIPTION:
            info[tag] = value
        elif described:
            info.tagtype[DESCRIPTION] = ASCII
            info[DESCRIPTION] = value.encode(BYTES)
    return info
