"""Accuracy of lattice filters on photos, compared with the exact Gaussian sum, and their time.

    python benchmarks/accuracy.py                 # prints the tables
    python benchmarks/accuracy.py --docs docs     # also writes docs/accuracy-tables.md and docs/images/accuracy.png

Values are a disc, a half plane and noise, all 0 or 1. "Normalised" is K v / K 1, of numbers in 0…1; "raw" is
|K v - exact| over the mean of exact; "ratio" is the mean of K 1 / exact 1. Times are of filtering 21 channels, over
that of the default filter on the same photo.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from clock import interleaved, machine
from photos import NAMES, Array, bilateral_features, features_of_dimension, masks, photo

from densefield.filters import ExactFilter, LatticeFilter

HEIGHT, WIDTH = 120, 160
WIDTHS = {"narrow": (8, 5), "medium": (20, 10), "wide": (60, 20)}
HALOS = (0, 1, 2, 3)
VALUES = np.concatenate([masks(HEIGHT, WIDTH), np.ones((HEIGHT * WIDTH, 1))], axis=1)


@dataclass
class Row:
    """Errors of one filter, averaged over photos; the worst is over all photos."""

    filter: str
    widths: str
    mean: float
    worst: float
    raw_mean: float
    raw_worst: float
    ratio: tuple[float, float]
    time: float
    vertices: float


def exact_sums(features: Array) -> Array:
    return ExactFilter(features).apply(VALUES)


def errors(found: Array, exact: Array) -> tuple[float, float, float, float, float]:
    """Mean and worst of the normalised error, mean and worst of the raw error, mean ratio of sums of ones."""
    normalised = np.abs(found[:, :-1] / found[:, -1:] - exact[:, :-1] / exact[:, -1:])
    raw = np.abs(found - exact) / exact.mean(axis=0)
    return normalised.mean(), normalised.max(), raw.mean(), raw.max(), float((found[:, -1] / exact[:, -1]).mean())


def compare(label: str, widths: str, cases: list[tuple[Array, Array]], make: Callable[[Array], LatticeFilter]) -> Row:
    """One row of the table, over the photos' features and exact sums."""
    many = np.random.default_rng(1).random((HEIGHT * WIDTH, 21), np.float32)
    results, times, vertices = [], [], []
    for features, exact in cases:
        k, default = make(features), LatticeFilter(features)
        results.append(errors(k.apply(VALUES.astype(np.float32)).astype(np.float64), exact))
        best = interleaved({"this": partial(k.apply, many), "default": partial(default.apply, many)}, 9)
        times.append(best["this"] / best["default"])
        vertices.append(k.num_vertices)
    mean, _, raw_mean, _, _ = np.mean(results, axis=0)
    _, worst, _, raw_worst, _ = np.max(results, axis=0)
    ratios = [result[-1] for result in results]
    return Row(
        label, widths, mean, worst, raw_mean, raw_worst, (min(ratios), max(ratios)), np.mean(times), np.mean(vertices)
    )


def bilateral_rows() -> list[Row]:
    """Filters on (x, y, r, g, b)."""
    rows = []
    for name, (sigma_xy, sigma_rgb) in WIDTHS.items():
        features = [bilateral_features(photo(each, HEIGHT, WIDTH), sigma_xy, sigma_rgb) for each in NAMES]
        cases = [(x, exact_sums(x)) for x in features]
        label = f"{name} ({sigma_xy} px, {sigma_rgb} levels)"
        rows.append(compare("pydensecrf", label, cases, lambda x: LatticeFilter(x, operator="pydensecrf")))
        for halo in HALOS:
            title = "symmetric" if halo == 0 else f"symmetric, halo {halo}"
            rows.append(compare(title, label, cases, partial(LatticeFilter, halo=halo)))
    return rows


