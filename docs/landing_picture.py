"""Draws the animation of the first page, for light and dark pages: `python docs/landing_picture.py`.

Mean field, damped so that its steps can be seen, refines the mask of a photo of scikit-image that was eroded by twelve
pixels. The outline that it is compared with was drawn by hand. A still picture of the end is written too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from PIL import Image
from scipy.ndimage import gaussian_filter
from skimage import data

from densefield import CRF, Bilateral, Spatial

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from picture import PHOTOS, drawn, eroded, iou  # examples/picture.py, whose outlines were drawn by hand

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

STATIC = Path(__file__).parent / "_static"
CRF_SHOWN = CRF([Spatial(2, weight=1), Bilateral(50, 13, weight=5)])
STEPS, DAMPING = 15, 0.75
THEMES = {"light": ("#ffffff", "#1f2328", "#0b6e4f"), "dark": ("#131416", "#d5d9de", "#4cc38a")}  # page, ink, line


def rough_scores(rough: Bytes) -> Floats:
    """Logits (2, H, W) of a network that is unsure within some pixels of the mask's edge."""
    p = np.clip(gaussian_filter(rough.astype(np.float32), 8), 0.02, 0.98)
    return 0.4 * np.stack([np.log(1 - p), np.log(p)])


def shown(photo: Bytes, p: Floats) -> Bytes:
    """The photo in its colours where the object is probable, dark and grey elsewhere."""
    dark = 0.3 * photo.mean(axis=-1, keepdims=True) + 10
    return np.rint((1 - p[..., None]) * dark + p[..., None] * photo).astype(np.uint8)


def draw_frame(panels: Sequence[tuple[str, Bytes]], scores: Sequence[float], theme: str) -> Image.Image:
    """Pictures side by side, and the curve so far."""
    page, ink, line = THEMES[theme]
    plt.rcParams.update({"font.size": 14, "text.color": ink, "axes.labelcolor": ink, "axes.edgecolor": ink})
    plt.rcParams.update({"xtick.color": ink, "ytick.color": ink, "axes.facecolor": page})
    figure, axes = plt.subplots(1, 3, figsize=(11, 4.3), layout="constrained", facecolor=page, dpi=100)
    for ax, (title, picture) in zip(axes, panels, strict=False):
        ax.imshow(picture)
        ax.set_title(title, loc="left", fontsize=18)
        ax.set_axis_off()
    ax = axes[-1]
    ax.plot(scores, color=line, linewidth=2.5)
    ax.plot(len(scores) - 1, scores[-1], "o", color=line, markersize=8)
    ax.set(xlim=(-0.5, STEPS + 0.5), ylim=(84, 98), xlabel="iteration", xticks=range(0, STEPS + 1, 5), box_aspect=0.85)
    ax.set_title(f"IoU: {scores[-1]:.1f} %", loc="left", fontsize=18)
    ax.spines[["top", "right"]].set_visible(False)
    return rendered(figure)


def rendered(figure: Figure) -> Image.Image:
    """The figure as an image; the figure is closed."""
    figure.canvas.draw()
    image = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())[..., :3].copy())
    plt.close(figure)
    return image


def main() -> None:
    """Run mean field once, and draw it twice."""
    photo = next(photo for photo in PHOTOS if photo.name == "astronaut")
    pixels = data.astronaut()
    truth = drawn(photo.outlines, pixels.shape[1::-1])
    scores = rough_scores(eroded(truth))
    steps = list(islice(CRF_SHOWN.steps(scores, pixels, damping=DAMPING), STEPS + 1))
    curve = [100 * iou(step.labels.astype(np.uint8), truth) for step in steps]
    print(f"IoU {curve[0]:.1f} -> {curve[-1]:.1f} in {STEPS} iterations")
    start = shown(pixels, steps[0].labels.astype(np.float32))
    for theme in THEMES:
        frames = [
            draw_frame(
                [("rough mask", start), ("probability", shown(pixels, step.marginals[1]))], curve[: t + 1], theme
            )
            for t, step in enumerate(steps)
        ]
        path = STATIC / f"mean-field-{theme}.webp"
        times = [900, *[160] * (len(frames) - 2), 2600]  # milliseconds
        frames[0].save(path, save_all=True, append_images=frames[1:], duration=times, loop=0, quality=72, method=4)
        frames[-1].save(STATIC / f"mean-field-{theme}-still.webp", quality=80)
        print(f"{path.name}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
