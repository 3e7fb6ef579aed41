"""Sources of features: φ of the images of a dataset, its mean and standard deviation, and the scores of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from densefield.datasets.sample import Dataset
from densefield.errors import InputError
from densefield.io.untrusted import read_array
from densefield.runs.score_files import find_score_files
from densefield.runs.scored_images import ScoredImage, ScoreSource
from densefield.tuning.log_linear import LogLinearModel
from densefield.tuning.pixel_features import PixelFeatures

Arrays = Callable[[str], npt.NDArray[Any]]  # the user's own features (C, h, w) of the image of an id
ARRAY_NAMES = ("features", "logits", "scores", "arr_0")  # in an .npz with several arrays


class FeatureImages:
    """Images of a dataset with φ (D, H, W) in place of scores.

    Parameters
    ----------
    dataset
        The images and true labels.
    features
        φ.
    arrays
        The user's own features of an image, by its id.
    """

    def __init__(self, dataset: Dataset, features: PixelFeatures, arrays: Arrays | None = None) -> None:
        self._dataset, self._features, self._arrays = dataset, features, arrays
        self.classes, self.ids = dataset.classes, dataset.ids

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> ScoredImage:
        sample = self._dataset[index]
        if sample.labels is None:
            raise InputError(f"the image {sample.id} has no true labels: use a split that has them, such as train.")
        image = torch.from_numpy(np.ascontiguousarray(sample.image.transpose(2, 0, 1)))
        arrays = None if self._arrays is None else torch.from_numpy(np.array(self._arrays(sample.id), np.float32))
        try:
            phi = self._features(image, arrays)
        except InputError as error:
            raise InputError(f"{sample.id}: {error}") from error
        return ScoredImage(phi, image, torch.from_numpy(sample.labels.astype(np.int64)), sample.id)


class UnaryScores:
    """The scores of a model for a source of features.

    Parameters
    ----------
    model
        The model.
    source
        The features, such as those of `FeatureImages`.
    """

    def __init__(self, model: LogLinearModel, source: ScoreSource) -> None:
        self._model, self._source = model, source
        self.classes, self.ids = source.classes, source.ids

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> ScoredImage:
        found = self._source[index]
        with torch.no_grad():
            return replace(found, scores=self._model.scores(found.scores[None])[0])


def mean_and_scale(source: ScoreSource) -> tuple[Tensor, Tensor]:
    """The mean and the standard deviation of each feature over all pixels, (D,); 1 for constant features."""
    total, squares, pixels = torch.zeros(()), torch.zeros(()), 0
    for index in range(len(source)):
        phi = source[index].scores.flatten(1).double()
        total, squares, pixels = total + phi.sum(1), squares + phi.square().sum(1), pixels + phi.shape[1]
    mean = total / pixels
    variance = (squares / pixels - mean.square()).clamp(min=0)
    # Rounding leaves a variance of about 1e-16 of the square.
    constant = variance <= 1e-12 * (squares / pixels).clamp(min=1e-12)
    return mean, torch.where(constant, 1.0, variance.sqrt())


def arrays_in(folder: Path, ids: Sequence[str]) -> Arrays:
    """The user's own features in files FOLDER/ID.npy or ID.npz, (C, h, w), which all images `ids` must have."""
    files = find_score_files(folder)
    missing = [id for id in ids if id not in files]
    if missing:
        more = f", and none for {len(missing) - 1} others" if len(missing) > 1 else ""
        raise InputError(f"{folder} has no {missing[0]}.npy or {missing[0]}.npz for the image {missing[0]}{more}.")

    def choose(path: Path, names: list[str]) -> str:
        known = [name for name in ARRAY_NAMES if name in names]
        if len(names) != 1 and not known:
            raise InputError(
                f"{path} holds the arrays {', '.join(names) or '(none)'}, expected one, or one named features."
            )
        return names[0] if len(names) == 1 else known[0]

    def read(id: str) -> npt.NDArray[Any]:
        path = files[id]
        values = read_array(path, lambda names: choose(path, names))[1]
        if values.ndim != 3 or not np.issubdtype(values.dtype, np.floating):
            raise InputError(
                f"{path} holds {values.dtype} of shape {values.shape}, expected floating point numbers (channels, "
                "rows, columns)."
            )
        return values

    return read
