"""`densefield data scenes`: draws synthetic scenes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from densefield.cli.bar import Bar


def scenes_command(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A new or empty folder, or one to go on with.", show_default=False)
    ],
    images: Annotated[int, typer.Option(min=1, help="How many scenes.")] = 1000,
    size: Annotated[int, typer.Option(min=96, max=512, help="Pixels of a side.")] = 128,
    classes: Annotated[int, typer.Option(min=2, max=20, help="Classes of objects, the background apart.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="What the scenes depend on: others for another seed.")] = 0,
    val_share: Annotated[
        float, typer.Option(min=0, max=0.9, help="The share of scenes that are kept for validation.")
    ] = 0.2,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; as many as processors by default. Scenes do not depend on it.")
    ] = None,
) -> None:
    """Draw scenes with exact labels, in the layout of PASCAL VOC.

    The same options draw the same scenes on any machine. Scenes that are there already are kept: a run that was
    interrupted is gone on with by the same command, and a larger number of images adds to the folder.
    """
    from densefield.data.scene_files import write_scenes
    from densefield.errors import DensefieldError
    from densefield.filters.threads import default_threads

    try:
        with Bar("scenes") as bar:
            drawn = write_scenes(
                directory,
                images,
                (size, size),
                classes,
                seed,
                val_share=val_share,
                workers=default_threads() if workers is None else workers,
                progress=bar.advance,
            )
    except (DensefieldError, OSError) as error:
        typer.echo(f"densefield: {error}", err=True)
        raise typer.Exit(2) from error
    kept = f"; there already: {images - drawn}" if drawn < images else ""
    typer.echo(f"densefield: scenes drawn: {drawn}{kept}", err=True)
