"""Draws the film of the first page in which a CRF learns: `python docs/learning_picture.py`.

Gradient descent moves the widths and the weight of a kernel, from bad ones, so that the mask of landing_picture.py
grows to the outline drawn by hand. It is one photo, at half its size: the film shows that widths are learnt, and
nothing about other photos.
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import torch
from landing_picture import PHOTOS, STATIC, THEMES, Bytes, Floats, drawn, eroded, iou, rendered, rough_scores, shown
from PIL import Image
from skimage import data

from densefield import Bilateral, DenseCRF
from densefield.nn import log_likelihood_loss

STEPS, SHOWN = 60, 3  # steps of Adam, and of how many one is a frame
LINES = (("sigma_xy, pixels", "-"), ("sigma_rgb, levels", "--"), ("weight", ":"))


def learn(photo: Bytes, truth: Bytes, scores: Floats) -> list[tuple[list[float], Floats]]:
    """Widths and weight, and the probability of the object, before the first step and after each."""
    crf = DenseCRF(2, [Bilateral(4, 60, weight=1)], iterations=5)
    optimizer = torch.optim.Adam(crf.parameters(), lr=0.08)
    inputs = torch.from_numpy(scores)[None], torch.from_numpy(photo).movedim(-1, 0)[None].float()
    found = []
    for _ in range(STEPS + 1):
        log_marginals = crf(*inputs)
        kernel = crf.to_numpy().kernels[0]
        widths = [float(np.mean(kernel.sigma_xy)), float(np.mean(kernel.sigma_rgb)), float(np.mean(kernel.weight))]
        found.append((widths, log_marginals[0, 1].detach().exp().numpy()))
        optimizer.zero_grad()
        log_likelihood_loss(log_marginals, torch.from_numpy(truth).long()[None]).backward()
        optimizer.step()
    return found


def draw_frame(photo: Bytes, truth: Bytes, found: Sequence[tuple[list[float], Floats]], theme: str) -> Image.Image:
    """The probability after the last of some steps, and the parameters so far."""
    page, ink, line = THEMES[theme]
    plt.rcParams.update({"font.size": 14, "text.color": ink, "axes.labelcolor": ink, "axes.edgecolor": ink})
    plt.rcParams.update({"xtick.color": ink, "ytick.color": ink, "axes.facecolor": page, "legend.facecolor": page})
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained", facecolor=page, dpi=100)
    q = found[-1][1]
    axes[0].imshow(shown(photo, q))
    axes[0].set_title(f"step {len(found) - 1}: IoU {100 * iou((q > 0.5).astype(np.uint8), truth):.1f} %", fontsize=18)
    axes[0].set_axis_off()
    for index, (name, dashes) in enumerate(LINES):
        values = [widths[index] for widths, _ in found]
        axes[1].plot(values, dashes, color=line, linewidth=2.5, label=f"{name}: {values[-1]:.1f}")
    axes[1].set(xlim=(0, STEPS), ylim=(0.7, 300), yscale="log", xlabel="step")
    axes[1].legend(frameon=False, loc="lower right")
    axes[1].spines[["top", "right"]].set_visible(False)
    return rendered(figure)


def main() -> None:
    """Learn once, and draw it twice."""
    photo = data.astronaut()
    truth = drawn(next(each for each in PHOTOS if each.name == "astronaut").outlines, photo.shape[1::-1])
    scores = np.ascontiguousarray(rough_scores(eroded(truth))[:, ::2, ::2])
    photo, truth = np.ascontiguousarray(photo[::2, ::2]), np.ascontiguousarray(truth[::2, ::2])
    found = learn(photo, truth, scores)
    for step in (0, STEPS // 2, STEPS):
        widths, q = found[step]
        print(f"step {step}: {np.round(widths, 2)}, IoU {100 * iou((q > 0.5).astype(np.uint8), truth):.1f}")
    for theme in THEMES:
        frames = [draw_frame(photo, truth, found[: last + 1], theme) for last in range(0, STEPS + 1, SHOWN)]
        times = [900, *[160] * (len(frames) - 2), 2600]  # milliseconds
        path = STATIC / f"learning-{theme}.webp"
        frames[0].save(path, save_all=True, append_images=frames[1:], duration=times, loop=0, quality=72, method=4)
        frames[-1].save(STATIC / f"learning-{theme}-still.webp", quality=80)
        print(f"{path.name}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
