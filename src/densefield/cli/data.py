"""`densefield data`: datasets."""

from __future__ import annotations

import typer

from densefield.cli.data_scenes import scenes_command

data_app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@data_app.callback()
def data() -> None:
    """Datasets: get them, draw them."""


data_app.command("scenes")(scenes_command)
