"""`densefield refine`: sharpens masks in files."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from densefield.cli.bar import Bar

if TYPE_CHECKING:
    from densefield.crf.kernels import Kernel
    from densefield.refining import Refined

MOST_NAMES = 10  # of images without a mask: folders of images often hold many more


class Format(str, Enum):
    """What results are written as."""

    png = "png"
    npy = "npy"
    npz = "npz"


def refine_verb(
    image: Annotated[
        Path, typer.Argument(metavar="IMAGE", help="The image, or a folder of images.", show_default=False)
    ],
    mask: Annotated[
        Path,
        typer.Argument(
            metavar="MASK",
            help="Its mask: an indexed or grey PNG of labels (255: unknown), a grey PNG of 0 and 255 (255: object), a "
            "PNG in colours, or .npy/.npz with labels (H, W) or probabilities (L, H, W). For folders: a folder of "
            "masks with the names of the images.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="Where to write: .png for labels in the form of the mask, .npy or .npz for probabilities (L, H, W). "
            "For folders: a folder. Existing files are overwritten.",
            show_default=False,
        ),
    ],
    iterations: Annotated[int, typer.Option(min=0, max=1 << 20, help="Updates of mean field.")] = 5,
    sigma: Annotated[float, typer.Option(help="Width of the spatial kernel in pixels.")] = 3.0,
    weight: Annotated[float, typer.Option(help="Weight of the spatial kernel; 0 leaves it out.")] = 3.0,
    sigma_xy: Annotated[float, typer.Option(help="Width of the bilateral kernel in pixels.")] = 60.0,
    sigma_rgb: Annotated[float, typer.Option(help="Width of the bilateral kernel in colours 0…255.")] = 10.0,
    bilateral_weight: Annotated[float, typer.Option(help="Weight of the bilateral kernel; 0 leaves it out.")] = 5.0,
    confidence: Annotated[float, typer.Option(help="How far a mask's label is believed, below 1.")] = 0.7,
    labels: Annotated[
        int | None, typer.Option(min=2, help="Number of labels, where masks need not show the highest.")
    ] = None,
    logits: Annotated[bool, typer.Option("--logits", help="Arrays hold logits, not probabilities.")] = False,
    soft: Annotated[
        bool, typer.Option("--soft", help="Grey masks hold the probability of label 1, 0…255, and so do results.")
    ] = False,
    format: Annotated[Format, typer.Option(help="What a folder's results are written as.")] = Format.png,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Keep results that are there, to go on after an interruption.")
    ] = False,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads; all processors by default. Folders: pairs at a time.")
    ] = None,
    preview: Annotated[
        Path | None,
        typer.Option(help="Also draw image, mask and result side by side, to this .png. For folders: a folder."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say in words what was seen: why a result is blank or unchanged.")
    ] = False,
) -> None:
    """Sharpen masks: labels follow the edges of the image.

    Images of 16 bits are scaled to 0…255, alpha is dropped, and pixels are taken as stored: EXIF's rotation is applied
    only where the mask fits no other way. Exit status: 0 if all went well, 1 if a pair failed, 2 if nothing could be
    begun.
    """
    from densefield.errors import DensefieldError
    from densefield.refining import Settings, refine_files

    try:
        kernels = _kernels(sigma, weight, sigma_xy, sigma_rgb, bilateral_weight)
        settings = Settings(kernels, iterations, confidence, labels, logits, soft, explain)
        with Bar("refine", shown=image.is_dir()) as bar:
            refined = refine_files(
                image,
                mask,
                out,
                settings,
                preview=preview,
                form=format.value,
                skip_existing=skip_existing,
                threads=threads,
                progress=bar.advance,
            )
    except DensefieldError as error:
        typer.echo(f"densefield: {error}", err=True)
        raise typer.Exit(2) from error
    _tell(refined, explain)
    if refined.failures:
        raise typer.Exit(1)


def _kernels(
    sigma: float, weight: float, sigma_xy: float, sigma_rgb: float, bilateral_weight: float
) -> tuple[Kernel, ...]:
    """Those kernels that count."""
    from densefield.crf.kernels import Bilateral, Spatial

    kernels = (Spatial(sigma, weight=weight), Bilateral(sigma_xy, sigma_rgb, weight=bilateral_weight))
    return tuple(kernel for kernel in kernels if kernel.weight != 0)


def _tell(refined: Refined, explain: bool) -> None:
    """Findings on stdout; what failed, and what was not a pair, on stderr."""
    several = len(refined.pairing.pairs) != 1
    if explain:
        for outcome in refined.outcomes:
            if several:
                typer.echo(f"{outcome.pair.image}:")
            for finding in outcome.findings:
                typer.echo(str(finding))
    forms = [outcome.form for outcome in refined.outcomes]
    objects, grey_labels = forms.count("object"), forms.count("labels")
    if objects and grey_labels:
        typer.echo(
            f"densefield: masks of only 0 and 255, read as objects: {objects}; masks read as labels: {grey_labels}. If "
            "all hold labels pass their number as --labels.",
            err=True,
        )
    if "voc colours" in forms:
        typer.echo(
            f"densefield: masks in the colours of PASCAL VOC, numbered as VOC does: {forms.count('voc colours')}",
            err=True,
        )
    if "colours" in forms:
        typer.echo(
            f"densefield: masks in other colours: {forms.count('colours')}. In each of them, labels are numbered from "
            "0 in the order of its colours, by r, then g, then b.",
            err=True,
        )
    alone = refined.pairing.images_alone
    if alone:
        names = ", ".join(path.name for path in alone[:MOST_NAMES]) + (", …" if alone[MOST_NAMES:] else "")
        typer.echo(f"densefield: images without a mask: {len(alone)} ({names})", err=True)
    if several or refined.skipped:
        done = sum(outcome.error is None for outcome in refined.outcomes)
        kept = f"; there already: {len(refined.skipped)}" if refined.skipped else ""
        typer.echo(f"densefield: masks refined: {done}{kept}", err=True)
    for failure in refined.failures:
        typer.echo(f"densefield: {failure}", err=True)
