"""`densefield data`: downloading and checking datasets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from densefield.cli.bar import Bar
from densefield.cli.data_scenes import scenes_command
from densefield.cli.failing import stop, tell
from densefield.cli.stages import Stages

if TYPE_CHECKING:
    from densefield.datasets.check import DatasetReport

Threads = Annotated[int | None, typer.Option(min=1, help="Threads; all processors by default.")]


def voc2012_verb(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", file_okay=False, help="The folder for it.", show_default=False)
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
    from densefield.errors import DensefieldError

    voc, sbd = voc_download.VOC_ARCHIVE, voc_download.SBD_ARCHIVE
    archives = (replace(voc, url=voc_url or voc.url), replace(sbd, url=sbd_url or sbd.url))
    try:
        with Stages() as stages:
            downloaded = voc_download.download_voc2012(
                folder,
                archives=archives,
                threads=threads,
                progress=lambda what, done, total: stages.advance(what, done, total, in_bytes=what != "check"),
            )
    except (DensefieldError, OSError) as error:
        raise stop(error) from error
    _tell(downloaded.report)
    for failure in downloaded.failures:
        tell(f"missing: {failure}")
    if downloaded.failures or downloaded.report.problems or not downloaded.report.complete:
        raise typer.Exit(1)


def check_verb(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="A folder with images/ and masks/, or PASCAL VOC 2012 in its own layout, whole or in part.",
            show_default=False,
        ),
    ],
    sbd: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, help="The folder of SBD, where it is not in DIR.", show_default=False
        ),
    ] = None,
    threads: Threads = None,
) -> None:
    """Read every image and mask of every split, and list what is wrong.

    Exit status: 0 if all files are valid, 1 if one is damaged or missing, 2 if DIR holds no dataset.
    """
    from densefield.datasets.check import check_data
    from densefield.errors import DensefieldError

    try:
        with Bar("check", unit="images") as bar:
            report = check_data(folder, sbd=sbd, threads=threads, progress=bar.advance)
    except (DensefieldError, OSError) as error:
        raise stop(error) from error
    _tell(report)
    if report.problems:
        raise typer.Exit(1)


def _tell(report: DatasetReport) -> None:
    for line in report.splits:
        tell(line)
    counts = ", ".join(f"{name} {count}" for name, count in report.images_per_class.items())
    tell(f"images per class: {counts}")
    for note in report.notes:
        tell(f"note: {note}")
    for problem in report.problems:
        tell(f"problem: {problem}")
    tell(f"images checked: {report.checked}; problems: {len(report.problems)}")


data_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Download, draw and check images with labels.")
data_app.command("voc2012")(voc2012_verb)
data_app.command("check")(check_verb)
data_app.command("scenes")(scenes_command)
