"""Labels of images in files: palette PNGs, overlays, probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import interpolate

from densefield.datasets.transforms import shrunk_image
from densefield.errors import InputError
from densefield.images.pairs import find_images
from densefield.images.palette import overlay, voc_palette
from densefield.images.reading import read_rgb
from densefield.images.writing import write_png
from densefield.io.files import write_atomically
from densefield.io.messages import failure_line
from densefield.nn.dense_crf import DenseCRF
from densefield.nn.segmenter import log_marginals
from densefield.runs.processes import this_process

OVERLAYS, PROBABILITIES = "overlays", "probabilities"


@dataclass(frozen=True)
class Predicted:
    """Names of the images that were predicted, of those that had results already, and a line for each failure.

    `ignored` has a line for each subfolder and each file that is not an image.
    """

    done: list[str]
    skipped: list[str]
    failures: list[str]
    ignored: list[str]


class Predictor:
    """log q of the labels of one image at a time.

    * ``network`` maps colours 0…255, uint8 (1, 3, H, W), to scores (1, L, H, W), as `Segmenter.scores` does.
    * ``longest_side``: larger images are shrunk to that, and their log q stretched back; 0 leaves all as they are.

    >>> from densefield.nn.segmenter import Segmenter
    >>> predict = Predictor(Segmenter(torch.nn.Conv2d(3, 2, 1)).scores, crf=None)
    >>> predict(np.zeros((4, 6), np.uint8)).shape
    (2, 4, 6)
    """

    def __init__(self, network: Callable[[Tensor], Tensor], crf: DenseCRF | None, longest_side: int = 0) -> None:
        self._network, self._crf, self._longest = network, crf, longest_side

    def __call__(self, image: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Log marginals (L, H, W) of an image (H, W, 3), or (H, W) where it is grey, of colours 0…255."""
        seen = three_channels(image)
        if self._longest:
            seen = shrunk_image(seen, self._longest)
        colours = torch.from_numpy(np.ascontiguousarray(seen.transpose(2, 0, 1)))[None]
        with torch.inference_mode():
            log_q = log_marginals(self._network(colours).float(), colours, self._crf)
            if log_q.shape[2:] != image.shape[:2]:
                log_q = interpolate(log_q, size=image.shape[:2], mode="bilinear", align_corners=False).log_softmax(1)
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
    progress: Callable[[int, int], None] | None = None,
) -> Predicted:
    """Predicts images, and all images of folders, into a folder: NAME.png, an indexed picture with VOC's palette.

    `overlay` adds overlays/NAME.png, the image under its labels, and `probabilities` probabilities/NAME.npz, float16
    (L, H, W). Images that cannot be read are listed as failures; the others are predicted. Under torchrun each process
    takes its share.
    """
    files, failures, ignored = find_images(inputs)
    images = {path.resolve() for path in files.values()}
    for name in files:
        for path in _outputs(out, name, overlay, probabilities).values():
            if path.resolve() in images:
                raise InputError(f"{path} is an image that is to be predicted: choose another folder for results.")
    rank, processes = this_process()
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
    return Predicted(done, skipped, failures, ignored if rank == 0 else [])


def three_channels(image: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """(H, W, 3) of a colour or grey image."""
    return image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2)


def _outputs(out: Path, name: str, overlay: bool, probabilities: bool) -> dict[str, Path]:
    paths = {"labels": out / f"{name}.png"}
    if overlay:
        paths["overlay"] = out / OVERLAYS / f"{name}.png"
    if probabilities:
        paths["probabilities"] = out / PROBABILITIES / f"{name}.npz"
    return paths


def _predict(predictor: Predictor, path: Path, wanted: dict[str, Path]) -> None:
    """Writes what is wanted of one image; the labels last, so that where they are all is."""
    image = read_rgb(path)
    log_q = predictor(image)
    labels = log_q.argmax(axis=0)
    buffer = BytesIO()
    if "probabilities" in wanted:
        np.savez_compressed(buffer, probabilities=np.exp(log_q).astype(np.float16))
        write_atomically(wanted["probabilities"], buffer.getvalue())
    if "overlay" in wanted:
        write_png(wanted["overlay"], overlay(image, labels, voc_palette()))
    picture = Image.fromarray(labels.astype(np.uint8))
    picture.putpalette(voc_palette().tobytes())
    buffer = BytesIO()
    picture.save(buffer, "PNG")
    write_atomically(wanted["labels"], buffer.getvalue())
