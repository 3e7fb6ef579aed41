"""`densefield tune`: a CRF for scores that stay as they are."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from densefield.cli.failing import missing, say, say_left_out, stop, tell, told_warnings
from densefield.cli.sources import FLAGS, Data, Probabilities, Scores, Split
from densefield.cli.stages import Stages


class SearchChoice(str, Enum):
    """How settings are chosen."""

    random = "random"
    grid = "grid"
    none = "none"


class CriterionChoice(str, Enum):
    """What makes a setting the best."""

    nll = "nll"
    mean_iou = "mean-iou"
    pixel_accuracy = "pixel-accuracy"


CRITERIA = {"nll": "negative_log_likelihood", "mean-iou": "mean_iou", "pixel-accuracy": "pixel_accuracy"}


def tune_verb(
    scores: Scores,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for results.", show_default=False)],
    data: Data = None,
    split: Split = None,
    probabilities: Probabilities = False,
    search: Annotated[SearchChoice, typer.Option(help="Settings at random, on a grid, or none.")] = SearchChoice.random,
    trials: Annotated[int, typer.Option(min=1, help="How many settings a random search tries.")] = 24,
    criterion: Annotated[
        CriterionChoice, typer.Option(help="The metric on the learning images that decides.")
    ] = CriterionChoice.nll,
    evaluations: Annotated[
        int, typer.Option(min=0, help="How often learning may evaluate the likelihood; 0 learns nothing.")
    ] = 24,
    shrink: Annotated[int, typer.Option(min=1, help="Search, and begin to learn, at 1/N of the images' size.")] = 2,
    iterations: Annotated[int, typer.Option(min=1, max=1 << 20, help="Updates of mean field.")] = 5,
    images: Annotated[int | None, typer.Option(min=4, help="Take so many images; all by default.")] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed, of the halves and of the settings that are tried.")
    ] = 0,
    spatial_sigma: Annotated[str, typer.Option(help="Widths in pixels: values of a grid, or ends.")] = "1,3,9",
    spatial_weight: Annotated[str, typer.Option(help="The same for its weight.")] = "0.1,1,6",
    bilateral_sigma_xy: Annotated[str, typer.Option(help="… for the bilateral kernel, in pixels.")] = "10,40,120",
    bilateral_sigma_rgb: Annotated[str, typer.Option(help="… in colours 0…255.")] = "3,10,30",
    bilateral_weight: Annotated[str, typer.Option(help="… for its weight.")] = "0.1,1,8",
) -> None:
    """Tune a CRF for fixed scores on half of the images, and evaluate it on the other half.

    Settings are searched, and from the best one all widths and weights are learnt on the log-likelihood. OUT gets
    crf.toml, result.json, trials.csv and learning.csv. A search that was interrupted is resumed by the same command.
    Images that cannot be read are left out. Exit status: 0 whether or not the CRF helps, 1 if an image was left out, 2
    if nothing could be started or fewer than 4 images can be read.
    """
    from densefield.cli.tables import print_comparison
    from densefield.errors import DensefieldError, InputError

    try:
        from densefield.runs.distributed import rank_and_world_size
        from densefield.runs.run_folder import check_result_folder
        from densefield.runs.score_files import check_sources
        from densefield.tuning.search import Space, TuningOptions

        if rank_and_world_size()[1] > 1:
            raise InputError("tuning runs on one process, which uses all processors: leave torchrun out.")
        space = Space(
            _numbers(spatial_sigma),
            _numbers(spatial_weight),
            _numbers(bilateral_sigma_xy),
            _numbers(bilateral_sigma_rgb),
            _numbers(bilateral_weight),
        )
        how: Any = {"search": search.value, "criterion": CRITERIA[criterion.value], "space": space}
        tuning = TuningOptions(
            **how,
            trials=trials,
            evaluations=evaluations,
            shrink=shrink,
            iterations=iterations,
            images=images,
            seed=seed,
        )
        check_sources(scores, data, split, probabilities)
        check_result_folder(out)
        from densefield.runs.scored_images import open_scores
        from densefield.tuning.tune import tune_crf

        with told_warnings(FLAGS):
            opened = open_scores(scores, data, split, probabilities=probabilities)
            for note in opened.notes:
                say(f"skipped: {note}")
            with Stages() as stages:
                result = tune_crf(opened.source, out, tuning, stages.advance, about=opened.about)
    except ModuleNotFoundError as error:
        raise missing("tuning", error) from error
    except (DensefieldError, OSError) as error:
        raise stop(error, flags=FLAGS) from error
    held_out = f"{len(result['held_out_images'])} images that were not learnt from"
    print_comparison(result["methods"], {"crf": result["comparison"]}, held_out)
    tell(result["verdict"])
    tell(f"{out / 'crf.toml'} ({result['chosen']}, {result['seconds']} s)")
    say_left_out(result["left_out"], FLAGS)
    if result["left_out"]:
        raise typer.Exit(1)


def _numbers(text: str) -> tuple[float, ...]:
    from densefield.errors import InputError

    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{text!r} is not a list of numbers, expected one such as 1,3,9.") from None
