"""
A volume
========

A synthetic scan of 32 × 80 × 80 voxels that are 2.5 times as thick as wide: two noisy
organs, and a segmentation with shaky edges. `spacing` tells the CRF the size of a
voxel.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

import densefield

rng = np.random.default_rng(32)
spacing = (1.0, 1.0, 2.5)  # of a voxel along x, y and z
z, y, x = np.mgrid[:32, :80, :80] * np.array(spacing[::-1])[:, None, None, None]
truth = np.zeros(z.shape, np.uint8)
truth[((z - 40) / 30) ** 2 + ((y - 38) / 26) ** 2 + ((x - 33) / 22) ** 2 < 1] = 1
truth[((z - 36) / 20) ** 2 + ((y - 45) / 14) ** 2 + ((x - 60) / 13) ** 2 < 1] = 2
volume = np.array([40.0, 120.0, 190.0])[truth] + rng.normal(0, 20, truth.shape)

wobble = [gaussian_filter(rng.normal(size=truth.shape), 3) for _ in range(3)]
steps = (2.5, 1, 1)  # voxels are thick along z: displacements are 3.5 wide voxels
where = np.indices(truth.shape)
for axis, wave, step in zip(where, wobble, steps, strict=True):
    axis += np.rint(3.5 * wave / wave.std() / step).astype(int)
limits = [np.clip(axis, 0, n - 1) for axis, n in zip(where, truth.shape, strict=True)]
rough = truth[tuple(limits)]

# %%
# Everything is as for images, with one axis more.
refined = densefield.refine(volume, labels=rough, spacing=spacing).argmax(axis=0)


def dice(mask):
    pairs = [(mask == c, truth == c) for c in (1, 2)]
    return 100 * np.mean([2 * np.sum(a & b) / (a.sum() + b.sum()) for a, b in pairs])


print(f"mean Dice score: {dice(rough):.1f} % rough, {dice(refined):.1f} % refined")

figure, axes = plt.subplots(2, 4, figsize=(12, 5), layout="constrained")
titles = [
    "scan",
    "truth",
    f"rough, Dice {dice(rough):.1f} %",
    f"refined, {dice(refined):.1f} %",
]
grey, classes = {"cmap": "gray"}, {"cmap": "viridis", "vmin": 0, "vmax": 2}
for column, array in enumerate((volume, truth, rough, refined)):
    looks = classes if column else grey
    axes[0, column].imshow(array[15], **looks)
    axes[1, column].imshow(array[:, 42], **looks, aspect=2.5)
    axes[0, column].set_title(titles[column])
for ax in axes.flat:
    ax.set_axis_off()
