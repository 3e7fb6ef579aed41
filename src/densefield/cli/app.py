"""The command `densefield` and its verbs.

To add a verb, write its function in a file of its own and register it below. Files of verbs import only typer and
`densefield.cli` at the top, and everything else inside the function: help is fast, and a verb loads only its own needs.
"""

from __future__ import annotations

from typing import Annotated

import typer

from densefield.cli.data import data_app
from densefield.cli.eval import eval_verb
from densefield.cli.explore import explore_verb
from densefield.cli.fit import fit_verb
from densefield.cli.label_studio import label_studio_verb
from densefield.cli.predict import predict_verb
from densefield.cli.refine import refine_verb
from densefield.cli.report import report_verb
from densefield.cli.train import train_verb
from densefield.cli.tune import tune_verb

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"densefield {version('densefield')}")
        raise typer.Exit


@app.callback()
def densefield(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Fully connected conditional random fields."""


app.command("refine")(refine_verb)
app.command("explore")(explore_verb)
app.command("train")(train_verb)
app.command("tune")(tune_verb)
app.command("fit")(fit_verb)
app.command("eval")(eval_verb)
app.command("report")(report_verb)
app.command("predict")(predict_verb)
app.command("label-studio")(label_studio_verb)
app.add_typer(data_app, name="data")
