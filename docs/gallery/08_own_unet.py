"""
A U-Net of your own
===================

A small U-Net and a ``DenseCRF`` on top, trained together for a few seconds to find the
objects of synthetic scenes. Any network that gives one score per class and pixel can
stand in its place.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.nn.functional import interpolate, max_pool2d

from densefield import Bilateral, DenseCRF, Spatial
from densefield.nn import log_likelihood_loss
from densefield.scenes import SceneDataset


def block(channels, out):
    layer = nn.Conv2d(channels, out, 3, padding=1)
    return nn.Sequential(layer, nn.BatchNorm2d(out), nn.ReLU())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        down = [block(3, 8), block(8, 16), block(16, 32), block(32, 48)]
        up = [block(48 + 32, 32), block(32 + 16, 16), block(16 + 8, 16)]
        self.down, self.up = nn.ModuleList(down), nn.ModuleList(up)
        self.top = nn.Conv2d(16, 2, 1)

    def forward(self, x):
        kept = []
        for level in self.down:
            x = level(max_pool2d(x, 2) if kept else x)
            kept.append(x)
        for level, before in zip(self.up, kept[-2::-1], strict=True):
            x = level(torch.cat([interpolate(x, scale_factor=2.0), before], 1))
        return self.top(x)


scenes = list(SceneDataset(112, size=(96, 96), object_classes=6, seed=88))
images = [torch.from_numpy(scene.image).movedim(-1, 0).float() for scene in scenes]
images = torch.stack(images)
labels = torch.stack([torch.from_numpy(scene.labels > 0).long() for scene in scenes])

# %%
# The CRF takes scores and image. Its parameters get a larger learning rate.
torch.manual_seed(31)
torch.set_num_threads(1)  # threads cost more than they gain for images this small
network, crf = UNet(), DenseCRF(2, [Spatial(2, weight=1), Bilateral(20, 12, weight=2)])
of_network, of_crf = list(network.parameters()), list(crf.parameters())
optimizer = torch.optim.Adam(
    [{"params": of_network, "lr": 4e-3}, {"params": of_crf, "lr": 2e-2}]
)
for _ in range(200):
    batch = torch.randint(100, (4,))  # of the first 100 scenes
    log_marginals = crf(network(images[batch] / 128 - 1), images[batch])
    optimizer.zero_grad()
    log_likelihood_loss(log_marginals, labels[batch]).backward()
    optimizer.step()

# %%
# Twelve other scenes, without and with the CRF. The network learnt with it, so the
# first number is not that of a network trained alone.
with torch.no_grad():
    scores = network.eval()(images[100:] / 128 - 1)
    found = scores.argmax(1), crf(scores, images[100:]).argmax(1)
truth = labels[100:]


def iou(mask):
    return 100 * ((mask == 1) & (truth == 1)).sum() / ((mask == 1) | (truth == 1)).sum()


print(f"IoU of objects: network {iou(found[0]):.1f} %, with CRF {iou(found[1]):.1f} %")

figure, axes = plt.subplots(1, 4, figsize=(12, 3.35), layout="constrained")
results = [
    f"network, IoU {iou(found[0]):.1f} %",
    f"with the CRF, {iou(found[1]):.1f} %",
]
titles = ["scene", "truth", *results]
pictures = (images[100].movedim(0, -1) / 255, truth[0], found[0][0], found[1][0])
for ax, picture, title in zip(axes, pictures, titles, strict=True):
    ax.imshow(picture.numpy(), cmap="gray", interpolation="nearest")
    ax.set_title(title)
    ax.set_axis_off()
