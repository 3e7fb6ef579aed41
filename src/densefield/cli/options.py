"""Arguments and options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Scores = Annotated[
    Path,
    typer.Argument(
        metavar="SCORES",
        help="A run or a checkpoint of `densefield train`, or a folder of scores (classes, rows, columns) as ID.npz or "
        "ID.npy.",
        show_default=False,
    ),
]
Data = Annotated[
    Path | None,
    typer.Argument(
        metavar="DATA",
        help="A folder with images/ and masks/, PASCAL VOC 2012 in its layout, or a Python function that returns the "
        "dataset of a split, package.module:function; by default the data of the run.",
        show_default=False,
    ),
]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.", show_default=False)]
Splits = Annotated[
    str | None,
    typer.Option(
        "--split",
        help="Split, or several such as train,val; by default val, or all images of a folder without split lists.",
        show_default=False,
    ),
]
Split = Annotated[
    str | None,
    typer.Option(help="Split; by default val, or all images of a folder without split lists.", show_default=False),
]
Probabilities = Annotated[
    bool, typer.Option("--probabilities", help="The files of SCORES hold probabilities rather than logits.")
]
Network = Annotated[
    str | None,
    typer.Option(
        metavar="PACKAGE.MODULE:FUNCTION",
        help="A Python function that builds the network, for a run that densefield.train trained on a Python object.",
        show_default=False,
    ),
]
CRFFile = Annotated[
    Path | None,
    typer.Option("--crf", help="A CRF file such as `densefield tune` writes; by default the CRF of the run."),
]
Device = Annotated[
    str,
    typer.Option(
        help="Device of the network: auto, cpu, cuda, cuda:1, xpu or mps; auto is a CUDA GPU if there is one. The CRF "
        "computes on the CPU."
    ),
]
Threads = Annotated[int | None, typer.Option(min=1, help="Number of threads; all processors by default.")]
SkipExisting = Annotated[
    bool, typer.Option("--skip-existing", help="Keep existing results, to resume an interrupted run.")
]
