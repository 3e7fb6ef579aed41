"""Progress bars on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import ProgressColumn, Task

BAR_WIDTH = 20  # letters: with all columns a line fits into a terminal of 80


class Bar:
    """A progress bar that counts pieces, with their rate and the remaining time, or bytes.

    It disappears when the work is done, and is shown on a terminal only.
    """

    def __init__(self, what: str, *, shown: bool = True, in_bytes: bool = False, unit: str = "") -> None:
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True)
        # Elsewhere than on a terminal it would only leave its last state behind.
        disable = not (shown and console.is_terminal)
        columns = _columns_of_bytes() if in_bytes else _columns(unit)
        self._progress = Progress(*columns, console=console, disable=disable, transient=True)
        self._task = self._progress.add_task(what, total=None)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def advance(self, done: int, total: int | None) -> None:
        """Shows that so much is done."""
        self._progress.update(self._task, completed=done, total=total)


def _columns(unit: str) -> list[ProgressColumn]:
    """What is done, the bar, the count, the rate, and the remaining time."""
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        """How many pieces are done per second."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else rate(speed, unit), style="progress.data.speed")

    return [
        TextColumn("{task.description}", markup=False),
        BarColumn(BAR_WIDTH),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
        TextColumn("left"),
    ]


def _columns_of_bytes() -> list[ProgressColumn]:
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    return [
        TextColumn("{task.description}", markup=False),
        BarColumn(BAR_WIDTH),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    ]


def rate(per_second: float, unit: str = "") -> str:
    """Pieces per second in three digits.

    >>> rate(123.4, "images"), rate(2.345, "images"), rate(0.04567)
    ('123 images/s', '2.3 images/s', '0.046/s')
    """
    digits = f"{per_second:.0f}" if per_second >= 10 else f"{per_second:.2g}"
    return f"{digits} {unit}/s" if unit else f"{digits}/s"
