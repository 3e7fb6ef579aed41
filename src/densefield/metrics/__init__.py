"""Metrics of segmentations: pixel counts → metrics → confidence intervals.

* `densefield.metrics.counts`: pixel counts of images, which add up over images.
* `densefield.metrics.metrics`: metrics of counts, and `SegmentationResult`.
* `densefield.metrics.segmentation_metrics`: `SegmentationMetrics`, which counts batches of torch tensors.
* `densefield.metrics.bootstrap`: confidence intervals, and two methods compared on the same images.
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
    from densefield.metrics.metrics import METRICS as METRICS
    from densefield.metrics.metrics import SegmentationResult as SegmentationResult
    from densefield.metrics.segmentation_metrics import SegmentationMetrics as SegmentationMetrics
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "bootstrap": ["Comparison", "Interval", "bootstrap_interval", "compare_methods"],
            "boundaries": ["boundary_distance"],
            "counts": ["Counts"],
            "metrics": ["METRICS", "SegmentationResult"],
            "segmentation_metrics": ["SegmentationMetrics"],
        },
    )
