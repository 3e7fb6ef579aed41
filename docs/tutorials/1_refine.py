"""
Refining a mask
===============

You have a photo and a segmentation whose edges are off. This tutorial refines it,
measures the gain, and uses ``explain`` to check the result. It needs NumPy;
scikit-image brings the photo along, and matplotlib draws.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import astronaut
from skimage.draw import polygon
from skimage.morphology import dilation, disk

import densefield

# %%
# An image and a rough mask
# -------------------------
# Images are (H, W, 3) with colours 0…255. A mask holds one integer for each pixel: here
# 0 for the background and 1 for the person. It is an outline drawn by hand, made
# ten pixels too large.
photo = astronaut()
# fmt: off
x = [
    20, 26, 26, 41, 95, 115, 160, 183, 171, 153, 170, 217, 262, 299, 291, 266, 275,
    318, 353, 363, 425, 467, 503, 505,
]
y = [
    512, 405, 340, 288, 222, 190, 149, 149, 118, 66, 47, 18, 21, 60, 112, 138, 185,
    241, 295, 335, 347, 376, 460, 512,
]
# fmt: on
drawn = np.zeros(photo.shape[:2], np.uint8)
drawn[polygon(y, x, drawn.shape)] = 1
rough = dilation(drawn, disk(10))

# %%
# Refine
# ------
# ``refine`` returns the probability of every label at every pixel. The most probable
# labels are the refined mask.
probabilities = densefield.refine(photo, labels=rough)
refined = probabilities.argmax(axis=0)
changed = 100 * np.mean(refined != rough)
print(probabilities.shape, f"{changed:.1f} % of the pixels changed their label")

# %%
# The gain is the intersection over union (IoU) with the drawn outline, before and
# after.


def iou(mask):
    return 100 * np.sum((mask == 1) & (drawn == 1)) / np.sum((mask == 1) | (drawn == 1))


print(f"IoU {iou(rough):.1f} % before, {iou(refined):.1f} % after")


def cut_out(mask):
    return np.where(mask[..., None] == 1, photo, photo // 5 + 10)


figure, axes = plt.subplots(1, 3, figsize=(12, 4.35), layout="constrained")
pictures = {"photo": photo, "rough": cut_out(rough), "refined": cut_out(refined)}
for ax, (title, picture) in zip(axes, pictures.items(), strict=True):
    ax.imshow(picture)
    ax.set_title(title)
    ax.set_axis_off()

# %%
# How far may edges move?
# -----------------------
# ``refine`` estimates how rough the mask is. ``explain`` runs the same inference and
# reports the estimate, and problems if there are any.
for finding in densefield.explain(photo, labels=rough):
    print(finding)

# %%
# ``refine`` first moves the whole outline, here by 10.4 pixels, which undoes the ten
# pixels that the mask was too large. The 2.4 pixels are
# the estimate of what is left after that: the outline is a polygon drawn by hand, and
# follows the edges of the image no better.
#
# If you know better, say it: ``roughness`` is in pixels.
figure, axes = plt.subplots(1, 3, figsize=(12, 4.35), layout="constrained")
for ax, roughness in zip(axes, (2, 8, 24), strict=True):
    q = densefield.refine(photo, labels=rough, roughness=roughness)
    ax.imshow(cut_out(q.argmax(axis=0)))
    ax.set_title(f"roughness={roughness}")
    ax.set_axis_off()

# %%
# A frequent mistake
# ------------------
# Many libraries read images as floats from 0 to 1. Widths of colours refer to 0…255, so
# such an image seems to have one colour. ``explain`` notices, and names the cure:
# ``data_range=1``.
for finding in densefield.explain(photo / 255, labels=rough):
    if finding.severity == "problem":
        print(finding)

# %%
# Next
# ----
# :doc:`Refining masks </refine>` lists all inputs: probabilities, logits, void and
# ignored pixels, volumes. :doc:`The command line </cli>` refines folders of files.
