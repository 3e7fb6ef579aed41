"""What a run shows while it goes: a bar on a terminal, else a line at each validation."""

from __future__ import annotations

import sys
import time

from densefield.io.messages import printable


class Display:
    """Loss, IoU, images per second and time left, on stderr."""

    def __init__(self, steps: int, done: int, *, shown: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._console = Console(stderr=True)
        self._shown, self._steps, self._first = shown, steps, done
        self._start = time.monotonic()
        self._bar = Progress(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not (shown and self._console.is_terminal),
        )
        self._task = self._bar.add_task("", total=steps, completed=done, numbers="")

    def __enter__(self) -> Display:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def step(self, step: int, loss: float, iou: float | None, images_per_second: float) -> None:
        """Shows that this step is done, with the last IoU on validation."""
        self._bar.update(self._task, completed=step, numbers=_numbers(loss, iou, images_per_second))

    def validated(self, step: int, loss: float, iou: float, images_per_second: float) -> None:
        """A line that stays, where there is no bar."""
        if self._shown and not self._console.is_terminal:
            left = (time.monotonic() - self._start) / max(step - self._first, 1) * (self._steps - step)
            numbers = _numbers(loss, iou, images_per_second)
            print(f"step {step}/{self._steps}  {numbers}  {left:.0f} s left", file=sys.stderr, flush=True)

    def say(self, line: str) -> None:
        """A line above the bar."""
        if self._shown:
            self._console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def _numbers(loss: float, iou: float | None, images_per_second: float) -> str:
    """The figures of the bar.

    >>> _numbers(0.51234, 0.6, 33.33)
    'loss 0.5123  IoU 60.0  33.3 images/s'
    """
    return f"loss {loss:.4f}  IoU {'–' if iou is None else f'{100 * iou:.1f}'}  {images_per_second:.1f} images/s"
