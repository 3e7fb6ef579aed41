"""Memory that native code keeps for the next image."""

from __future__ import annotations

from densefield import _core


def release_memory() -> int:
    """Gives memory that is kept for the next image back to the system, and returns how many bytes.

    After a call up to 512 MB stay with the process, so that the next image of the size is faster. Memory that was not
    used for five seconds goes back by itself, where calls use more than one thread; with one thread, at the next call.
    The environment variable ``DENSEFIELD_CACHE_MB`` sets another limit; 0 keeps nothing.

    >>> release_memory() >= 0
    True
    """
    return _core.release_blocks()
