"""Photos that come with scikit-image, and the features of a bilateral kernel on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import skimage.data
import skimage.transform

Array = npt.NDArray[np.float64]

NAMES = ("astronaut", "chelsea", "coffee")


def photo(name: str, height: int, width: int) -> Array:
    """A photo resized to (height, width, 3), colours 0…255."""
    image = getattr(skimage.data, name)()
    return np.asarray(skimage.transform.resize(image, (height, width), anti_aliasing=True) * 255.0)


def positions(height: int, width: int) -> Array:
    """Pixel positions (x, y), (height, width, 2)."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x, y], axis=-1).astype(np.float64)


def bilateral_features(image: Array, sigma_xy: float, sigma_rgb: float) -> Array:
    """(x, y, r, g, b) over their widths, (N, 5)."""
    return np.concatenate([positions(*image.shape[:2]) / sigma_xy, image / sigma_rgb], axis=-1).reshape(-1, 5)


def features_of_dimension(dimension: int, image: Array, sigma_xy: float, sigma_rgb: float) -> Array:
    """Features of 1 to 6 dimensions: grey; (x, y); with grey; with red and blue; with all colours; with shade too."""
    position, colour = positions(*image.shape[:2]) / sigma_xy, image / sigma_rgb
    grey = colour.mean(axis=-1, keepdims=True)
    height, width = image.shape[:2]
    small = skimage.transform.resize(grey, (height // 4, width // 4), anti_aliasing=True)
    shade = skimage.transform.resize(small, (height, width))
    parts = {
        1: [grey],
        2: [position],
        3: [position, grey],
        4: [position, colour[..., ::2]],
        5: [position, colour],
        6: [position, colour, shade],
    }[dimension]
    return np.concatenate(parts, axis=-1).reshape(-1, dimension)


def masks(height: int, width: int) -> Array:
    """A disc, a half plane and noise, as (N, 3) values of 0 and 1."""
    x, y = np.moveaxis(positions(height, width), -1, 0)
    disc = (x - width / 2) ** 2 + (y - height / 2) ** 2 < (height / 3) ** 2
    half = x + y > (width + height) / 2
    noise = np.random.default_rng(20150).random((height, width)) < 0.5
    return np.stack([disc, half, noise], axis=-1).reshape(-1, 3).astype(np.float64)


def errors_on_photos(
    height: int, width: int, widths: Iterable[tuple[int, int]]
) -> Iterator[tuple[str, Array, Array, Array]]:
    """For every photo and pair of widths: their names, features (N, 5), masks (N, C), and what a noisy guess misses."""
    noise = np.random.default_rng(414)
    for name in NAMES:
        image = photo(name, height, width)
        for sigma_xy, sigma_rgb in widths:
            x = bilateral_features(image, sigma_xy, sigma_rgb)
            x -= x.mean(axis=0)
            truth = masks(height, width)
            missed = truth - np.clip(truth + 0.3 * noise.standard_normal(truth.shape), 0, 1)
            yield f"{name:10s}{sigma_xy:2d}/{sigma_rgb:2d}", x, truth, missed
