"""Several progress bars, one after the other."""

from __future__ import annotations

from densefield.cli.bar import Bar
from densefield.cli.failing import say


class Stages:
    """One bar after the other, each under a line that names the stage."""

    def __init__(self) -> None:
        self._what = ""
        self._bar: Bar | None = None

    def __enter__(self) -> Stages:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.__exit__()

    def advance(self, what: str, done: int, total: int | None, *, in_bytes: bool = False) -> None:
        """Shows that so much of it is done."""
        if what != self._what or self._bar is None:
            self.__exit__()
            say(what)
            self._what, self._bar = what, Bar(what, in_bytes=in_bytes).__enter__()
        self._bar.advance(done, total)
