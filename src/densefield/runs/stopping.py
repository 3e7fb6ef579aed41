"""SIGTERM during a run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from densefield.errors import DensefieldError


class Terminated(DensefieldError):
    """SIGTERM stopped a run, which has written a checkpoint."""

    exit_status = 128 + 15  # by convention


@contextmanager
def recording_sigterm() -> Iterator[list[int]]:
    """SIGTERM is added to the list and does not end the process; outside the main thread nothing changes."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        yield received
    finally:
        signal.signal(signal.SIGTERM, before)
