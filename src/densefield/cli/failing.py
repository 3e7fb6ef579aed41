"""Text on the terminal: errors and warnings in the words of the command line, and no character that a terminal acts on.

All output of the command line goes through this file, since names of files, classes and runs are not trusted.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import typer

from densefield.io.messages import printable


def stop(error: Exception, status: int = 2, flags: Mapping[str, str] | None = None) -> typer.Exit:
    """Prints the error and returns the exception that ends the process: ``raise stop(error) from error``.

    `flags` are the options of the verb by the Python arguments that messages of the library name, as in as_flags().

    >>> stop(ValueError("nothing to do")).exit_code
    2
    """
    message = str(error)
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        message = f"{error.filename}: {error.strerror}."
    say(message, flags, lines=True)
    return typer.Exit(status)


def say(message: str, flags: Mapping[str, str] | None = None, *, lines: bool = False) -> None:
    """Prints a message on stderr, on one line unless it may have several."""
    typer.echo(f"densefield: {printable(as_flags(message, flags or {}), lines=lines)}", err=True)


def tell(text: str) -> None:
    """Prints results on stdout; text may have several lines."""
    typer.echo(printable(text, lines=True))


def say_left_out(left_out: Mapping[str, str], flags: Mapping[str, str]) -> None:
    """Prints a line for each image that was left out of a result, and how many there are."""
    for line in left_out.values():
        say(f"left out: {line}", flags)
    if left_out:
        say(f"images left out: {len(left_out)}")


def as_flags(message: str, flags: Mapping[str, str]) -> str:
    """A message of the library with options in place of Python arguments.

    A flag that ends in a space takes a value: the space is kept only where the message gives one.

    >>> table = {"soft=True": "--soft", "num_classes=": "--labels "}
    >>> as_flags("pass soft=True, or num_classes=21, or the number of labels: num_classes=.", table)
    'pass --soft, or --labels 21, or the number of labels: --labels.'
    """
    if not flags:
        return message
    longest_first = sorted(flags, key=len, reverse=True)
    pattern = re.compile(rf"(?<!\w)({'|'.join(re.escape(key) for key in longest_first)})(?=([\w'\"\[-])?)")

    def flag(found: re.Match[str]) -> str:
        return flags[found[1]] if found[2] else flags[found[1]].rstrip(" ")

    return pattern.sub(flag, message)


@contextmanager
def told_warnings(flags: Mapping[str, str] | None = None) -> Iterator[None]:
    """Within it, each warning is one line on stderr, without the line of code that it came from.

    Those of Pillow are left out: they are about odd tags of readable files, and do not name the file.
    """

    def show(message: Warning | str, *_: object) -> None:
        say(f"warning: {message}", flags)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def missing(what: str, error: ModuleNotFoundError) -> typer.Exit:
    """Prints what to install for it."""
    return stop(ImportError(f"{what} needs {error.name}. Install with: pip install 'densefield[train]'"))
