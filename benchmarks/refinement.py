"""How well tools refine rough masks of photos: one command, one table in Markdown.

    python benchmarks/refinement.py --photos 60 --output table.md --json results.json --picture picture.png

Rough inputs are those of rough_masks.py, tools those of refinement_peers.py. All measures are without the true mask's
void pixels, and are means over photos:

* IoU: the mean intersection over union of the labels in truth or result, of each photo.
* edge: the accuracy of pixels within 4 px of the true edge, which runs through the middle of void bands.
* trimap: the mean accuracy within 1, 2, … 8 px of the borders of labels and void, as in `densefield eval`.
* boundary: the length of the boundaries in the results over the length in the true masks; above 1 they are ragged.
* seconds: the median over photos. Tools take turns on the same photo.

Widths in px grow with photos in the section of sizes, like the roughness; they are for a longest side of 500 px.
Intervals of 95 % are from 1,000 bootstrap samples of the photos. Gains are differences to the input, photo by photo.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import refinement_peers as peers
import rough_masks as rough
from clock import machine
from PIL import Image
from scipy.ndimage import distance_transform_cdt

from densefield.images.palette import outlined_overlay, voc_palette
from densefield.images.preview import Panel, panel_grid
from densefield.metrics import METRICS, Counts, boundary_distance

Results = dict[str, dict[str, "Scores"]]  # by row of the table and tool

CLASSES = 21
EDGE, TRIMAPS = 4, range(1, 9)  # pixels
DRAWS, SEED = 1000, 60417
SECTIONS = ("masks", "network", "two labels", "sizes")
GROUPS = {
    "rough": [kind for kind in rough.RECIPES if kind not in ("holes and specks", "true")],
    "network": list(rough.NETWORK_KINDS),
}
TWO_LABEL_KINDS = ("blocks 16", "dilated 8", "eroded 6", "polygons", "true")
SIZE_KINDS = ("blocks 16", "dilated 8", "true")
PICTURE_KINDS, PICTURE_RIVAL = ("blocks 16", "dilated 8", "eroded 6", "polygons"), "GrabCut"
TITLES = {"nothing": "as it came"}


@dataclass
class Scores:
    """Measures of one tool on one kind of input, with an entry for each photo."""

    ids: list[str] = field(default_factory=list)
    iou: list[float] = field(default_factory=list)
    edge: list[float] = field(default_factory=list)
    trimap: list[float] = field(default_factory=list)
    length: list[float] = field(default_factory=list)  # of the result's boundary, in pixels
    true_length: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, photo_id: str, numbers: Mapping[str, float], seconds: float) -> None:
        """Append the measures of a photo."""
        for name, value in {"ids": photo_id, **numbers, "seconds": seconds}.items():
            getattr(self, name).append(value)


class Judge:
    """Compares results with the true mask of one photo."""

    def __init__(self, truth: rough.Mask, scale: float = 1.0) -> None:
        self.truth, self.counted, filled = truth, truth != rough.VOID, rough.filled(truth)
        self.near_edge = self.counted & (edge_distance(filled) <= EDGE * scale)
        border = edge_distance(truth)
        self.trimaps = [self.counted & (border <= max(1, radius * scale)) for radius in TRIMAPS]
        self.length = boundary_length(filled)

    def __call__(self, result: peers.Labels) -> dict[str, float]:
        """Return the measures of a result; NaN where the truth has no edge."""
        pairs = self.truth[self.counted].astype(np.intp) * CLASSES + result[self.counted]
        confusion = np.bincount(pairs, minlength=CLASSES**2).reshape(CLASSES, CLASSES)
        correct = result == self.truth
        return {
            "iou": float(METRICS["mean_iou"](Counts.from_confusion(confusion))),
            "edge": _share(correct, self.near_edge),
            "trimap": float(np.mean([_share(correct, band) for band in self.trimaps])),
            "length": boundary_length(result),
            "true_length": self.length,
        }


def edge_distance(labels: peers.Labels) -> npt.NDArray[np.float64]:
    """Return the distance of pixels to another label like `boundary_distance`, but without its limit of 20 pixels."""
    apart = boundary_distance(labels) > 1
    return np.full(labels.shape, np.inf) if apart.all() else distance_transform_cdt(apart, "chessboard") + 1.0


def boundary_length(labels: peers.Labels) -> int:
    """Return the number of pairs of pixels side by side, or one above the other, whose labels differ."""
    return int((labels[1:] != labels[:-1]).sum() + (labels[:, 1:] != labels[:, :-1]).sum())


def _share(correct: npt.NDArray[np.bool_], band: npt.NDArray[np.bool_]) -> float:
    return float(correct[band].mean()) if band.any() else float("nan")


Case = tuple[str, rough.Photo, peers.Given, float]  # row of the table, photo, rough input, scale


def cases(section: str, options: argparse.Namespace) -> Iterator[Case]:
    """Iterate over the photos of a section, each with all its rough inputs."""
    if section == "network":
        for photo in rough.network_photos(options.split, options.photos):
            for kind in _chosen(rough.NETWORK_KINDS, options.kinds):
                yield kind, photo, rough.network_input(photo, kind), 1.0
    elif section == "sizes":
        for photo in rough.photos(options.split, max(1, options.photos // 5)):
            for side in options.sizes:
                image, truth = rough.resized(photo.image, photo.truth, side)
                larger, scale = rough.Photo(photo.id, image, truth), rough.scale_of(side)
                for kind in _chosen(SIZE_KINDS, options.kinds):
                    yield f"{kind}, {side} px", larger, {"labels": rough.rough_mask(larger, kind, scale)}, scale
    else:
        two = section == "two labels"
        for photo in rough.photos(options.split, options.photos):
            shown = replace(photo, truth=rough.foreground(photo.truth)) if two else photo
            for kind in _chosen(TWO_LABEL_KINDS if two else rough.RECIPES, options.kinds):
                yield kind, shown, {"labels": rough.rough_mask(shown, kind)}, 1.0


def _chosen(kinds: Iterable[str], wanted: Sequence[str] | None) -> list[str]:
    return [kind for kind in kinds if wanted is None or kind in wanted]


def run(section: str, items: Iterable[Case], tools: Sequence[str]) -> Results:
    """Return the scores of tools by row of the section's table."""
    results: Results = {}
    judged, judge = None, None
    for row, photo, given, scale in items:
        if photo is not judged:
            judged, judge = photo, Judge(photo.truth, scale)
            print(f"{section}: {photo.id}", file=sys.stderr)
        scores = results.setdefault(row, {name: Scores() for name in tools})
        for name in tools:
            if not peers.too_large(name, photo.image):
                start = time.perf_counter()
                result = peers.TOOLS[name](photo.image, given)
                seconds = time.perf_counter() - start
                scores[name].add(photo.id, judge(result), seconds)
    return results


