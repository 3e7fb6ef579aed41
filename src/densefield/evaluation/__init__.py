"""Evaluation of networks and CRFs on datasets, and prediction of images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from densefield.lazy import lazy_exports

if TYPE_CHECKING:
    from densefield.evaluation.evaluation import evaluate as evaluate
    from densefield.evaluation.evaluation import evaluate_images as evaluate_images
    from densefield.evaluation.evaluation import read_evaluation as read_evaluation
    from densefield.evaluation.predict import PredictedFiles as PredictedFiles
    from densefield.evaluation.predict import Predictor as Predictor
    from densefield.evaluation.predict import predict_files as predict_files
    from densefield.evaluation.result import EvaluationResult as EvaluationResult
    from densefield.evaluation.temperatures import fit_temperatures as fit_temperatures
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "evaluation": ["evaluate", "evaluate_images", "read_evaluation"],
            "predict": ["PredictedFiles", "Predictor", "predict_files"],
            "result": ["EvaluationResult"],
            "temperatures": ["fit_temperatures"],
        },
    )
