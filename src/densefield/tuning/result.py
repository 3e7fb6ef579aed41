"""The result of tuning: the CRF, and its metrics on held-out images as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from densefield.evaluation.result import EvaluationResult
from densefield.metrics.metrics import SegmentationResult
from densefield.nn.dense_crf import DenseCRF


class TuningResult(EvaluationResult):
    """The tuned CRF, and the metrics of network and CRF on the held-out images; printing it shows a table.

    Parameters
    ----------
    content
        The content of `result.json`: plain numbers and text.
    methods
        The results of "network" and "crf" on the held-out images.
    crf
        The CRF; ``crf.save("crf.toml")`` writes it, and ``crf.to_numpy()`` needs no torch.
    """

    def __init__(self, content: Mapping[str, Any], methods: Mapping[str, SegmentationResult], crf: DenseCRF) -> None:
        super().__init__(content, methods)
        self.crf = crf

    def __repr__(self) -> str:
        kernels = "\n".join(f"  {kernel!r}" for kernel in self.crf.to_numpy().kernels)
        title = f"{len(self['held_out_images'])} held-out images"
        return f"{self._text(title)}\n{kernels}"