def with_groups(results: Results) -> Results:
    """Return the results, and a further row for each group with several kinds: the means over kinds of each photo."""
    extended = dict(results)
    for group, kinds in GROUPS.items():
        rows = [results[kind] for kind in kinds if kind in results]
        if len(rows) > 1:
            extended[f"mean of {group}"] = {name: _mean_scores([row[name] for row in rows]) for name in rows[0]}
    return extended


def _mean_scores(scores: Sequence[Scores]) -> Scores:
    names = [name for name in vars(scores[0]) if name != "ids"]
    means = {name: np.mean([getattr(each, name) for each in scores], axis=0).tolist() for name in names}
    return Scores(scores[0].ids, **means)


def interval(values: npt.NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the mean without NaN and its 95 % interval."""
    known = values[~np.isnan(values)]
    if not len(known):
        return (float("nan"),) * 3
    times = np.random.default_rng(SEED).multinomial(len(known), np.full(len(known), 1 / len(known)), size=DRAWS)
    low, high = np.quantile(times @ known / len(known), [0.025, 0.975])
    return float(known.mean()), float(low), float(high)


def summary(scores: Scores, before: Scores) -> dict[str, float | tuple[float, float, float]]:
    """Return the numbers of the tables; gains are over `before`, the scores of the input itself."""
    numbers: dict[str, float | tuple[float, float, float]] = {}
    for name in ("iou", "edge", "trimap"):
        numbers[name] = interval(np.array(getattr(scores, name)))
        numbers[f"{name} gain"] = interval(np.subtract(getattr(scores, name), getattr(before, name)))
    numbers["boundary"] = sum(scores.length) / max(sum(scores.true_length), 1)
    numbers["seconds"] = float(np.median(scores.seconds))
    return numbers


def main_table(results: Results) -> str:
    """Return a row for each kind and a column for each tool, with "IoU / edge"; the best of a row are bold."""
    tools = list(next(iter(results.values())))
    rows = []
    for kind, scores in results.items():
        columns = [_best_bold([_mean(getattr(scores[name], part)) for name in tools]) for part in ("iou", "edge")]
        rows.append([kind, *map(" / ".join, zip(*columns, strict=True))])
    return _markdown(["IoU / edge, %", *(TITLES.get(name, name) for name in tools)], rows)


def _best_bold(values: Sequence[float]) -> list[str]:
    best = _percent(np.nanmax(values)) if not np.isnan(values).all() else None
    return [f"**{text}**" if text == best else text for text in map(_percent, values)]


def detailed_table(results: Results) -> str:
    """Return a row for each kind and tool, with all measures and their intervals."""
    rows = []
    for kind, scores in results.items():
        for name, each in scores.items():
            if each.ids:
                numbers = summary(each, scores["nothing"])
                parts = [_with_interval(numbers[part]) for part in ("iou", "iou gain", "edge", "edge gain")]
                times = [_percent(numbers["trimap"][0]), f"{numbers['boundary']:.2f}", f"{numbers['seconds']:.3f}"]
                rows.append([kind, TITLES.get(name, name), *parts, *times])
    return _markdown(["kind", "tool", "IoU", "gain", "edge", "gain", "trimap", "boundary", "seconds"], rows)


def _mean(values: Sequence[float]) -> float:
    return interval(np.array(values, float))[0]


def _percent(value: float) -> str:
    return f"{100 * value:.1f}" if value == value else "–"


def _with_interval(numbers: tuple[float, float, float]) -> str:
    value, low, high = map(_percent, numbers)
    return f"{value} ({low} … {high})"


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (header, ["---"] * len(header), *rows)
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def as_json(sections: Mapping[str, Results]) -> str:
    """Return all summaries and the values of each photo."""
    records = [
        {"section": section, "kind": kind, "tool": name, **summary(each, scores["nothing"]), "photos": vars(each)}
        for section, results in sections.items()
        for kind, scores in results.items()
        for name, each in scores.items()
        if each.ids
    ]
    return json.dumps(_without_nan(records), indent=1) + "\n"


def _without_nan(value: Any) -> Any:
    """Return lists and dictionaries with None for NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _without_nan(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return None if value != value else value


def draw(path: Path, split: str, tools: Sequence[str]) -> None:
    """Draw photo, rough mask, refined masks and truth: one photo for each of some kinds, evenly spaced."""
    shown = [name for name in ("nothing", PICTURE_RIVAL, "densefield") if name in tools]
    rows, colours = [], voc_palette()
    for kind, photo in zip(PICTURE_KINDS, rough.photos(split, len(PICTURE_KINDS)), strict=True):
        given = {"labels": rough.rough_mask(photo, kind)}
        masks = {kind if name == "nothing" else name: peers.TOOLS[name](photo.image, given) for name in shown}
        masks["truth"] = np.where(photo.truth == rough.VOID, -1, photo.truth.astype(int))
        overlays = {title: outlined_overlay(photo.image, mask.astype(int), colours) for title, mask in masks.items()}
        rows.append([Panel(photo.image, photo.id), *(Panel(picture, title) for title, picture in overlays.items())])
    Image.fromarray(panel_grid(rows)).save(path)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare tools that refine rough masks.")
    parser.add_argument("--split", choices=("train", "val"), default="val")
    parser.add_argument("--photos", type=int, default=60, help="number of photos; a fifth of it for sizes")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--kinds", nargs="+", choices=(*rough.RECIPES, *rough.NETWORK_KINDS), help="default: all")
    fast = tuple(name for name in peers.TOOLS if name not in peers.SLOW)
    parser.add_argument("--tools", nargs="+", choices=tuple(peers.TOOLS), default=fast, help="default: the fast ones")
    parser.add_argument("--sizes", nargs="+", type=int, default=(250, 500, 1000, 2000), help="longest side of photos")
    parser.add_argument("--output", type=Path, help="file for the tables, which are also printed")
    parser.add_argument("--json", type=Path, help="file for all numbers, and those of each photo")
    parser.add_argument("--picture", type=Path, help="file for a picture of some results")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
    reasons = {name: peers.unavailable(name) for name in dict.fromkeys(("nothing", *options.tools))}
    for reason in filter(None, reasons.values()):
        print(reason, file=sys.stderr)
    tools = [name for name, reason in reasons.items() if reason is None]
    found = {section: with_groups(run(section, cases(section, options), tools)) for section in options.sections}
    sections = {section: results for section, results in found.items() if results}
    text = f"{machine()}, {peers.versions()}; {options.photos} photos of {options.split}\n"
    for section, results in sections.items():
        text += f"\n## {section.capitalize()}\n\n{main_table(results)}\n{detailed_table(results)}"
    print(text)
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    if options.json:
        options.json.write_text(as_json(sections), encoding="utf-8")
    if options.picture:
        draw(options.picture, options.split, tools)


if __name__ == "__main__":
    main(sys.argv[1:])
