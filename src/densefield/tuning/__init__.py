"""CRF parameters tuned on fixed scores, by search and by L-BFGS, and log-linear models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from densefield.lazy import lazy_exports

if TYPE_CHECKING:
    from densefield.tuning.fit_log_linear import FitOptions as FitOptions
    from densefield.tuning.fit_log_linear import learn_log_linear as learn_log_linear
    from densefield.tuning.lbfgs import Evaluation as Evaluation
    from densefield.tuning.lbfgs import learn_crf as learn_crf
    from densefield.tuning.log_linear import LogLinearModel as LogLinearModel
    from densefield.tuning.pixel_features import PixelFeatures as PixelFeatures
    from densefield.tuning.result import TuningResult as TuningResult
    from densefield.tuning.search import Space as Space
    from densefield.tuning.search import TuningOptions as TuningOptions
    from densefield.tuning.tune import tune_crf as tune_crf
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "fit_log_linear": ["FitOptions", "learn_log_linear"],
            "lbfgs": ["Evaluation", "learn_crf"],
            "log_linear": ["LogLinearModel"],
            "pixel_features": ["PixelFeatures"],
            "result": ["TuningResult"],
            "search": ["Space", "TuningOptions"],
            "tune": ["tune_crf"],
        },
    )
