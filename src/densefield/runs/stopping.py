"""SIGTERM during a run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from densefield.errors import DensefieldError


class Terminated(DensefieldError):
    """SIGTERM stopped a run, which has written a checkpoint."""

    exit_status = 128 + 15  # by convention


class StopRequest:
    """A signal handler that records whether SIGTERM was received."""

    def __init__(self) -> None:
        self.received = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """The handler."""
        self.received = True


@contextmanager
def recording_sigterm() -> Iterator[StopRequest]:
    """SIGTERM is recorded and does not end the process; outside the main thread nothing changes."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = signal.signal(signal.SIGTERM, request)
    try:
        yield request
    finally:
        signal.signal(signal.SIGTERM, before)
