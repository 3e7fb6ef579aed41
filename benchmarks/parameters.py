"""How widths and weights of a CRF's kernels change results: the tables of docs/parameters.md, in Markdown.

    python benchmarks/parameters.py --photos 20

Inputs are the scores of a network, and rough masks at a confidence of 0.7. Settings are compared on photos of the train
split of rough_masks.py. The presets are then evaluated on photos of the val split, with the best setting of each input
among them. Cells are the mean IoU over photos / the accuracy within 4 pixels of the true edge, in per cent.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import refinement_peers as peers
import rough_masks as rough
from refinement import Judge, interval

from densefield import CRF, Bilateral, Spatial, refine

Numbers = npt.NDArray[np.float64]  # (photos, 2): IoU and edge accuracy, in per cent
Run = Callable[[peers.Image, peers.Given], peers.Labels]

WIDTHS, COLOURS, WEIGHTS = (15, 30, 60, 120), (4, 8, 16, 32), (1, 3, 10)
PUBLISHED = CRF([Spatial(3, weight=3), Bilateral(80, 13, weight=10)])  # the README of pydensecrf


@dataclass
class Case:
    """A photo, an input, and what judges results."""

    image: peers.Image
    given: peers.Given
    judge: Judge


def cases(
    kind: str,
    split: str,
    photos: int,
    size: float = 1.0,
    recipes: Sequence[str] = ("blocks 16", "dilated 8", "eroded 6"),
) -> list[Case]:
    """The photos of a split with their input; `size` below 1 shrinks photos, masks and scores."""
    found = []
    for photo in (rough.network_photos if kind == "network" else rough.photos)(split, photos):
        side = round(size * max(photo.truth.shape))
        image, truth = (photo.image, photo.truth) if size == 1 else rough.resized(photo.image, photo.truth, side)
        resized = replace(photo, image=image, truth=truth)
        if kind == "network":
            found.append(Case(image, rough.network_input(resized, "network scores"), Judge(truth, size)))
        else:
            judge = Judge(truth, size)
            masks = [rough.rough_mask(resized, each, size) for each in recipes]
            found += [Case(image, {"labels": mask}, judge) for mask in masks]
    return found


def evaluate(items: Iterable[Case], run: Run) -> Numbers:
    """IoU and edge accuracy of every case."""
    measured = [case.judge(run(case.image, case.given)) for case in items]
    return 100 * np.array([[each["iou"], each["edge"]] for each in measured])


def with_crf(crf: CRF) -> Run:
    """The labels of a CRF."""
    return lambda image, given: refine(image, **given, crf=crf).argmax(axis=0)


def bilateral(width: float, colour: float, weight: float, **options: Any) -> CRF:
    """A CRF of one bilateral kernel."""
    return CRF([Bilateral(width, colour, weight=weight)], **options)


def cell(numbers: Numbers) -> str:
    """Means over photos, "IoU / edge"."""
    return " / ".join(f"{value:.1f}" for value in np.nanmean(numbers, axis=0))


def table(corner: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [[corner, *columns], ["---"] * (1 + len(columns)), *([name, *cells] for name, cells in rows.items())]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def grid(items: Sequence[Case]) -> tuple[str, tuple[int, int, int]]:
    """A table of widths by colours for each weight, and the best setting by the sum of both numbers."""
    scores, tables = {}, [f"as it came: {cell(evaluate(items, peers.nothing))}\n"]
    for weight in WEIGHTS:
        rows = {}
        for width in WIDTHS:
            found = [evaluate(items, with_crf(bilateral(width, colour, weight))) for colour in COLOURS]
            scores.update(
                {(width, colour, weight): np.nanmean(each) for colour, each in zip(COLOURS, found, strict=True)}
            )
            rows[f"{width} px"] = [cell(each) for each in found]
            print(f"weight {weight}, {width} px", file=sys.stderr)
        tables.append(table(f"weight {weight}", [f"{colour} levels" for colour in COLOURS], rows))
    return "\n".join(tables), max(scores, key=lambda setting: scores[setting])


def small_tables(kind: str, photos: int, best: tuple[int, int, int]) -> Iterator[str]:
    """One rule each, around the best setting: size of the image, noise, confidence, a spatial kernel, iterations."""
    width, colour, weight = best
    items = cases(kind, "train", photos)
    half = cases(kind, "train", photos, size=0.5)
    widths = [width / 4, width / 2, width, 2 * width]
    rows = {
        f"photos at {name} size": [cell(evaluate(some, with_crf(bilateral(each, colour, weight)))) for each in widths]
        for name, some in (("full", items), ("half", half))
    }
    yield table("width", [f"{each:g} px" for each in widths], rows)
    colours = [colour / 2, colour, 2 * colour, 4 * colour]
    rows = {
        f"noise of {noise} levels": [
            cell(evaluate(noisy(items, noise), with_crf(bilateral(width, each, weight)))) for each in colours
        ]
        for noise in (0, 10, 20)
    }
    yield table("colour width", [f"{each:g} levels" for each in colours], rows)
    weights = [weight / 4, weight / 2, weight, 2 * weight, 4 * weight]
    if kind == "network":
        rows = {
            f"scores × {factor:g}": [
                cell(evaluate(scaled(items, factor), with_crf(bilateral(width, colour, each)))) for each in weights
            ]
            for factor in (0.5, 1, 2)
        }
        yield table("weight", [f"{each:g}" for each in weights], rows)
    else:
        widths = [4, 8, 15, 30, 60]
        rows = {
            name: [cell(evaluate(some, with_crf(bilateral(each, colour, weight)))) for each in widths]
            for name in ("dilated 4", "dilated 8", "dilated 12")
            for some in [cases(kind, "train", photos, recipes=[name])]
        }
        yield table("width", [f"{each:g} px" for each in widths], rows)
    spatial = {
        f"spatial kernel of {sigma} px": [
            cell(evaluate(items, with_crf(CRF([Spatial(sigma, weight=each), *bilateral(*best).kernels]))))
            for each in (0.3, 1, 3)
        ]
        for sigma in (1, 3, 6)
    }
    yield table("its weight", ["0.3", "1", "3"], spatial)
    counts = (1, 2, 3, 5, 10, 20)
    found = [cell(evaluate(items, with_crf(bilateral(*best, iterations=count)))) for count in counts]
    yield table("iterations", [str(count) for count in counts], {"": found})


def noisy(items: Iterable[Case], deviation: float) -> list[Case]:
    """The cases with Gaussian noise on their images."""
    rng = np.random.default_rng(7117)
    changed = []
    for case in items:
        noise = rng.normal(0, deviation, case.image.shape)
        changed.append(replace(case, image=np.clip(np.rint(case.image + noise), 0, 255).astype(np.uint8)))
    return changed


def scaled(items: Iterable[Case], factor: float) -> list[Case]:
    """The cases with their logits multiplied: a network that is more or less confident."""
    return [replace(case, given={"logits": factor * case.given["logits"]}) for case in items]


def presets(kind: str, photos: int, best: tuple[int, int, int]) -> str:
    """Settings on the val split: IoU and edge accuracy with intervals of their gains over the input."""
    items = cases(kind, "val", photos)
    before = evaluate(items, peers.nothing)
    runs: dict[str, Run] = {
        "`refine`, learnt": peers.densefield,
        f"`Bilateral({best[0]}, {best[1]}, weight={best[2]})`": with_crf(bilateral(*best)),
        "`CRF()`": with_crf(CRF()),
        "README of pydensecrf": with_crf(PUBLISHED),
    }
    rows = {"as it came": [cell(before), "", ""]}
    for name, run in runs.items():
        after = evaluate(items, run)
        gains = []
        for column in range(2):
            gain = (after - before)[:, column].reshape(photos, -1).mean(axis=1)  # a photo's masks are not independent
            gains.append("{:+.1f} ({:+.1f} … {:+.1f})".format(*interval(gain)))
        rows[name] = [cell(after), *gains]
    return table(f"{kind}, val", ["IoU / edge", "gain in IoU", "gain at edges"], rows)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=int, default=20, help="number of photos of each split")
    parser.add_argument("--inputs", nargs="+", choices=("network", "masks"), default=["network", "masks"])
    options = parser.parse_args()
    photos = options.photos
    for kind in options.inputs:
        text, best = grid(cases(kind, "train", photos))
        print(f"## {kind}, train\n\n{text}\nbest: {best}\n", flush=True)
        for each in small_tables(kind, photos, best):
            print(each, flush=True)
        print(presets(kind, 2 * photos, best), flush=True)


if __name__ == "__main__":
    main()
