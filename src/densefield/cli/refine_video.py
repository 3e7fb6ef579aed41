"""`densefield refine --video`: a folder of frames and a folder of masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from densefield.cli.messages import print_message, printing_warnings
from densefield.cli.progress import INTERRUPTED, Bar

if TYPE_CHECKING:
    from densefield.images.refine_settings import RefineSettings

OF_VIDEO = ("frame_step", "frames_per_window", "causal")
NOT_OF_VIDEO = (
    *("crf", "confidence", "sigma", "weight", "sigma_xy", "sigma_rgb", "bilateral_weight"),
    *("recursive", "preview", "log", "explain", "window", "spacing", "tile"),
)


def check_video_options(context: typer.Context) -> None:
    """Raises if an option of video is given without --video, or one that video does not have with it."""
    video = context.params["video"]
    for name in NOT_OF_VIDEO if video else OF_VIDEO:
        if is_given(context, name):
            flag = f"--{name.replace('_', '-')}"
            cure = "it is not for video: leave it out." if video else "it is for video: add --video, or leave it out."
            raise typer.BadParameter(cure, param_hint=flag)
    if not context.params["causal"]:
        return
    for name, cause in (
        ("frames_per_window", "it needs the frame before alone"),
        ("skip_existing", "the marginals of finished frames are not kept"),
    ):
        if is_given(context, name):
            raise typer.BadParameter(f"{cause}: leave out --{name.replace('_', '-')}.", param_hint="--causal")


def refine_video(context: typer.Context, settings: RefineSettings, flags: Mapping[str, str]) -> None:
    """Refines the folders of the verb, and prints what was done on stderr."""
    from densefield.video.folder import refine_folder

    given: dict[str, Any] = context.params
    bar = Bar("refine", unit="frames")
    try:
        with printing_warnings(flags), bar:
            refined = refine_folder(
                given["image"],
                given["mask"],
                given["out"],
                settings,
                causal=given["causal"],
                frame_step=given["frame_step"],
                window=given["frames_per_window"],
                format=given["format"],
                mask_suffix=given["mask_suffix"],
                skip_existing=given["skip_existing"],
                threads=given["threads"],
                progress=bar.advance,
            )
    except KeyboardInterrupt:
        cure = "Run it again." if given["causal"] else "To resume, add --skip-existing."
        print_message(f"interrupted after {bar.done} of {bar.total} frames. {cure}")
        raise typer.Exit(INTERRUPTED) from None
    for line in refined.notes:
        print_message(line, flags)
    count = len(refined.written)
    parts = [f"refined: {count} {'frame' if count == 1 else 'frames'}"]
    parts += [f"skipped, since the result exists: {len(refined.skipped)}"] if refined.skipped else []
    print_message("; ".join(parts))


def is_given(context: typer.Context, name: str) -> bool:
    """Whether an option is given on the command line."""
    source: Any = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"
