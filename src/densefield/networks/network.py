"""The common part of all networks: images of one size or of many, seen at their own size or at another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from densefield.errors import InputError, InputTypeError
from densefield.networks.embedding import FINE_STRIDE
from densefield.networks.upsampling import Size, upsample_points

InputSize = int | tuple[int, int] | None

STEP = 16  # to which the shorter side of an input is rounded


def input_size_of(size: Size, input_size: InputSize) -> Size:
    """The size at which a network sees an image of rows × columns.

    Parameters
    ----------
    size
        Rows and columns of the image.
    input_size
        None for the image's own size; rows and columns of the input; or the length of its longer side. The aspect ratio
        is then kept, with the shorter side rounded to a multiple of 16, so that similar images form one batch.

    >>> input_size_of((375, 500), None), input_size_of((375, 500), (306, 306)), input_size_of((333, 500), 384)
    ((375, 500), (306, 306), (256, 384))
    """
    if input_size is None:
        return size
    if isinstance(input_size, tuple):
        return input_size
    longest = max(size)
    sides = (round(side * input_size / longest / STEP) * STEP for side in size)
    rows, columns = (input_size if side == longest else max(STEP, each) for side, each in zip(size, sides, strict=True))
    return min(rows, input_size), min(columns, input_size)


class SegmentationNetwork(nn.Module):
    """A network with coarse scores that are upsampled to the size of the image.

    ``input_size`` is the size at which the network sees images: None for their own size; rows and columns, as the
    paper's 306×306; or the length of the longer side. Scores always have the size of the image itself.

    A network with ``embedding`` channels returns scores and features: an embedding of every pixel, which a kernel of
    the CRF compares.
    """

    input_size: InputSize = None
    embedding: int = 0

    def coarse_scores(self, image: Tensor) -> Tensor:
        """Scores (B, L, h, w) of a normalised image (B, C, H, W) at the network's own resolution."""
        raise NotImplementedError

    def coarse_outputs(self, image: Tensor) -> tuple[Tensor, ...]:
        """The coarse scores, and those of the embedding (B, d, h′, w′) if there is one."""
        return (self.coarse_scores(image),)

    def upsample_embedding(self, features: Tensor, size: Size, seen: Size) -> Tensor:
        """The coarse embedding of an image seen at one size, upsampled to another: (B, d, H, W)."""
        return upsample_points(features, FINE_STRIDE, size, seen)

    def upsample(self, scores: Tensor, size: Size, seen: Size) -> Tensor:
        """Coarse scores of an image seen at one size, upsampled to another: (B, L, H, W)."""
        raise NotImplementedError

    def checked(self, image: Any) -> Tensor:
        """The image; raises if the network cannot take it."""
        raise NotImplementedError

    if TYPE_CHECKING:  # nn.Module.__call__ does not say what forward returns

        @overload
        def __call__(self, image: Tensor) -> Tensor: ...

        @overload
        def __call__(self, image: Sequence[Tensor]) -> list[Tensor]: ...

        def __call__(self, image: Any) -> Any:
            """Scores, by forward()."""

    def forward(self, image: Tensor | Sequence[Tensor]) -> Any:
        """Scores (B, L, H, W) of normalised images (B, C, H, W); or a list of (L, H, W) for a list of (C, H, W).

        Images of a list may differ in size. Those that the network sees at the same size form one batch. A network with
        an embedding returns two such results: the scores, and the features (B, d, H, W) or (d, H, W).
        """
        if not isinstance(image, list | tuple):
            whole = self.checked(image)
            size = whole.shape[2], whole.shape[3]
            seen = input_size_of(size, self.input_size)
            return _alone(self._upsampled(self.coarse_outputs(_resized(whole, seen)), size, seen))
        images = [self.checked(each[None] if isinstance(each, Tensor) else each)[0] for each in image]
        sizes = [(each.shape[1], each.shape[2]) for each in images]
        batches: dict[Size, list[int]] = {}
        for number, size in enumerate(sizes):
            batches.setdefault(input_size_of(size, self.input_size), []).append(number)
        outputs: dict[int, list[Tensor]] = {}
        for seen, numbers in batches.items():
            inputs = torch.cat([_resized(images[number][None], seen) for number in numbers])
            for number, *coarse in zip(numbers, *self.coarse_outputs(inputs), strict=True):
                found = self._upsampled([each[None] for each in coarse], sizes[number], seen)
                outputs[number] = [each[0] for each in found]
        kinds = range(len(outputs[0]) if outputs else 2 if self.embedding else 1)
        return _alone([[outputs[number][kind] for number in range(len(images))] for kind in kinds])

    def _upsampled(self, coarse: Sequence[Tensor], size: Size, seen: Size) -> list[Tensor]:
        """The scores, and the embedding if there is one, at the size of the image."""
        scores, *features = coarse
        found = [self.upsample(scores, size, seen)]
        return found + [self.upsample_embedding(each, size, seen) for each in features]


def _alone(outputs: Sequence[Any]) -> Any:
    """The scores alone, or the pair of scores and features."""
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def checked_input_size(input_size: object) -> InputSize:
    """The input size of a network; raises unless it is None, an integer, or two, each 1 or more.

    >>> checked_input_size([306, 306])
    (306, 306)
    """
    expected = "expected rows and columns such as (306, 306), the length of the longer side such as 384, or None"
    sides = (input_size,) if isinstance(input_size, int) else input_size
    if input_size is None:
        return None
    if not isinstance(sides, list | tuple) or not all(type(side) is int for side in sides):
        raise InputTypeError(f"input_size is {input_size!r}, {expected}.")
    if len(sides) != (1 if isinstance(input_size, int) else 2) or min(sides) < 1:
        raise InputError(f"input_size is {input_size!r}, {expected}.")
    return sides[0] if len(sides) == 1 else (sides[0], sides[1])


def _resized(image: Tensor, size: Size) -> Tensor:
    """The image (B, C, H, W) at another size, averaged where it shrinks."""
    if tuple(image.shape[2:]) == size:
        return image
    return interpolate(image, size=size, mode="bilinear", align_corners=False, antialias=True)
