"""
Training a network and a CRF together
=====================================

The point of the paper: the CRF is part of the network, so the network learns to give
scores that the CRF can use, and the CRF learns widths and weights. Here a small network
learns synthetic scenes, first alone, then together with a CRF. It needs torch and takes
a few seconds; :doc:`results on PASCAL VOC </results>` are the serious version.
"""

import copy

import matplotlib.pyplot as plt
import torch

from densefield import Bilateral, DenseCRF, Spatial
from densefield.networks import small_network
from densefield.nn import log_likelihood_loss
from densefield.scenes import SceneDataset

# %%
# Data
# ----
# Scenes of 96 × 96 pixels with three classes of objects, drawn from a seed.
CLASSES = 4


def tensors(count, first):
    kind = {"size": (96, 96), "object_classes": CLASSES - 1, "seed": 404}
    scenes = list(SceneDataset(count, first=first, **kind))
    images = [torch.from_numpy(scene.image).movedim(-1, 0).float() for scene in scenes]
    labels = [torch.from_numpy(scene.labels).long() for scene in scenes]
    return torch.stack(images), torch.stack(labels)


images, labels = tensors(160, first=0)
test_images, test_labels = tensors(20, first=10_000)

# %%
# Stage 1: the network alone
# --------------------------
# Five steps: batch, scores, loss, gradient, update.


def train(network, crf, steps, lr):
    parameters = [{"params": network.parameters(), "lr": lr}]
    if crf is not None:
        parameters.append({"params": crf.parameters(), "lr": 3e-2})
    optimizer = torch.optim.Adam(parameters)
    for _ in range(steps):
        batch = torch.randint(len(images), (8,))
        scores = network((images[batch] - 115) / 58)
        log_marginals = crf(scores, images[batch]) if crf else scores.log_softmax(1)
        loss = log_likelihood_loss(log_marginals, labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(56)
start = small_network(CLASSES, width=32)
train(start, None, steps=230, lr=3e-3)

# %%
# Stage 2: with and without a CRF
# -------------------------------
# Both copies of the network get the same further steps, at a lower learning rate. The
# CRF takes scores and image, and returns log marginals.
alone, together = copy.deepcopy(start), copy.deepcopy(start)
crf = DenseCRF(CLASSES, [Spatial(3, weight=1), Bilateral(30, 15, weight=3)])
print("before:", crf, sep="\n")
train(alone, None, steps=50, lr=1e-3)
train(together, crf, steps=50, lr=1e-3)
print("after:", crf, sep="\n")

# %%
# Result
# ------
# On scenes that were in neither training.
with torch.no_grad():
    inputs = (test_images - 115) / 58
    first = alone.eval()(inputs).argmax(1)
    second = crf(together.eval()(inputs), test_images).argmax(1)
for name, found in {"alone": first, "with the CRF": second}.items():
    right = 100 * (found == test_labels).double().mean().item()
    print(f"correct pixels on {len(test_images)} new scenes, {name}: {right:.1f} %")

looks = {"cmap": "Set2", "vmin": 0, "vmax": 7, "interpolation": "nearest"}
figure, axes = plt.subplots(3, 4, figsize=(12, 9), layout="constrained")
for row, index in zip(axes, (0, 1, 2), strict=True):
    row[0].imshow(test_images[index].movedim(0, -1).byte().numpy())
    for ax, found in zip(row[1:], (test_labels, first, second), strict=True):
        ax.imshow(found[index].numpy(), **looks)
titles = ("scene", "truth", "network alone", "with the CRF")
for ax, title in zip(axes[0], titles, strict=True):
    ax.set_title(title)
for ax in axes.flat:
    ax.set_axis_off()

# %%
# Next
# ----
# :doc:`Training </training>` does this by one command with checkpoints and validation,
# :doc:`the CRF in torch </torch>` describes all options, and :doc:`tuning </tuning>`
# fits a CRF to a network that stays as it is.
