"""`densefield eval`: metrics of a network alone and with a CRF."""

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
from densefield.cli.options import CRFFile, Data, Device, Network, Out, Probabilities, Scores, Splits
from densefield.cli.progress import Bar


def eval_verb(
    scores: Scores,
    out: Out,
    data: Data = None,
    split: Splits = None,
    probabilities: Probabilities = False,
    device: Device = "auto",
    network: Network = None,
    crf: CRFFile = None,
    method: Annotated[
        Literal["network", "crf", "both"] | None,
        typer.Option(help="The network alone, with the CRF, or both; both if there is a CRF.", show_default=False),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Divide the log marginals by this number; labels stay the same.")
    ] = None,
    fit_temperature: Annotated[
        str | None,
        typer.Option(
            metavar="SPLIT",
            help="Divide the log marginals of each method by the number that suits the images of this split best.",
            show_default=False,
        ),
    ] = None,
    cases: Annotated[int, typer.Option(min=0, help="Number of images of each kind to draw.")] = 4,
) -> None:
    """Evaluate a network alone and with a CRF, with confidence intervals over images.

    OUT gets result.json, the counts of each image, and pictures of the best and worst results and of the images whose
    accuracy the CRF changes most; for several splits, in a folder for each. The same command resumes an interrupted
    evaluation. Under torchrun the images are divided among the processes. Images
    that cannot be read or computed are left out. Exit status: 0 when done, 1 if an image was left out, 2 if nothing
    could be started or no image can be read.
    """
    from densefield.errors import InputError

    with ending_on_errors(FLAGS, needs="evaluation"):
        from densefield.io.folders import path_inside
        from densefield.runs.devices import check_device_name
        from densefield.runs.run_folder import check_result_folder, read_photo_crf
        from densefield.runs.score_files import check_sources, names_score_files, split_list

        # All checks that need no torch come before it is loaded.
        check_device_name(device)
        if temperature is not None and fit_temperature is not None:
            raise InputError("--temperature and --fit-temperature are both given: leave one of them out.")
        splits = split_list(split)
        for each in splits:
            check_sources(scores, data, each, probabilities)
        if fit_temperature is not None:
            check_sources(scores, data, fit_temperature, probabilities)
        if crf is not None:
            read_photo_crf(crf)
        elif method in ("crf", "both") and names_score_files(scores, probabilities):
            raise InputError(f'{scores} holds scores without a CRF: pass crf=, or methods=("network",).')
        check_result_folder(out)
        from densefield.cli.tables import print_classes, print_comparison
        from densefield.evaluation.evaluation import evaluate
        from densefield.evaluation.temperatures import fit_temperatures
        from densefield.nn.dense_crf import DenseCRF
        from densefield.runs.distributed import exit_together, rank_and_world_size
        from densefield.runs.scored_images import open_scores

        with printing_warnings(FLAGS):
            every = [
                open_scores(scores, data, each, probabilities=probabilities, device=device, network=network)
                for each in splits
            ]
            for note in dict.fromkeys(note for opened in every for note in opened.notes):
                print_message(f"skipped: {note}")
            opened = every[0]
            num_classes = len(opened.source.classes)
            chosen = opened.crf if crf is None else DenseCRF.from_numpy(read_photo_crf(crf, num_classes), num_classes)
            methods: Any = ("network", "crf")
            if method in ("network", "crf"):
                methods = (method,)
            elif method is None and chosen is None:
                methods = ("network",)
            temperatures: Any = 1.0 if temperature is None else temperature
            if fit_temperature is not None:
                others = open_scores(
                    scores, data, fit_temperature, probabilities=probabilities, device=device, network=network
                ).source
                for opened in every:
                    shared = len(set(others.ids) & set(opened.source.ids))
                    if shared:
                        images = "1 image" if shared == 1 else f"{shared} images"
                        raise InputError(
                            f"the split {fit_temperature} to fit the temperature on shares {images} with the "
                            f"split {opened.about['split']}: name another one."
                        )
                with Bar("fit temperature") as bar:
                    temperatures = fit_temperatures(others, chosen, methods, bar.advance)
            results = {}
            for opened in every:
                name = opened.about["split"]
                folder = out if len(every) == 1 else path_inside(out, name)
                with Bar("eval" if len(every) == 1 else f"eval {name}") as bar:
                    results[name] = evaluate(
                        opened.source,
                        chosen,
                        folder,
                        methods,
                        temperature=temperatures,
                        about=opened.about,
                        cases=cases,
                        progress=bar.advance,
                    )
    if rank_and_world_size()[0] == 0:
        for name, result in results.items():
            comparison = {"crf": result["comparison"]} if "comparison" in result else {}
            title = f"{len(result['images'])} images" + (f", {name}" if len(results) > 1 else "")
            print_comparison(result["methods"], comparison, title)
            if set(result["temperatures"].values()) != {1.0}:
                fitted = "" if fit_temperature is None else f" (fitted on {fit_temperature})"
                numbers = ", ".join(f"{method} {value:g}" for method, value in result["temperatures"].items())
                print_result(f"temperature: {numbers}{fitted}")
            if "verdict" in result:
                print_result(result["verdict"])
            print_left_out(result["left_out"], FLAGS)
        # Of one split, all methods; of several, the last method on each (paper, Table 1).
        last = {name: list(result["methods"].values())[-1] for name, result in results.items()}
        print_classes(last if len(results) > 1 else result["methods"], result["classes"])
    status = 1 if any(result["left_out"] for result in results.values()) else 0
    exit_together(status)
    if status:
        raise typer.Exit(status)
