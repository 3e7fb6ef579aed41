"""`densefield predict`: predicts the labels of images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from densefield.cli.messages import FLAGS, ending_on_errors, print_message, printing_warnings
from densefield.cli.options import CRFFile, Device, Out, SkipExisting
from densefield.cli.progress import Bar


def predict_verb(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="A run or a checkpoint of `densefield train`.", show_default=False),
    ],
    images: Annotated[
        list[Path], typer.Argument(metavar="IMAGES…", help="Images, or folders of images.", show_default=False)
    ],
    out: Out,
    crf: CRFFile = None,
    device: Device = "auto",
    method: Annotated[
        Literal["network", "crf"] | None,
        typer.Option(help="The network alone, or with the CRF; with the CRF if there is one.", show_default=False),
    ] = None,
    overlay: Annotated[bool, typer.Option("--overlay", help="Also draw the labels over the images.")] = False,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Also write probabilities (classes, rows, columns) as .npz.")
    ] = False,
    skip_existing: SkipExisting = False,
) -> None:
    """Predict the label of every pixel of images: OUT/NAME.png, a palette PNG.

    Subfolders are not searched. Under torchrun the images are divided among the processes. Exit status: 0 if all images
    were predicted, 1 if one failed, 2 if nothing could be started.
    """
    from densefield.errors import InputError

    with ending_on_errors(FLAGS, needs="prediction"):
        from densefield.images.pairs import find_images
        from densefield.runs.devices import check_device_name, choose_device, network_on
        from densefield.runs.run_folder import check_result_folder, checkpoint_file, read_photo_crf

        # All checks that need no torch come before it is loaded.
        check_device_name(device)
        checkpoint_file(run)
        find_images(images)
        if crf is not None:
            read_photo_crf(crf)
        check_result_folder(out)
        from densefield.evaluation.predict import Predictor, predict_files
        from densefield.nn.dense_crf import DenseCRF
        from densefield.runs.checkpoint import load_segmenter
        from densefield.runs.distributed import exit_together, gather

        place = choose_device(device)
        segmenter, config = load_segmenter(run)
        num_classes = config.network.num_classes
        chosen = segmenter.crf if crf is None else DenseCRF.from_numpy(read_photo_crf(crf, num_classes), num_classes)
        if method == "crf" and chosen is None:
            raise InputError(f"{run} has no CRF: pass crf=.")
        network = network_on(segmenter, place)
        predictor = Predictor(network, None if method == "network" else chosen, config.data.longest_side)
        with printing_warnings(FLAGS), Bar("predict") as bar:
            predicted = predict_files(
                predictor,
                images,
                out,
                overlay=overlay,
                probabilities=probabilities,
                skip_existing=skip_existing,
                progress=bar.advance,
            )
        for line in predicted.ignored:
            print_message(f"skipped: {line}")
        for failure in predicted.failures:
            print_message(f"failed: {failure}")
        kept = f"; kept: {len(predicted.skipped)}" if predicted.skipped else ""
        print_message(f"images predicted: {len(predicted.done)}{kept}")
        # torchrun ends all processes when one fails: all exit together.
        status = int(any(gather(bool(predicted.failures))))
        exit_together(status)
    if status:
        raise typer.Exit(status)
