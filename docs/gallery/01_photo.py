"""
A photo
=======

A mask in blocks of 24 pixels, as a network with a large stride gives it, becomes one
that follows cup and saucer. The photo is from scikit-image; its outline was drawn by
hand.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import coffee
from skimage.draw import ellipse, polygon

import densefield

photo = coffee()  # (400, 600, 3)
truth = np.zeros(photo.shape[:2], np.uint8)
# fmt: off
saucer_x = [
    181, 145, 106, 83, 77, 87, 114, 158, 216, 280, 344, 398, 440, 468, 479, 473,
    448, 422, 300,
]
saucer_y = [
    70, 88, 120, 160, 210, 262, 312, 354, 381, 389, 381, 361, 327, 281, 228, 178,
    132, 106, 60,
]
# fmt: on
truth[polygon(saucer_y, saucer_x)] = 1
truth[ellipse(112, 291, 95, 118)] = 1

# %%
# The rough mask has one label for every block: that of most of its pixels.
side = 24
rows, columns = np.array(truth.shape) // side
whole = truth[: rows * side, : columns * side].reshape(rows, side, columns, side)
blocks = whole.mean(axis=(1, 3)) > 0.5
rough = np.zeros_like(truth)
rough[: rows * side, : columns * side] = np.kron(blocks, np.ones((side, side)))

# %%
# `refine` returns the probability of each label at each pixel.
refined = densefield.refine(photo, labels=rough).argmax(axis=0)


def iou(mask):
    return 100 * np.sum((mask == 1) & (truth == 1)) / np.sum((mask == 1) | (truth == 1))


print(f"IoU with the outline: {iou(rough):.1f} % rough, {iou(refined):.1f} % refined")

figure, axes = plt.subplots(1, 4, figsize=(12, 2.4), layout="constrained")
names = [
    "drawn by hand",
    f"rough, IoU {iou(rough):.1f} %",
    f"refined, IoU {iou(refined):.1f} %",
]
cut_out = [
    np.where(mask[..., None] == 1, photo, photo // 4 + 12)
    for mask in (truth, rough, refined)
]
for ax, picture, title in zip(axes, [photo, *cut_out], ["photo", *names], strict=True):
    ax.imshow(picture)
    ax.set_title(title)
    ax.set_axis_off()
