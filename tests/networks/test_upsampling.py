from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from densefield.networks.upsampling import resize, upsample_cells, upsample_points  # noqa: E402


def ramp(stride, offset, counts):
    """Scores of the plane 2·row - 3·column + 1 at the places of the coarse scores."""
    rows, columns = (torch.arange(n, dtype=torch.float64) * stride + offset for n in counts)
    return (2 * rows[:, None] - 3 * columns + 1)[None, None]


@pytest.mark.parametrize("stride", [1, 2, 8, 16])
def test_points_are_at_every_sth_pixel(stride):
    size = (3 * stride + 1, 5 * stride + 1)
    fine = upsample_points(ramp(stride, 0, (4, 6)), stride, size)
    torch.testing.assert_close(fine, ramp(1, 0, size), rtol=0, atol=1e-12)  # bilinear is exact for planes


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (16, 3), (19, 25)])
def test_the_last_score_is_repeated_beyond_it(size):
    counts = [-(-n // 8) for n in size]
    scores = torch.randn(2, 3, *counts, dtype=torch.float64, generator=torch.Generator().manual_seed(808017))
    fine = upsample_points(scores, 8, size)
    assert fine.shape == (2, 3, *size)
    assert torch.equal(fine[:, :, ::8, ::8], scores)
    last = 8 * (counts[0] - 1)
    torch.testing.assert_close(fine[:, :, last:], fine[:, :, last : last + 1].expand_as(fine[:, :, last:]))


def test_extra_scores_are_cropped():
    scores = ramp(8, 0, (40, 40))  # of pixels 0 … 312
    torch.testing.assert_close(upsample_points(scores, 8, (306, 306)), ramp(1, 0, (306, 306)), rtol=0, atol=1e-11)


@pytest.mark.parametrize("stride", [2, 8])
def test_scores_of_cells_lie_at_their_centres(stride):
    size = (4 * stride, 5 * stride)
    fine = upsample_cells(ramp(stride, (stride - 1) / 2, (4, 5)), stride, size)
    inner = (slice(None), slice(None), slice(stride, -stride), slice(stride, -stride))
    torch.testing.assert_close(fine[inner], ramp(1, 0, size)[inner], rtol=0, atol=1e-12)


def test_partly_filled_cells_are_cropped():
    scores = ramp(8, 3.5, (3, 3))
    assert torch.equal(upsample_cells(scores, 8, (17, 20)), upsample_cells(scores, 8, (24, 24))[..., :17, :20])


def test_scores_of_the_right_size_stay_unchanged():
    scores = torch.randn(1, 2, 5, 7)
    assert resize(scores, (5, 7)) is scores


@pytest.mark.parametrize(
    "upsample",
    [
        lambda scores: upsample_points(scores, 4, (9, 11)),
        lambda scores: upsample_cells(scores, 4, (9, 11)),
        lambda scores: resize(scores, (9, 11)),
    ],
)
def test_gradients_match_finite_differences(upsample):
    scores = torch.randn(1, 2, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(31177))
    assert torch.autograd.gradcheck(upsample, scores.requires_grad_())
