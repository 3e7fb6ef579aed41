"""`densefield explore`: shows refinement in the browser while its parameters change."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from densefield.cli.messages import ending_on_errors, print_message, print_result, printing_warnings
from densefield.cli.options import Threads
from densefield.cli.refine_messages import FLAGS


def explore_verb(
    image: Annotated[
        Path,
        typer.Argument(metavar="IMAGE", exists=True, help="The image, or a folder of images.", show_default=False),
    ],
    mask: Annotated[
        Path | None,
        typer.Argument(
            metavar="[MASK]",
            exists=True,
            help="Its mask, or a network's scores (classes, rows, columns) as .npy or .npz, as for refine; scores may "
            "be smaller than the image. For a folder: a folder with the same names. Without it, paint labels.",
            show_default=False,
        ),
    ] = None,
    truth: Annotated[
        Path | None,
        typer.Option(exists=True, help="The true mask, or a folder of them: shows mean IoU and accuracy near edges."),
    ] = None,
    crf: Annotated[
        Path | None,
        typer.Option("--crf", exists=True, dir_okay=False, help="A CRF file to start from, as a preset."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for results that are saved.")] = Path("explored"),
    num_classes: Annotated[
        int | None,
        typer.Option(min=2, max=254, help="Number of classes; by default the highest label of the mask plus 1."),
    ] = None,
    void: Annotated[int | None, typer.Option(help="Value of unknown pixels in masks; 255 by default.")] = None,
    logits: Annotated[bool, typer.Option("--logits", help="Arrays hold logits, not probabilities.")] = False,
    soft: Annotated[bool, typer.Option("--soft", help="Grey masks hold the probability of label 1, 0…255.")] = False,
    mask_suffix: Annotated[
        str, typer.Option(help="Ending of the names of masks: with _mask, cat.jpg is paired with cat_mask.png.")
    ] = "",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; 0 is any free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    threads: Threads = None,
) -> None:
    """See refinement: change widths, weights and labels, and the result follows.

    Serves a page to this computer alone, at an address with a random token, until Ctrl-C. Nothing is written except
    what is saved in the page.
    """
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        print_message(f"the explorer needs {' and '.join(missing)}. Install with: pip install 'densefield[explore]'")
        raise typer.Exit(2)

    from densefield.crf.model import CRF
    from densefield.errors import InputError
    from densefield.explorer.app import Explorer
    from densefield.explorer.gallery import Reading, open_gallery
    from densefield.explorer.server import serve

    def ready(address: str) -> None:
        print_result(f"Explorer: {address}\nStop with Ctrl-C.")

    with ending_on_errors(FLAGS), printing_warnings(FLAGS):
        reading = Reading(logits=logits, soft=soft, num_classes=num_classes, void="auto" if void is None else void)
        gallery = open_gallery(image, mask, truth, reading, mask_suffix)
        if out.exists() and not out.is_dir():
            raise InputError(f"{out} is a file, expected a folder for results: pass another --out.")
        for folder in (image, mask, truth):
            check_apart(out, folder)
        for line in gallery.skipped:
            print_message(line)
        explorer = Explorer(gallery, out, None if crf is None else CRF.load(crf), threads)
        serve(explorer, port, browser, ready)
    print_message("the explorer has stopped.")


def check_apart(out: Path, source: Path | None) -> None:
    """Raises if saved results could replace an image or a mask."""
    from densefield.errors import InputError

    if source is None:
        return
    folder = source if source.is_dir() else source.parent
    if out.resolve() == folder.resolve():
        raise InputError(f"results would be saved beside {source}, expected another folder: pass --out.")
