"""CRF parameters tuned on fixed scores: by search, then by L-BFGS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from densefield.lazy import lazy_exports

if TYPE_CHECKING:
    from densefield.tuning.lbfgs import learn_crf as learn_crf
    from densefield.tuning.search import Space as Space
    from densefield.tuning.search import TuningOptions as TuningOptions
    from densefield.tuning.tune import tune_crf as tune_crf
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__, {"lbfgs": ["learn_crf"], "search": ["Space", "TuningOptions"], "tune": ["tune_crf"]}
    )
