"""Speed of data: scenes drawn, photos decoded, batches loaded.

    python benchmarks/loading.py [--voc VOCdevkit/VOC2012] [--seconds 4]

Photos are read from a copy of PASCAL VOC, by default the part in the folder of real data (see CONTRIBUTING.md).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import PIL
import torch
from clock import machine
from PIL import Image, features

from densefield.datasets import Augmentation, evaluation_batches, training_batches
from densefield.datasets.reading import read_photo, read_sample
from densefield.datasets.sample import Entry, Sample
from densefield.scenes import draw_scene

SHARED = Path(os.environ.get("DENSEFIELD_SHARED", Path(__file__).resolve().parents[2] / "shared"))
WORKERS = (0, 1, 2)


class Photos:
    """The photos of VOC of the most frequent size, 500 × 375, with their masks."""

    classes = ("background",)

    def __init__(self, voc: Path) -> None:
        self._voc = voc
        names = sorted(path.stem for path in (voc / "SegmentationClass").glob("*.png"))
        self.ids = tuple(name for name in names if self._size(name) == (500, 375))

    def _size(self, name: str) -> tuple[int, int]:
        with Image.open(self._voc / "JPEGImages" / f"{name}.jpg") as photo:
            return photo.size

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Sample:
        name = self.ids[index]
        image, mask = self._voc / "JPEGImages" / f"{name}.jpg", self._voc / "SegmentationClass" / f"{name}.png"
        return read_sample(Entry(name, image, mask), num_classes=21)


def images_per_second(batches: Iterator[int], seconds: float) -> float:
    """Images per second of a stream of counts, after its first item."""
    next(batches)
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        count += next(batches)
    return count / (time.perf_counter() - start)


def report_scenes(seconds: float) -> None:
    """Scenes drawn in this process, and drawn and written by the command."""
    print("\nscenes, 10 classes, images/s: drawn by one process; by the command with 1 and 2 workers")
    for side in (96, 128, 256, 512):
        drawn = images_per_second((len([draw_scene(3, k, (side, side))]) for k in range(10**9)), seconds / 2)
        count, rates = int(drawn * seconds * 1.5), []  # enough that the start of processes is negligible
        for workers in (1, 2):
            with tempfile.TemporaryDirectory() as folder:
                command = (
                    f"-m densefield data scenes {folder}/scenes --images {count} --size {side} --workers {workers}"
                )
                start = time.perf_counter()
                subprocess.run([sys.executable, *command.split()], check=True, stderr=subprocess.DEVNULL)
                rates.append(count / (time.perf_counter() - start))
        print(f"  {side:3d} px: {drawn:6.0f}; {rates[0]:6.0f}, {rates[1]:6.0f}")


def report_decoding(photos: Photos, voc: Path, seconds: float) -> None:
    """Decoders of JPEG; at half the size libjpeg skips half of the frequencies."""

    def pillow(path: Path, half: bool = False) -> None:
        with Image.open(path) as photo:
            if half:
                photo.draft("RGB", (photo.width // 2, photo.height // 2))
            np.asarray(photo)

    decoders: dict[str, Callable[[Path], object]] = {
        "Pillow": pillow,
        "Pillow, draft at half the size": lambda path: pillow(path, half=True),
    }
    if find_spec("simplejpeg") is not None:
        decoders["simplejpeg, as datasets do"] = read_photo
    paths = [voc / "JPEGImages" / f"{name}.jpg" for name in photos.ids]
    print("\ndecoding one JPEG of 500 × 375 after the other, images/s")
    for name, read in decoders.items():
        rate = images_per_second((len([read(paths[k % len(paths)])]) for k in range(10**9)), seconds / 2)
        print(f"  {name}: {rate:.0f}")


def report_batches(photos: Photos, seconds: float) -> None:
    """Training and evaluation with zero, one and two workers."""
    how = Augmentation((306, 306))
    print(
        f"\n{len(photos)} photos of 500 × 375 with masks, images/s: training (crops of 306 × 306, 10 to a batch); as is"
    )
    for workers in WORKERS:
        training = (len(batch.ids) for batch in training_batches(photos, how, 10, seed=1, workers=workers))
        trained = images_per_second(training, seconds)
        evaluation = (len(batch.ids) for _ in range(99) for batch in evaluation_batches(photos, workers=workers))
        print(f"  {workers} workers: {trained:6.0f}; {images_per_second(evaluation, seconds):6.0f}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--voc", type=Path, default=SHARED / "data" / "VOCdevkit" / "VOC2012")
    arguments.add_argument("--seconds", type=float, default=4.0, help="for each figure (4)")
    given = arguments.parse_args()
    print(f"{machine()}, torch {torch.__version__}, Pillow {PIL.__version__}", end="")
    print(f" with libjpeg-turbo {features.version_feature('libjpeg_turbo')}, load {os.getloadavg()[0]:.1f}")
    report_scenes(given.seconds)
    photos = Photos(given.voc)
    report_decoding(photos, given.voc, given.seconds)
    report_batches(photos, given.seconds)


if __name__ == "__main__":
    main()
