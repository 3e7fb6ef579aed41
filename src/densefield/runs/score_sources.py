"""Where a CRF's scores come from: files, or a network; with the images and true labels beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from densefield.crf.unary import LEAST_PROBABILITY
from densefield.datasets.sample import Dataset, Sample
from densefield.errors import InputError
from densefield.io.folders import list_files
from densefield.io.messages import first_names
from densefield.nn.dense_crf import DenseCRF
from densefield.nn.segmenter import log_marginals
from densefield.runs.score_files import FIRST, SUFFIXES, FileScores, find_score_files, read_scores, warn_of_sigmoid
from densefield.runs.source_checks import check_names

KEPT_BYTES = 2**30  # of scores, in memory


@dataclass(frozen=True)
class ScoredImage:
    """The scores, colours and true labels of an image."""

    scores: Tensor  # (L, H, W) float32
    image: Tensor  # (3, H, W) uint8, colours 0…255
    label: Tensor  # (H, W) int64, 255 is void
    id: str

    def log_marginals(self, crf: DenseCRF | None) -> Tensor:
        """Log marginals (L, H, W) of the CRF; without one, the log-softmax of the scores."""
        with torch.inference_mode():
            try:
                return log_marginals(self.scores[None], self.image[None], crf)[0]
            except InputError as error:
                raise Uncomputable(f"{self.id}: {error}") from error


class Uncomputable(InputError):
    """A CRF cannot be computed on an image, such as one whose widths are far too narrow."""


class ScoreSource(Protocol):
    """Scored images by their number from 0, their names, and the names of the labels."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the labels, from 0."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The names of the images."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> ScoredImage: ...


class SavedScores:
    """Scores in files `FOLDER/ID.npz` or `ID.npy`, (L, h, w) of any size, resized to the images of those ids.

    * ``folder``: the files. An `.npz` holds one array, or several of which one is named `logits` or `probabilities`.
    * ``dataset``: the images and true labels. Those that have a file are used, in the order of the dataset.
    * ``probabilities``: the files hold probabilities; an array of this name says so by itself. They are resized, and
      log(max(p, 1e-5)) are the scores.

    `notes` has a line for images without a file and for each file that was skipped.

    >>> import tempfile
    >>> from densefield.scenes.scene import SceneDataset
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "scene_000001.npz"), logits=np.zeros((3, 12, 12), np.float16))
    ...     source = SavedScores(Path(folder), SceneDataset(4, size=(96, 96), object_classes=2))
    ...     source.ids, source[0].scores.shape, source[0].label.shape
    (('scene_000001',), torch.Size([3, 96, 96]), torch.Size([96, 96]))
    """

    def __init__(self, folder: Path, dataset: Dataset, *, probabilities: bool = False) -> None:
        files = find_score_files(folder)
        self.classes = dataset.classes
        self.ids = tuple(check_names(folder, files, dataset.ids))
        self.files = tuple(files[id] for id in self.ids)
        self.notes = _skipped(folder, files, dataset.ids)
        self._dataset, self._probabilities = dataset, probabilities
        places = {id: number for number, id in enumerate(dataset.ids)}
        self._numbers = [places[id] for id in self.ids]
        self._check_first()

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: int) -> ScoredImage:
        sample = self._dataset[self._numbers[index]]
        values, are_probabilities = self._read(index)
        size = sample.image.shape[:2]
        scores = interpolate(torch.from_numpy(values)[None], size, mode="bilinear", align_corners=False)[0]
        return _scored(sample, scores.clamp(min=LEAST_PROBABILITY).log() if are_probabilities else scores)

    def _check_first(self) -> None:
        """Reads one file: what is wrong with it is mostly wrong with all, unless it alone is damaged."""
        failures = []
        for index in range(min(FIRST, len(self))):
            try:
                scores = self._read(index)
            except InputError as error:
                failures.append(error)
                continue
            warn_of_sigmoid(self.files[index], scores)
            return
        raise failures[0]

    def _read(self, index: int) -> FileScores:
        return read_scores(self.files[index], len(self.classes), self._probabilities)


