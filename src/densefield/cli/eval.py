"""`densefield eval`: how good a network is alone, and with a CRF."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from densefield.cli.bar import Bar
from densefield.cli.failing import missing, stop
from densefield.cli.sources import Data, Scores, Split


class MethodChoice(str, Enum):
    """What is judged."""

    network = "network"
    crf = "crf"
    both = "both"


CRFFile = Annotated[
    Path | None,
    typer.Option("--crf", help="A CRF as `densefield tune` writes it; by default that of the run.", show_default=False),
]


def eval_verb(
    scores: Scores,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for results.", show_default=False)],
    data: Data = None,
    split: Split = "val",
    crf: CRFFile = None,
    method: Annotated[
        MethodChoice | None,
        typer.Option(help="The network alone, with the CRF, or both; both where there is a CRF.", show_default=False),
    ] = None,
    cases: Annotated[int, typer.Option(min=0, help="Draw so many of the best and of the worst images.")] = 4,
) -> None:
    """Judge a network alone and with a CRF, with intervals over images.

    OUT gets result.json, the counts of each image and pictures of those that gain and lose most. What was counted
    before an interruption is not counted again. Under torchrun the images are shared among the processes. Exit status:
    0 when done, 2 if nothing could be begun.
    """
    from densefield.cli.tables import print_classes, print_comparison
    from densefield.errors import DensefieldError

    try:
        from densefield.evaluation.evaluate import evaluate
        from densefield.training.crf_file import read_crf
        from densefield.training.opening import open_scores
        from densefield.training.processes import leave, this_process
    except ModuleNotFoundError as error:
        raise missing("judging", error) from error
    try:
        opened = open_scores(scores, data, split)
        chosen = opened.crf if crf is None else read_crf(crf, len(opened.source.classes))
        methods: Any = ("network", "crf") if method is MethodChoice.both else (method.value,) if method else None
        if methods is None:
            methods = ("network",) if chosen is None else ("network", "crf")
        with Bar("eval") as bar:
            result = evaluate(
                opened.source, chosen, out, methods, about=opened.about, cases=cases, progress=bar.advance
            )
    except (DensefieldError, OSError) as error:
        raise stop(error) from error
    if this_process()[0] == 0:
        comparison = {"crf": result["comparison"]} if "comparison" in result else {}
        print_comparison(result["methods"], comparison, f"{len(result['images'])} images")
        print_classes(result["methods"], result["classes"])
        if "verdict" in result:
            typer.echo(result["verdict"])
    leave()
