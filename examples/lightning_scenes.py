"""A network and a CRF with Lightning's Trainer, on synthetic scenes: the CRF joins after some epochs.

Run it with `python examples/lightning_scenes.py`; it needs `pip install 'densefield[lightning]'`. It prints the metrics
of the validation and the parameters of the CRF after training.
"""

from __future__ import annotations

import tempfile

import torch
from lightning.pytorch import Trainer, seed_everything
from torch.utils.data import DataLoader, Dataset

from densefield import Bilateral, DenseCRF, Segmenter, Spatial
from densefield.integrations import CRFLogger, SegmentationModule
from densefield.networks import small_network
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


def main(scenes: int = 24, epochs: int = 10, crf_start_epoch: int = 8) -> dict[str, float]:
    """Trains and returns what Lightning logged last."""
    seed_everything(20, verbose=False)
    crf = DenseCRF(CLASSES, [Spatial(2), Bilateral(20, 15, weight=2)])
    segmenter = Segmenter(small_network(CLASSES, norm="group"), crf)
    module = SegmentationModule(segmenter, learning_rate=2e-3, crf_learning_rate=0.02, crf_start_epoch=crf_start_epoch)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            callbacks=[CRFLogger()],
            check_val_every_n_epoch=epochs,
            default_root_dir=folder,
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=False,
            logger=False,  # or TensorBoardLogger(…), which draws the widths and weights that CRFLogger logs
            num_sanity_val_steps=0,
        )
        loader = DataLoader(Scenes(scenes, first=0), batch_size=8, shuffle=True)
        trainer.fit(module, loader, DataLoader(Scenes(scenes // 4, first=scenes), batch_size=8))
    logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
    for name, value in logged.items():
        print(f"{name:26} {value:.4g}")
    return logged


if __name__ == "__main__":
    main()
