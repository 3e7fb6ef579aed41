"""Arguments of several verbs: where scores come from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Scores = Annotated[
    Path,
    typer.Argument(
        metavar="SCORES",
        help="A run or a checkpoint of `densefield train`, or a folder of logits (labels, rows, columns) as ID.npz.",
        show_default=False,
    ),
]
Data = Annotated[
    Path | None,
    typer.Argument(
        metavar="DATA",
        help="A folder with images/ and masks/, or PASCAL VOC 2012 in its layout; by default the data of the run.",
        show_default=False,
    ),
]
Split = Annotated[str, typer.Option(help="The split whose images are taken.")]
