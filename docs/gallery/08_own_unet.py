"""
A U-Net of your own
===================

A small U-Net and a ``DenseCRF`` on top, trained together for a few seconds to find the objects of synthetic scenes. Any
network that gives one score per class and pixel can stand in its place.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.nn.functional import interpolate, max_pool2d

from densefield import Bilateral, DenseCRF, Spatial
from densefield.nn import log_likelihood_loss
from densefield.scenes import SceneDataset


def block(channels, out):
    return nn.Sequential(nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([block(3, 8), block(8, 16), block(16, 32), block(32, 48)])
        self.up = nn.ModuleList([block(48 + 32, 32), block(32 + 16, 16), block(16 + 8, 16)])
        self.top = nn.Conv2d(16, 2, 1)

    def forward(self, x):
        kept = []
        for level in self.down:
            x = level(max_pool2d(x, 2) if kept else x)
            kept.append(x)
        for level, before in zip(self.up, kept[-2::-1], strict=True):
            x = level(torch.cat([interpolate(x, scale_factor=2.0), before], 1))
        return self.top(x)


scenes = list(SceneDataset(44, size=(96, 96), object_classes=6, seed=88))
images = torch.stack([torch.from_numpy(scene.image).movedim(-1, 0) for scene in scenes]).float()
labels = torch.stack([torch.from_numpy(scene.labels > 0).long() for scene in scenes])

# %%
# The CRF takes scores and image. Its parameters get a larger learning rate.
torch.manual_seed(31)
network, crf = UNet(), DenseCRF(2, [Spatial(2, weight=1), Bilateral(20, 12, weight=2)])
optimizer = torch.optim.Adam([{"params": network.parameters()}, {"params": crf.parameters(), "lr": 2e-2}], lr=4e-3)
for _ in range(60):
    batch = torch.randint(32, (4,))  # of the first 32 scenes
    log_marginals = crf(network(images[batch] / 128 - 1), images[batch])
    optimizer.zero_grad()
    log_likelihood_loss(log_marginals, labels[batch]).backward()
    optimizer.step()

# %%
# Twelve other scenes, without and with the CRF:
with torch.no_grad():
    scores = network.eval()(images[32:] / 128 - 1)
    found = scores.argmax(1), crf(scores, images[32:]).argmax(1)
right = [100 * (each == labels[32:]).double().mean().item() for each in found]
print(f"correct pixels: {right[0]:.1f} % without the CRF, {right[1]:.1f} % with it")

figure, axes = plt.subplots(1, 4, figsize=(12, 3.35), layout="constrained")
titles = ["scene", "truth", f"network, {right[0]:.1f} % correct", f"with the CRF, {right[1]:.1f} %"]
pictures = (images[32].movedim(0, -1) / 255, labels[32], found[0][0], found[1][0])
for ax, picture, title in zip(axes, pictures, titles, strict=True):
    ax.imshow(picture.numpy(), cmap="gray", interpolation="nearest")
    ax.set_title(title)
    ax.set_axis_off()
