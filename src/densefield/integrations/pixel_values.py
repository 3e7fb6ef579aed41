"""Colours 0…255 from the `pixel_values` of an image processor of transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard, TypeVar

import torch
from torch import Tensor

from densefield.errors import InputError, InputTypeError, warn

_OVERSHOOT = 26.0  # colour levels by which a sharp resize may leave 0…255, a tenth

Self = TypeVar("Self", bound="PixelValues")


class PixelValues(NamedTuple):
    """How an image processor turns colours c = 0…255 into the input of a network: (c - mean) / std by channel.

    Parameters
    ----------
    mean, std
        For each channel of the pixel values, in colours 0…255.
    bgr
        Whether the channels of the pixel values are b, g, r, as for MobileViT.

    >>> import torch
    >>> pixel_values = PixelValues(mean=(127.5,) * 3, std=(127.5,) * 3)
    >>> pixel_values.colours(torch.tensor([-1.0, 0.0, 1.0]).reshape(1, 3, 1, 1)).flatten().tolist()
    [0.0, 127.5, 255.0]
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    bgr: bool = False

    @classmethod
    def of_processor(cls: type[Self], image_processor: Any) -> Self:
        """The arithmetic of an image processor: rescaling, normalisation, and the order of channels.

        Parameters
        ----------
        image_processor
            An image processor of transformers.
        """
        if not hasattr(image_processor, "do_rescale"):
            raise InputTypeError(
                f"the image processor is of type {type(image_processor).__name__}, expected one of transformers, such "
                "as AutoImageProcessor.from_pretrained(…)."
            )
        scale = image_processor.rescale_factor if image_processor.do_rescale else 1.0
        # MobileViT's may have a mean that it does not use.
        normalizes = getattr(image_processor, "do_normalize", False)
        mean = _three(image_processor.image_mean if normalizes else 0.0)
        std = _three(image_processor.image_std if normalizes else 1.0)
        if not _are_three(mean) or not _are_three(std) or not scale > 0 or min(std) <= 0:
            raise InputError(
                f"the image processor has mean {mean}, std {std} and rescale_factor {scale}, expected three numbers, "
                "three above 0, and one above 0."
            )
        in_colours = [tuple(each / scale for each in values) for values in (mean, std)]
        return cls(in_colours[0], in_colours[1], bgr=bool(getattr(image_processor, "do_flip_channel_order", False)))

    @classmethod
    def of_config(cls: type[Self], fields: Mapping[str, Any]) -> Self:
        """Those of a configuration, the inverse of to_config().

        Parameters
        ----------
        fields
            ``mean``, ``std`` and ``bgr``.
        """
        mean, std, bgr = (fields.get(name) if isinstance(fields, Mapping) else None for name in ("mean", "std", "bgr"))
        if not _are_three(mean) or not _are_three(std) or min(std) <= 0 or not isinstance(bgr, bool):
            raise InputError(
                f"pixel_values of the configuration is {fields!r}, expected mean with three numbers, std with three "
                "above 0, and bgr, true or false."
            )
        return cls(tuple(mean), tuple(std), bgr)

    def to_config(self) -> dict[str, Any]:
        """The fields as JSON has them."""
        return {"mean": list(self.mean), "std": list(self.std), "bgr": self.bgr}

    def colours(self, pixel_values: Tensor) -> Tensor:
        """Colours (B, 3, H, W) in the order r, g, b, in single precision or better.

        Parameters
        ----------
        pixel_values
            The input of the network, (B, 3, H, W).
        """
        values = pixel_values if pixel_values.dtype == torch.float64 else pixel_values.float()
        mean, std = (values.new_tensor(each).view(3, 1, 1) for each in (self.mean, self.std))
        colours = values * std + mean
        return colours.flip(1) if self.bgr else colours

    def warn_unless_plausible(self, pixel_values: Tensor, ignore: Tensor | None = None) -> bool:
        """Warns at the user's call if the pixel values cannot be those of the processor; returns whether it did.

        Parameters
        ----------
        pixel_values
            The input of the network, (B, 3, H, W).
        ignore
            (B, H, W), boolean: True for pixels that are not checked, such as padding.
        """
        lows = highs = pixel_values.detach()
        if not lows.numel():
            return False
        if ignore is not None:
            lows, highs = (lows.masked_fill(ignore[:, None], end) for end in (float("inf"), -float("inf")))
        ends = torch.stack([lows.amin((0, 2, 3)), highs.amax((0, 2, 3))])[..., None, None]  # of each channel
        if bool((ends[0] > ends[1]).any()):  # all pixels are ignored
            return False
        low, high, darkest, brightest = (
            bound for each in (ends, self.colours(ends)) for bound in (float(each[0].min()), float(each[1].max()))
        )
        is_normalized = min(self.mean) > 1
        if darkest < -_OVERSHOOT or brightest > 255 + _OVERSHOOT:
            problem = f"stand for colours from {darkest:.4g} to {brightest:.4g}, expected 0…255"
        elif is_normalized and low >= 0 and high <= 1 and low < high:
            problem = f"lie between {low:.4g} and {high:.4g}, which looks like an image that was not normalised"
        else:
            return False
        warn(
            f"the pixel values {problem}: the network's input is not what this image processor makes, so the CRF "
            "compares wrong colours. Use the processor of the model, or pass images=, with colours 0…255."
        )
        return True


def _are_three(values: object) -> TypeGuard[Sequence[float]]:
    """Whether values are three finite numbers.

    >>> _are_three([1, 2.5, 3]), _are_three([1, 2]), _are_three("abc"), _are_three([1, 2, None])
    (True, False, False, False)
    """
    if not isinstance(values, list | tuple) or len(values) != 3:
        return False
    return all(isinstance(each, int | float) and abs(each) < float("inf") for each in values)


def _three(values: float | Sequence[float] | None) -> tuple[float, ...]:
    """A number for each channel; one number is for all of them.

    >>> _three(0.5), _three([0.1, 0.2, 0.3])
    ((0.5, 0.5, 0.5), (0.1, 0.2, 0.3))
    """
    if values is None:
        return ()
    return (float(values),) * 3 if isinstance(values, int | float) else tuple(float(each) for each in values)
