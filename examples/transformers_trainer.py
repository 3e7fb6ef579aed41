"""A SegFormer and a CRF with the Trainer of transformers, on synthetic scenes.

Run it with `python examples/transformers_trainer.py`; it needs `pip install 'densefield[transformers]'`. The SegFormer
is tiny and starts from random weights, so that nothing is downloaded: this shows the calls, not what they can reach.
"""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    SegformerConfig,
    SegformerForSemanticSegmentation,
    SegformerImageProcessor,
    Trainer,
    TrainingArguments,
)

from densefield import Bilateral, DenseCRF, Spatial
from densefield.integrations import DenseCRFForSemanticSegmentation
from densefield.metrics import SegmentationMetrics
from densefield.scenes import SceneDataset

OBJECTS = 3  # classes besides the background
CLASSES = OBJECTS + 1
PROCESSOR = SegformerImageProcessor(do_resize=False)


class Scenes(Dataset):
    """Pixel values (3, 96, 96) and labels (96, 96), as the image processor makes them."""

    def __init__(self, count: int, first: int) -> None:
        scenes = SceneDataset(count, size=(96, 96), object_classes=OBJECTS, seed=20, first=first)
        self._items = [PROCESSOR(scene.image, scene.labels, return_tensors="pt") for scene in scenes]

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {name: values[0] for name, values in self._items[index].items()}


def metrics(prediction: Any) -> dict[str, float]:
    """The mean IoU of log marginals (B, L, H, W) as logits."""
    found = SegmentationMetrics(CLASSES)
    found.update(torch.from_numpy(prediction.predictions), torch.from_numpy(np.asarray(prediction.label_ids)))
    return {"mean_iou": found.compute().mean_iou}


def main(scenes: int = 24, epochs: int = 5) -> dict[str, float]:
    """Trains network and CRF together, saves and loads them, and returns the metrics of the loaded model."""
    torch.manual_seed(20)
    config = SegformerConfig(
        num_labels=CLASSES, hidden_sizes=[16, 16, 32, 32], num_attention_heads=[1, 1, 2, 2], decoder_hidden_size=32
    )
    network = SegformerForSemanticSegmentation(config)
    crf = DenseCRF(CLASSES, [Spatial(2), Bilateral(20, 15, weight=2)])
    model = DenseCRFForSemanticSegmentation.from_network(network, crf, image_processor=PROCESSOR)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, num_train_epochs=epochs, per_device_train_batch_size=8, use_cpu=True, disable_tqdm=True,
            report_to=[], save_strategy="no",
        )  # fmt: skip
        groups = [{"params": network.parameters(), "lr": 2e-3}, {"params": crf.parameters(), "lr": 0.02}]
        optimizer = torch.optim.AdamW(groups, weight_decay=0.0)  # decay would pull all widths towards one pixel
        trainer = Trainer(model, arguments, train_dataset=Scenes(scenes, first=0), optimizers=(optimizer, None))
        trainer.train()
        trainer.save_model(folder)
        loaded = DenseCRFForSemanticSegmentation.from_pretrained(folder)
        trainer = Trainer(loaded, arguments, compute_metrics=metrics)
        found = trainer.evaluate(Scenes(scenes // 4, first=scenes))
    print(f"mean IoU {100 * found['eval_mean_iou']:.1f}")
    print(loaded.crf)
    return found


if __name__ == "__main__":
    main()
