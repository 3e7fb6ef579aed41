"""Errors that the native module raises for wrong arguments."""

from __future__ import annotations

WRONG_TYPE = TypeError, "incompatible function arguments"  # of nanobind, for types, dtypes and numbers of axes
