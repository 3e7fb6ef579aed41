"""Any module that scores labels as a network like ours."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from densefield.errors import InputError, InputTypeError
from densefield.networks.inputs import checked_batch
from densefield.networks.normalization import IMAGENET, Normalization, Triple
from densefield.networks.upsampling import resize


def as_network(module: nn.Module, *, mean: Triple = IMAGENET.mean, std: Triple = IMAGENET.std) -> AsNetwork:
    """The module with its scores brought to the image's size: (B, C, H, W) → (B, L, H, W).

    The module may return a tensor (B, L, h, w), a dict that has it as "out", as torchvision's networks do, or an
    object that has it as ``logits``, as those of transformers do; h and w may be anything. ``mean`` and ``std`` are
    those it wants images normalised by, in colours 0…255; ImageNet's unless given.

    >>> import torch
    >>> network = as_network(nn.Conv2d(3, 21, 4, stride=4))
    >>> network(torch.zeros(1, 3, 30, 41)).shape
    torch.Size([1, 21, 30, 41])
    """
    if not isinstance(module, nn.Module):
        raise InputTypeError(f"module is {module!r}, expected a torch.nn.Module.")
    normalization = Normalization(_checked_triple(mean, "mean"), _checked_triple(std, "std"))
    if min(normalization.std) <= 0:
        raise InputError(f"std is {std}, expected numbers above zero.")
    return AsNetwork(module, normalization)


class AsNetwork(nn.Module):
    """A module whose scores are brought to the image's size; its parameters are found under ``module``."""

    def __init__(self, module: nn.Module, normalization: Normalization) -> None:
        super().__init__()
        self.module = module
        self.normalization = normalization

    def forward(self, image: Tensor) -> Tensor:
        """Scores (B, L, H, W) of a normalised image (B, C, H, W)."""
        image = checked_batch(image)
        scores = _scores_in(self.module(image))
        if scores.ndim != 4 or len(scores) != len(image):
            raise InputError(
                f"the module returned scores of shape {tuple(scores.shape)} for an image of shape "
                f"{tuple(image.shape)}, expected (batch, labels, rows, columns)."
            )
        if not scores.is_floating_point():
            raise InputTypeError(
                f"the module returned {scores.dtype}, expected scores in floating point numbers, not labels."
            )
        if scores.numel() == 0:
            raise InputError(
                f"the module returned scores of shape {tuple(scores.shape)} for an image of shape "
                f"{tuple(image.shape)}: it is too small for the module."
            )
        return resize(scores, (image.shape[2], image.shape[3]))


def _scores_in(output: object) -> Tensor:
    """The tensor that is, or is found in, what a module returned."""
    if isinstance(output, Mapping) and "out" in output:
        found = output["out"]
    else:
        found = getattr(output, "logits", output)
    if isinstance(found, Tensor):
        return found
    came = f"a {type(output).__name__}"
    if isinstance(output, Mapping):
        came += f" with {', '.join(repr(key) for key in output) or 'nothing in it'}"
    raise InputTypeError(
        f"the module returned {came}, expected a tensor of scores, a dict with it as 'out', or an object with it as "
        ".logits: wrap the module in one that returns the tensor."
    )


def _checked_triple(values: Triple, name: str) -> Triple:
    try:
        red, green, blue = (float(value) for value in values)
    except (TypeError, ValueError):
        raise InputTypeError(f"{name} is {values!r}, expected three numbers, for r, g and b.") from None
    if not all(abs(value) < float("inf") for value in (red, green, blue)):
        raise InputError(f"{name} is {values!r}, expected finite numbers.")
    return red, green, blue
