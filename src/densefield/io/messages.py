"""Text for terminals and error messages: escaped, on one line."""

from __future__ import annotations

import unicodedata
from pathlib import Path

from densefield.errors import DensefieldError

# Unicode categories of control characters, text direction marks, surrogates and line separators.
UNSAFE = ("Cc", "Cf", "Cs", "Zl", "Zp")
MAX_LENGTH = 400  # characters of a decoder's error
OUT_OF_MEMORY = ("can't allocate memory", "CUDA out of memory", "not enough memory", "std::bad_alloc")  # torch's words


def printable(text: str, *, lines: bool = False) -> str:
    r"""Escape the characters that a terminal would interpret; `lines` keeps line breaks.

    >>> printable("cat\x1b[31m.png"), printable("one\ntwo"), printable("one\ntwo", lines=True)
    ('cat\\x1b[31m.png', 'one\\ntwo', 'one\ntwo')
    """
    if text.isprintable():
        return text
    return "".join(
        letter
        if (lines and letter == "\n") or unicodedata.category(letter) not in UNSAFE
        else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def cause(error: Exception) -> str:
    """Message of an error on one line, without a full stop; its type if the message is empty.

    >>> cause(ValueError("broken\\n  header.")), cause(EOFError())
    ('broken header', 'EOFError')
    """
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror
    message = " ".join(str(error).split()).rstrip(".")
    return (message if len(message) <= MAX_LENGTH else f"{message[:MAX_LENGTH]}…") or type(error).__name__


def failure_line(error: Exception, *paths: Path | str) -> str:
    """One line that names a file and the reason why it failed; `paths` are the files it may be about, likeliest first.

    >>> failure_line(ValueError("odd\\nheader"), "cat.npz")
    'cat.npz: ValueError: odd header.'
    >>> failure_line(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried …"), "cat.npz")
    "cat.npz: out of memory (DefaultCPUAllocator: can't allocate memory: you tried …)."
    """
    message = cause(error)
    if isinstance(error, DensefieldError):
        reason = " ".join(str(error).split())
        return reason if any(str(path) in reason for path in paths) else f"{paths[0]}: {reason}"
    if isinstance(error, MemoryError) or any(words in message for words in OUT_OF_MEMORY):
        return f"{paths[0]}: out of memory ({message})."
    if isinstance(error, OSError):
        return f"{error.filename or paths[0]}: {message}."
    return f"{paths[0]}: {type(error).__name__}: {message}."


def first_names(names: list[str], limit: int = 10) -> str:
    """The first few names and how many more there are.

    >>> first_names(["cat", "dog"]), first_names([str(n) for n in range(7)], 5)
    ('cat, dog', '0, 1, 2, 3, 4 and 2 more')
    """
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
