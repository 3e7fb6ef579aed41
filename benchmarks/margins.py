"""Methods with several seeds compared on the same images: the tables of docs/results.md, in Markdown.

    python benchmarks/margins.py joint=crf:runs/joint-1/eval,runs/joint-2/eval network=network:runs/alone-1/eval,…

Every method is NAME=METHOD:FOLDER,FOLDER,…, where METHOD is network or crf, and the folders are what `densefield eval`
wrote, one for each seed. A number is the mean over seeds. Confidence intervals of 95 % are from 1,000 bootstrap samples
of the images and of the seeds, so that they include the variance of training. The samples are the same for all methods,
and the k-th folder of every method is the k-th seed. Differences are those of the first method to each of the others.
The last table groups the classes by the number of images that show them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from method_arguments import parsed, run

from densefield.evaluation.evaluation import read_evaluation
from densefield.metrics.metrics import METRICS, Metric, SegmentationResult
from densefield.metrics.summary import FRACTIONS, HEADLINES, TITLES

DRAWS, SEED = 1000, 90210
GROUPS = 3  # of classes, by frequency


def read(name: str, method: str, folders: Sequence[Path]) -> tuple[str, list[SegmentationResult], list[str]]:
    """Return the name of a method, its results for each seed, and the classes."""
    found = [read_evaluation(folder) for folder in folders]
    for folder, (_, results) in zip(folders, found, strict=True):
        if method not in results:
            raise SystemExit(f"{folder} has no results of {method}, but of {', '.join(results)}: evaluate both methods")
    return name, [results[method] for _, results in found], found[0][0]["classes"]


def drawn(
    results: list[SegmentationResult], metric: Metric, times: np.ndarray, seeds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the metric of each seed (S, …), and its mean over the drawn seeds for each bootstrap sample (D, …)."""
    values = np.array([metric(each.per_image.total()) for each in results])
    samples = np.array([metric(each.per_image.resampled(times)) for each in results])  # (S, D, …)
    chosen = seeds if len(results) > 1 else np.zeros_like(seeds)  # (D, S)
    return values, samples[chosen, np.arange(len(times))[:, None]].mean(axis=1)


def rarest_first(images: np.ndarray, groups: int) -> list[np.ndarray]:
    """Return the classes in groups of about equal size, by the number of images that show them."""
    return np.array_split(np.argsort(images, kind="stable"), groups)


def cell(metric: str, value: float, draws: np.ndarray, sign: str = "") -> str:
    """Format a number and its interval, fractions in percent; a dash for no number."""
    if not np.isfinite(value):
        return "–"
    scale, digits = (100, 2) if metric in FRACTIONS else (1, 4)
    low, high = np.nanquantile(draws, [0.025, 0.975])
    return f"{scale * value:{sign}.{digits}f} ({scale * low:{sign}.{digits}f} … {scale * high:{sign}.{digits}f})"


def table(header: list[str], rows: list[list[str]]) -> None:
    """Print rows as Markdown."""
    for row in (header, ["---"] * len(header), *rows):
        print("| " + " | ".join(row) + " |")
    print()


def main(arguments: Sequence[str]) -> None:
    methods = [read(*argument) for argument in parsed(arguments)]
    (first, best, classes), others = methods[0], methods[1:]
    if any(not np.array_equal(each.names, best[0].names) for _, results, _ in methods for each in results):
        raise SystemExit("the methods were evaluated on different images")
    if any(each != classes for _, _, each in methods):
        raise SystemExit("the methods were evaluated with different classes")
    counts = {len(results) for _, results, _ in methods} - {1}
    if len(counts) > 1:
        raise SystemExit(f"the methods have {sorted(counts)} seeds, expected one number for all, or 1")
    images, random = best[0].images, np.random.default_rng(SEED)
    times = random.multinomial(images, np.full(images, 1 / images), size=DRAWS)
    seeds = random.integers(len(best), size=(DRAWS, len(best)))
    measured = {
        name: {each: drawn(results, metric, times, seeds) for each, metric in HEADLINES.items()}
        for name, results, _ in methods
    }
    print(f"{images} images\n")
    rows = [
        [
            name,
            str(len(results)),
            *(cell(each, measured[name][each][0].mean(), measured[name][each][1]) for each in HEADLINES),
        ]
        for name, results, _ in methods
    ]
    table(["", "seeds", *(TITLES[each] for each in HEADLINES)], rows)
    rows = []
    for name, _, _ in others:
        cells = []
        for each in HEADLINES:
            (a, a_draws), (b, b_draws) = measured[first][each], measured[name][each]
            cells.append(cell(each, a.mean() - b.mean(), a_draws - b_draws, "+"))
        rows.append([f"{first} - {name}", *cells])
    table(["difference", *(TITLES[each] for each in HEADLINES)], rows)
    for name, _, _ in methods:
        print(f"{name}: mean IoU of each seed", *(f"{100 * value:.2f}" for value in measured[name]["mean_iou"][0]))
    print()
    ious = [drawn(results, METRICS["iou"], times, seeds) for _, results, _ in methods]
    columns = [100 * values.mean(axis=0) for values, _ in ious]
    shown = (best[0].per_image.truth.sum(axis=1) > 0).sum(axis=0)  # images that show each class
    rows = [
        [label, str(shown[number]), *(f"{column[number]:.1f}" if shown[number] else "–" for column in columns)]
        for number, label in enumerate(classes)
    ]
    table(["IoU", "images", *(name for name, _, _ in methods)], rows)
    rows = []
    there = np.flatnonzero(shown)  # other classes have no IoU
    for group in (there[each] for each in rarest_first(shown[there], GROUPS) if len(each)):
        cells = []
        for values, samples in ious[1:]:
            gain = (ious[0][0][..., group].mean(axis=0) - values[..., group].mean(axis=0)).mean()
            draws = np.nanmean(ious[0][1][:, group] - samples[:, group], axis=1)
            cells.append(cell("mean_iou", gain, draws, "+"))
        rows.append([f"{shown[group].min()} to {shown[group].max()} ({len(group)})", *cells])
    table(["images of a class (classes)", *(f"{first} - {name}" for name, _, _ in others)], rows)


if __name__ == "__main__":
    run(main, __doc__)
