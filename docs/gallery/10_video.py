"""
Video
=====

Frames of a moving scene, segmented one by one, flicker. A CRF over the whole clip treats time as a third axis: a pixel
is coupled with its neighbours in the frames before and after. The clip is synthetic: parts of scikit-image's photo of a
cup move over a photo of gravel, and each frame's mask is shaky in its own way.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates
from skimage.data import coffee, gravel
from skimage.draw import ellipse

import densefield

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
    shake = [6 * wave / wave.std() for wave in gaussian_filter(rng.normal(size=(2, height, width)), (0, 9, 9))]
    rough[t] = map_coordinates(truth[t], np.indices(seen.shape) + shake, order=0)
clip = np.clip(clip + rng.normal(0, 6, clip.shape), 0, 255).astype(np.uint8)

# %%
# The clip is a volume (T, H, W) of colours. `spacing` along x, y and t says how many pixels a frame is worth: 4 here.
refined = densefield.refine(clip, labels=rough, spacing=(1, 1, 4)).argmax(axis=0).astype(np.uint8)


def iou(masks):
    return 100 * np.sum(masks & truth) / np.sum(masks | truth)


def flicker(masks):  # pixels whose label changes from frame to frame, beyond those that truly change
    return 100 * (np.mean(masks[1:] != masks[:-1]) - np.mean(truth[1:] != truth[:-1]))


print(f"flickering pixels: {flicker(rough):.1f} % frame by frame, {flicker(refined):.1f} % refined")

figure, axes = plt.subplots(3, 4, figsize=(12, 6.4), layout="constrained")
titles = ["truth", f"frame by frame, IoU {iou(rough):.1f} %", f"whole clip, {iou(refined):.1f} %"]
for row, masks, title in zip(axes, (truth, rough, refined), titles, strict=True):
    for ax, t in zip(row, (0, 4, 7, 11), strict=True):
        ax.imshow(np.where(masks[t, ..., None] == 1, clip[t], clip[t] // 4))
        ax.set_axis_off()
    row[0].set_title(title, loc="left")
