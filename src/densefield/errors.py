"""The errors densefield raises on bad input: what came, what was expected, what to do."""

from __future__ import annotations


class DensefieldError(Exception):
    """Base of every error that densefield raises on purpose."""


class InputError(DensefieldError, ValueError):
    """An argument has the wrong shape or a value that cannot be used."""


class InputTypeError(DensefieldError, TypeError):
    """An argument has the wrong type or dtype."""


class InputWarning(UserWarning):
    """An argument that can be used, but is probably not what was meant."""
