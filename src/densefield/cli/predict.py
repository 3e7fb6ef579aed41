"""`densefield predict`: predicts the labels of images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from densefield.cli.messages import FLAGS, ending_on_errors, print_message, printing_warnings
from densefield.cli.options import CRFFile, Device, Network, Out, SkipExisting
from densefield.cli.progress import Bar


def predict_verb(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A run or a checkpoint of `densefield train`, or a model of `densefield fit`.",
            show_default=False,
        ),
    ],
    images: Annotated[
        list[Path], typer.Argument(metavar="IMAGES…", help="Images, or folders of images.", show_default=False)
    ],
    out: Out,
    crf: CRFFile = None,
    device: Device = "auto",
    network: Network = None,
    method: Annotated[
        Literal["network", "crf"] | None,
        typer.Option(help="The network alone, or with the CRF; with the CRF if there is one.", show_default=False),
    ] = None,
    overlay: Annotated[bool, typer.Option("--overlay", help="Also draw the labels over the images.")] = False,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Also write probabilities (classes, rows, columns) as .npz.")
    ] = False,
    temperature: Annotated[
        float | None,
        typer.Option(help="Divide the logarithms of probabilities by this number; labels stay the same."),
    ] = None,
    skip_existing: SkipExisting = False,
) -> None:
    """Predict the label of every pixel of images: OUT/NAME.png, a palette PNG.

    Subfolders are not searched. Under torchrun the images are divided among the processes. Exit status: 0 if all images
    were predicted, 1 if one failed, 2 if nothing could be started.
    """
    from densefield.errors import InputError

    with ending_on_errors(FLAGS, needs="prediction"):
        from densefield.images.pairs import find_images
        from densefield.runs.devices import check_device_name, choose_device
        from densefield.runs.run_folder import check_result_folder, checkpoint_file, read_photo_crf

        # All checks that need no torch come before it is loaded.
        check_device_name(device)
        if temperature is not None and not probabilities:
            raise InputError("--temperature changes probabilities alone, not labels: add --probabilities.")
        is_log_linear = (run / "unary.json").is_file()
        if not is_log_linear:
            checkpoint_file(run)
        find_images(images)
        if crf is not None:
            read_photo_crf(crf)
        check_result_folder(out)
        from densefield.evaluation.predict import Predictor, predict_files
        from densefield.nn.dense_crf import DenseCRF
        from densefield.runs.distributed import exit_together, gather

        place = choose_device(device)
        outputs, own, num_classes, longest_side = _log_linear(run) if is_log_linear else _segmenter(run, place, network)
        chosen = own if crf is None else DenseCRF.from_numpy(read_photo_crf(crf, num_classes), num_classes)
        if method == "crf" and chosen is None:
            raise InputError(f"{run} has no CRF: pass crf=.")
        chosen = None if method == "network" else chosen
        divisor = 1.0 if temperature is None else temperature
        predictor = Predictor(outputs, chosen, longest_side, temperature=divisor)
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


def _segmenter(run: Path, device: Any, network: str | None) -> tuple[Any, Any, int, int]:
    """The network on its device, the CRF, the number of classes and the longest side of a run."""
    from densefield.runs.checkpoint import load_segmenter
    from densefield.runs.devices import network_on

    segmenter, config = load_segmenter(run, network)
    return network_on(segmenter, device), segmenter.crf, config.network.num_classes, config.data.longest_side


def _log_linear(folder: Path) -> tuple[Any, Any, int, int]:
    """The same of a model of `densefield fit`."""
    from densefield.errors import InputError
    from densefield.tuning.log_linear import LogLinearModel

    model = LogLinearModel.load(folder)
    if model.features.arrays:
        raise InputError(
            f"{folder} needs an array for each image: use LogLinearModel.load(folder).predict(image, array) in Python."
        )
    return model.network, model.crf, len(model.classes), model.longest_side
