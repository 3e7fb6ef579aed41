"""How well rough masks of volumes and rasters are refined by default: one table in Markdown for each kind.

    python benchmarks/volumes.py

Volumes are those of synthetic_volumes.py, rasters those of synthetic_rasters.py. IoU is the mean over labels and cases.
Edge is the accuracy within 6 mm, or 4 pixels, of the true edge. Tiled: the share of the pixels whose label differs when
the file is computed in small tiles; seam: the same share for pixels within 2 pixels of the border of two tiles.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from clock import machine
from scipy.ndimage import distance_transform_edt, gaussian_filter
from synthetic_rasters import raster
from synthetic_rasters import rough_masks as rough_rasters
from synthetic_volumes import Scan, ct_abdomen, displaced, mr_brain, rough_masks

from densefield.volumes.grid import Grid, in_memory
from densefield.volumes.planning import VolumeOptions, make_plan
from densefield.volumes.sample import read_both
from densefield.volumes.tiles import even_sides, tiles

Array = npt.NDArray[Any]

CT_SEEDS, MR_SEEDS = (518, 519), (621, 622)  # others were used to choose the defaults
RASTER_SEEDS = (7121, 905)
WINDOWS = {"−160…240 HU": (-160.0, 240.0), "−1000…1000 HU": (-1000.0, 1000.0)}
TILE = {2: 256, 3: 48}


class Result(NamedTuple):
    """Measures of one mask: as it came, and refined."""

    before: tuple[float, float]
    after: tuple[float, float]
    tiled: float
    seam: float


def iou(labels: Array, truth: Array) -> float:
    """The mean over the labels of the truth, in percent."""
    parts = [((labels == k) & (truth == k)).sum() / ((labels == k) | (truth == k)).sum() for k in np.unique(truth)]
    return 100 * float(np.mean(parts))


def edge_accuracy(labels: Array, truth: Array, spacing: tuple[float, ...], within: float) -> float:
    """The accuracy near the true edges, in percent."""
    edge = np.zeros(truth.shape, bool)
    for axis in range(truth.ndim):
        differ = np.diff(truth.astype(int), axis=axis) != 0
        before, after = ([slice(None)] * truth.ndim for _ in range(2))
        before[axis], after[axis] = slice(0, -1), slice(1, None)
        edge[tuple(before)] |= differ
        edge[tuple(after)] |= differ
    near = distance_transform_edt(~edge, spacing[::-1]) <= within
    return 100 * float((labels == truth)[near].mean())


def network_scores(scan: Scan, seed: int) -> Array:
    """Logits (L, D, H, W) as of a network: blurred, with errors of some mm and confident mistakes."""
    rng = np.random.default_rng(seed)
    moved = displaced(scan.truth, scan.spacing, 1.5, 8.0)
    steps = scan.spacing[::-1]
    scores = []
    for label in range(int(scan.truth.max()) + 1):
        f = gaussian_filter((moved == label) * 8.0 - 4, [2.5 / s for s in steps])
        for width, size in ((5.0, 1.6), (1.5, 0.5)):
            noise = gaussian_filter(rng.standard_normal(scan.truth.shape), [width / s for s in steps], mode="wrap")
            f += size * noise / noise.std()
        scores.append(f)
    return np.stack(scores, axis=-1).astype(np.float32)


def refined(
    image: Grid, mask: Grid, side: int, logits: bool = False, window: tuple[float, float] | None = None
) -> Array:
    plan = make_plan(image, mask, VolumeOptions(logits=logits, window=window), threads=2)
    out = np.zeros(mask.shape, np.int64)
    for part in tiles(mask.shape, even_sides(mask.shape, side), plan.halo):
        sample = read_both(image, mask, part.outer)
        labels = plan.marginals(sample).argmax(axis=0) if logits else plan.labels(sample)  # type: ignore[union-attr]
        out[part.core] = labels[part.inner]
    return out


def measured(image: Grid, mask: Grid, labels: Array, truth: Array, logits: bool = False) -> Result:
    within, side = (6.0, TILE[3]) if truth.ndim == 3 else (4.0, TILE[2])
    whole = refined(image, mask, 1 << 30, logits)
    parts = refined(image, mask, side, logits)
    seam = np.zeros(truth.shape, bool)
    for axis, (size, step) in enumerate(zip(truth.shape, even_sides(truth.shape, side), strict=True)):
        at = np.arange(size) % step
        near = ((at < 2) | (at >= step - 2)) & (np.arange(size) >= 2) & (np.arange(size) < size - 2)
        seam |= np.expand_dims(near, tuple(other for other in range(truth.ndim) if other != axis))
    quality = [(iou(each, truth), edge_accuracy(each, truth, image.spacing, within)) for each in (labels, whole)]
    return Result(
        quality[0], quality[1], 100 * float((parts != whole).mean()), 100 * float((parts != whole)[seam].mean())
    )


def volume_cases(scan: Scan, seed: int) -> Iterator[tuple[str, Result]]:
    image = in_memory(scan.image, spacing=scan.spacing, unit="mm")
    for name, mask in rough_masks(scan).items():
        yield name, measured(image, in_memory(mask), mask, scan.truth)
    scores = network_scores(scan, seed)
    yield "network", measured(image, in_memory(scores, channels=scores.shape[-1]), scores.argmax(-1), scan.truth, True)


def raster_cases(bands: int, seed: int) -> Iterator[tuple[str, Result]]:
    scene = raster(seed, bands=bands)
    image = in_memory(scene.image, channels=bands)
    for name, mask in rough_rasters(scene.truth).items():
        yield name, measured(image, in_memory(mask), mask, scene.truth)


def print_table(title: str, cases: Iterator[tuple[str, Result]]) -> None:
    found: dict[str, list[Result]] = {}
    for name, result in cases:
        found.setdefault(name, []).append(result)
    print(f"\n| {title} | as it came, IoU / edge | refined, IoU / edge | tiled | seam |\n|---|---|---|---|---|")
    for name, results in found.items():
        means = [np.mean([getattr(each, key) for each in results], axis=0) for key in Result._fields]
        quality = [f"{one:.1f} / {two:.1f}" for one, two in means[:2]]
        print(f"| {name} | {quality[0]} | {quality[1]} | {means[2]:.3f} % | {means[3]:.3f} % |", flush=True)


def print_windows() -> None:
    """The means over the rough masks of CT scans for several scales of intensities."""
    print("\n| scale | IoU / edge |\n|---|---|")
    scans = [ct_abdomen(seed) for seed in CT_SEEDS]
    percentiles = {"percentiles near the mask's edges": None, "percentiles of the whole volume": "whole"}
    for name, window in {**percentiles, **WINDOWS}.items():
        quality = []
        for scan in scans:
            image = in_memory(scan.image, spacing=scan.spacing, unit="mm")
            low, high = np.percentile(scan.image, (0.5, 99.5)) if window == "whole" else window or (0, 0)
            chosen = None if window is None else (float(low), float(high))
            for kind, mask in rough_masks(scan).items():
                if kind != "true":
                    labels = refined(image, in_memory(mask), 1 << 30, window=chosen)
                    quality.append((iou(labels, scan.truth), edge_accuracy(labels, scan.truth, scan.spacing, 6.0)))
        one, two = np.mean(quality, axis=0)
        print(f"| {name} | {one:.1f} / {two:.1f} |", flush=True)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print(machine())
    print_windows()
    print_table("CT", (case for seed in CT_SEEDS for case in volume_cases(ct_abdomen(seed), seed)))
    print_table("MR", (case for seed in MR_SEEDS for case in volume_cases(mr_brain(seed), seed)))
    for bands in (13, 4):
        print_table(f"{bands} bands", (case for seed in RASTER_SEEDS for case in raster_cases(bands, seed)))


if __name__ == "__main__":
    main()
