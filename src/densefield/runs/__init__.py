"""Runs: settings, checkpoints, run folders, scored images, and several processes. Needs the extra `train`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from densefield.lazy import lazy_exports

if TYPE_CHECKING:
    from densefield.runs.build import build_segmenter as build_segmenter
    from densefield.runs.checkpoint import Validation as Validation
    from densefield.runs.checkpoint import load_segmenter as load_segmenter
    from densefield.runs.config import Config as Config
    from densefield.runs.distributed import LostProcess as LostProcess
    from densefield.runs.scored_arrays import as_score_source as as_score_source
    from densefield.runs.scored_images import NetworkScores as NetworkScores
    from densefield.runs.scored_images import OpenedScores as OpenedScores
    from densefield.runs.scored_images import SavedScores as SavedScores
    from densefield.runs.scored_images import ScoredImage as ScoredImage
    from densefield.runs.scored_images import ScoreSource as ScoreSource
    from densefield.runs.scored_images import open_scores as open_scores
    from densefield.runs.settings import read_config as read_config
    from densefield.runs.stopping import Terminated as Terminated
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "build": ["build_segmenter"],
            "checkpoint": ["Validation", "load_segmenter"],
            "config": ["Config"],
            "distributed": ["LostProcess"],
            "scored_arrays": ["as_score_source"],
            "scored_images": [
                "NetworkScores",
                "OpenedScores",
                "SavedScores",
                "ScoreSource",
                "ScoredImage",
                "open_scores",
            ],
            "settings": ["read_config"],
            "stopping": ["Terminated"],
        },
    )
