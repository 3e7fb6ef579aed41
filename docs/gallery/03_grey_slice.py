"""
A grey slice
============

Tissue classes of a noisy tomographic slice. The slice is synthetic: the Shepp-Logan
phantom that scikit-image brings along, with noise, so the true classes are known
exactly. A coarse segmentation gives one class to every block of 8 × 8 pixels.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import shepp_logan_phantom

import densefield

clean = shepp_logan_phantom()  # (400, 400), 0…1
levels = [0.05, 0.15, 0.25, 0.6]  # between air, ventricles, brain, lesions and skull
truth = np.digitize(clean, levels).astype(np.uint8)
slice_ = clean + np.random.default_rng(1503).normal(0, 0.04, clean.shape)

side = 8
blocks = truth.reshape(50, side, 50, side).transpose(0, 2, 1, 3).reshape(50, 50, -1)
most = np.apply_along_axis(lambda block: np.bincount(block).argmax(), -1, blocks)
rough = most.repeat(side, axis=0).repeat(side, axis=1).astype(np.uint8)

# %%
# The image has one channel. `data_range` is the range that widths of colours refer to:
# grey values are 0…1 here.
refined = densefield.refine(slice_, labels=rough, data_range=1).argmax(axis=0)


def mean_iou(mask):
    pairs = [(mask == c, truth == c) for c in range(5)]
    return 100 * np.mean([np.sum(a & b) / np.sum(a | b) for a, b in pairs])


print(f"mean IoU: {mean_iou(rough):.1f} % rough, {mean_iou(refined):.1f} % refined")

figure, axes = plt.subplots(1, 4, figsize=(12, 3.35), layout="constrained")
axes[0].imshow(slice_, cmap="gray", vmin=0, vmax=1)
axes[0].set_title("noisy slice")
titles = [
    "truth",
    f"rough, mean IoU {mean_iou(rough):.1f} %",
    f"refined, {mean_iou(refined):.1f} %",
]
for ax, mask, title in zip(axes[1:], (truth, rough, refined), titles, strict=True):
    ax.imshow(mask, cmap="viridis", interpolation="nearest")
    ax.set_title(title)
for ax in axes:
    ax.set_axis_off()
