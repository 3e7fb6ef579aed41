"""The command `densefield` and its verbs.

One file per verb. At the top it imports nothing but typer: what the verb needs is imported when the verb runs, so that
help is quick and no verb pays for another.
"""

from __future__ import annotations

import typer

from densefield.cli.data import data_app
from densefield.cli.eval import eval_verb
from densefield.cli.predict import predict_verb
from densefield.cli.refine import refine_verb
from densefield.cli.report import report_verb
from densefield.cli.train import train_verb
from densefield.cli.tune import tune_verb

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.callback()
def densefield() -> None:
    """Fully connected conditional random fields."""


app.command("refine")(refine_verb)
app.command("train")(train_verb)
app.command("tune")(tune_verb)
app.command("eval")(eval_verb)
app.command("report")(report_verb)
app.command("predict")(predict_verb)
app.add_typer(data_app, name="data")
