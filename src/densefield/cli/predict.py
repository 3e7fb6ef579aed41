"""`densefield predict`: labels for images."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from densefield.cli.bar import Bar
from densefield.cli.failing import missing, say, stop, told_warnings
from densefield.cli.sources import FLAGS, CRFFile


class PredictChoice(str, Enum):
    """What predicts."""

    network = "network"
    crf = "crf"


def predict_verb(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="A run or a checkpoint of `densefield train`.", show_default=False),
    ],
    images: Annotated[
        list[Path], typer.Argument(metavar="IMAGES…", help="Images, or folders of them.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for results.", show_default=False)],
    crf: CRFFile = None,
    method: Annotated[
        PredictChoice | None,
        typer.Option(help="The network alone, or with the CRF; with it where there is one.", show_default=False),
    ] = None,
    overlay: Annotated[bool, typer.Option("--overlay", help="Also draw the labels over the images.")] = False,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Also write probabilities (labels, rows, columns) as .npz.")
    ] = False,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Keep results that exist, to resume after an interruption.")
    ] = False,
) -> None:
    """Label every pixel of images: OUT/NAME.png, an indexed picture.

    Subfolders are not searched. Under torchrun the images are shared among the processes. Exit status: 0 if all images
    were predicted, 1 if one failed, 2 if nothing could be started.
    """
    from densefield.errors import DensefieldError, InputError

    try:
        _check(run, images, out, crf)
        from densefield.evaluation.predict import Predictor, predict_files
        from densefield.nn.dense_crf import DenseCRF
        from densefield.runs.checkpoint import load_segmenter
        from densefield.runs.distributed import LostProcess, exit_at_once, exit_together, gather, rank_and_world_size
        from densefield.runs.run_folder import read_photo_crf
    except ModuleNotFoundError as error:
        raise missing("prediction", error) from error
    except (DensefieldError, OSError) as error:
        raise stop(error, flags=FLAGS) from error
    try:
        segmenter, config = load_segmenter(run)
        labels = config.network.num_classes
        chosen = segmenter.crf if crf is None else DenseCRF.from_numpy(read_photo_crf(crf, labels), labels)
        if method is PredictChoice.crf and chosen is None:
            raise InputError(f"{run} has no CRF: pass crf=.")
        predictor = Predictor(
            segmenter.scores,
            None if method is PredictChoice.network else chosen,
            config.data.longest_side,
        )
        with told_warnings(FLAGS), Bar("predict") as bar:
            predicted = predict_files(
                predictor,
                images,
                out,
                overlay=overlay,
                probabilities=probabilities,
                skip_existing=skip_existing,
                progress=bar.advance,
            )
    except (DensefieldError, OSError) as error:
        raise stop(error, flags=FLAGS) from error
    for line in predicted.ignored:
        say(f"skipped: {line}")
    for failure in predicted.failures:
        say(f"failed: {failure}")
    kept = f"; kept: {len(predicted.skipped)}" if predicted.skipped else ""
    say(f"images predicted: {len(predicted.done)}{kept}")
    # torchrun ends all processes when one has failed: until the others are done none does.
    failures = {str(rank_and_world_size()[0]): predicted.failures} if predicted.failures else {}
    try:
        status = 1 if gather(failures) else 0
        exit_together(status)
    except LostProcess as error:
        end = stop(error, 1, FLAGS)
        exit_at_once(end.exit_code)
        raise end from error
    if status:
        raise typer.Exit(status)


def _check(run: Path, images: list[Path], out: Path, crf: Path | None) -> None:
    """Raises for arguments that cannot be used, before torch is loaded."""
    from densefield.images.pairs import find_images
    from densefield.runs.run_folder import check_result_folder, checkpoint_file, read_photo_crf

    checkpoint_file(run)
    find_images(images)
    if crf is not None:
        read_photo_crf(crf)
    check_result_folder(out)
