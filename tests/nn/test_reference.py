"""Reference mean field in torch equals the NumPy CRF, and gradients match finite differences."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

from densefield import CRF, Bilateral, Spatial
from densefield.crf.features import grid_positions
from densefield.crf.kernels import Normalization

torch = pytest.importorskip("torch")
from densefield.nn import reference as reference_torch  # noqa: E402
from tests.support.mean_field_ops import reference  # noqa: E402

NORMALIZATIONS = get_args(Normalization)
WEIGHTS = {"scalar": (), "per label": (3,), "matrix": (3, 3)}


def random(*shape: int, seed: int = 2718) -> Any:
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape))


def positive(*shape: int, seed: int = 2718) -> Any:
    return 0.6 + random(*shape, seed=seed).abs()


def small_model(weight: str = "scalar", shape: str = "widths", batch: int = 1) -> tuple[Any, Any, Any, Any]:
    """Scores, features, shape and weight of a CRF with 5 points, 3 labels and one kernel of 2 features."""
    widths = positive(2, seed=31) if shape == "widths" else torch.eye(2).double() + 0.3 * random(2, 2, seed=31)
    leaves = random(batch, 3, 5), random(batch, 5, 2, seed=17), widths, positive(*WEIGHTS[weight], seed=47)
    return tuple(leaf.clone().requires_grad_() for leaf in leaves)  # type: ignore[return-value]


def projected(*leaves: Any, **options: Any) -> Any:
    """Two random combinations of the log marginals, which are faster to differentiate than all."""
    log_q = exact(*leaves, **options)
    return (log_q * random(2, *log_q.shape, seed=83)).sum((1, 2, 3))


def exact(scores: Any, features: Any, shape: Any, weight: Any, **options: Any) -> Any:
    options = {"normalizations": ["symmetric"], "iterations": 3, "method": "exact", **options}
    return reference(scores, [features], [shape], [weight], **options)


@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_every_gradient_matches_finite_differences(normalization: str, masked: bool, exclude_self: bool) -> None:
    present = torch.tensor([[1.0, 1.0, 0.0, 1.0, 1.0]]) if masked else None
    options = {"normalizations": [normalization], "present": present, "exclude_self": exclude_self}
    assert torch.autograd.gradcheck(lambda *leaves: projected(*leaves, **options), small_model())


@pytest.mark.parametrize("shape", ["widths", "matrix"])
@pytest.mark.parametrize("weight", WEIGHTS)
def test_gradients_reach_every_form_of_shape_and_weight(weight: str, shape: str) -> None:
    assert torch.autograd.gradcheck(projected, small_model(weight, shape))


def test_gradients_of_a_batch_with_a_shared_and_an_individual_kernel() -> None:
    scores, own, widths, weight = small_model(batch=2)
    shared = random(1, 5, 1, seed=5).requires_grad_()

    def both(scores: Any, own: Any, widths: Any, weight: Any, shared: Any) -> Any:
        log_q = reference(
            scores,
            [own, shared],
            [widths, widths[:1]],
            [weight, 2 * weight],
            normalizations=["symmetric", "after"],
            iterations=2,
            method="exact",
        )
        return (log_q * random(2, *log_q.shape, seed=83)).sum((1, 2, 3))

    assert torch.autograd.gradcheck(both, (scores, own, widths, weight, shared))


def test_the_gradient_includes_the_derivative_of_the_normalization() -> None:
    """A common mistake is to treat D = K·1 as constant; then these gradients would be equal."""
    found = []
    for fixed in (False, True):
        scores, features, widths, weight = small_model()
        if fixed:
            x = features / widths
            kernel = torch.exp(-0.5 * ((x[0, :, None] - x[0, None]) ** 2).sum(-1))
            half = kernel.sum(1, keepdim=True).detach() ** -0.5
            z = scores[0].T
            for _ in range(3):
                z = scores[0].T + weight * half * (kernel @ (half * z.softmax(1)))
            result = z.log_softmax(1).T[None]
        else:
            result = exact(scores, features, widths, weight)
        result.backward(random(*result.shape, seed=3))
        found.append((result.detach(), widths.grad))
    (values, slopes), (same, wrong) = found
    assert torch.allclose(values, same, rtol=1e-12, atol=1e-12)  # the same function in float64
    assert float((slopes - wrong).norm() / slopes.norm()) > 0.1


@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_it_equals_the_numpy_crf_in_double_precision(normalization: Any, exclude_self: bool) -> None:
    rng = np.random.default_rng(6021)
    scores, image = rng.standard_normal((4, 6, 7)), rng.uniform(0, 255, (6, 7, 3))
    ignore = rng.random((6, 7)) < 0.2
    mixing = rng.standard_normal((4, 4))
    covariance = np.array([[6.0, 2.0], [2.0, 3.0]])
    kernels = [
        Spatial(covariance=covariance, weight=(mixing + mixing.T) / 2, normalization=normalization),
        Bilateral([4, 3], [60, 50, 40], weight=[1.0, 2.0, 3.0, 0.5], normalization=normalization),
    ]
    crf = CRF(kernels, iterations=4, method="exact", exclude_self=exclude_self)
    expected = crf.solve(scores, image, ignore=ignore).log_marginals

    position = torch.tensor(grid_positions((6, 7)))[None]
    colour = torch.tensor(image).reshape(1, -1, 3)
    found = reference(
        torch.tensor(scores).reshape(1, 4, -1),
        [position, torch.cat([position, colour], 2)],
        [torch.tensor(kernels[0].shape({"position": 2})), torch.tensor([4.0, 3.0, 60.0, 50.0, 40.0])],
        [torch.tensor(kernels[0].weight), torch.tensor(kernels[1].weight)],
        normalizations=[normalization] * 2,
        iterations=4,
        exclude_self=exclude_self,
        present=torch.tensor(~ignore).reshape(1, -1),
        method="exact",
    )
    # Features are rounded equally; only the order of summation differs.
    assert np.allclose(found.reshape(4, 6, 7).numpy(), expected, rtol=0, atol=1e-10)


def photo_like(rows: int = 24, columns: int = 32) -> tuple[Any, Any]:
    """Scores (1, 3, N) and features (1, N, 5) of an image with smooth gradients, an edge and noise."""
    rng = np.random.default_rng(9173)
    y, x = np.mgrid[:rows, :columns]
    side = x + 0.4 * y > 0.6 * columns
    colour = np.stack([40 + 150 * side, 90 + 2 * x, 60 + 3 * y], -1) + 6 * rng.standard_normal((rows, columns, 3))
    scores = np.stack([2.0 * side, 2.0 * ~side, 0.5 * np.cos(x / 5)]) + rng.standard_normal((3, rows, columns))
    features = np.concatenate([grid_positions((rows, columns)), colour.reshape(-1, 3)], 1)
    return torch.tensor(scores).reshape(1, 3, -1), torch.tensor(features)[None]


def run(method: str, dtype: Any, **options: Any) -> tuple[Any, Any]:
    """Log marginals and gradients of a smooth loss for scores, features, widths and weights of two kernels."""
    scores, features = photo_like()
    leaves = [
        scores.to(dtype),
        features.to(dtype),
        torch.tensor([2.5, 2.5], dtype=dtype),
        torch.tensor([10.0, 10.0, 30.0, 30.0, 30.0], dtype=dtype),
        torch.tensor(2.0, dtype=dtype),
        torch.tensor(4.0, dtype=dtype),
    ]
    f, p, near, alike, w_near, w_alike = (leaf.requires_grad_() for leaf in leaves)
    options = {"normalizations": ["symmetric"] * 2, "iterations": 5, **options}
    log_q = reference(f, [p[..., :2], p], [near, alike], [w_near, w_alike], method=method, **options)
    target = scores.argmax(1).roll(3, dims=1)
    torch.nn.functional.nll_loss(log_q, target).backward()
    return log_q.detach().double(), [leaf.grad.double() for leaf in leaves]


def cosine(a: Any, b: Any) -> float:
    return float(torch.nn.functional.cosine_similarity(a.flatten(), b.flatten(), dim=0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_torch_lattice_is_near_the_exact_sum_forward_and_backward(dtype: Any) -> None:
    truth, true_slopes = run("exact", torch.float64)
    log_q, slopes = run("lattice", dtype)
    error = (log_q.exp() - truth.exp()).abs()
    assert float(error.mean()) < 1e-3 and float(error.max()) < 0.03  # measured: 3e-4 and 0.014
    to_scores, to_features, to_near, to_alike, *to_weights = zip(slopes, true_slopes, strict=True)
    assert cosine(*to_scores) > 0.9999
    assert cosine(*to_features) > 0.99  # measured: 0.998
    assert cosine(*to_near) > 0.999 and cosine(*to_alike) > 0.99  # measured: 0.9994 and 0.9984
    for found, true in (to_near, to_alike):
        assert float(found.norm() / true.norm()) == pytest.approx(1, abs=0.2)  # measured: 1.12 and 0.87
    for found, true in to_weights:
        assert float(found / true) == pytest.approx(1, abs=0.05)  # measured: 1.001 and 0.986


def test_a_shared_kernel_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []

    class Counting(reference_torch.ExactFilter):  # type: ignore[misc, name-defined]
        def __init__(self, features: Any) -> None:
            built.append(features.shape)
            super().__init__(features)

    monkeypatch.setattr(reference_torch, "ExactFilter", Counting)
    position, colour = random(1, 6, 2), random(4, 6, 3, seed=1)
    shapes, weights = [torch.ones(2), torch.ones(3)], [torch.tensor(1.0), torch.tensor(1.0)]
    options: Any = {"normalizations": ["symmetric"] * 2, "iterations": 2, "method": "exact"}
    scores = random(4, 2, 6, seed=2)
    whole = reference(scores, [position, colour], shapes, weights, **options)
    assert built == [(6, 2)] + [(6, 3)] * 4
    for index in range(4):
        item = slice(index, index + 1)
        alone = reference(scores[item], [position, colour[item]], shapes, weights, **options)
        assert torch.equal(whole[item], alone)


def test_lattices_are_calibrated_only_without_normalization(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Noting(reference_torch.TorchLatticeFilter):  # type: ignore[misc, name-defined]
        def __init__(self, features: Any, **options: Any) -> None:
            asked.append(options["calibrate"])
            super().__init__(features, **options)

    monkeypatch.setattr(reference_torch, "TorchLatticeFilter", Noting)
    for normalization in NORMALIZATIONS:
        scores, features, widths, weight = small_model()
        exact(scores, features, widths, weight, normalizations=[normalization], method="lattice")
    assert asked == [normalization == "none" for normalization in NORMALIZATIONS]


@pytest.mark.parametrize("shape", [(0, 3, 5), (2, 3, 0)])
def test_empty_input_gives_empty_output(shape: tuple[int, ...]) -> None:
    features = random(1, shape[2], 2)
    assert exact(random(*shape), features, torch.ones(2), torch.tensor(1.0)).shape == shape


def test_a_single_pixel_without_self_interaction_keeps_its_scores() -> None:
    scores = random(1, 3, 1)
    log_q = exact(scores, random(1, 1, 2), torch.ones(2), torch.tensor(4.0), exclude_self=True)
    assert torch.allclose(log_q, scores.log_softmax(1), rtol=0, atol=1e-14)