def _skipped(folder: Path, files: Mapping[str, Path], ids: Sequence[str]) -> tuple[str, ...]:
    """A line for images without a file, and for files that are of no image."""
    known = set(ids)
    without = [id for id in ids if id not in files]
    others = [path.name for id, path in files.items() if id not in known]
    listing = list_files(folder, set(SUFFIXES))
    lines = []
    if without:
        lines.append(f"{len(without)} of {len(ids)} images have no scores in {folder}: {first_names(without)}.")
    if others:
        lines.append(f"{len(others)} files of {folder} have the name of no image: {first_names(others)}.")
    return (*lines, *listing.skipped_lines("a file of scores (.npz, .npy)"))


class NetworkScores:
    """The scores of a network for the images of a dataset.

    ``network`` maps colours 0…255, uint8 (1, 3, H, W), to scores (1, L, H, W), as `Segmenter.scores` does.
    """

    def __init__(self, network: Callable[[Tensor], Tensor], dataset: Dataset) -> None:
        self._network, self._dataset = network, dataset
        self.classes, self.ids = dataset.classes, dataset.ids

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> ScoredImage:
        sample = self._dataset[index]
        image = torch.from_numpy(np.ascontiguousarray(sample.image.transpose(2, 0, 1)))
        with torch.inference_mode():
            scores = self._network(image[None])[0].float()
        if len(scores) != len(self.classes):
            raise InputError(f"the network scores {len(scores)} labels, but the dataset has {len(self.classes)}.")
        return _scored(sample, scores.clone())


class Part:
    """Some images of a source, by their numbers."""

    def __init__(self, source: ScoreSource, numbers: Sequence[int]) -> None:
        self._source, self._numbers = source, tuple(numbers)
        self.classes = source.classes
        self.ids = tuple(source.ids[number] for number in self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: int) -> ScoredImage:
        return self._source[self._numbers[index]]


class Shrunk:
    """A source at 1/factor of its size: scores and colours are averaged, of the labels the middle one is taken."""

    def __init__(self, source: ScoreSource, factor: int) -> None:
        if factor < 1:
            raise InputError(f"the factor is {factor}, expected 1 or more.")
        self._source, self._factor = source, factor
        self.classes, self.ids = source.classes, source.ids

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> ScoredImage:
        whole = self._source[index]
        factor = min(self._factor, *whole.label.shape)
        if factor == 1:
            return whole
        size = [side // factor for side in whole.label.shape]
        area: dict[str, Any] = {"size": size, "mode": "area"}
        image = interpolate(whole.image[None].float(), **area)[0].round().to(torch.uint8)
        label = interpolate(whole.label[None, None].float(), size, mode="nearest-exact")[0, 0].long()
        return replace(whole, scores=interpolate(whole.scores[None], **area)[0], image=image, label=label)


class Kept:
    """A source whose images are kept in memory once they were asked for, as many as fit; the rest is made anew."""

    def __init__(self, source: ScoreSource, most_bytes: int = KEPT_BYTES) -> None:
        self._source, self._room = source, most_bytes
        self._kept: dict[int, ScoredImage] = {}
        self.classes, self.ids = source.classes, source.ids

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> ScoredImage:
        if index in self._kept:
            return self._kept[index]
        scored = self._source[index]
        size = scored.scores.nbytes + scored.image.nbytes + scored.label.nbytes
        if size <= self._room:
            self._room -= size
            self._kept[index] = scored
        return scored


def _scored(sample: Sample, scores: Tensor) -> ScoredImage:
    if sample.labels is None:
        raise InputError(f"the image {sample.id} has no true labels: take a split that has them, such as val.")
    image = torch.from_numpy(np.ascontiguousarray(sample.image.transpose(2, 0, 1)))
    return ScoredImage(scores, image, torch.from_numpy(sample.labels.astype(np.int64)), sample.id)
