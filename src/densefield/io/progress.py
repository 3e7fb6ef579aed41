"""Progress callbacks."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]  # what is done, and the total; a total of 0 is unknown
StageProgress = Callable[[str, int, int], None]  # the same of a named stage
