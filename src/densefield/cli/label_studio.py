"""`densefield label-studio`: dense labels from an export of Label Studio."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from densefield.cli.messages import ending_on_errors, print_result


class DrawingMode(str, Enum):
    """What is drawn."""

    scribbles = "scribbles"
    mask = "mask"


def label_studio_verb(
    export: Annotated[
        Path, typer.Argument(metavar="EXPORT", exists=True, dir_okay=False, help="Label Studio's export as JSON.")
    ],
    images: Annotated[
        Path, typer.Argument(metavar="IMAGES", exists=True, file_okay=False, help="The folder of the images.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file of tasks with predictions, for import.")],
    masks: Annotated[Path | None, typer.Option(help="A folder for a PNG of labels for each image too.")] = None,
    mode: Annotated[
        DrawingMode,
        typer.Option(
            help="scribbles: drawn pixels keep their label, and the others receive one. mask: whole objects are drawn, "
            "and their edges move to those of the image."
        ),
    ] = DrawingMode.scribbles,
    labels: Annotated[
        str | None, typer.Option(help="Labels, separated by commas, in the order of their numbers in masks.")
    ] = None,
    background: Annotated[str | None, typer.Option(help="The label that gets no region in the result.")] = None,
    from_name: Annotated[
        str | None, typer.Option(help="Name of the brush control; by default that of the first brush region.")
    ] = None,
) -> None:
    """Turn brush strokes, polygons, rectangles and keypoints of Label Studio into dense brush regions.

    The file that is written has the tasks with a prediction each, to import as pre-annotations.
    """
    with ending_on_errors({"background is": "--background is"}):
        from densefield.integrations import refine_label_studio_export

        names = None if labels is None else [name.strip() for name in labels.split(",")]
        count = refine_label_studio_export(
            export,
            images,
            out,
            masks=masks,
            mode=mode.value,
            labels=names,
            background=background,
            from_name=from_name,
        )
        print_result(f"{count} tasks with predictions: {out}")
