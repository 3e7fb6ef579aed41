"""`densefield data`: downloads, draws and checks datasets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from densefield.cli.messages import ending_on_errors, print_message, print_result
from densefield.cli.options import Threads
from densefield.cli.progress import Bar, Stages

if TYPE_CHECKING:
    from densefield.datasets.check import DatasetReport


def voc2012_verb(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", file_okay=False, help="Folder for the dataset.", show_default=False)
    ],
    voc_url: Annotated[
        str | None, typer.Option(help="A mirror of VOCtrainval_11-May-2012.tar; its checksum must be the same.")
    ] = None,
    sbd_url: Annotated[
        str | None, typer.Option(help="A mirror of SBD's benchmark.tgz; its checksum must be the same.")
    ] = None,
    threads: Threads = None,
) -> None:
    """Download PASCAL VOC 2012 and SBD (2.0 and 1.4 GB), unpack and check them.

    An interrupted download resumes where it stopped, and complete files are not downloaded again. Exit status: 0 if
    the dataset is complete and valid, 1 if files are missing or damaged, 2 if nothing could be started.
    """
    from densefield.datasets import download as voc_download

    voc, sbd = voc_download.VOC_ARCHIVE, voc_download.SBD_ARCHIVE
    archives = (replace(voc, url=voc_url or voc.url), replace(sbd, url=sbd_url or sbd.url))
    with ending_on_errors(), Stages() as stages:
        downloaded = voc_download.download_voc2012(
            folder,
            archives=archives,
            threads=threads,
            progress=lambda stage, done, total: stages.advance(stage, done, total, in_bytes=stage != "check"),
        )
    _print_report(downloaded.report)
    for failure in downloaded.failures:
        print_result(f"missing: {failure}")
    if downloaded.failures or downloaded.report.problems or not downloaded.report.complete:
        raise typer.Exit(1)


def check_verb(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="A folder with images/ and masks/, or PASCAL VOC 2012 in its own layout, complete or in part.",
            show_default=False,
        ),
    ],
    sbd: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="Folder of SBD, if it is not in DIR.", show_default=False),
    ] = None,
    threads: Threads = None,
) -> None:
    """Read every image and mask of every split, and list all problems.

    Exit status: 0 if all files are valid, 1 if one is damaged or missing, 2 if DIR holds no dataset.
    """
    from densefield.datasets.check import check_data

    with ending_on_errors(), Bar("check", unit="images") as bar:
        report = check_data(folder, sbd=sbd, threads=threads, progress=bar.advance)
    _print_report(report)
    if report.problems:
        raise typer.Exit(1)


def scenes_verb(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", file_okay=False, help="A new or empty folder, or one to resume.", show_default=False
        ),
    ],
    images: Annotated[int, typer.Option(min=1, help="Number of scenes.")] = 1000,
    size: Annotated[int, typer.Option(min=96, max=512, help="Height and width in pixels.")] = 128,
    object_classes: Annotated[int, typer.Option(min=2, max=20, help="Number of classes without the background.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    val_share: Annotated[float, typer.Option(min=0, max=0.9, help="Fraction of the scenes for validation.")] = 0.2,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of processes, which scenes do not depend on; all by default.")
    ] = None,
) -> None:
    """Draw scenes with exact labels, in the layout of PASCAL VOC.

    The same options draw the same scenes on any computer. Existing scenes are kept: the same command resumes an
    interrupted run, and a larger number of images adds to the folder.
    """
    from densefield.filters.threads import default_threads
    from densefield.scenes.files import write_scenes

    with ending_on_errors(), Bar("scenes", unit="scenes") as bar:
        drawn = write_scenes(
            folder,
            images,
            (size, size),
            object_classes,
            seed,
            val_share=val_share,
            workers=default_threads() if workers is None else workers,
            progress=bar.advance,
        )
    kept = f"; kept, since they exist: {images - drawn}" if drawn < images else ""
    print_message(f"scenes drawn: {drawn}{kept}")


def _print_report(report: DatasetReport) -> None:
    for line in report.splits:
        print_result(line)
    counts = ", ".join(f"{name} {count}" for name, count in report.images_per_class.items())
    print_result(f"images per class: {counts}")
    for note in report.notes:
        print_result(f"note: {note}")
    for problem in report.problems:
        print_result(f"problem: {problem}")
    print_result(f"images checked: {report.checked}; problems: {len(report.problems)}")


data_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Download, draw and check images with labels.")
data_app.command("voc2012")(voc2012_verb)
data_app.command("check")(check_verb)
data_app.command("scenes")(scenes_verb)
