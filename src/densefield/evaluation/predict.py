"""Prediction of image files: palette PNGs, overlays, probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from densefield.datasets.transforms import shrunk_image
from densefield.errors import InputError
from densefield.evaluation.temperatures import tempered
from densefield.images.pairs import find_images
from densefield.images.palette import overlay, voc_palette
from densefield.images.reading import read_rgb
from densefield.images.writing import write_png
from densefield.io.files import write_atomically
from densefield.io.messages import failure_line
from densefield.io.progress import Progress
from densefield.nn.dense_crf import DenseCRF
from densefield.nn.network_features import outputs_of
from densefield.nn.segmenter import log_marginals
from densefield.refinement.refine import checked_temperature
from densefield.runs.distributed import rank_and_world_size

OVERLAYS, PROBABILITIES = "overlays", "probabilities"


@dataclass(frozen=True)
class PredictedFiles:
    """The outcome of `predict_files`.

    Parameters
    ----------
    done
        The names of predicted images.
    skipped
        The names of images that had results already.
    failures
        A line for each image that could not be predicted.
    ignored
        A line for each subfolder and each file that is not an image.
    """

    done: list[str]
    skipped: list[str]
    failures: list[str]
    ignored: list[str]


class Predictor:
    """Log marginals of one image at a time.

    Parameters
    ----------
    network
        Colours 0…255, uint8 (1, 3, H, W) → scores (1, L, H, W), such as `Segmenter.scores`; or scores and features by
        name, such as `Segmenter.outputs`.
    crf
        The CRF; None for the network alone.
    longest_side
        Larger images are shrunk to this, and their log marginals resized back; 0 is no limit.
    temperature
        Divides the log marginals; labels do not depend on it.

    Examples
    --------
    >>> from densefield.nn.segmenter import Segmenter
    >>> predict = Predictor(Segmenter(torch.nn.Conv2d(3, 2, 1)).scores, crf=None)
    >>> predict(np.zeros((4, 6), np.uint8)).shape
    (2, 4, 6)
    """

    def __init__(
        self,
        network: Callable[[Tensor], Any],
        crf: DenseCRF | None,
        longest_side: int = 0,
        *,
        temperature: float = 1.0,
    ) -> None:
        self._network, self._crf, self._longest = network, crf, longest_side
        self._temperature = checked_temperature(temperature)

    def __call__(self, image: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Log marginals (L, H, W) of an image (H, W, 3), or (H, W) if grey, in colours 0…255."""
        seen = three_channels(image)
        if self._longest:
            seen = shrunk_image(seen, self._longest)
        colours = torch.from_numpy(np.ascontiguousarray(seen.transpose(2, 0, 1)))[None]
        with torch.inference_mode():
            scores, features = outputs_of(self._network(colours))
            log_q = log_marginals(scores.float(), colours, self._crf, features=features)
            if log_q.shape[2:] != image.shape[:2]:
                log_q = interpolate(log_q, size=image.shape[:2], mode="bilinear", align_corners=False).log_softmax(1)
            log_q = tempered(log_q, self._temperature, dim=1)
        array: npt.NDArray[np.float32] = log_q[0].numpy()
        return array


def predict_files(
    predictor: Predictor,
    inputs: Sequence[Path],
    out: Path,
    *,
    overlay: bool = False,
    probabilities: bool = False,
    skip_existing: bool = False,
    progress: Progress | None = None,
) -> PredictedFiles:
    """Predicts images, and all images of folders, and writes NAME.png, a palette PNG with VOC's colours.

    Images that cannot be read are listed as failures; the others are predicted. Under torchrun each process predicts
    its share.

    Parameters
    ----------
    predictor
        Gives the log marginals of an image.
    inputs
        Images, or folders of them.
    out
        The folder for results.
    overlay
        Also write overlays/NAME.png, the labels over the image.
    probabilities
        Also write probabilities/NAME.npz, float16 (L, H, W).
    skip_existing
        Keep results that exist.
    progress
        Called with the number of images done and their total number.
    """
    files, failures, ignored = find_images(inputs)
    images = {path.resolve() for path in files.values()}
    for name in files:
        for path in _outputs(out, name, overlay, probabilities).values():
            if path.resolve() in images:
                raise InputError(f"{path} is an image to predict: choose another folder for results.")
    rank, processes = rank_and_world_size()
    names = sorted(files)[rank::processes]
    done, skipped = [], []
    for count, name in enumerate(names, start=1):
        wanted = _outputs(out, name, overlay, probabilities)
        if skip_existing and all(path.exists() for path in wanted.values()):
            skipped.append(name)
        else:
            try:
                _predict(predictor, files[name], wanted)
                done.append(name)
            except Exception as error:  # one damaged file does not end a folder, whatever a decoder or torch raises
                failures.append(failure_line(error, files[name]))
        if progress is not None:
            progress(count, len(names))
    return PredictedFiles(done, skipped, failures, ignored if rank == 0 else [])


def three_channels(image: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A colour or grey image as (H, W, 3)."""
    return image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2)


def _outputs(out: Path, name: str, overlay: bool, probabilities: bool) -> dict[str, Path]:
    paths = {"labels": out / f"{name}.png"}
    if overlay:
        paths["overlay"] = out / OVERLAYS / f"{name}.png"
    if probabilities:
        paths["probabilities"] = out / PROBABILITIES / f"{name}.npz"
    return paths


def _predict(predictor: Predictor, path: Path, wanted: dict[str, Path]) -> None:
    """Writes the results of one image, the labels last: if they exist, all results do."""
    image = read_rgb(path)
    log_q = predictor(image)
    labels = log_q.argmax(axis=0)
    if "probabilities" in wanted:
        buffer = BytesIO()
        np.savez_compressed(buffer, probabilities=np.exp(log_q).astype(np.float16))
        write_atomically(wanted["probabilities"], buffer.getvalue())
    if "overlay" in wanted:
        write_png(wanted["overlay"], overlay(image, labels, voc_palette()))
    write_png(wanted["labels"], labels.astype(np.uint8), voc_palette())
