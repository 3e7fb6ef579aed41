"""Scored images, and a CRF for them, from what a user names: a run, a checkpoint, or a folder of logits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from densefield.crf.layer import DenseCRF
from densefield.data.layout import open_dataset
from densefield.errors import InputError
from densefield.nets.normalization import IMAGENET
from densefield.training.score_sources import NetworkScores, SavedScores, ScoreSource


def open_scores(scores: Path, data: Path | None, split: str) -> tuple[ScoreSource, DenseCRF | None]:
    """The scored images of a split, and the CRF of the run where it has one.

    ``scores`` is a run, a checkpoint, or a folder of logits as ID.npz. Without ``data`` the
    images are a split of those that the run's settings name.
    """
    if scores.is_dir() and not (scores / "checkpoints").is_dir():
        if data is None:
            raise InputError(f"{scores} holds logits, which know nothing of images: name the folder of the data too.")
        return SavedScores(scores, open_dataset(data, split)), None
    # Whoever has logits in files need not have what training needs.
    from densefield.training.build import open_split
    from densefield.training.checkpoint import load_segmenter

    segmenter, config = load_segmenter(scores)
    dataset = open_split(config.data, split) if data is None else open_dataset(data, split)
    normalization: Callable[[Tensor], Tensor] = getattr(segmenter.network, "normalization", IMAGENET)
    return NetworkScores(segmenter.scores, dataset, normalization), segmenter.crf
