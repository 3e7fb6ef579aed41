"""Features of pixels for logistic regression: colour, texture, position, and arrays of the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate, pad

from densefield.errors import InputError, InputTypeError

FeatureKind = Literal["colour", "texture", "position"]
KINDS: tuple[FeatureKind, ...] = get_args(FeatureKind)

RADII = (2, 5, 12)  # of the windows of local means and standard deviations, in pixels
_SMOOTHING = 5  # radius of the windows in which the strength of edges is averaged
_COUNTS = {"colour": 9, "texture": 6 * len(RADII) + 2, "position": 5}


@dataclass(frozen=True)
class PixelFeatures:
    """φ_i of every pixel, (D, H, W) float32.

    Parameters
    ----------
    kinds
        "colour": r, g, b, their squares and products. "texture": local means and standard deviations of r, g, b in
        windows of 5, 11 and 25 pixels, and the mean strength of horizontal and vertical edges. "position": x and y,
        from -1 to 1, their squares and product.
    arrays
        Number of channels of the user's own arrays, such as scores or features of a network.

    >>> features = PixelFeatures(("colour", "position"))
    >>> features.count, features(torch.zeros(3, 4, 6, dtype=torch.uint8)).shape
    (14, torch.Size([14, 4, 6]))
    """

    kinds: Sequence[FeatureKind] = KINDS
    arrays: int = 0

    def __post_init__(self) -> None:
        """Checks both."""
        kinds = self.kinds
        if isinstance(kinds, str):
            raise InputError(f"features= is {kinds!r}, expected a list of some of {', '.join(KINDS)}.")
        wrong = [f"unknown {kind!r}" for kind in dict.fromkeys(kinds) if kind not in KINDS]
        wrong += [f"{kind!r} twice" for kind in KINDS if list(kinds).count(kind) > 1]
        if wrong:
            raise InputError(f"features= has {' and '.join(wrong)}; expected different ones of {', '.join(KINDS)}.")
        if isinstance(self.arrays, bool) or not isinstance(self.arrays, int) or self.arrays < 0:
            raise InputError(f"arrays is {self.arrays!r}, expected a number of channels.")
        if not kinds and not self.arrays:
            raise InputError(f"there are no features, expected some of {', '.join(KINDS)}, or arrays.")
        object.__setattr__(self, "kinds", tuple(kinds))

    @property
    def count(self) -> int:
        """The number of features of a pixel, D."""
        return sum(_COUNTS[kind] for kind in self.kinds) + self.arrays

    def __call__(self, image: Tensor, arrays: Tensor | None = None) -> Tensor:
        """The features (D, H, W) of an image.

        Parameters
        ----------
        image
            (3, H, W), colours 0…255.
        arrays
            (C, h, w) of any size, resized bilinearly to the image.
        """
        rgb = image.float() / 255 - 0.5
        found = [_OF_KIND[kind](rgb) for kind in self.kinds]
        if (arrays is not None) != bool(self.arrays):
            came = "none" if arrays is None else f"an array of shape {tuple(arrays.shape)}"
            raise InputError(f"the model uses {self.arrays} channels of arrays, but there is {came}.")
        if arrays is not None:
            if arrays.ndim != 3 or len(arrays) != self.arrays:
                raise InputError(
                    f"the array has shape {tuple(arrays.shape)}, expected ({self.arrays}, rows, columns) of any size."
                )
            if not arrays.is_floating_point() or not bool(arrays.isfinite().all()):
                raise InputTypeError(
                    "the array holds NaN, infinity or integers, expected finite floating point numbers."
                )
            size = (rgb.shape[1], rgb.shape[2])
            found.append(interpolate(arrays[None].float(), size, mode="bilinear", align_corners=False)[0])
        return torch.cat(found)


def _colour(rgb: Tensor) -> Tensor:  # (3, H, W)
    red, green, blue = rgb
    return torch.cat([rgb, rgb.square(), torch.stack([red * green, green * blue, blue * red])])


def _texture(rgb: Tensor) -> Tensor:
    parts = []
    for radius in RADII:
        mean, of_squares = _local_mean(rgb, radius), _local_mean(rgb.square(), radius)
        parts += [mean, (of_squares - mean.square()).clamp(min=0).sqrt()]
    grey = rgb.mean(0, keepdim=True)
    edges = torch.cat([pad(grey.diff(dim=2).abs(), (0, 1)), pad(grey.diff(dim=1).abs(), (0, 0, 0, 1))])
    return torch.cat([*parts, _local_mean(edges, _SMOOTHING)])


def _local_mean(values: Tensor, radius: int) -> Tensor:  # (C, H, W)
    """Means in windows of 2·radius + 1, of the pixels within the image."""
    return avg_pool2d(values[None], 2 * radius + 1, 1, radius, count_include_pad=False)[0]


def _position(rgb: Tensor) -> Tensor:
    y, x = torch.meshgrid(
        *(torch.linspace(-1, 1, n) if n > 1 else torch.zeros(1) for n in rgb.shape[1:]), indexing="ij"
    )
    return torch.stack([x, y, x.square(), y.square(), x * y])


_OF_KIND = {"colour": _colour, "texture": _texture, "position": _position}
