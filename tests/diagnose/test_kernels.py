"""explain() finds kernels that are too narrow or too wide, and weights that are too small or too large."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import CRF, Bilateral, Spatial, explain
from densefield.crf.model import PHOTO_KERNELS
from densefield.diagnose.kernels import largest_message, margins, neighbourhood
from tests.support.small_photo import HEIGHT, IMAGE, KERNELS, MASK, WIDTH, only_problem, problems, rough, soft


@pytest.mark.parametrize(
    "kernel, cure",
    [
        (Spatial(0.2), "at least a pixel"),
        (Bilateral(0.2, 12), "at least a pixel"),
        (Bilateral(20, 0.1), "larger widths"),
        (Bilateral(1.0, 0.1, covariance=np.diag([400.0, 400.0, 0.01, 0.01, 0.01])), "larger widths"),
    ],
)
def test_kernels_too_narrow_are_found(kernel, cure):
    findings = explain(IMAGE, labels=rough(MASK), kernels=[kernel])
    found = only_problem(findings)
    assert "so narrow" in found.what and cure in found.cure


def test_an_image_of_16_bits_is_found():
    deep = IMAGE.astype(np.uint16) * 257
    found = explain(deep, labels=rough(MASK), kernels=KERNELS)[0]
    assert found.severity == "problem" and "data_range=65535" in found.cure
    assert problems(explain(deep, labels=rough(MASK), kernels=KERNELS, data_range=65535)) == []


def test_widths_for_a_small_photo_are_found_on_a_large_one():
    image, mask = (np.kron(each, np.ones((40, 40) + (1,) * (each.ndim - 2), np.uint8)) for each in (IMAGE, rough(MASK)))
    found = explain(image, labels=mask, kernels=PHOTO_KERNELS)
    assert "small for an image of this size" in problems(found)[0]
    assert "Multiply those of positions by 4.1, or shrink" in found[0].cure
    assert problems(explain(image, labels=mask, kernels=[Spatial(12, weight=3), Bilateral(240, 10, weight=5)])) == []


@pytest.mark.parametrize("kernel", [Spatial(500, weight=1), Bilateral(500, 150, weight=1)])
def test_kernels_too_wide_are_found(kernel):
    found = only_problem(explain(IMAGE, labels=rough(MASK), kernels=[kernel]))
    assert "so wide" in found.what and "widths are 500 for position" in found.numbers


def test_a_colour_width_beyond_the_range_of_colours_is_found():
    findings = explain(IMAGE, labels=rough(MASK), kernels=[Bilateral(5, 900, weight=1)])
    assert "all pixels count as alike" in only_problem(findings).what


def test_sigma_xy_that_does_not_fit_the_resolution_is_a_note():
    far = explain(IMAGE, labels=rough(MASK), kernels=[Bilateral(200, 12)])
    near = explain(np.repeat(IMAGE, 4, 1), labels=np.repeat(MASK, 4, 1), kernels=[Bilateral(1.9, 12)])
    assert "across the whole image" in far[0].what and far[0].severity == "note"
    assert "does not reach far" in near[0].what and near[0].severity == "note"
    assert problems(far) == problems(near) == []


@pytest.mark.parametrize("weight", [-1.0, [-1.0, -2.0], [[0.0, 1.0], [1.0, 0.0]]])
def test_repelling_weights_are_found(weight):
    findings = explain(IMAGE, labels=rough(MASK), kernels=[Spatial(2, weight=weight)])
    assert "drives neighbours apart" in problems(findings)[0]


def test_no_kernel_and_a_kernel_of_weight_zero_are_found():
    assert "no kernel" in problems(explain(IMAGE, labels=MASK, kernels=[]))[0]
    none = explain(IMAGE, labels=rough(MASK), kernels=[Spatial(3, weight=0)])
    assert "All kernels have the weight 0" in problems(none)[0] and "problems above" in none[-1].what
    notes = explain(IMAGE, labels=rough(MASK), kernels=[*KERNELS, Spatial(3, weight=0)])
    assert any("weight 0" in note.what for note in notes) and problems(notes) == []


def test_overconfident_scores_are_found():
    findings = explain(IMAGE, labels=rough(MASK), confidence=0.9999, kernels=KERNELS)
    found = only_problem(findings)
    assert "so confident" in found.what
    lead = np.log(0.9999 / 0.0001)
    assert f"leads by {lead:.3g}" in found.numbers
    assert "0% of the pixels changed" in findings[-1].what and "problems above" in findings[-1].what


def test_weights_raised_as_suggested_let_pixels_change():
    kernels = (Spatial(2, weight=0.2), Bilateral(20, 12, weight=0.3))
    found = only_problem(explain(IMAGE, labels=rough(MASK), confidence=0.9, kernels=kernels))
    factor = float(found.cure.rsplit(" ", 1)[1].removesuffix("-fold."))
    raised = [Spatial(2, weight=0.2 * factor * 1.2), Bilateral(20, 12, weight=0.3 * factor * 1.2)]
    assert problems(explain(IMAGE, labels=rough(MASK), confidence=0.9, kernels=raised)) == []


# Measurements


@pytest.mark.parametrize("kernel", [Spatial(3), Bilateral(20, 12), Bilateral(20, 12, weight=[1.0, 2.0])])
def test_neighbours_are_counted_as_by_the_exact_sum(kernel):
    counts = neighbourhood(CRF([kernel]).problem(soft(MASK), IMAGE).pairwise[0], calibrate=True, threads=None)
    exact = CRF([kernel], method="exact").problem(soft(MASK), IMAGE).pairwise[0].filtering
    true = exact(np.ones((HEIGHT * WIDTH, 1), np.float32))[:, 0]
    assert abs(counts.mean() / true.mean() - 1) < 0.1  # the magnitude is calibrated on average over 512 points


@pytest.mark.parametrize("weight", [1.5, [0.5, 1.5, 1.0], [[1.0, -0.5, 0.0], [-0.5, 1.0, 0.0], [0.0, 0.0, 0.2]]])
@pytest.mark.parametrize("normalization", ["symmetric", "after", "before", "none"])
def test_no_marginals_change_a_score_by_more_than_the_largest_message(weight, normalization):
    kernels = [Bilateral(20, 12, weight=weight, normalization=normalization)]
    problem = CRF(kernels).problem(soft(MASK, 3), IMAGE)
    most = largest_message(kernels, problem)
    rng = np.random.default_rng(60913)
    furthest = np.zeros_like(most)
    sure = [np.tile(row, (HEIGHT * WIDTH, 1)) for row in np.eye(3, dtype=np.float32)]  # all neighbours have one label
    for q in [*sure, rng.dirichlet([0.2] * 3, HEIGHT * WIDTH).astype(np.float32)]:
        furthest = np.maximum(furthest, np.ptp(problem.pairwise[0].message(q), axis=1))
    assert (furthest <= most * (1 + 1e-5)).all()  # float32
    assert furthest == pytest.approx(most, rel=1e-5)  # reached if all neighbours agree


def test_margins_are_the_best_minus_the_second_best():
    scores = np.array([[3.0, 1.0], [1.0, 1.0], [2.5, -4.0]])
    assert margins(scores).tolist() == [0.5, 0.0]
