"""How verbs end that cannot go on."""

from __future__ import annotations

import typer


def stop(error: Exception, status: int = 2) -> typer.Exit:
    """Tells of the error on stderr, and gives what ends the process with the status: ``raise stop(error) from error``.

    >>> stop(ValueError("nothing to do")).exit_code
    2
    """
    told = str(error)
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        told = f"{error.filename}: {error.strerror}."
    typer.echo(f"densefield: {told}", err=True)
    return typer.Exit(status)


def missing(what: str, error: ModuleNotFoundError) -> typer.Exit:
    """Tells what to install for it."""
    return stop(ImportError(f"{what} needs {error.name}. Install with: pip install 'densefield[train]'"))
