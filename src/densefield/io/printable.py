"""Text from files and file names, made safe for terminals and figures."""

from __future__ import annotations

import unicodedata

# Control characters, formats such as those that reverse the direction of text, and halves of surrogate pairs.
UNSAFE = ("Cc", "Cf", "Cs", "Zl", "Zp")
LONGEST = 400  # letters of an error of a decoder


def printable(text: str, *, lines: bool = False) -> str:
    r"""The text with an escape in place of each character that a terminal would act on.

    * ``lines``: line breaks are kept.

    >>> printable("cat\x1b[31m.png"), printable("one\ntwo"), printable("one\ntwo", lines=True)
    ('cat\\x1b[31m.png', 'one\\ntwo', 'one\ntwo')
    """
    if text.isprintable():
        return text
    return "".join(
        letter if (lines and letter == "\n") or unicodedata.category(letter) not in UNSAFE else _escape(letter)
        for letter in text
    )


def cause(error: Exception) -> str:
    """What an error says, on one line and without a full stop; its type where it says nothing.

    >>> cause(ValueError("broken\\n  header.")), cause(EOFError())
    ('broken header', 'EOFError')
    """
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror
    said = " ".join(str(error).split()).rstrip(".")
    return (said if len(said) <= LONGEST else f"{said[:LONGEST]}…") or type(error).__name__


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
