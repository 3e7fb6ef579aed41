"""
SegFormer
=========

A segmentation model of transformers with a CRF on its scores. The model is tiny and
made from a configuration, so nothing is downloaded: it learns for some seconds to find
the objects of synthetic scenes, alone and then with the CRF. ``from_pretrained`` gives
a real one.
"""

import matplotlib.pyplot as plt
import torch
from torch.nn.functional import interpolate
from transformers import SegformerConfig, SegformerForSemanticSegmentation

from densefield import Bilateral, DenseCRF, Spatial
from densefield.integrations import DenseCRFForSemanticSegmentation
from densefield.scenes import SceneDataset

torch.manual_seed(77)
torch.set_num_threads(1)  # threads cost more than they gain for images this small
config = SegformerConfig(
    num_labels=2,
    depths=[1, 1, 1, 1],
    hidden_sizes=[16, 24, 32, 48],
    num_attention_heads=[1, 1, 2, 2],
    decoder_hidden_size=48,
)
network = SegformerForSemanticSegmentation(config)
crf = DenseCRF(2, [Spatial(2, weight=1), Bilateral(20, 12, weight=2)])


def tensors(count, first):
    kind = {"size": (96, 96), "object_classes": 6, "seed": 99}
    scenes = list(SceneDataset(count, first=first, **kind))
    images = [torch.from_numpy(scene.image).movedim(-1, 0) for scene in scenes]
    labels = [torch.from_numpy(scene.labels > 0).long() for scene in scenes]
    return torch.stack(images), torch.stack(labels)


# %%
# The network alone:
images, labels = tensors(100, first=0)
optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
for _ in range(400):
    batch = torch.randint(len(images), (8,))
    output = network(images[batch] / 128 - 1, labels=labels[batch])
    optimizer.zero_grad()
    output.loss.backward()
    optimizer.step()

# %%
# The model of network and CRF takes what the network takes, and the images that the CRF
# compares. Its logits have the size of the images; the network's have a quarter of it.
model = DenseCRFForSemanticSegmentation.from_network(network, crf)
of_network, of_crf = list(network.parameters()), list(crf.parameters())
optimizer = torch.optim.AdamW(
    [{"params": of_network, "lr": 2e-3}, {"params": of_crf, "lr": 2e-2}]
)
for _ in range(60):
    batch = torch.randint(len(images), (4,))
    output = model(images[batch] / 128 - 1, images=images[batch], labels=labels[batch])
    optimizer.zero_grad()
    output.loss.backward()
    optimizer.step()

# %%
# New scenes, without and with the CRF:
image, truth = tensors(12, first=1000)
model.eval()
with torch.no_grad():
    coarse = network(image / 128 - 1).logits
    enlarged = interpolate(coarse, size=(96, 96), mode="bilinear")
    found = enlarged.argmax(1), model(image / 128 - 1, images=image).logits.argmax(1)


def iou(mask):
    return 100 * ((mask == 1) & (truth == 1)).sum() / ((mask == 1) | (truth == 1)).sum()


print(f"IoU of objects: network {iou(found[0]):.1f} %, with CRF {iou(found[1]):.1f} %")

figure, axes = plt.subplots(1, 4, figsize=(12, 3.35), layout="constrained")
results = [
    f"network, IoU {iou(found[0]):.1f} %",
    f"with the CRF, {iou(found[1]):.1f} %",
]
titles = ["scene", "truth", *results]
pictures = (image[0].movedim(0, -1), truth[0], found[0][0], found[1][0])
for ax, picture, title in zip(axes, pictures, titles, strict=True):
    ax.imshow(picture.numpy(), cmap="gray", interpolation="nearest")
    ax.set_title(title)
    ax.set_axis_off()
