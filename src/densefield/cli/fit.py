"""`densefield fit`: fits a log-linear model to labelled images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from densefield.cli.messages import FLAGS, ending_on_errors, print_left_out, print_result, printing_warnings
from densefield.cli.options import Out
from densefield.cli.progress import Stages

FIT_FLAGS = {
    **FLAGS,
    "features=": "--features ",
    "foreground=": "--foreground ",
}
MIN_SIDE = 32  # pixels: less shows no object


def fit_verb(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="A folder with images/ and masks/, or PASCAL VOC 2012 in its layout.",
            show_default=False,
        ),
    ],
    out: Out,
    split: Annotated[
        str | None,
        typer.Option(
            help="Split to learn from; by default train, or every second image of a folder without split lists.",
            show_default=False,
        ),
    ] = None,
    test_split: Annotated[
        str | None,
        typer.Option(help="Split to compare on; by default val, or the other images.", show_default=False),
    ] = None,
    foreground: Annotated[
        str | None,
        typer.Option(
            help="Classes against all others, such as cat,dog: two classes, and only images that show the first.",
            show_default=False,
        ),
    ] = None,
    features: Annotated[str, typer.Option(help="Features of pixels; none with --arrays alone.")] = (
        "colour,texture,position"
    ),
    arrays: Annotated[
        Path | None,
        typer.Option(
            help="Folder of further features (channels, rows, columns), ID.npy or ID.npz.", show_default=False
        ),
    ] = None,
    l2: Annotated[
        float | None,
        typer.Option(min=0, help="Weight of the L2 penalty; by default chosen on a quarter of the learning images."),
    ] = None,
    compatibility: Annotated[
        Literal["potts", "per_label", "matrix"],
        typer.Option(help="Weights of a kernel: one, one for each class, or one for each pair of classes."),
    ] = "matrix",
    evaluations: Annotated[
        int, typer.Option(min=1, help="Maximum number of evaluations of the likelihood for each model.")
    ] = 30,
    iterations: Annotated[int, typer.Option(min=1, max=1 << 20, help="Number of mean-field iterations.")] = 5,
    longest_side: Annotated[
        int, typer.Option(min=0, help="Shrink larger images to this side in pixels, 32 or more; 0 for no limit.")
    ] = 200,
    images: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of learning images, evenly spread; all by default.")
    ] = None,
    test_images: Annotated[
        int | None, typer.Option(min=2, help="Maximum number of test images, evenly spread; all by default.")
    ] = None,
) -> None:
    """Fit a log-linear model: logistic regression on features of pixels and a CRF, learnt together by L-BFGS.

    It is compared with logistic regression alone, with a usual CRF and with a CRF that is learnt for fixed scores. OUT
    gets the model, unary.json and crf.toml, which `densefield predict OUT` uses, and result.json. Images that cannot be
    read are left out. Exit status: 0 when done, 1 if an image was left out, 2 if nothing could be started.
    """
    with ending_on_errors(FIT_FLAGS, needs="fitting"):
        from densefield.datasets.folder import find_layout, list_split, split_names
        from densefield.errors import InputError
        from densefield.runs.distributed import rank_and_world_size
        from densefield.runs.run_folder import check_result_folder
        from densefield.runs.score_files import find_score_files

        if rank_and_world_size()[1] > 1:
            raise InputError("fitting runs on one process, which uses all processors: leave torchrun out.")
        layout, base = find_layout(data)
        unlisted = layout == "folder" and not split_names(base)
        if unlisted and (split is not None or test_split is not None):
            raise InputError(f"{data} has no split lists: leave the splits out, or write splits/NAME.txt.")
        names = [None] if unlisted else [split or "train", test_split or "val"]
        listed = [{entry.id for entry in list_split(data, name).entries} for name in names]
        shared = len(listed[0] & listed[1]) if len(listed) == 2 else 0
        if shared:
            raise InputError(
                f"the splits {names[0]} to learn from and {names[1]} to compare on share {shared} images, so that the "
                "comparison would be with images of learning: name another one with --split or --test-split."
            )
        if 0 < longest_side < MIN_SIDE:
            raise InputError(f"--longest-side is {longest_side}, expected {MIN_SIDE} or more, or 0 for no limit.")
        if arrays is not None:
            find_score_files(arrays)
        check_result_folder(out)
        from densefield.cli.tables import print_comparison
        from densefield.tuning.feature_images import arrays_in
        from densefield.tuning.fit_log_linear import FitOptions
        from densefield.tuning.log_linear import UNARY
        from densefield.tuning.log_linear_result import fit_and_compare
        from densefield.tuning.pixel_features import PixelFeatures

        if (out / UNARY).exists():
            raise InputError(f"{out} holds a model, which would be lost: choose another folder, or remove this one.")
        kinds: Any = _names(features, "features") if features != "none" else []
        PixelFeatures(kinds, int(arrays is not None))  # checks them
        chosen = None if foreground is None else _names(foreground, "foreground")
        options = FitOptions(kinds, l2, compatibility, evaluations, iterations, longest_side)
        with printing_warnings(FLAGS), Stages() as stages:
            learning, test, left_out = _open(data, names, chosen, [images, test_images], stages)
            read = None if arrays is None else arrays_in(arrays, [*learning.ids, *test.ids])
            about = {"data": str(data.resolve()), "splits": names, "foreground": chosen}
            result = fit_and_compare(learning, test, out, options, stages.advance, arrays=read, about=about)
    methods = result["methods"]
    for name, comparison in result["comparisons"].items():
        title = f"joint and {name}, {len(result['test_images'])} test images"
        print_comparison({name: methods[name], "joint": methods["joint"]}, {"joint": comparison}, title)
    print_result(f"{out / 'unary.json'} and crf.toml (l2 {result['l2']['joint']:g}, {result['seconds']} s)")
    print_left_out(left_out, FLAGS)
    if left_out:
        raise typer.Exit(1)


def _open(
    data: Path, names: list[Any], foreground: list[str] | None, limits: list[int | None], stages: Stages
) -> tuple[Any, Any, dict[str, str]]:
    """The images to learn from, those to compare on, and a line for each that cannot be read."""
    from functools import partial

    from densefield.datasets.folder import open_dataset
    from densefield.datasets.foreground import ForegroundDataset
    from densefield.datasets.sample import Subset
    from densefield.tuning.log_linear_result import usable

    splits: list[Any] = [open_dataset(data, name) for name in names]
    if len(splits) == 1:
        splits = [Subset(splits[0], range(first, len(splits[0]), 2)) for first in (0, 1)]
    if foreground is not None:
        splits = [ForegroundDataset(each, foreground) for each in splits]
    label = None if foreground is None else 1
    found = []
    left_out: dict[str, str] = {}
    for what, dataset, most in zip(("learning", "test"), splits, limits, strict=True):
        images, failures = usable(dataset, most, label, partial(stages.advance, f"read the {what} images"))
        found.append(images)
        left_out |= failures
    return found[0], found[1], left_out


def _names(text: str, option: str) -> list[str]:
    from densefield.errors import InputError

    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InputError(f"--{option} is {text!r}, expected names with a comma between each two.")
    return names
