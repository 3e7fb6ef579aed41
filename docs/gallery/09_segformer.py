"""
SegFormer
=========

A segmentation model of transformers with a CRF on its scores. The model is tiny and made from a configuration, so
nothing is downloaded: it learns for a few seconds to find the objects of synthetic scenes. ``from_pretrained`` gives a
real one.
"""

import matplotlib.pyplot as plt
import torch
from transformers import SegformerConfig, SegformerForSemanticSegmentation

from densefield import Bilateral, DenseCRF, Spatial
from densefield.integrations import DenseCRFForSemanticSegmentation
from densefield.scenes import SceneDataset

torch.manual_seed(77)
small = {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 24, 32, 48], "num_attention_heads": [1, 1, 2, 2]}
network = SegformerForSemanticSegmentation(SegformerConfig(num_labels=2, decoder_hidden_size=48, **small))
crf = DenseCRF(2, [Spatial(2, weight=1), Bilateral(20, 12, weight=2)])


def tensors(count, first):
    scenes = list(SceneDataset(count, size=(96, 96), object_classes=6, seed=99, first=first))
    images = torch.stack([torch.from_numpy(scene.image).movedim(-1, 0) for scene in scenes])
    return images, torch.stack([torch.from_numpy(scene.labels > 0).long() for scene in scenes])


# %%
# The model of network and CRF takes what the network takes, and the images that the CRF compares. Its logits have the
# size of the images; the network's have a quarter of it.
model = DenseCRFForSemanticSegmentation.from_network(network, crf)
optimizer = torch.optim.AdamW([{"params": network.parameters()}, {"params": crf.parameters(), "lr": 2e-2}], lr=2e-3)
images, labels = tensors(32, first=0)
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
    enlarged = torch.nn.functional.interpolate(coarse, size=(96, 96), mode="bilinear")
    found = enlarged.argmax(1), model(image / 128 - 1, images=image).logits.argmax(1)
right = [100 * (each == truth).double().mean().item() for each in found]
print(f"correct pixels: {right[0]:.1f} % without the CRF, {right[1]:.1f} % with it")

figure, axes = plt.subplots(1, 4, figsize=(12, 3.35), layout="constrained")
titles = ["scene", "truth", f"network, {right[0]:.1f} % correct", f"with the CRF, {right[1]:.1f} %"]
pictures = (image[0].movedim(0, -1), truth[0], found[0][0], found[1][0])
for ax, picture, title in zip(axes, pictures, titles, strict=True):
    ax.imshow(picture.numpy(), cmap="gray", interpolation="nearest")
    ax.set_title(title)
    ax.set_axis_off()
