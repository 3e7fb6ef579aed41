"""A network and a CRF in a plain torch loop, on synthetic scenes: first the network alone, then both together.

Run it with `python examples/torch_loop.py`. It prints the mean IoU of the scores and of the CRF on other scenes.
"""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, Dataset

from densefield import Bilateral, DenseCRF, Segmenter, Spatial
from densefield.metrics import SegmentationMetrics
from densefield.networks import small_network
from densefield.nn import log_likelihood_loss
from densefield.scenes import SceneDataset

OBJECTS = 3  # classes besides the background
CLASSES = OBJECTS + 1


class Scenes(Dataset):
    """Images (3, 96, 96) in colours 0…255, and labels (96, 96)."""

    def __init__(self, count: int, first: int) -> None:
        scenes = SceneDataset(count, size=(96, 96), object_classes=OBJECTS, seed=20, first=first)
        self._pairs = [
            (torch.from_numpy(scene.image).movedim(-1, 0), torch.from_numpy(scene.labels).long()) for scene in scenes
        ]

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._pairs[index]


def mean_iou(segmenter: Segmenter, loader: DataLoader) -> float:
    """The mean IoU of a segmenter on all images."""
    metrics = SegmentationMetrics(CLASSES)
    segmenter.eval()
    with torch.no_grad():
        for images, labels in loader:
            metrics.update(segmenter(images), labels)
    return metrics.compute().mean_iou


def train(segmenter: Segmenter, loader: DataLoader, optimizer: torch.optim.Optimizer, epochs: int) -> None:
    """Minimises the negative log-likelihood of the labels."""
    segmenter.train()
    for _ in range(epochs):
        for images, labels in loader:
            loss = log_likelihood_loss(segmenter(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def main(scenes: int = 24, epochs: tuple[int, int] = (8, 2)) -> dict[str, float]:
    """Trains in two stages and returns the mean IoU after each."""
    torch.manual_seed(20)
    loader = DataLoader(Scenes(scenes, first=0), batch_size=8, shuffle=True)
    others = DataLoader(Scenes(scenes // 4, first=scenes), batch_size=8)
    network = small_network(CLASSES, norm="group")
    results = {}

    alone = Segmenter(network)
    train(alone, loader, torch.optim.AdamW(network.parameters(), lr=2e-3), epochs[0])
    results["network"] = mean_iou(alone, others)

    crf = DenseCRF(CLASSES, [Spatial(2), Bilateral(20, 15, weight=2)])
    both = Segmenter(network, crf)
    results["with a CRF, not trained"] = mean_iou(both, others)
    groups = [{"params": network.parameters(), "lr": 5e-4}, {"params": crf.parameters(), "lr": 0.02, "weight_decay": 0}]
    train(both, loader, torch.optim.AdamW(groups), epochs[1])
    results["trained together"] = mean_iou(both, others)

    for name, value in results.items():
        print(f"{name:26} mean IoU {100 * value:.1f}")
    print(crf)
    return results


if __name__ == "__main__":
    main()
