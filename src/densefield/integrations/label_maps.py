"""Refinement of label maps that post-processing of transformers returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from densefield.errors import InputError, InputTypeError
from densefield.refinement.refine import refine


def refine_label_maps(images: Sequence[Any] | Tensor, label_maps: Sequence[Tensor], **options: Any) -> list[Tensor]:
    """Label maps (H, W) that follow the edges of their images, by `densefield.refine`.

    Every value of a map is a label, also -1 and 255, so that the maps of segments of
    `post_process_panoptic_segmentation` and `post_process_instance_segmentation` can be refined too: pass
    ``each["segmentation"]`` of what they return.

    Parameters
    ----------
    images
        The images, colours 0…255: Pillow images, arrays (H, W, 3), or tensors (3, H, W); or a
        batch (B, 3, H, W).
    label_maps
        The maps of `post_process_semantic_segmentation(outputs, target_sizes=…)`, of the sizes of the images. They may
        be of floating point if all values are integers.
    **options
        Further arguments of refine(), such as roughness and threads.

    >>> image = torch.zeros(3, 20, 30, dtype=torch.uint8)
    >>> image[:, :, 12:] = 255
    >>> rough = torch.full((20, 30), 7)
    >>> rough[:, 15:] = 149  # three columns too late
    >>> (refined,) = refine_label_maps([image], [rough])
    >>> int((refined[0] == 149).int().argmax())
    12
    """
    if len(images) != len(label_maps):
        raise InputError(f"there are {len(images)} images and {len(label_maps)} label maps, expected equal numbers.")
    return [_refined(image, each, options) for image, each in zip(images, label_maps, strict=True)]


def _refined(image: Any, label_map: object, options: dict[str, Any]) -> Tensor:
    """The refined map of one image, with the dtype and on the device of the map."""
    if isinstance(label_map, Mapping) and "segmentation" in label_map:
        raise InputTypeError('a label map is a dict with "segmentation": pass each["segmentation"].')
    if not isinstance(label_map, Tensor) or label_map.ndim != 2 or label_map.is_complex():
        came = (
            f"{label_map.dtype} {tuple(label_map.shape)}"
            if isinstance(label_map, Tensor)
            else f"of type {type(label_map).__name__}"
        )
        raise InputTypeError(
            f"a label map is {came}, expected a tensor (rows, columns) of labels, as "
            "post_process_semantic_segmentation returns."
        )
    # Instance segmentation returns numbers of segments in floating point.
    if label_map.is_floating_point() and not bool((label_map == label_map.round()).all()):
        raise InputError(
            f"a label map is {label_map.dtype} with values that are not integers, expected labels. For probabilities "
            "and logits use densefield.refine."
        )
    if isinstance(image, Tensor):
        image = image.movedim(0, -1).cpu() if image.ndim == 3 else image.cpu()
    values, numbers = np.unique(label_map.cpu().numpy(), return_inverse=True)
    labels = numbers.reshape(label_map.shape)
    refined = refine(image, labels=labels, num_classes=max(len(values), 2), void=None, **options).argmax(axis=0)
    return torch.from_numpy(values[refined]).to(label_map)
