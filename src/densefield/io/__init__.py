"""Files: atomic writing, reading untrusted input within size limits, listing folders, downloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from densefield.io.files import open_atomically as open_atomically
from densefield.io.files import read_json as read_json
from densefield.io.files import write_atomically as write_atomically
from densefield.io.folders import list_files as list_files
from densefield.io.folders import path_inside as path_inside
from densefield.io.messages import failure_line as failure_line
from densefield.io.messages import printable as printable

if TYPE_CHECKING:
    from densefield.io.untrusted import max_pixels as max_pixels
    from densefield.io.untrusted import read_array as read_array


def __getattr__(name: str) -> object:
    """Import names that need NumPy when they are first used: the command line starts without it."""
    if name in ("max_pixels", "read_array"):
        from densefield.io import untrusted

        return getattr(untrusted, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
