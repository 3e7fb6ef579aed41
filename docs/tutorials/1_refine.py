"""
Refining a mask
===============

You have a photo and a segmentation whose edges are off. This tutorial refines it, measures the gain, and uses
``explain`` to check the result. It needs NumPy; scikit-image brings the photo along, and matplotlib draws.
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
# Images are (H, W, 3) with colours 0…255. A mask holds one integer for each pixel: here 0 for the background and 1 for
# the person. Somebody drew it generously, about ten pixels too large.
photo = astronaut()
x = [20, 26, 26, 41, 95, 115, 160, 183, 171, 153, 170, 217, 262, 299, 291, 266, 275, 318, 353, 363, 425, 467, 503, 505]
y = [512, 405, 340, 288, 222, 190, 149, 149, 118, 66, 47, 18, 21, 60, 112, 138, 185, 241, 295, 335, 347, 376, 460, 512]
rough = np.zeros(photo.shape[:2], np.uint8)
rough[polygon(y, x, rough.shape)] = 1
rough = dilation(rough, disk(10))

# %%
# Refine
# ------
# ``refine`` returns the probability of every label at every pixel. The most probable labels are the refined mask.
probabilities = densefield.refine(photo, labels=rough)
refined = probabilities.argmax(axis=0)
print(probabilities.shape, f"{100 * np.mean(refined != rough):.1f} % of the pixels changed their label")


def cut_out(mask):
    return np.where(mask[..., None] == 1, photo, photo // 5 + 10)


figure, axes = plt.subplots(1, 3, figsize=(12, 4.35), layout="constrained")
for ax, picture, title in zip(
    axes, (photo, cut_out(rough), cut_out(refined)), ("photo", "rough", "refined"), strict=True
):
    ax.imshow(picture)
    ax.set_title(title)
    ax.set_axis_off()

# %%
# How far may edges move?
# -----------------------
# ``refine`` estimates how rough the mask is. ``explain`` runs the same inference and reports the estimate, and
# problems if there are any.
for finding in densefield.explain(photo, labels=rough):
    print(finding)

# %%
# If you know better, say it: ``roughness`` is in pixels.
figure, axes = plt.subplots(1, 3, figsize=(12, 4.35), layout="constrained")
for ax, roughness in zip(axes, (2, 8, 24), strict=True):
    ax.imshow(cut_out(densefield.refine(photo, labels=rough, roughness=roughness).argmax(axis=0)))
    ax.set_title(f"roughness={roughness}")
    ax.set_axis_off()

# %%
# A frequent mistake
# ------------------
# Many libraries read images as floats from 0 to 1. Widths of colours refer to 0…255, so such an image seems to have one
# colour. ``explain`` notices, and names the cure: ``data_range=1``.
for finding in densefield.explain(photo / 255, labels=rough):
    if finding.severity == "problem":
        print(finding)

# %%
# Next
# ----
# :doc:`Refining masks </refine>` lists all inputs: probabilities, logits, void and ignored pixels, volumes.
# :doc:`The command line </cli>` refines folders of files.
