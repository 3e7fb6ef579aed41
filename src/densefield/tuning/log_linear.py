"""A log-linear model: logistic regression on features of pixels, and a CRF on its scores (KK13)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, interpolate

from densefield.crf.crf_file import read_crf, write_crf
from densefield.datasets.transforms import shrunk_image
from densefield.errors import InputError, InputTypeError
from densefield.io.files import read_json, write_atomically
from densefield.nn.dense_crf import DenseCRF
from densefield.nn.segmenter import log_marginals
from densefield.tuning.pixel_features import PixelFeatures

UNARY, CRF_FILE = "unary.json", "crf.toml"

Self = TypeVar("Self", bound="LogLinearModel")


class LogLinearModel(nn.Module):
    """log q of the CRF with the scores f_i(l) = w_l · φ_i + b_l.

    Parameters
    ----------
    classes
        The names of the classes.
    features
        φ, the features of a pixel.
    crf
        The CRF; without one, the model is logistic regression: q = softmax(f).
    mean, scale
        Mean and standard deviation of each feature, (D,): w is that of (φ - mean) / scale.
    longest_side
        Larger images are shrunk to this, and their marginals resized back; 0 is no limit.

    >>> model = LogLinearModel(["ground", "object"], PixelFeatures(), DenseCRF(2))
    >>> model.marginals(np.zeros((8, 9, 3), np.uint8)).shape
    (2, 8, 9)
    >>> model.predict(np.zeros((8, 9, 3), np.uint8)).shape
    (8, 9)
    """

    mean: Tensor
    scale: Tensor

    def __init__(
        self,
        classes: Sequence[str],
        features: PixelFeatures,
        crf: DenseCRF | None = None,
        *,
        mean: npt.ArrayLike = 0.0,
        scale: npt.ArrayLike = 1.0,
        longest_side: int = 0,
    ) -> None:
        super().__init__()
        if isinstance(classes, str) or len(classes) < 2:
            raise InputError(f"classes are {classes!r}, expected two names or more.")
        if crf is not None and crf.num_classes != len(classes):
            raise InputError(f"there are {len(classes)} classes, but the CRF has {crf.num_classes}: use equal numbers.")
        if isinstance(longest_side, bool) or not isinstance(longest_side, int) or longest_side < 0:
            raise InputError(f"longest_side is {longest_side!r}, expected a number of pixels, or 0 for no limit.")
        self.classes = tuple(str(name) for name in classes)
        self.features, self.longest_side, self.crf = features, longest_side, crf
        count = features.count
        self.register_buffer("mean", _checked("mean", mean, (count,)))
        self.register_buffer("scale", _checked("scale", scale, (count,)))
        if not bool((self.scale > 0).all()):
            raise InputError("scale has numbers that are not above 0, expected standard deviations.")
        self.weight = nn.Parameter(torch.zeros(len(classes), count))
        self.bias = nn.Parameter(torch.zeros(len(classes)))

    def scores(self, phi: Tensor) -> Tensor:
        """Scores (B, L, H, W) of features `phi` (B, D, H, W)."""
        weight = self.weight / self.scale
        return conv2d(phi, weight[..., None, None], self.bias - weight @ self.mean)

    def forward(self, phi: Tensor, image: Tensor) -> Tensor:
        """Log marginals (B, L, H, W) of features `phi` (B, D, H, W) and an `image` (B, 3, H, W)."""
        return log_marginals(self.scores(phi), image, self.crf)

    def network(self, image: Tensor, arrays: Tensor | None = None) -> Tensor:
        """Scores (1, L, H, W) of an `image` (1, 3, H, W), colours 0…255, and of `arrays` (C, h, w), if any."""
        with torch.no_grad():
            return self.scores(self.features(image[0], arrays)[None])

    def marginals(self, image: npt.NDArray[Any], arrays: npt.NDArray[Any] | None = None) -> npt.NDArray[np.float32]:
        """Marginals (L, H, W) of an image.

        Parameters
        ----------
        image
            (H, W, 3), colours 0…255.
        arrays
            The user's own features (C, h, w), if the model has some.
        """
        if not isinstance(image, np.ndarray) or image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
            came = f"{image.dtype} {image.shape}" if isinstance(image, np.ndarray) else type(image).__name__
            raise InputTypeError(f"the image is {came}, expected an array of uint8 (rows, columns, 3), colours 0…255.")
        seen = shrunk_image(image, self.longest_side) if self.longest_side else image
        colours = torch.from_numpy(np.ascontiguousarray(seen.transpose(2, 0, 1)))[None]
        given = None if arrays is None else torch.from_numpy(np.ascontiguousarray(arrays))
        with torch.no_grad():
            log_q = log_marginals(self.network(colours, given), colours, self.crf)
            if log_q.shape[2:] != image.shape[:2]:
                log_q = interpolate(log_q, image.shape[:2], mode="bilinear", align_corners=False).log_softmax(1)
        q: npt.NDArray[np.float32] = log_q[0].exp().numpy()
        return q

    def predict(self, image: npt.NDArray[Any], arrays: npt.NDArray[Any] | None = None) -> npt.NDArray[np.uint8]:
        """The most probable label of every pixel, (H, W); the parameters are those of marginals()."""
        labels: npt.NDArray[np.uint8] = self.marginals(image, arrays).argmax(axis=0).astype(np.uint8)
        return labels

    def save(self, folder: str | PathLike[str]) -> None:
        """Writes unary.json and, with a CRF, crf.toml to a `folder`."""
        place = Path(folder)
        content = {
            "classes": list(self.classes),
            "features": list(self.features.kinds),
            "arrays": self.features.arrays,
            "longest_side": self.longest_side,
            "crf": self.crf is not None,
            **{name: getattr(self, name).detach().double().tolist() for name in ("mean", "scale", "weight", "bias")},
        }
        if self.crf is not None:
            write_crf(place / CRF_FILE, self.crf.to_numpy())
        write_atomically(place / UNARY, json.dumps(content, indent=1).encode())

    @classmethod
    def load(cls: type[Self], folder: str | PathLike[str]) -> Self:
        """Reads a model that save() wrote.

        Parameters
        ----------
        folder
            The folder.
        """
        path = Path(folder) / UNARY
        if not path.is_file():
            raise InputError(
                f"there is no {path}, expected the folder of a log-linear model: `densefield fit` writes one."
            )
        content = read_json(path)
        try:
            classes = content["classes"]
            crf = None
            if content["crf"]:
                crf = DenseCRF.from_numpy(read_crf(Path(folder) / CRF_FILE, len(classes)), len(classes))
            model = cls(
                classes,
                PixelFeatures(content["features"], content["arrays"]),
                crf,
                mean=content["mean"],
                scale=content["scale"],
                longest_side=content["longest_side"],
            )
            with torch.no_grad():
                for name, parameter in (("weight", model.weight), ("bias", model.bias)):
                    parameter.copy_(_checked(name, content[name], tuple(parameter.shape)))
            return model
        except (KeyError, TypeError, ValueError, AttributeError) as error:  # an InputError is a ValueError
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise InputError(f"{path} is not what LogLinearModel.save() writes: {reason}") from error


def _checked(name: str, values: npt.ArrayLike, shape: tuple[int, ...]) -> Tensor:
    """Finite numbers of this shape, or one number for all."""
    array = np.asarray(values, np.float64)
    if array.shape not in ((), shape) or not np.isfinite(array).all():
        raise InputError(f"{name} has shape {array.shape}, expected finite numbers of shape {shape}.")
    return torch.tensor(np.broadcast_to(array, shape).copy(), dtype=torch.get_default_dtype())
