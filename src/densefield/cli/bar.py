"""Bars of progress on stderr."""

from __future__ import annotations


class Bar:
    """A bar of progress, in pieces or in bytes; it is gone when the work is done, and never shown but on a terminal."""

    def __init__(self, what: str, *, shown: bool = True, in_bytes: bool = False) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        console = Console(stderr=True)
        columns = [TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()]
        # Elsewhere than on a terminal it would only leave its last state behind.
        disable = not (shown and console.is_terminal)
        self._progress = Progress(*columns if in_bytes else (), console=console, disable=disable, transient=True)
        self._task = self._progress.add_task(what, total=None)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def advance(self, done: int, total: int | None) -> None:
        """Shows that so much is done."""
        self._progress.update(self._task, completed=done, total=total)
