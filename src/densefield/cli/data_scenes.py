"""`densefield data scenes`: draws synthetic scenes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from densefield.cli.bar import Bar
from densefield.cli.failing import say, stop


def scenes_command(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", file_okay=False, help="A new or empty folder, or one to resume.", show_default=False
        ),
    ],
    images: Annotated[int, typer.Option(min=1, help="Number of scenes.")] = 1000,
    size: Annotated[int, typer.Option(min=96, max=512, help="Height and width in pixels.")] = 128,
    object_classes: Annotated[int, typer.Option(min=2, max=20, help="Number of classes, without the background.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    val_share: Annotated[
        float, typer.Option(min=0, max=0.9, help="Fraction of the scenes that is kept for validation.")
    ] = 0.2,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; as many as processors by default. Scenes do not depend on it.")
    ] = None,
) -> None:
    """Draw scenes with exact labels, in the layout of PASCAL VOC.

    The same options draw the same scenes on any machine. Existing scenes are kept: the same command resumes an
    interrupted run, and a larger number of images adds to the folder.
    """
    from densefield.errors import DensefieldError
    from densefield.filters.threads import default_threads
    from densefield.scenes.files import write_scenes

    try:
        with Bar("scenes", unit="scenes") as bar:
            drawn = write_scenes(
                directory,
                images,
                (size, size),
                object_classes,
                seed,
                val_share=val_share,
                workers=default_threads() if workers is None else workers,
                progress=bar.advance,
            )
    except (DensefieldError, OSError) as error:
        raise stop(error) from error
    kept = f"; kept, since they exist: {images - drawn}" if drawn < images else ""
    say(f"scenes drawn: {drawn}{kept}")
