"""Features of pixels for logistic regression."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="the features need torch")

import torch

from densefield.errors import InputError, InputTypeError
from densefield.tuning.feature_images import arrays_in, mean_and_scale
from densefield.tuning.pixel_features import KINDS, RADII, PixelFeatures
from tests.support.scored_scenes import ScoredScenes

IMAGE = torch.randint(256, (3, 17, 13), dtype=torch.uint8, generator=torch.Generator().manual_seed(331))


@pytest.mark.parametrize("kind", KINDS)
def test_the_count_is_that_of_the_features(kind):
    phi = PixelFeatures([kind])(IMAGE)
    assert phi.shape == (PixelFeatures([kind]).count, 17, 13) and phi.dtype == torch.float32
    assert bool(phi.isfinite().all())


def test_colours_are_centred_with_squares_and_products():
    phi, rgb = PixelFeatures(["colour"])(IMAGE), IMAGE / 255 - 0.5
    torch.testing.assert_close(phi[:6], torch.cat([rgb, rgb**2]))
    torch.testing.assert_close(phi[6:], torch.stack([rgb[0] * rgb[1], rgb[1] * rgb[2], rgb[2] * rgb[0]]))


def test_texture_has_the_mean_and_deviation_of_the_pixels_in_a_window():
    phi, rgb = PixelFeatures(["texture"])(IMAGE).double(), IMAGE.double() / 255 - 0.5
    for number, radius in enumerate(RADII):
        for row, column in ((0, 0), (8, 6), (16, 3)):
            window = rgb[:, max(row - radius, 0) : row + radius + 1, max(column - radius, 0) : column + radius + 1]
            found = phi[6 * number : 6 * number + 6, row, column]
            flat = window.flatten(1)
            # Means of squares in float32 lose half of the digits of small deviations.
            expected = torch.cat([flat.mean(1), flat.std(1, correction=0)])
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_texture_tells_the_directions_of_edges():
    stripes = torch.zeros(3, 24, 24, dtype=torch.uint8)
    stripes[..., ::2] = 255
    across, down = PixelFeatures(["texture"])(stripes)[-2:, 12, 12]
    assert float(across) > 0.9 and float(down) == 0.0


def test_positions_go_from_minus_one_to_one():
    phi = PixelFeatures(["position"])(IMAGE)
    assert phi[:, 0, 0].tolist() == [-1, -1, 1, 1, 1] and phi[:, -1, -1].tolist() == [1, 1, 1, 1, 1]
    assert phi[:, 8, 6].tolist() == pytest.approx([0, 0, 0, 0, 0], abs=1e-7)  # float32
    assert PixelFeatures(["position"])(IMAGE[:, :1, :1]).flatten().tolist() == [0] * 5


def test_mean_and_scale_are_those_of_all_pixels():
    source = ScoredScenes(3)
    mean, scale = mean_and_scale(source)
    every = torch.cat([source[index].scores.flatten(1) for index in range(3)], dim=1).double()
    torch.testing.assert_close(mean, every.mean(1))
    torch.testing.assert_close(scale, every.std(1, correction=0))


@pytest.mark.parametrize("kinds", ["colour", ["colour", "colour"], ["smell"], []])
def test_other_kinds_are_rejected(kinds):
    with pytest.raises(InputError, match="features"):
        PixelFeatures(kinds)


def test_arrays_that_do_not_fit_are_rejected():
    with pytest.raises(InputError, match="arrays is -1"):
        PixelFeatures(arrays=-1)
    with pytest.raises(InputError, match="uses 0 channels of arrays, but there is an array"):
        PixelFeatures()(IMAGE, torch.zeros(1, 2, 2))
    with pytest.raises(InputTypeError, match="holds NaN, infinity or integers"):
        PixelFeatures([], 1)(IMAGE, torch.full((1, 2, 2), float("nan")))


def test_arrays_are_read_by_the_name_of_the_image(tmp_path):
    np.save(tmp_path / "a.npy", np.full((2, 3, 4), 0.5, np.float16))
    np.savez(tmp_path / "b.npz", features=np.ones((1, 2, 2)), other=np.zeros(3))
    np.savez(tmp_path / "c.npz", one=np.ones(2), two=np.ones(2))
    np.save(tmp_path / "d.npy", np.ones((3, 4)))
    read = arrays_in(tmp_path, "abcd")
    assert read("a").shape == (2, 3, 4) and read("b").tolist() == [[[1, 1], [1, 1]]]
    for id, says in (("c", "holds the arrays one, two"), ("d", r"shape \(3, 4\)")):
        with pytest.raises(InputError, match=says):
            read(id)
    with pytest.raises(InputError, match=r"has no e\.npy or e\.npz for the image e, and none for 1 others"):
        arrays_in(tmp_path, "aef")
