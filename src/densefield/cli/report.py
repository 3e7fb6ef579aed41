"""`densefield report`: one page that shows what came out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from densefield.cli.failing import missing, stop


def report_verb(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN…",
            help="Folders that `densefield train`, `eval` and `tune` wrote to, or folders of them; NAME=FOLDER names "
            "one. Gains are over the first.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("report.html"),
) -> None:
    """Write one page of HTML with the curves, tables and pictures of runs, and the figures as PNG beside it.

    The page needs nothing but itself. Exit status: 0 when written, 2 if nothing could be shown.
    """
    from densefield.errors import DensefieldError

    try:
        from densefield.report.page import write_report

        written = write_report(runs, out)
    except ModuleNotFoundError as error:
        raise missing("reporting", error) from error
    except (DensefieldError, OSError) as error:
        raise stop(error) from error
    typer.echo(str(written[0]))
