"""The result of an evaluation: metrics of each method, their comparison, and both as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from densefield.io.messages import printable
from densefield.metrics.metrics import SegmentationResult
from densefield.metrics.summary import comparison_table, text_table


class EvaluationResult(Mapping[str, Any]):
    """The content of `result.json` by key, and the result of each method; printing it shows a table.

    Parameters
    ----------
    content
        The content of `result.json`: plain numbers and text.
    methods
        The result of "network", of "crf", or of both.
    """

    def __init__(self, content: Mapping[str, Any], methods: Mapping[str, SegmentationResult]) -> None:
        self.content, self.methods = dict(content), dict(methods)

    @property
    def verdict(self) -> str:
        """In which metrics the CRF helps or harms; empty unless both methods were evaluated on two images or more."""
        return str(self.content.get("verdict", ""))

    def __getitem__(self, key: str) -> Any:
        return self.content[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.content)

    def __len__(self) -> int:
        return len(self.content)

    def __repr__(self) -> str:
        return self._text(f"{len(self['images'])} images")

    def _text(self, title: str) -> str:
        """The table below a title, the verdict, and the number of images that were left out."""
        comparisons = {"crf": self["comparison"]} if "comparison" in self else {}
        lines = [title, text_table(*comparison_table(self["methods"], comparisons))]
        lines += [self.verdict] if self.verdict else []
        if self["left_out"]:
            lines.append(
                f"left out: {len(self['left_out'])} images; the first: {next(iter(self['left_out'].values()))}"
            )
        return printable("\n".join(lines), lines=True)
