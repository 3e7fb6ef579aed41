"""
Video
=====

Frames of a moving scene, segmented one by one, flicker. ``refine_clip`` treats time as
a third axis: a pixel is coupled with those of similar colour in the frames before and
after. The clip is synthetic: parts of scikit-image's photo of a cup move over a photo
of gravel, and each frame's mask is shaky in its own way.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates
from skimage.data import coffee, gravel
from skimage.draw import ellipse

from densefield import refine
from densefield.video import refine_clip

rng = np.random.default_rng(24)
frames, height, width = 12, 120, 180
cup = coffee()[::3, ::3]
shape = np.zeros(cup.shape[:2], bool)
shape[ellipse(76, 93, 54, 67)] = True  # saucer and cup
ground = np.repeat(gravel()[::2, ::2, None], 3, axis=2)

clip = np.empty((frames, height, width, 3), np.uint8)
truth = np.zeros((frames, height, width), np.uint8)
rough = np.zeros_like(truth)
for t in range(frames):
    shift = 5 * t - 30
    clip[t] = ground[t : t + height, 2 * t : 2 * t + width]
    seen = np.roll(shape, shift, axis=1)[:height, :width]
    clip[t][seen] = np.roll(cup, shift, axis=1)[:height, :width][seen]
    truth[t] = seen
    waves = gaussian_filter(rng.normal(size=(2, height, width)), (0, 9, 9))
    shake = [6 * wave / wave.std() for wave in waves]
    rough[t] = map_coordinates(truth[t], np.indices(seen.shape) + shake, order=0)
clip = np.clip(clip + rng.normal(0, 6, clip.shape), 0, 255).astype(np.uint8)

# %%
# Each frame refined alone, and the frames refined together. `refine_clip` yields the
# probabilities of one frame after the other.
pairs = zip(clip, rough, strict=True)
alone = np.array([refine(frame, labels=mask).argmax(axis=0) for frame, mask in pairs])
together = np.array([q.argmax(axis=0) for q in refine_clip(clip, labels=rough)])


def iou(masks):
    return 100 * np.sum(masks & truth) / np.sum(masks | truth)


def changes(masks):  # the share of pixels whose label differs from that a frame before
    return 100 * np.mean(masks[1:] != masks[:-1])


shown = {
    "truth": truth,
    "input": rough,
    "each frame refined alone": alone,
    "refined together": together,
}
for name, masks in shown.items():
    print(
        f"{name:25s} IoU {iou(masks):5.1f} %, changes {changes(masks):.1f} % of pixels"
    )

figure, axes = plt.subplots(4, 4, figsize=(12, 8.5), layout="constrained")
for row, (name, masks) in zip(axes, shown.items(), strict=True):
    for ax, t in zip(row, (0, 4, 7, 11), strict=True):
        ax.imshow(np.where(masks[t, ..., None] == 1, clip[t], clip[t] // 4))
        ax.set_axis_off()
    row[0].set_title(f"{name}, IoU {iou(masks):.1f} %", loc="left")
