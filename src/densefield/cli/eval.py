"""`densefield eval`: the metrics of a network alone, and with a CRF."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from densefield.cli.bar import Bar
from densefield.cli.failing import missing, say, say_left_out, stop, tell, told_warnings
from densefield.cli.sources import FLAGS, CRFFile, Data, Probabilities, Scores, Split


class MethodChoice(str, Enum):
    """What is evaluated."""

    network = "network"
    crf = "crf"
    both = "both"


def eval_verb(
    scores: Scores,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for results.", show_default=False)],
    data: Data = None,
    split: Split = None,
    probabilities: Probabilities = False,
    crf: CRFFile = None,
    method: Annotated[
        MethodChoice | None,
        typer.Option(help="The network alone, with the CRF, or both; both where there is a CRF.", show_default=False),
    ] = None,
    cases: Annotated[int, typer.Option(min=0, help="Draw so many of the best and of the worst images.")] = 4,
) -> None:
    """Evaluate a network alone and with a CRF, with confidence intervals over images.

    OUT gets result.json, the counts of each image and pictures of those that gain and lose most. After an interruption
    the same command resumes. Under torchrun the images are shared among the processes. Images that cannot be read or
    computed are left out. Exit status: 0 when done, 1 if an image was left out, 2 if nothing could be started or no
    image can be read.
    """
    from densefield.cli.tables import print_classes, print_comparison
    from densefield.errors import DensefieldError

    try:
        _check(scores, data, split, probabilities, crf, method, out)
        from densefield.evaluation.evaluation import evaluate
        from densefield.nn.dense_crf import DenseCRF
        from densefield.runs.distributed import LostProcess, exit_at_once, exit_together, rank_and_world_size
        from densefield.runs.run_folder import read_photo_crf
        from densefield.runs.scored_images import open_scores
    except ModuleNotFoundError as error:
        raise missing("evaluation", error) from error
    except (DensefieldError, OSError) as error:
        raise stop(error, flags=FLAGS) from error
    try:
        with told_warnings(FLAGS):
            opened = open_scores(scores, data, split, probabilities=probabilities)
            for note in opened.notes:
                say(f"skipped: {note}")
            labels = len(opened.source.classes)
            chosen = opened.crf if crf is None else DenseCRF.from_numpy(read_photo_crf(crf, labels), labels)
            methods: Any = ("network", "crf") if method is MethodChoice.both else (method.value,) if method else None
            if methods is None:
                methods = ("network",) if chosen is None else ("network", "crf")
            with Bar("eval") as bar:
                result = evaluate(
                    opened.source, chosen, out, methods, about=opened.about, cases=cases, progress=bar.advance
                )
    except (DensefieldError, OSError) as error:
        end = stop(error, 1 if isinstance(error, LostProcess) else 2, FLAGS)
        if isinstance(error, LostProcess):  # torch may wait for it while it frees connections
            exit_at_once(end.exit_code)
        raise end from error
    if rank_and_world_size()[0] == 0:
        comparison = {"crf": result["comparison"]} if "comparison" in result else {}
        print_comparison(result["methods"], comparison, f"{len(result['images'])} images")
        print_classes(result["methods"], result["classes"])
        if "verdict" in result:
            tell(result["verdict"])
        say_left_out(result["left_out"], FLAGS)
    status = 1 if result["left_out"] else 0
    exit_together(status)
    if status:
        raise typer.Exit(status)


def _check(
    scores: Path,
    data: Path | None,
    split: str | None,
    probabilities: bool,
    crf: Path | None,
    method: MethodChoice | None,
    out: Path,
) -> None:
    """Raises for arguments that cannot be used, before torch is loaded."""
    from densefield.errors import InputError
    from densefield.runs.run_folder import check_result_folder, read_photo_crf
    from densefield.runs.score_files import check_sources, names_score_files

    check_sources(scores, data, split, probabilities)
    if crf is not None:
        read_photo_crf(crf)
    elif method in (MethodChoice.crf, MethodChoice.both) and names_score_files(scores, probabilities):
        raise InputError(f'{scores} holds scores without a CRF: pass crf=, or methods=("network",).')
    check_result_folder(out)
