"""Errors and warnings about bad input: what came, what was expected, what to do."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path


class DensefieldError(Exception):
    """Base of every error that densefield raises on purpose."""

    exit_status = 2  # of a command that ends with this error


class InputError(DensefieldError, ValueError):
    """An argument has the wrong shape or a value that cannot be used."""


class FeatureSpanError(InputError):
    """Features are not finite, or span too many widths of their kernel for a lattice."""


class InputTypeError(DensefieldError, TypeError):
    """An argument has the wrong type or dtype."""


class InputWarning(UserWarning):
    """An argument that can be used, but is probably not what was meant."""


def warn(message: str) -> None:
    """Issues an InputWarning that points at the caller of densefield.

    Python shows it once for each line of the user's code that causes it. Frames of torch's modules do not count: they
    lie between the user's code and ours.
    """
    package = str(Path(__file__).parent)
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(package) or frame.f_globals.get("__name__", "").startswith("torch.")
    ):
        frame = frame.f_back
        level += 1
    warnings.warn(message, InputWarning, stacklevel=level)
