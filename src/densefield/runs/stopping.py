"""Ends of a run that are not its own: a signal that asks it to stop, and processes that no longer answer."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType

from densefield.errors import DensefieldError, InputError

TIMEOUT = 600.0  # seconds
VARIABLE = "DENSEFIELD_TIMEOUT"
MOST_SECONDS = 10**7
# What torch says where another process is gone or silent; its errors are RuntimeErrors of several kinds.
LOST = ("gloo", "NCCL", "Timed out", "Connection closed by peer", "Connection reset by peer", "Socket Timeout")


class Terminated(DensefieldError):
    """A run was asked to stop by SIGTERM, and has written a checkpoint."""


class LostProcess(DensefieldError):
    """Another process of the same run does not answer."""


class StopRequest:
    """Whether SIGTERM has come."""

    def __init__(self) -> None:
        self.came = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """The handler of the signal."""
        self.came = True


@contextmanager
def noticing_sigterm() -> Iterator[StopRequest]:
    """Within it SIGTERM does not end the process, but is noted; in threads but the main one nothing changes."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = signal.signal(signal.SIGTERM, request)
    try:
        yield request
    finally:
        signal.signal(signal.SIGTERM, before)


def process_timeout() -> timedelta:
    """How long a process waits for the others: ``$DENSEFIELD_TIMEOUT`` seconds, else 600.

    >>> process_timeout()
    datetime.timedelta(seconds=600)
    """
    text = os.environ.get(VARIABLE)
    if not text:
        return timedelta(seconds=TIMEOUT)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MOST_SECONDS:
        raise InputError(
            f"the environment variable {VARIABLE} is {text[:80]!r}, expected seconds, more than 0 and at most "
            f"{MOST_SECONDS}."
        )
    return timedelta(seconds=seconds)


@contextmanager
def naming_lost_processes(processes: int) -> Iterator[None]:
    """Turns torch's errors about connections between processes into one line."""
    try:
        yield
    except RuntimeError as error:
        if processes == 1 or not any(words in str(error) for words in LOST):
            raise
        seconds = process_timeout().total_seconds()
        raise LostProcess(
            f"another of the {processes} processes has ended, or has not answered for {seconds:g} seconds "
            f"({VARIABLE}). Look at what it printed; resume with resume=True."
        ) from error
