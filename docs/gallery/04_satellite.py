"""
Thirteen bands
==============

Land cover in an image with 13 bands, as Sentinel-2 has them. The scene is synthetic:
five classes with made-up spectra, noise in every band, and a coarse map with one class
for every 10 × 10 pixels, as an older land-cover product has it.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

import densefield

rng = np.random.default_rng(13)
size, classes, bands = 160, 5, 13
fields = gaussian_filter(rng.normal(size=(classes, size, size)), (0, 9, 9))
truth = fields.argmax(axis=0).astype(np.uint8)
# Spectra are reflectance × 10000; a pixel sees some of its neighbours' ground.
spectra = gaussian_filter(rng.uniform(300, 5000, (classes, bands)), (0, 1.5))
pure = spectra[truth].astype(np.float32)
mixed = gaussian_filter(pure, (0.7, 0.7, 0))
image = mixed + rng.normal(0, 250, mixed.shape)

side = 10
blocks = truth.reshape(16, side, 16, side).transpose(0, 2, 1, 3).reshape(16, 16, -1)
most = np.apply_along_axis(lambda block: np.bincount(block).argmax(), -1, blocks)
rough = most.repeat(side, axis=0).repeat(side, axis=1).astype(np.uint8)

# %%
# An image may have any number of channels. `data_range` declares their range.
refined = densefield.refine(image, labels=rough, data_range=10000).argmax(axis=0)


def accuracy(mask):
    return 100 * np.mean(mask == truth)


print(f"correct: {accuracy(rough):.1f} % rough, {accuracy(refined):.1f} % refined")

figure, axes = plt.subplots(1, 4, figsize=(12, 3.35), layout="constrained")
shown = image[..., [3, 2, 1]]
axes[0].imshow(np.clip((shown - shown.min()) / np.ptp(shown), 0, 1))
axes[0].set_title("bands 4, 3, 2")
titles = [
    "truth",
    f"coarse map, {accuracy(rough):.1f} % correct",
    f"refined, {accuracy(refined):.1f} %",
]
for ax, mask, title in zip(axes[1:], (truth, rough, refined), titles, strict=True):
    ax.imshow(mask, cmap="Set2", interpolation="nearest", vmin=0, vmax=7)
    ax.set_title(title)
for ax in axes:
    ax.set_axis_off()
