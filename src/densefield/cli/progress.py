"""Progress bars on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from densefield.cli.messages import print_message

if TYPE_CHECKING:
    from rich.progress import ProgressColumn, Task

INTERRUPTED = 130  # the exit status after Ctrl-C, by convention
BAR_WIDTH = 20  # characters: with all columns a line fits into a terminal of 80


class Bar:
    """A progress bar that counts items, with their rate and the remaining time, or bytes.

    It is shown on a terminal only, and disappears when the work is done. `done` and `total` are the last counts.
    """

    def __init__(self, title: str, *, shown: bool = True, in_bytes: bool = False, unit: str = "") -> None:
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True)
        # Without a terminal, rich would print the last state of the bar.
        disable = not (shown and console.is_terminal)
        columns = _byte_columns() if in_bytes else _item_columns(unit)
        self._progress = Progress(*columns, console=console, disable=disable, transient=True)
        self._task = self._progress.add_task(title, total=None)
        self.done, self.total = 0, 0

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def advance(self, done: int, total: int | None) -> None:
        """Updates the bar; a total of 0 or None is unknown."""
        self.done, self.total = done, total or 0
        self._progress.update(self._task, completed=done, total=total or None)


class Stages:
    """One bar after the other, each below a line that names the stage."""

    def __init__(self) -> None:
        self._stage = ""
        self._bar: Bar | None = None

    def __enter__(self) -> Stages:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.__exit__()

    def advance(self, stage: str, done: int, total: int | None, *, in_bytes: bool = False) -> None:
        """Updates the bar of a stage."""
        if stage != self._stage or self._bar is None:
            self.__exit__()
            print_message(stage)
            self._stage, self._bar = stage, Bar(stage, in_bytes=in_bytes).__enter__()
        self._bar.advance(done, total)


def _item_columns(unit: str) -> list[ProgressColumn]:
    """Title, bar, count, rate, and remaining time."""
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        """Items per second."""

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


def _byte_columns() -> list[ProgressColumn]:
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    return [
        TextColumn("{task.description}", markup=False),
        BarColumn(BAR_WIDTH),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    ]


def rate(per_second: float, unit: str = "") -> str:
    """Items per second with about three digits.

    >>> rate(123.4, "images"), rate(2.345, "images"), rate(0.04567)
    ('123 images/s', '2.3 images/s', '0.046/s')
    """
    digits = f"{per_second:.0f}" if per_second >= 10 else f"{per_second:.2g}"
    return f"{digits} {unit}/s" if unit else f"{digits}/s"
