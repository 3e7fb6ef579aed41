"""Methods with several seeds compared on the same images: the tables of docs/results.md, in Markdown.

    python benchmarks/margins.py joint=crf:runs/joint-1/eval,runs/joint-2/eval network=network:runs/alone-1/eval,…

Every method is NAME=METHOD:FOLDER,FOLDER,…, where METHOD is network or crf, and the folders are what `densefield eval`
wrote, one for each seed. A number is the mean over seeds. Confidence intervals of 95 % are from 1,000 bootstrap samples
of the images, the same for all seeds and methods. Differences are those of the first method to each of the others.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from densefield.evaluation.evaluation import read_evaluation
from densefield.metrics.metrics import METRICS, SegmentationResult
from densefield.metrics.summary import FRACTIONS, HEADLINES, TITLES

DRAWS, SEED = 1000, 90210


def read(argument: str) -> tuple[str, list[SegmentationResult], list[str]]:
    """Return the name of a method, its results for each seed, and the classes."""
    name, _, rest = argument.partition("=")
    method, _, folders = rest.partition(":")
    found = [read_evaluation(Path(folder)) for folder in folders.split(",")]
    return name, [results[method] for _, results in found], found[0][0]["classes"]


def drawn(results: list[SegmentationResult], metric: str, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the metric of each seed (S,), and its mean over the seeds for each bootstrap sample (D,)."""
    chosen = HEADLINES[metric]
    values = np.array([chosen(each.per_image.total()) for each in results])
    return values, np.mean([chosen(each.per_image.resampled(times)) for each in results], axis=0)


def cell(metric: str, value: float, draws: np.ndarray, sign: str = "") -> str:
    """Format a number and its interval, fractions in percent."""
    scale, digits = (100, 2) if metric in FRACTIONS else (1, 4)
    low, high = np.quantile(draws, [0.025, 0.975])
    return f"{scale * value:{sign}.{digits}f} ({scale * low:{sign}.{digits}f} … {scale * high:{sign}.{digits}f})"


def table(header: list[str], rows: list[list[str]]) -> None:
    """Print rows as Markdown."""
    for row in (header, ["---"] * len(header), *rows):
        print("| " + " | ".join(row) + " |")
    print()


def main(arguments: list[str]) -> None:
    methods = [read(argument) for argument in arguments]
    (first, best, classes), others = methods[0], methods[1:]
    if any(not np.array_equal(each.keys, best[0].keys) for _, results, _ in methods for each in results):
        raise SystemExit("the methods were evaluated on different images")
    images = best[0].images
    times = np.random.default_rng(SEED).multinomial(images, np.full(images, 1 / images), size=DRAWS)
    measured = {name: {each: drawn(results, each, times) for each in HEADLINES} for name, results, _ in methods}
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
    columns = [
        100 * np.mean([METRICS["iou"](each.per_image.total()) for each in results], axis=0) for _, results, _ in methods
    ]
    rows = [[label, *(f"{column[number]:.1f}" for column in columns)] for number, label in enumerate(classes)]
    table(["IoU", *(name for name, _, _ in methods)], rows)


if __name__ == "__main__":
    main(sys.argv[1:])
