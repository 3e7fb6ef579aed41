"""`densefield report`: one page with the results of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from densefield.cli.messages import ending_on_errors, print_result


def report_verb(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN…",
            help="Folders that `densefield train`, `eval` and `tune` wrote to, or folders of them; NAME=FOLDER names "
            "one. Differences are to the first.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("report.html"),
) -> None:
    """Write an HTML page with the curves, tables and pictures of runs, and the figures as PNG beside it.

    The page is self-contained. Exit status: 0 when written, 2 if there is nothing to show.
    """
    with ending_on_errors(needs="reporting"):
        from densefield.report.arguments import check_folder, check_page, named_folders

        for _, folder in named_folders(runs):  # before the imports, which take seconds
            check_folder(folder)
        check_page(out)
        from densefield.report.page import write_report

        written = write_report(runs, out)
    print_result(str(written[0]))
