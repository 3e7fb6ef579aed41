"""Metrics of segmentations: pixel counts → metrics → confidence intervals.

* `densefield.metrics.counts`: pixel counts of images, which add up over images.
* `densefield.metrics.metrics`: metrics of counts, and `SegmentationResult`.
* `densefield.metrics.segmentation_metrics`: `SegmentationMetrics`, which counts batches of torch tensors.
* `densefield.metrics.bootstrap`: confidence intervals, and two methods compared on the same images.
* `densefield.metrics.decoding`, `densefield.metrics.dataset_decoding`: labels from marginals with a high expected IoU.
* `densefield.metrics.temperature`: calibration of scores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from densefield.lazy import lazy_exports

if TYPE_CHECKING:
    from densefield.metrics.bootstrap import Comparison as Comparison
    from densefield.metrics.bootstrap import Interval as Interval
    from densefield.metrics.bootstrap import bootstrap_interval as bootstrap_interval
    from densefield.metrics.bootstrap import compare_methods as compare_methods
    from densefield.metrics.boundaries import boundary_distance as boundary_distance
    from densefield.metrics.counts import Counts as Counts
    from densefield.metrics.dataset_decoding import DatasetDecoder as DatasetDecoder
    from densefield.metrics.dataset_decoding import DecodingRule as DecodingRule
    from densefield.metrics.decoding import decode as decode
    from densefield.metrics.decoding import expected_score as expected_score
    from densefield.metrics.metrics import METRICS as METRICS
    from densefield.metrics.metrics import Reliability as Reliability
    from densefield.metrics.metrics import SegmentationResult as SegmentationResult
    from densefield.metrics.segmentation_metrics import SegmentationMetrics as SegmentationMetrics
    from densefield.metrics.temperature import apply_temperature as apply_temperature
    from densefield.metrics.temperature import fit_temperature as fit_temperature
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "bootstrap": ["Comparison", "Interval", "bootstrap_interval", "compare_methods"],
            "boundaries": ["boundary_distance"],
            "counts": ["Counts"],
            "dataset_decoding": ["DatasetDecoder", "DecodingRule"],
            "decoding": ["decode", "expected_score"],
            "metrics": ["METRICS", "Reliability", "SegmentationResult"],
            "segmentation_metrics": ["SegmentationMetrics"],
            "temperature": ["apply_temperature", "fit_temperature"],
        },
    )
