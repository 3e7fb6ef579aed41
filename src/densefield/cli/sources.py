"""Arguments of several verbs: where scores come from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Scores = Annotated[
    Path,
    typer.Argument(
        metavar="SCORES",
        help="A run or a checkpoint of `densefield train`, or a folder of scores (labels, rows, columns) as ID.npz or "
        "ID.npy.",
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
Split = Annotated[
    str | None,
    typer.Option(help="The split; by default val, or all images of a folder without split lists.", show_default=False),
]
Probabilities = Annotated[
    bool, typer.Option("--probabilities", help="The files of SCORES hold probabilities rather than logits.")
]
CRFFile = Annotated[
    Path | None,
    typer.Option("--crf", help="A CRF file such as `densefield tune` writes; by default the CRF of the run."),
]

# The options that stand for the arguments in messages of the library.
FLAGS = {
    "probabilities=True": "--probabilities",
    'methods=("network",)': "--method network",
    "crf=": "--crf ",
    "split=None": "no --split",
    "resume=True": "--resume",
    "training.start_from": "--from",
}
