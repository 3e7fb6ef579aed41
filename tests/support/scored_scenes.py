"""Small images with scores: the blurred truth with noise."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import avg_pool2d, one_hot

from densefield.runs.scored_images import ScoredImage

SIZE = 28


class ScoredScenes:
    """Discs on a background of another colour; the scores are too wide and sometimes wrong."""

    classes = ("ground", "disc")

    def __init__(self, images: int, noise: float = 1.5, seed: int = 4711) -> None:
        self.ids = tuple(f"disc_{number}" for number in range(images))
        self._noise, self._seed = noise, seed

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> ScoredImage:
        random = np.random.default_rng([self._seed, index])
        rows, columns = np.indices((SIZE, SIZE))
        row, column, radius = random.uniform([9, 9, 5], [19, 19, 9])
        label = torch.from_numpy(((rows - row) ** 2 + (columns - column) ** 2 < radius**2).astype(np.int64))
        colours = random.uniform(40, 215, (2, 3))
        image = colours[label.numpy()] + random.normal(0, 6, (SIZE, SIZE, 3))
        hints = avg_pool2d(one_hot(label, 2).movedim(-1, 0)[None].float(), 5, 1, 2)[0]
        noise = torch.from_numpy(random.normal(0, self._noise, (2, SIZE, SIZE)).astype(np.float32))
        seen = torch.from_numpy(np.clip(image, 0, 255).astype(np.uint8).transpose(2, 0, 1).copy())
        return ScoredImage(2 * hints + noise, seen, label, self.ids[index])
