"""Text on the terminal: results, errors and warnings, with options of the command line in place of Python arguments.

All output of the command line goes through this file, since names of files, classes and runs are not trusted.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import typer

from densefield.io.messages import printable

# Python arguments in messages of the library → options of `train`, `tune`, `eval` and `predict`.
FLAGS = {
    "probabilities=True": "--probabilities",
    'methods=("network",)': "--method network",
    "crf=": "--crf ",
    "device=": "--device ",
    "network=": "--network ",
    "split=None": "no --split",
    "resume=True": "--resume",
    "training.start_from": "--from",
}


def print_result(text: str) -> None:
    """Prints results on stdout; text may have several lines."""
    typer.echo(printable(text, lines=True))


def print_message(message: str, flags: Mapping[str, str] | None = None, *, lines: bool = False) -> None:
    """Prints a message on stderr, on one line unless `lines` allows several."""
    typer.echo(f"densefield: {printable(as_flags(message, flags or {}), lines=lines)}", err=True)


def print_left_out(left_out: Mapping[str, str], flags: Mapping[str, str]) -> None:
    """Prints a line for each image that was left out of a result, and their number."""
    for line in left_out.values():
        print_message(f"left out: {line}", flags)
    if left_out:
        print_message(f"images left out: {len(left_out)}")


def as_flags(message: str, flags: Mapping[str, str]) -> str:
    """A message of the library with options in place of Python arguments.

    A flag that ends in a space takes a value: the space is kept only if the message gives one.

    >>> table = {"soft=True": "--soft", "num_classes=": "--num-classes "}
    >>> as_flags("pass soft=True, or num_classes=21, or the number of classes: num_classes=.", table)
    'pass --soft, or --num-classes 21, or the number of classes: --num-classes.'
    """
    if not flags:
        return message
    longest_first = sorted(flags, key=len, reverse=True)
    pattern = re.compile(rf"(?<!\w)({'|'.join(re.escape(key) for key in longest_first)})(?=([\w'\"\[-])?)")

    def flag(found: re.Match[str]) -> str:
        return flags[found[1]] if found[2] else flags[found[1]].rstrip(" ")

    return pattern.sub(flag, message)


@contextmanager
def ending_on_errors(flags: Mapping[str, str] | None = None, *, needs: str = "") -> Iterator[None]:
    """Errors of the library and of files end the process with one message, and the exit status of the error, else 2.

    `flags` are as in as_flags(). `needs` names what a missing optional package is needed for.
    """
    from densefield.errors import DensefieldError

    try:
        yield
    except ModuleNotFoundError as error:
        cure = f"{needs} needs {error.name}. Install with: pip install 'densefield[train]'"
        print_message(str(error) if not needs or "pip install" in str(error) else cure)
        raise typer.Exit(2) from error
    except (DensefieldError, OSError) as error:
        message = str(error)
        if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
            message = f"{error.filename}: {error.strerror}."
        print_message(message, flags, lines=True)
        status = error.exit_status if isinstance(error, DensefieldError) else 2
        from densefield.runs.distributed import LostProcess, exit_at_once

        if isinstance(error, LostProcess):  # torch may wait for it when it closes connections
            exit_at_once(status)
        raise typer.Exit(status) from error


@contextmanager
def printing_warnings(flags: Mapping[str, str] | None = None) -> Iterator[None]:
    """Warnings are printed as one line on stderr, without their line of code.

    Those of Pillow are left out: they are about unusual tags of readable files, and do not name the file.
    """

    def show(message: Warning | str, *_: object) -> None:
        print_message(f"warning: {message}", flags)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        warnings.showwarning = show  # type: ignore[assignment]
        yield
