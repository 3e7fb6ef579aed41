"""
Thin structures
===============

Vessels two to six pixels wide, drawn on a noisy background: synthetic, so the truth is
known exactly. A network that works at a quarter of the resolution sees them as broad
bands. A narrow spatial kernel and dark pixels bring them back.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter
from skimage.draw import disk
from skimage.transform import resize

import densefield
from densefield import Bilateral, Spatial

rng = np.random.default_rng(202)
size = 256
truth = np.zeros((size, size), np.uint8)


def grow(y, x, angle, width, length):  # a vessel that winds, gets thinner and splits
    for _ in range(length):
        y, x, angle = y + np.sin(angle), x + np.cos(angle), angle + rng.normal(0, 0.07)
        truth[disk((y, x), width, shape=truth.shape)] = 1
    if width > 1:
        for turn in (-0.5, 0.45):
            grow(y, x, angle + turn, 0.72 * width, int(0.8 * length))


grow(size / 2, 0, 0.1, 3.5, 80)
background = 150 + 600 * gaussian_filter(rng.normal(size=truth.shape), 20)
image = gaussian_filter(background - 75.0 * truth, 0.6) + rng.normal(0, 9, truth.shape)

# %%
# The network's probability: the share of vessel in blocks of 4 × 4 pixels, enlarged
# smoothly.
share = truth.reshape(64, 4, 64, 4).mean(axis=(1, 3))
probability = np.clip(resize(share, truth.shape, order=1) * 1.6, 0.02, 0.98)
rough = probability > 0.5

# %%
# Kernels for thin things: one pixel of smoothing, and a colour width above the noise
# but below the contrast.
kernels = [Spatial(1, weight=0.5), Bilateral(8, 20, weight=6)]
marginals = densefield.refine(image, probabilities=probability, kernels=kernels)
refined = marginals.argmax(axis=0)


def iou(mask):
    return 100 * np.sum((mask == 1) & (truth == 1)) / np.sum((mask == 1) | (truth == 1))


print(f"IoU of the vessels: {iou(rough):.1f} % rough, {iou(refined):.1f} % refined")

figure, axes = plt.subplots(1, 4, figsize=(12, 3.35), layout="constrained")
titles = [
    "image",
    "truth",
    f"rough, IoU {iou(rough):.1f} %",
    f"refined, {iou(refined):.1f} %",
]
pictures = (image, 1 - truth, ~rough, 1 - refined)
for ax, picture, title in zip(axes, pictures, titles, strict=True):
    ax.imshow(picture, cmap="gray")
    ax.set_title(title)
    ax.set_axis_off()
