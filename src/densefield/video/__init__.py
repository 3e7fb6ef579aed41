"""Video: refinement with kernels over (x, y, t), of clips, of frames as they come, and of folders of frames.

`clip` refines by overlapping windows: `label_clip` or `score_clip` makes the estimates for the whole clip, and
`label_frames` or `score_frames` refines some frames together. `stream` carries the marginals of each frame to the next,
by `held`. `folder` reads and writes files: `sequence` orders them, `files` reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from densefield.lazy import lazy_exports

if TYPE_CHECKING:
    from densefield.video.clip import refine_clip as refine_clip
    from densefield.video.folder import RefinedFolder as RefinedFolder
    from densefield.video.folder import refine_folder as refine_folder
    from densefield.video.stream import refine_stream as refine_stream
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "clip": ["refine_clip"],
            "folder": ["RefinedFolder", "refine_folder"],
            "stream": ["refine_stream"],
        },
    )
