"""The user's network on one image, before anything starts."""

from __future__ import annotations

import numpy as np
import torch

from densefield.datasets.sample import Sample
from densefield.errors import DensefieldError, InputError
from densefield.nn.segmenter import Segmenter


def check_scores(segmenter: Segmenter, sample: Sample, num_classes: int) -> None:
    """Raises unless the network scores that many classes of a whole image, as it does in validation."""
    count = count_scores(segmenter, sample)
    if count != num_classes:
        other, setting = f"num_classes is {num_classes}", "num_classes"
        if segmenter.crf is not None:
            other, setting = f"the CRF has {num_classes}", "num_classes of the CRF"
        raise InputError(
            f"the network scores {count} classes, but {other}: change the network's last layer, or {setting}."
        )


def count_scores(segmenter: Segmenter, sample: Sample) -> int:
    """The number of classes that the network scores."""
    device = next((each.device for each in segmenter.network.parameters()), torch.device("cpu"))
    image = torch.from_numpy(np.ascontiguousarray(sample.image.transpose(2, 0, 1)))[None].to(device)
    modes = {module: module.training for module in segmenter.network.modules()}
    segmenter.network.eval()
    try:
        with torch.no_grad():
            scores = segmenter.scores(image)
        if bool(scores.isnan().any()):
            raise InputError(f"the network's scores of the image {sample.id} hold NaN: check its weights.")
        return int(scores.shape[1])
    except DensefieldError:
        raise
    except Exception as error:  # code of the user
        reason = " ".join(str(error).split()).rstrip(".")
        rows, columns = sample.image.shape[:2]
        raise InputError(
            f"the network fails on the image {sample.id} of {rows}×{columns} pixels: {type(error).__name__}: {reason}. "
            "If it needs sizes that are multiples of a number, set network.multiple (multiple=) to that, 32 for "
            "instance; if it needs one size, set data.network_size (network_size=) to rows and columns."
        ) from error
    finally:
        for module, mode in modes.items():
            module.training = mode
