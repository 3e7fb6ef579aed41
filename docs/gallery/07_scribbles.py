"""
Scribbles
=========

Three strokes are enough to cut out a cup: ``propagate`` gives every pixel the label of
the scribbles that it resembles. The photo is from scikit-image; its outline was drawn
by hand.
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import coffee
from skimage.draw import ellipse, line, polygon
from skimage.morphology import dilation, disk

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
# Scribbles are an image of labels: 0 where there is none, 1 for the background, 2 for
# the cup.
strokes = np.zeros_like(truth)
for label, corners in (
    (1, [(15, 170), (30, 60), (380, 40), (385, 560), (20, 540), (15, 440)]),
    (2, [(50, 250), (120, 200), (130, 390)]),
    (2, [(220, 110), (330, 220), (340, 380), (230, 440), (210, 360)]),
):
    for start, end in pairwise(corners):
        strokes[line(*start, *end)] = label
scribbles = dilation(strokes, disk(4))

# %%
# The result has a probability for each label, 0 among them, which no pixel gets.
refined = densefield.propagate(photo, scribbles).argmax(axis=0) == 2


def iou(mask):
    return 100 * np.sum(mask & (truth == 1)) / np.sum(mask | (truth == 1))


share = 100 * np.mean(scribbles > 0)
print(f"scribbles on {share:.1f} % of the pixels; IoU {iou(refined):.1f} %")

figure, axes = plt.subplots(1, 3, figsize=(12, 3), layout="constrained")
painted = photo // 2 + 60
painted[scribbles == 1], painted[scribbles == 2] = (40, 110, 230), (40, 220, 110)
cut_out = [
    np.where(m[..., None] == 1, photo, photo // 5 + 12) for m in (refined, truth)
]
titles = [
    f"scribbles on {share:.1f} % of the pixels",
    f"propagated, IoU {iou(refined):.1f} %",
    "drawn by hand",
]
for ax, picture, title in zip(axes, [painted, *cut_out], titles, strict=True):
    ax.imshow(picture)
    ax.set_title(title)
    ax.set_axis_off()
