"""Draws the grids of parameters.md: results of a CRF by width, colour width and weight.

Run it with `python docs/parameters_picture.py`. Photo and rough scores are those of landing_picture.py; results are
compared with an outline drawn by hand.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from landing_picture import PHOTOS, drawn, eroded, iou, rough_scores, shown
from matplotlib.figure import Figure
from skimage import data

from densefield import CRF, Bilateral, Spatial

IMAGES = Path(__file__).parent / "images"
WIDTHS, COLOURS, WEIGHTS = (5, 20, 80), (3, 10, 30, 90), (1, 5, 25)
SHOWN = np.s_[:300, 80:400]  # head and shoulders


def draw_grid(
    weight: float, photo: npt.NDArray[np.uint8], scores: npt.NDArray[np.float32], truth: npt.NDArray[np.uint8]
) -> Figure:
    """Widths by colour widths for one weight; the best of a grid has a frame."""
    found = {}
    for width in WIDTHS:
        for colour in COLOURS:
            found[width, colour] = CRF([Bilateral(width, colour, weight=weight)], iterations=10).marginals(
                scores, photo
            )
    scored = {setting: 100 * iou(q.argmax(axis=0).astype(np.uint8), truth) for setting, q in found.items()}
    best = max(scored, key=lambda setting: scored[setting])
    figure, axes = plt.subplots(len(WIDTHS), len(COLOURS), figsize=(9, 7), layout="constrained", dpi=110)
    for row, width in zip(axes, WIDTHS, strict=True):
        row[0].set_ylabel(f"sigma_xy {width}", fontsize=14)
        for ax, colour in zip(row, COLOURS, strict=True):
            ax.imshow(shown(photo, found[width, colour][1])[SHOWN])
            label = {"facecolor": "#111111", "edgecolor": "none", "pad": 3}
            ax.text(6, 292, f"IoU {scored[width, colour]:.1f}", color="white", fontsize=13, bbox=label)
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set(color="#e08e0b", linewidth=5, visible=(width, colour) == best)
    for ax, colour in zip(axes[0], COLOURS, strict=True):
        ax.set_title(f"sigma_rgb {colour}", fontsize=14)
    print(f"weight {weight}: best {best}, IoU {scored[best]:.1f}")
    return figure


def main() -> None:
    """Draw a grid for each weight."""
    photo = data.astronaut()
    truth = drawn(next(each for each in PHOTOS if each.name == "astronaut").outlines, photo.shape[1::-1])
    scores = rough_scores(eroded(truth))
    print(f"without a CRF: IoU {100 * iou(scores.argmax(axis=0).astype(np.uint8), truth):.1f}")
    for weight in WEIGHTS:
        figure = draw_grid(weight, photo, scores, truth)
        figure.savefig(IMAGES / f"parameters-weight-{weight}.jpg", pil_kwargs={"quality": 80})
        plt.close(figure)
    best = Bilateral(80, 10, weight=5)
    variants = {f"{count} iterations": CRF([best], iterations=count) for count in (1, 2, 5, 10, 20)}
    variants["a spatial kernel too"] = CRF([Spatial(3, weight=3), best], iterations=10)
    for name, crf in variants.items():
        labels = crf.marginals(scores, photo).argmax(axis=0).astype(np.uint8)
        print(f"80, 10, weight 5, {name}: IoU {100 * iou(labels, truth):.1f}")


if __name__ == "__main__":
    main()
