"""`densefield tune`: tunes a CRF for fixed scores."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from densefield.cli.messages import (
    FLAGS,
    ending_on_errors,
    print_left_out,
    print_message,
    print_result,
    printing_warnings,
)
from densefield.cli.options import Data, Device, Network, Out, Probabilities, Scores, Split
from densefield.cli.progress import Stages

CRITERIA: dict[str, Any] = {
    "nll": "negative_log_likelihood",
    "mean-iou": "mean_iou",
    "pixel-accuracy": "pixel_accuracy",
}


def tune_verb(
    scores: Scores,
    out: Out,
    data: Data = None,
    split: Split = None,
    probabilities: Probabilities = False,
    device: Device = "auto",
    network: Network = None,
    search: Annotated[
        Literal["random", "grid", "none"],
        typer.Option(help="Settings to try: at random, on a grid, or only the default."),
    ] = "random",
    trials: Annotated[int, typer.Option(min=1, help="Number of settings of a random search.")] = 24,
    criterion: Annotated[
        Literal["nll", "mean-iou", "pixel-accuracy"],
        typer.Option(help="Metric on the learning images that settings are compared by."),
    ] = "nll",
    evaluations: Annotated[
        int, typer.Option(min=0, help="Maximum number of evaluations of the likelihood in learning; 0 learns nothing.")
    ] = 24,
    shrink: Annotated[int, typer.Option(min=1, help="Search, and start learning, on images at 1/N of their size.")] = 2,
    iterations: Annotated[int, typer.Option(min=1, max=1 << 20, help="Number of mean-field iterations.")] = 5,
    images: Annotated[int | None, typer.Option(min=4, help="Maximum number of images; all by default.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    spatial_sigma: Annotated[
        str, typer.Option(help="Widths of the spatial kernel in pixels: the values of a grid, or a range.")
    ] = "1,3,9",
    spatial_weight: Annotated[str, typer.Option(help="Weights of the spatial kernel.")] = "0.1,1,6",
    bilateral_sigma_xy: Annotated[str, typer.Option(help="Widths of the bilateral kernel in pixels.")] = "10,40,120",
    bilateral_sigma_rgb: Annotated[
        str, typer.Option(help="Widths of the bilateral kernel in colours 0…255.")
    ] = "3,10,30",
    bilateral_weight: Annotated[str, typer.Option(help="Weights of the bilateral kernel.")] = "0.1,1,8",
) -> None:
    """Tune a CRF for fixed scores on half of the images, and evaluate it on the other half.

    Settings are searched, and from the best one all widths and weights are learnt on the log-likelihood. OUT gets
    crf.toml, result.json, trials.csv and learning.csv. The same command resumes an interrupted search. Images that
    cannot be read are left out. Exit status: 0 whether or not the CRF helps, 1 if an image was left out, 2 if nothing
    could be started or fewer than 4 images can be read.
    """
    from densefield.errors import InputError

    with ending_on_errors(FLAGS, needs="tuning"):
        from densefield.runs.devices import check_device_name
        from densefield.runs.distributed import rank_and_world_size
        from densefield.runs.run_folder import check_result_folder
        from densefield.runs.score_files import check_sources
        from densefield.tuning.search import Space, TuningOptions

        if rank_and_world_size()[1] > 1:
            raise InputError("tuning runs on one process, which uses all processors: leave torchrun out.")
        grids = (spatial_sigma, spatial_weight, bilateral_sigma_xy, bilateral_sigma_rgb, bilateral_weight)
        options = TuningOptions(
            search=search,
            criterion=CRITERIA[criterion],
            space=Space(*(_numbers(values) for values in grids)),
            trials=trials,
            evaluations=evaluations,
            shrink=shrink,
            iterations=iterations,
            images=images,
            seed=seed,
        )
        check_device_name(device)
        check_sources(scores, data, split, probabilities)
        check_result_folder(out)
        from densefield.cli.tables import print_comparison
        from densefield.runs.scored_images import open_scores
        from densefield.tuning.tune import tune_crf

        with printing_warnings(FLAGS):
            opened = open_scores(scores, data, split, probabilities=probabilities, device=device, network=network)
            for note in opened.notes:
                print_message(f"skipped: {note}")
            with Stages() as stages:
                result = tune_crf(opened.source, out, options, stages.advance, about=opened.about)
    held_out = f"{len(result['held_out_images'])} held-out images"
    print_comparison(result["methods"], {"crf": result["comparison"]}, held_out)
    print_result(result["verdict"])
    print_result(f"{out / 'crf.toml'} ({result['chosen']}, {result['seconds']} s)")
    print_left_out(result["left_out"], FLAGS)
    if result["left_out"]:
        raise typer.Exit(1)


def _numbers(text: str) -> tuple[float, ...]:
    from densefield.errors import InputError

    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{text!r} is not a list of numbers, expected one such as 1,3,9.") from None
