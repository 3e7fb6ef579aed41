"""Images and masks in files: reading, pairing, refining, writing, previews. Needs Pillow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from densefield.lazy import lazy_exports

if TYPE_CHECKING:
    from densefield.images.masks import Mask as Mask
    from densefield.images.masks import read_mask as read_mask
    from densefield.images.palette import overlay as overlay
    from densefield.images.palette import voc_labels as voc_labels
    from densefield.images.palette import voc_palette as voc_palette
    from densefield.images.preview import draw_preview as draw_preview
    from densefield.images.reading import read_image as read_image
    from densefield.images.reading import read_rgb as read_rgb
    from densefield.images.refine_settings import RefineSettings as RefineSettings
    from densefield.images.refining import RefinedFiles as RefinedFiles
    from densefield.images.refining import refine_files as refine_files
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "masks": ["Mask", "read_mask"],
            "palette": ["overlay", "voc_labels", "voc_palette"],
            "preview": ["draw_preview"],
            "reading": ["read_image", "read_rgb"],
            "refine_settings": ["RefineSettings"],
            "refining": ["RefinedFiles", "refine_files"],
        },
    )
