"""Ignored pixels, such as padding, have no effect on the others and little cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from densefield import Bilateral, Spatial

torch = pytest.importorskip("torch")
from densefield import DenseCRF  # noqa: E402
from densefield.crf import pairwise  # noqa: E402

KERNELS = (Spatial(2.5, weight=2), Bilateral([9, 7], [60, 50, 40], weight=3, normalization="after"))
ROWS, COLUMNS = 16, 20
MIDDLE = (..., slice(3, 3 + ROWS), slice(5, 5 + COLUMNS))  # of the padded image
CORNER = (..., slice(ROWS), slice(COLUMNS))


def random(*shape: int, seed: int = 6113) -> Any:
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape), dtype=torch.float64)


def padded(inner: Any, fill: float, place: Any) -> Any:
    outer = inner.new_full((*inner.shape[:-2], 24, 28), fill)
    outer[place] = inner
    return outer


def marginals_and_gradients(crf: Any, scores: Any, image: Any, ignore: Any = None, place: Any = ...) -> list[Any]:
    """Log marginals, then gradients of a random combination inside, with respect to scores, image and parameters."""
    leaves = [scores.clone().requires_grad_(), image.clone().requires_grad_(), *crf.parameters()]
    log_q = crf(*leaves[:2], ignore=ignore)
    cotangent = random(2, 3, ROWS, COLUMNS, seed=95)
    inside = log_q[place]
    return [inside.detach(), *torch.autograd.grad(inside, leaves, cotangent.to(log_q))]


def compare(crf: Any, dtype: Any, place: Any, tolerance: float) -> None:
    smooth = torch.nn.functional.avg_pool2d(random(2, 3, ROWS + 4, COLUMNS + 4, seed=8), 5, stride=1)
    scores, image = 2 * random(2, 3, ROWS, COLUMNS).to(dtype), (127 + 400 * smooth).clamp(0, 255).to(dtype)
    beyond = padded(torch.zeros(2, ROWS, COLUMNS, dtype=torch.bool), True, place)
    alone = marginals_and_gradients(crf, scores, image)
    within = marginals_and_gradients(crf, padded(scores, 9.0, place), padded(image, 116.0, place), beyond, place)
    names = ["log marginals", "scores", "image", *(name for name, _ in crf.named_parameters())]
    for name, one, other in zip(names, alone, within, strict=True):
        found = other[place] if name in ("scores", "image") else other
        assert float((one - found).abs().max() / one.abs().max()) < tolerance, name
    for slope in within[1:3]:
        assert not slope[beyond[:, None].expand_as(slope)].any()  # padding has no gradient


@pytest.mark.parametrize("place", [MIDDLE, CORNER])
def test_ignored_padding_changes_neither_marginals_nor_gradients(place: Any) -> None:
    """Positions in the padded image are larger, which changes float64 differences by 1e-15."""
    compare(DenseCRF(3, KERNELS, method="exact").double(), torch.float64, place, 1e-11)


@pytest.mark.parametrize(("halo", "tolerance"), [(0, 0.04), (1, 0.004)])
def test_ignored_padding_changes_lattice_results_little(halo: int, tolerance: float) -> None:
    """Vertices of padding transmit messages between pixels of the image, like a halo.

    Measured, of the largest number: 0.027 without a halo, 0.0017 with one. With padding that takes part log marginals
    differ by 0.09 and slopes by 0.4. The image is in the corner, so that its positions in the lattice stay the same.
    """
    compare(DenseCRF(3, KERNELS, halo=halo), torch.float32, CORNER, tolerance)


@pytest.mark.parametrize("exclude_self", [False, True])
def test_a_batch_shares_one_spatial_lattice_with_any_ignore_mask(
    exclude_self: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    lattice_filter = pairwise.LatticeFilter

    def noting(features: Any, **options: Any) -> Any:
        made.append(features.shape[1])
        return lattice_filter(features, **options)

    crf = DenseCRF(3, KERNELS, exclude_self=exclude_self)
    scores, image = random(4, 3, 12, 13).float(), 60 * random(4, 3, 12, 13, seed=2).abs().float()
    ignore = torch.zeros(4, 12, 13, dtype=torch.bool)
    ignore[0, :3], ignore[2, :, 9:], ignore[3] = True, True, random(12, 13, seed=4) > 1
    expected = torch.cat([crf(scores[i : i + 1], image[i : i + 1], ignore=ignore[i : i + 1]) for i in range(4)])
    pairwise._cache.clear()
    monkeypatch.setattr(pairwise, "LatticeFilter", noting)
    found = crf(scores, image, ignore=ignore)
    assert sorted(made) == [2, 5, 5, 5, 5]  # positions only, and positions with colours for each image
    assert torch.equal(found, expected)  # one image has no ignored pixels


def test_an_empty_ignore_mask_changes_nothing() -> None:
    crf = DenseCRF(3, KERNELS)
    scores, image = random(2, 3, 12, 13).float(), 60 * random(2, 3, 12, 13, seed=2).abs().float()
    nothing = torch.zeros(2, 12, 13, dtype=torch.bool)
    assert torch.equal(crf(scores, image, ignore=nothing), crf(scores, image))
