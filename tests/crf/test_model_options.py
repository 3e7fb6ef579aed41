"""Options of the CRF: axis order, files, copies with other options, and printing."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import CRF, Bilateral, Custom, InputError, Spatial
from densefield.crf.features import grid_positions


def scene(seed: int = 30911) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(0, 1, (3, 20, 31)).astype(np.float32), rng.integers(0, 256, (20, 31, 3), dtype=np.uint8)


# Axis order


def test_rows_come_first_with_the_other_order():
    assert grid_positions((2, 3), axis_order="yx").tolist() == grid_positions((2, 3))[:, ::-1].tolist()
    assert grid_positions((2, 3, 4), (0.5, 2.0, 7.0), "yx").tolist() == (
        grid_positions((2, 3, 4), (0.5, 2.0, 7.0))[:, ::-1].tolist()
    )


def test_the_other_order_equals_a_transposed_image():
    scores, image = scene()
    upright = CRF([Bilateral((3, 5), 40, weight=2)], axis_order="yx").marginals(scores, image)
    lying = CRF([Bilateral((3, 5), 40, weight=2)]).marginals(scores.swapaxes(1, 2), image.swapaxes(0, 1))
    assert np.allclose(upright, lying.swapaxes(1, 2), atol=1e-6)  # sums over pixels in another order


def test_the_exact_sum_does_not_depend_on_the_order():
    scores, image = scene()
    kernels = [Spatial(3, weight=1), Bilateral(5, 40, weight=2)]
    one, other = (CRF(kernels, method="exact", axis_order=order).marginals(scores, image) for order in ("xy", "yx"))
    assert np.allclose(one, other, atol=1e-6)


def test_an_unknown_order_is_rejected():
    with pytest.raises(InputError, match="axis_order is 'ij', expected one of xy, yx"):
        CRF(axis_order="ij")


# Points


def test_a_transposed_point_cloud_is_recognised():
    rng = np.random.default_rng(8831)
    scores, points = rng.normal(size=(4, 50)), rng.normal(size=(50, 3))
    crf = CRF([Custom("xyz", sigma=1.0)])
    with pytest.raises(InputError, match=r"axes of the scores are swapped: they are \(classes, points\), use scores.T"):
        crf.solve(scores.T, features={"xyz": points})
    with pytest.raises(InputError, match=r"Its axes are swapped: use feature.T"):
        crf.solve(scores, features={"xyz": points.T})
    assert crf.solve(scores, features={"xyz": points}).labels.shape == (50,)
    with pytest.raises(InputError, match=r"axes of the scores are swapped"):  # more points than labels
        crf.solve(scores[:3].T, features={"xyz": points})
    with pytest.raises(InputError, match=r"expected \(50, d\)\. Its axes are swapped: use feature.T"):
        crf.solve(scores[:3], features={"xyz": points.T})


# Files and copies


def test_a_loaded_crf_gives_the_same_marginals(tmp_path):
    scores, image = scene()
    kernels = [
        Spatial((2, 3), weight=[1.0, 2.0, 0.5], normalization="after"),
        Bilateral(7, 40, weight=np.eye(3) * 1.25),
    ]
    crf = CRF(kernels, iterations=4, exclude_self=True, operator="pydensecrf", axis_order="yx")
    crf.save(tmp_path / "crf.toml")
    loaded = CRF.load(str(tmp_path / "crf.toml"))
    assert np.array_equal(loaded.marginals(scores, image), crf.marginals(scores, image))
    assert loaded.options == crf.options
    assert CRF.load(tmp_path / "crf.toml", iterations=1, threads=1).options == crf.options.replace(
        iterations=1, threads=1
    )


def test_a_copy_has_the_options_that_are_not_replaced():
    crf = CRF([Spatial(2)], iterations=3, halo=1, data_range=[1.0, 2.0, 3.0])
    copy = crf.replace(iterations=7)
    assert copy.kernels == crf.kernels and copy.options == crf.options.replace(iterations=7)


# Printing


def test_the_repr_of_a_crf_has_kernels_and_changed_options():
    crf = CRF([Spatial(3, weight=np.eye(21)), Custom("depth", sigma=[0.1, 0.25])], method="exact", data_range=65535)
    assert repr(crf).splitlines() == [
        "CRF: 5 iterations, method 'exact', data_range 65535.0",
        "  spatial: sigma 3, weight 21×21 from 0 to 1, symmetric",
        "  depth: sigma (0.1, 0.25), weight 1, symmetric",
    ]


def test_the_repr_of_a_solution_has_shape_steps_and_convergence():
    scores, image = scene()
    crf = CRF([Spatial(2)], iterations=2, method="exact")
    assert repr(crf.solve(scores, image)).startswith(
        "Solution: 3 classes at 20 × 31 pixels, 2 iterations, last change 0."
    )
    printed = repr(crf.solve(scores, image, tolerance=1e-9, energies=True))
    assert "free energy -" in printed and printed.endswith("not converged") and len(printed) < 130
