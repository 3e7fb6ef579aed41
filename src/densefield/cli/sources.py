"""Options of several verbs: where scores come from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from densefield.crf.layer import DenseCRF
    from densefield.training.score_sources import ScoreSource

Scores = Annotated[
    Path,
    typer.Argument(
        metavar="SCORES",
        help="A checkpoint of `densefield train`, or a folder of logits (labels, rows, columns) as ID.npz.",
        show_default=False,
    ),
]
Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", help="A folder with images/ and masks/, or PASCAL VOC 2012 in its layout.", show_default=False
    ),
]
Split = Annotated[str, typer.Option(help="The split whose images are taken.")]


def open_scores(scores: Path, data: Path, split: str) -> tuple[ScoreSource, DenseCRF | None]:
    """The scored images, and the CRF of the checkpoint where there is one."""
    from densefield.data.layout import open_dataset
    from densefield.training.score_sources import SavedScores, checkpoint_scores

    dataset = open_dataset(data, split)
    if scores.is_dir():
        return SavedScores(scores, dataset), None
    return checkpoint_scores(scores, dataset)
