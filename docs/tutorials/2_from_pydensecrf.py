"""
Moving from pydensecrf
======================

A program written for pydensecrf needs one changed import. This tutorial runs such a
program, then writes it with ``CRF``, which is shorter and gives the same numbers.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import coffee

# %%
# The program as it was
# ---------------------
# The photo is a cup of coffee. The probabilities are like a network's that is sure in
# the middle of the cup and unsure near its edge. Only the two imports are new.
import densefield.pydensecrf.densecrf as dcrf
from densefield.pydensecrf.utils import unary_from_softmax

image = np.ascontiguousarray(coffee())
height, width = image.shape[:2]
rows, columns = np.mgrid[:height, :width]
ellipse = ((columns - 280) / 200) ** 2 + ((rows - 210) / 180) ** 2
inside = 1 / (1 + np.exp(3 * (ellipse - 1)))
probabilities = np.stack([1 - inside, inside]).astype(np.float32)

d = dcrf.DenseCRF2D(width, height, 2)
d.setUnaryEnergy(unary_from_softmax(probabilities))
d.addPairwiseGaussian(sxy=3, compat=3)
d.addPairwiseBilateral(sxy=60, srgb=10, rgbim=image, compat=5)
before = np.array(d.inference(5)).reshape(2, height, width)

# %%
# The same with ``CRF``
# ---------------------
# Scores are logits: higher is better, where energies have the opposite sign. Arrays
# keep their shape, and a CRF serves any number of images.
from densefield import CRF, Bilateral, Spatial

kernels = [Spatial(3, weight=3), Bilateral(60, 10, weight=5)]
crf = CRF(kernels, iterations=5, operator="pydensecrf")
scores = np.log(np.clip(probabilities, 1e-5, 1))
after = crf.solve(scores, image).marginals
print(f"largest difference of the marginals: {np.abs(after - before).max():.1e}")

# %%
# ``operator="pydensecrf"`` uses that package's lattice. The default one is symmetric,
# and its results differ a little:
symmetric = crf.replace(operator="symmetric").solve(scores, image).marginals
changed = 100 * np.mean(symmetric.argmax(0) != before.argmax(0))
print(f"pixels with another label: {changed:.2f} %")

figure, axes = plt.subplots(1, 3, figsize=(12, 3.05), layout="constrained")
titles = ["probabilities", "pydensecrf's interface", "CRF"]
for ax, q, title in zip(axes, (probabilities, before, after), titles, strict=True):
    ax.imshow((image * (0.15 + 0.85 * q[1, ..., None])).astype(np.uint8))
    ax.set_title(title)
    ax.set_axis_off()

# %%
# Next
# ----
# :doc:`Drop-in for pydensecrf </pydensecrf>` lists what is covered, and how to switch
# third-party programs without changing them. :doc:`Speed </speed>` compares the two.