def position_rows() -> list[Row]:
    """Filters on (x, y)."""
    rows = []
    for sigma in (1.0, 3.0, 30.0):
        features = bilateral_features(photo(NAMES[0], HEIGHT, WIDTH), sigma, 1.0)[:, :2]
        cases = [(features, exact_sums(features))]
        label = f"{sigma:.0f} px"
        rows.append(compare("symmetric", label, cases, LatticeFilter))
    return rows


def magnitude_lines() -> list[str]:
    """The range of mean ratios to exact for d = 1…6 over photos and widths."""
    lines = ["| dimensions | pydensecrf | not calibrated | calibrated (default) |", "|---|---|---|---|"]
    height, width = HEIGHT // 2, WIDTH // 2
    one = np.ones((height * width, 1), np.float32)
    for dimension in range(1, 7):
        ratios: dict[str, list[float]] = {"pydensecrf": [], "plain": [], "calibrated": []}
        for widths in WIDTHS.values():
            for name in NAMES:
                features = features_of_dimension(dimension, photo(name, height, width), *widths)
                exact = ExactFilter(features).apply(one.astype(np.float64))
                for kind, k in (
                    ("pydensecrf", LatticeFilter(features, operator="pydensecrf")),
                    ("plain", LatticeFilter(features, calibrate=False)),
                    ("calibrated", LatticeFilter(features)),
                ):
                    ratios[kind].append(float((k.apply(one) / exact).mean()))
        cells = [f"{min(each):.3f} to {max(each):.3f}" for each in ratios.values()]
        lines.append(f"| {dimension} | {' | '.join(cells)} |")
    return lines


def table(rows: list[Row]) -> list[str]:
    lines = [
        "| widths | filter | normalised: mean | worst | raw: mean | worst | ratio | time | vertices |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row.widths} | {row.filter} | {row.mean:.2g} | {row.worst:.2g} | {row.raw_mean:.2g} | "
            f"{row.raw_worst:.2g} | {row.ratio[0]:.3f} to {row.ratio[1]:.3f} | {row.time:.1f} | "
            f"{row.vertices:.0f} |"
        )
    return lines


def draw(rows: list[Row], path: Path) -> None:
    """Plot errors against time for every setting."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), sharex=True, layout="constrained")
    for widths, colour in zip(dict.fromkeys(row.widths for row in rows), ("C0", "C1", "C2"), strict=True):
        ours = [row for row in rows if row.widths == widths and row.filter != "pydensecrf"]
        (peer,) = (row for row in rows if row.widths == widths and row.filter == "pydensecrf")
        for axis, field in zip(axes, ("mean", "worst"), strict=True):
            axis.plot([r.time for r in ours], [getattr(r, field) for r in ours], "o-", color=colour, label=widths)
            axis.plot(peer.time, getattr(peer, field), "x", color=colour, markersize=9, markeredgewidth=2)
    for axis, title in zip(axes, ("mean error", "worst pixel"), strict=True):
        axis.set(xscale="log", yscale="log", xlabel="time of a filtering, default = 1", title=f"{title}, normalised")
        axis.grid(alpha=0.3, which="both")
    axes[0].legend(title="• halo 0, 1, 2, 3   × pydensecrf's operator", fontsize=8, title_fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--docs", type=Path, help="folder of the documentation to write tables and plot into")
    docs = arguments.parse_args().docs
    bilateral, position = bilateral_rows(), position_rows()
    text = [
        f"Measured on {machine()}.",
        "",
        f"Position and colour, {HEIGHT}×{WIDTH}, photos {', '.join(NAMES)}:",
        "",
        *table(bilateral),
        "",
        "Position alone:",
        "",
        *table(position),
        "",
        f"Mean of K 1 / exact 1 at {HEIGHT // 2}×{WIDTH // 2}, least and greatest over photos and widths:",
        "",
        *magnitude_lines(),
        "",
    ]
    print("\n".join(text))
    if docs:
        (docs / "accuracy-tables.md").write_text("\n".join(text), encoding="utf-8")
        draw(bilateral, docs / "images" / "accuracy.png")


if __name__ == "__main__":
    main()
