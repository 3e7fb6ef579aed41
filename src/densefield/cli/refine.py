"""`densefield refine`: refines masks in files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from densefield.cli.messages import ending_on_errors, print_message, printing_warnings
from densefield.cli.options import SkipExisting
from densefield.cli.progress import INTERRUPTED, Bar
from densefield.cli.refine_messages import FLAGS, FLAGS_OF_KERNELS, failure_log, print_findings, print_summary
from densefield.cli.refine_options import (
    KERNEL_OPTIONS,
    above_0,
    check_alone,
    crf_of,
    finite,
    numbers_of,
    pair_of,
    probability,
)
from densefield.cli.refine_video import check_video_options, is_given, refine_video


def refine_verb(
    context: typer.Context,
    image: Annotated[
        Path,
        typer.Argument(metavar="IMAGE", exists=True, help="The image, or a folder of images.", show_default=False),
    ],
    mask: Annotated[
        Path,
        typer.Argument(
            metavar="MASK",
            exists=True,
            help="Its mask: an indexed or grey picture of labels (255: unknown), a binary picture such as 0/255, a "
            "picture in colours, or .npy/.npz with labels (H, W) or probabilities (L, H, W). For folders: a folder of "
            "masks with the names of the images.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="The result: .png or .tif for labels in the form of the mask, .npy or .npz for probabilities "
            "(L, H, W). For folders: a folder. Existing files are overwritten.",
            show_default=False,
        ),
    ],
    roughness: Annotated[
        float | None,
        typer.Option(
            callback=above_0,
            help="Distance of a mask's edges from the true ones in pixels; 1 for nearly exact masks.",
            show_default="estimated",
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            callback=above_0,
            help="Divisor of logits and of logarithms of probabilities; above 1 for overconfident networks.",
            show_default="1",
        ),
    ] = None,
    decode: Annotated[
        Literal["accuracy", "iou", "dice"],
        typer.Option(
            help="What labels are chosen for: accuracy takes the most probable, iou and dice expected overlap."
        ),
    ] = "accuracy",
    iterations: Annotated[int, typer.Option(min=0, max=1 << 20, help="Number of mean-field iterations.")] = 5,
    crf: Annotated[
        Path | None,
        typer.Option(
            "--crf",
            exists=True,
            dir_okay=False,
            help="A CRF file of `densefield tune` or CRF.save, in place of the learnt kernels and of those options.",
            show_default=False,
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            callback=probability,
            help="Probability that a label of the mask is correct, the same at every pixel, in place of --roughness.",
            show_default="0.7 with other kernels",
        ),
    ] = None,
    sigma: Annotated[
        float | None, typer.Option(callback=above_0, help="Width of the spatial kernel in pixels.", show_default="3")
    ] = None,
    weight: Annotated[
        float | None,
        typer.Option(callback=finite, help="Weight of the spatial kernel; 0 leaves it out.", show_default="3"),
    ] = None,
    sigma_xy: Annotated[
        float | None,
        typer.Option(callback=above_0, help="Width of the bilateral kernel in pixels.", show_default="60"),
    ] = None,
    sigma_rgb: Annotated[
        float | None,
        typer.Option(callback=above_0, help="Width of the bilateral kernel in colours 0…255.", show_default="10"),
    ] = None,
    bilateral_weight: Annotated[
        float | None,
        typer.Option(callback=finite, help="Weight of the bilateral kernel; 0 leaves it out.", show_default="5"),
    ] = None,
    num_classes: Annotated[
        int | None,
        typer.Option(min=2, max=1 << 16, help="Number of classes; by default the highest label of the mask plus 1."),
    ] = None,
    void: Annotated[
        int | None,
        typer.Option(help="Value of unknown pixels in masks; 255 by default, unless there are more than 255 classes."),
    ] = None,
    logits: Annotated[bool, typer.Option("--logits", help="Arrays hold logits, not probabilities.")] = False,
    soft: Annotated[
        bool, typer.Option("--soft", help="Grey masks hold the probability of label 1, 0…255, and so do results.")
    ] = False,
    recursive: Annotated[bool, typer.Option("--recursive", help="Search subfolders too; results mirror them.")] = False,
    mask_suffix: Annotated[
        str, typer.Option(help="Ending of the names of masks: with _mask, cat.jpg is paired with cat_mask.png.")
    ] = "",
    format: Annotated[
        Literal["png", "tif", "npy", "npz"] | None,
        typer.Option(help="Format of a folder's results.", show_default="tif for tif masks, else png"),
    ] = None,
    skip_existing: SkipExisting = False,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="Number of threads, or of pairs of a folder at a time; all processors by default."),
    ] = None,
    preview: Annotated[
        Path | None,
        typer.Option(
            help="Also draw image, mask, result and changes to this .png. For folders: a folder.",
            show_default=False,
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False, help="Log file: one line for each failed file, written as it fails.", show_default=False
        ),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Explain why a result is blank or unchanged.")] = False,
    window: Annotated[
        str | None,
        typer.Option(
            metavar="LOW,HIGH",
            help="Intensities of volumes and rasters that count as 0 and 255, such as -160,240.",
            show_default="percentiles near the mask's edges",
        ),
    ] = None,
    spacing: Annotated[
        str | None,
        typer.Option(
            metavar="X,Y[,Z]", help="Size of a pixel of volumes and rasters.", show_default="that of the file"
        ),
    ] = None,
    tile: Annotated[
        int | None,
        typer.Option(
            min=16,
            help="Side of the tiles in which volumes and rasters are computed, in pixels; smaller ones take "
            "less memory.",
            show_default="256 in volumes of labels, 2048 in rasters of labels",
        ),
    ] = None,
    video: Annotated[
        bool,
        typer.Option(
            "--video", help="The folders hold the frames of a video and their masks, which are refined together."
        ),
    ] = False,
    frame_step: Annotated[
        float | None,
        typer.Option(
            callback=above_0,
            help="Number of pixels that the step from one frame of a video to the next is worth; smaller ones couple "
            "frames more strongly.",
            show_default="2, or 4 with --causal; more in frames above 375 × 500",
        ),
    ] = None,
    frames_per_window: Annotated[
        int | None,
        typer.Option(
            min=4,
            help="Number of frames of a video that are refined together; fewer take less memory.",
            show_default="32, or 16 for probabilities and logits",
        ),
    ] = None,
    causal: Annotated[
        bool, typer.Option("--causal", help="Refine each frame of a video with the frames before it alone.")
    ] = False,
) -> None:
    """Refine masks: labels follow the edges of the image.

    Photos, and volumes and rasters: NIfTI, folders of DICOM slices, GeoTIFF, TIFF and Zarr. Results of these have the
    format and place of the mask, and lengths are in mm if the file has them.

    With --video, two folders are the frames of a video and their masks, in the order of the numbers in their names.

    Widths and weights are learnt, and edges of a mask move as far as its estimated roughness. With any of --sigma,
    --weight, --sigma-xy, --sigma-rgb, --bilateral-weight, --confidence or --crf, those kernels are used instead.
    Images of 16 bits are scaled to 0…255, and alpha is dropped. EXIF's rotation is applied only if the mask has the
    rotated size. Exit status: 0 if all pairs were refined, 1 if one failed, 2 if none could be
    started, 130 after Ctrl-C.
    """
    check_video_options(context)
    kernels = {name: context.params[name] for name in KERNEL_OPTIONS if context.params[name] is not None}
    check_alone(context, crf, roughness, confidence, kernels)
    if is_given(context, "format") and not image.is_dir():
        raise typer.BadParameter(
            "the ending of --out decides the format of one pair: leave it out.", param_hint="--format"
        )
    flags = FLAGS if crf is not None else FLAGS | FLAGS_OF_KERNELS

    from densefield.crf.model import CRF
    from densefield.images.refine_settings import RefineSettings
    from densefield.images.refining import refine_files
    from densefield.volumes.formats import volume_kind

    is_volume = volume_kind(image) is not None or volume_kind(mask) is not None
    bar = Bar("refine", shown=image.is_dir() or is_volume, unit="tiles" if is_volume else "images")
    try:
        with ending_on_errors(flags):
            model = None if crf is None else CRF.load(crf)
            settings = RefineSettings(
                crf=crf_of(kernels, iterations) if crf is None and kernels else model,
                iterations=iterations if model is None and not kernels else None,
                roughness=roughness,
                temperature=temperature,
                confidence=confidence,
                decode=decode,
                num_classes=num_classes,
                void="auto" if void is None else void,
                logits=logits,
                soft=soft,
                explain=explain,
                window=pair_of(numbers_of(window, "--window"), "--window"),
                spacing=numbers_of(spacing, "--spacing"),
                tile=tile,
            )
            if video:
                refine_video(context, settings, flags)
                return
            with printing_warnings(flags), failure_log(log, flags) as failed, bar:
                refined = refine_files(
                    image,
                    mask,
                    out,
                    settings,
                    preview=preview,
                    format=format,
                    recursive=recursive,
                    mask_suffix=mask_suffix,
                    skip_existing=skip_existing,
                    threads=threads,
                    progress=bar.advance,
                    failed=failed,
                )
    except KeyboardInterrupt:
        print_message(_interrupted(bar, in_tiles=is_volume, is_folder=image.is_dir() and not is_volume))
        raise typer.Exit(INTERRUPTED) from None
    if explain:
        print_findings(refined, flags)
    print_summary(refined, log, flags)
    if refined.failures:
        raise typer.Exit(1)


def _interrupted(bar: Bar, *, in_tiles: bool, is_folder: bool) -> str:
    """What Ctrl-C left, and how to resume."""
    if is_folder:
        return f"interrupted after {bar.done} of {bar.total} pairs. To resume, add --skip-existing."
    if in_tiles and bar.total > 1:
        return f"interrupted after {bar.done} of {bar.total} tiles. To resume, run the same command."
    return "interrupted: nothing was written."
