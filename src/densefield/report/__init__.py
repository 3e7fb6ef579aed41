"""The report: runs, evaluations and tunings compared on one HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from densefield.lazy import lazy_exports

if TYPE_CHECKING:
    from densefield.report.page import write_report as write_report
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__, {"page": ["write_report"]})
