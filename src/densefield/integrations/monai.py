"""MONAI: post transforms that refine segmentations, and a layer in place of `monai.networks.blocks.CRF`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import torch
from monai.config import KeysCollection
from monai.data import get_track_meta
from monai.transforms import MapTransform, Transform
from monai.utils import TransformBackends, convert_to_dst_type, convert_to_tensor, ensure_tuple_rep

from densefield.crf.model import CRF, checked_kernels
from densefield.errors import InputError, InputTypeError
from densefield.integrations.monai_input import (
    Array,
    Kind,
    array_of,
    check_options,
    check_sizes,
    checked_scores,
    spacing_of,
    warn_of_range,
)
from densefield.integrations.monai_layer import MonaiCRF
from densefield.nn.dense_crf import DenseCRF
from densefield.refinement.refine import refine

__all__ = ["CRFRefine", "CRFRefined", "MonaiCRF"]

# The arguments of refine() that do not depend on the image.
OPTIONS = ("crf", "kernels", "iterations", "confidence", "roughness", "temperature", "num_classes", "threads")


class CRFRefine(Transform):  # type: ignore[misc]
    """Refines a segmentation along the edges of its image, by `densefield.refine`.

    The result has the layout, type and metadata of the segmentation. Like other post transforms of MONAI it cannot be
    inverted: `Compose.inverse` passes over it, and the operations recorded in a MetaTensor stay as they are.

    Parameters
    ----------
    kind
        What the segmentations are: "probabilities" (L, …) that sum to one, or one channel with those of the
        foreground; "logits" (L, …), or one channel; "labels", one channel of class indices or L channels of zeros and
        ones (one-hot). Logits become probabilities.
    spacing
        Size of a voxel along each axis of the arrays, in the unit of the widths of kernels; by default that of the
        metadata, of the image first, or 1 without metadata.
    data_range
        Range of the image's values, to which widths of colours are scaled: 1 for values scaled to 0…1, the default;
        one number per channel is possible. A ``crf`` with a data_range of its own needs none.
    **options
        Those of `densefield.refine`: crf, kernels, iterations, confidence, roughness, temperature, num_classes and
        threads.

    >>> import torch
    >>> image, rough = torch.zeros(1, 20, 30), torch.zeros(1, 20, 30)
    >>> image[..., 12:], rough[..., 15:] = 0.8, 1.0  # the mask begins three columns too late
    >>> refined = CRFRefine("labels")(rough, image)
    >>> int(refined[0, 0].argmax()), refined.dtype
    (12, torch.float32)
    """

    backend = [TransformBackends.TORCH, TransformBackends.NUMPY]  # noqa: RUF012

    def __init__(
        self,
        kind: Kind = "probabilities",
        *,
        spacing: Sequence[float] | None = None,
        data_range: float | Sequence[float] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.kind = _checked_kind(kind)
        self.spacing = spacing
        for name in options:
            if name not in OPTIONS:
                raise InputTypeError(f"unknown option {name!r}, expected one of {', '.join(OPTIONS)}.")
        crf = options.get("crf")
        if not isinstance(crf, CRF | DenseCRF | None):
            raise InputTypeError(f"crf is of type {type(crf).__name__}, expected a CRF: for a file CRF.load(path).")
        if data_range is None and (crf is None or crf.options.data_range is None):
            data_range = 1.0
        self.data_range = data_range
        self.options = options
        own = crf.to_numpy() if isinstance(crf, DenseCRF) else crf
        kernels = options.get("kernels") if own is None else own.kernels
        self._compares_values = kernels is None or any(
            "channel" in kernel.widths_of_parts() for kernel in checked_kernels(kernels)
        )

    def __call__(self, img: Any, image: Any, kind: Kind | None = None) -> Any:
        """The refined segmentation.

        Parameters
        ----------
        img
            The segmentation, channel-first: (L, H, W) or (L, D, H, W), without a batch axis.
        image
            The image (C, …), of the same spatial size.
        kind
            Replaces that of the transform.
        """
        chosen = self.kind if kind is None else _checked_kind(kind)
        segmentation, pixels = array_of(img, "the segmentation"), array_of(image, "the image")
        check_sizes(segmentation.shape, pixels.shape)
        spacing = spacing_of(img, image, self.spacing, segmentation.ndim - 1)
        if self.data_range is not None and self._compares_values:
            warn_of_range(pixels, self.data_range)
        check_options(self.options, chosen)
        options: dict[str, Any] = {
            "spacing": spacing[::-1],  # along x, y(, z)
            "data_range": self.data_range,
            **self.options,
        }
        result = convert_to_tensor(img, track_meta=get_track_meta())
        refined = _refined(segmentation, np.moveaxis(pixels, 0, -1), chosen, options)
        dtype = result.dtype if chosen == "labels" or result.is_floating_point() else torch.float32
        return convert_to_dst_type(refined, dst=result, dtype=dtype)[0]


class CRFRefined(MapTransform):  # type: ignore[misc]
    """CRFRefine for dictionaries: refines the items `keys` along the edges of the item `image_key`.

    Parameters
    ----------
    keys
        Keys of the segmentations.
    image_key
        Key of the image.
    kind
        That of CRFRefine, or one for each key.
    allow_missing_keys
        Whether to skip keys that the data do not have; the image is needed if any key is there.
    spacing, data_range, **options
        Those of CRFRefine.

    >>> import torch
    >>> data = {"image": torch.zeros(1, 20, 30), "pred": torch.full((2, 20, 30), 0.5)}
    >>> refined = CRFRefined(keys="pred", image_key="image")(data)
    >>> sorted(refined), refined["pred"].shape
    (['image', 'pred'], torch.Size([2, 20, 30]))
    """

    backend = CRFRefine.backend

    def __init__(
        self,
        keys: KeysCollection,
        image_key: Hashable,
        kind: Kind | Sequence[Kind] = "probabilities",
        allow_missing_keys: bool = False,
        *,
        spacing: Sequence[float] | None = None,
        data_range: float | Sequence[float] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(keys, allow_missing_keys)
        self.image_key = image_key
        if not isinstance(kind, str) and len(kind) != len(self.keys):
            raise InputError(
                f"there are {len(kind)} kinds for {len(self.keys)} keys, expected one for each key, or one for all."
            )
        self.kinds = tuple(_checked_kind(each) for each in ensure_tuple_rep(kind, len(self.keys)))
        self.converter = CRFRefine(spacing=spacing, data_range=data_range, **options)

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """The data with refined segmentations.

        Parameters
        ----------
        data
            The items by key.
        """
        d = dict(data)
        for key, kind in self.key_iterator(d, self.kinds):
            if self.image_key not in d:
                raise InputError(
                    f"the data have no item {self.image_key!r}, which image_key names, but {', '.join(map(repr, d))}. "
                    "Name the key of the image, and keep it up to this transform."
                )
            d[key] = self.converter(d[key], d[self.image_key], kind)
        return d


def _checked_kind(kind: object) -> Kind:
    if kind not in get_args(Kind):
        raise InputError(f"kind is {kind!r}, expected one of {', '.join(get_args(Kind))}.")
    return kind  # type: ignore[return-value]


def _refined(segmentation: Array, image: Array, kind: Kind, options: dict[str, Any]) -> Array:
    """The segmentation (L, …) refined along the edges of an image (…, C), in its own layout."""
    if kind == "labels":
        labels, num_classes = _labels(segmentation)
        chosen = {**options, "num_classes": options.get("num_classes") or num_classes}
        found: Array = refine(image, labels=labels, void=None, **chosen).argmax(axis=0)
        return found[None] if len(segmentation) == 1 else np.arange(num_classes).reshape(-1, *[1] * found.ndim) == found
    segmentation = checked_scores(segmentation, kind)
    is_single = len(segmentation) == 1
    if is_single:  # of the foreground
        other = np.zeros_like(segmentation) if kind == "logits" else 1 - segmentation
        segmentation = np.concatenate([other, segmentation])
    given: dict[str, Any] = {kind: segmentation}
    return refine(image, **given, **options)[is_single:]


def _labels(segmentation: Array) -> tuple[npt.NDArray[np.int64], int]:
    """Class indices (…) and the number of classes, from class indices (1, …) or one-hot (L, …)."""
    if len(segmentation) == 1:
        labels = segmentation[0].astype(np.int64)
        if not np.array_equal(labels, segmentation[0]):
            raise InputError(
                "the labels are not all integers: pass kind='probabilities' or 'logits', or use AsDiscrete before."
            )
        return labels, max(int(labels.max(initial=0)) + 1, 2)
    if not np.isin(segmentation, (0, 1)).all() or not (segmentation.sum(axis=0) == 1).all():
        raise InputError(
            f"the labels have {len(segmentation)} channels that are not one-hot: exactly one of them must be 1 and the "
            "others 0 at every voxel. For overlapping classes refine each channel by itself, as one channel of labels."
        )
    return segmentation.argmax(axis=0).astype(np.int64), len(segmentation)
