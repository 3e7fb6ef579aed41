"""Properties that hold for any input, tested on random cases; `make fuzz` runs many more.

Every call either raises a DensefieldError, or returns finite numbers that sum to one and do not depend on the number of
threads.
"""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

from densefield import CRF, Bilateral, DensefieldError, InputWarning, Spatial, refine
from densefield.filters import LatticeFilter

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

CASES = int(os.environ.get("DENSEFIELD_FUZZ_CASES", "0"))
random_cases = hypothesis.settings(
    max_examples=CASES or 60,
    derandomize=not CASES,  # the same cases in every default run
    deadline=None,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)

# Mostly common values, sometimes any float.
usual_widths, usual_weights = st.floats(0.3, 300), st.floats(-9, 9)
wild_widths = st.floats(1e-3, 1e5) | st.floats(min_value=1e-300, allow_infinity=False, allow_nan=False)
widths = st.one_of(*[usual_widths] * 5, wild_widths)
weights = st.one_of(*[usual_weights] * 5, st.floats(allow_nan=False, allow_infinity=False))
normalizations = st.sampled_from(["symmetric", "after", "before", "none"])


@st.composite
def scenes(draw):
    """Scores, an image, and a random generator."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    labels, height, width = draw(st.integers(1, 7)), draw(st.integers(1, 20)), draw(st.integers(1, 20))
    scale = 10.0 ** draw(st.integers(-3, 6))
    with np.errstate(over="ignore"):  # scores beyond the range of float16 become infinite and must be rejected
        scores = (rng.normal(size=(labels, height, width)) * scale).astype(draw(st.sampled_from(["f2", "f4", "f8"])))
    channels = draw(st.integers(1, 4))
    kind = draw(st.sampled_from(["u1", "u2", "i8", "f4", "f8"]))
    image = (rng.random((height, width, channels)) * draw(st.sampled_from([1, 255, 65535]))).astype(kind)
    return scores, image, rng


@st.composite
def kernel_lists(draw):
    """One to three kernels of any width, weight and normalisation."""
    kernels = []
    for _ in range(draw(st.integers(1, 3))):
        options = {"weight": draw(weights), "normalization": draw(normalizations)}
        if draw(st.booleans()):
            kernels.append(Spatial(draw(widths), **options))
        else:
            kernels.append(Bilateral(draw(widths), draw(widths), **options))
    return kernels


def result_or_none(call) -> object:
    """The result of the call, or None if densefield rejects the input; other exceptions are failures."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        try:
            return call()
        except DensefieldError:
            return None


@random_cases
@hypothesis.given(scenes(), st.data())
def test_marginals_are_probabilities_for_any_model(scene, data):
    scores, image, rng = scene
    kernels = result_or_none(lambda: data.draw(kernel_lists()))
    options = {
        "iterations": data.draw(st.integers(0, 6)),
        "exclude_self": data.draw(st.booleans()),
        "operator": data.draw(st.sampled_from(["symmetric", "pydensecrf"])),
        "axis_order": data.draw(st.sampled_from(["xy", "yx"])),
    }
    ignore = rng.random(scores.shape[1:]) < 0.2 if data.draw(st.booleans()) else None
    if kernels is None:
        return
    results = [
        result_or_none(
            lambda threads=threads: CRF(kernels, threads=threads, **options).marginals(scores, image, ignore=ignore)
        )
        for threads in (1, 3)
    ]
    if results[0] is None:
        assert results[1] is None
        return
    assert np.isfinite(results[0]).all() and (results[0] >= 0).all()
    assert np.allclose(results[0].sum(axis=0), 1, atol=1e-4)  # rounding of a sum of up to seven float32 numbers
    assert np.array_equal(*results)


@random_cases
@hypothesis.given(scenes(), st.data())
def test_masks_of_any_integers_are_refined_or_rejected(scene, data):
    _, image, rng = scene
    values = data.draw(st.lists(st.integers(-3, 400) | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5))
    labels = np.array(values)[rng.integers(0, len(values), image.shape[:2])]
    void = data.draw(st.sampled_from(["auto", None, 0, 255, -1]))
    refined = result_or_none(lambda: refine(image, labels=labels, void=void, threads=1))
    if refined is not None:
        assert refined.shape[1:] == labels.shape and np.allclose(refined.sum(axis=0), 1, atol=1e-4)
        known = {int(value) for value in np.unique(labels)} - {void, 255}
        assert len(refined) == 2 or set(np.unique(refined.argmax(0))) <= known | {0, 255}


@random_cases
@hypothesis.given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 60), st.floats(-4, 7), st.integers(0, 2))
def test_apply_and_apply_adjoint_are_adjoint_for_any_features(seed, dimension, points, exponent, halo):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(points, dimension)) * 10.0**exponent
    k = result_or_none(lambda: LatticeFilter(features, halo=halo, threads=1))
    if k is None:
        return
    a, b = rng.normal(size=(2, points, 3)).astype(np.float32)
    forward, back = k.apply(b), k.apply_adjoint(a)
    assert np.isfinite(forward).all()
    size = float(np.abs(a.astype(np.float64) * forward).sum()) + 1e-6
    assert abs(float(np.vdot(a, forward)) - float(np.vdot(back, b))) <= 1e-4 * size  # rounding of float32 sums


@random_cases
@hypothesis.given(scenes(), st.data())
def test_gradients_are_finite_wherever_marginals_are(scene, data):
    torch = pytest.importorskip("torch")
    from densefield import DenseCRF

    scores, image, _ = scene
    kernels = result_or_none(lambda: data.draw(kernel_lists()))
    if kernels is None:
        return
    iterations = data.draw(st.integers(1, 4))

    def gradients():
        crf = DenseCRF(len(scores), kernels, iterations=iterations, channels=image.shape[2], threads=1)
        f = torch.from_numpy(scores.astype(np.float32))[None].requires_grad_()
        pixels = torch.from_numpy(image.astype(np.float32).transpose(2, 0, 1).copy())[None]
        crf(f, pixels).exp().square().sum().backward()
        return [f.grad, *(parameter.grad for parameter in crf.parameters())]

    found = result_or_none(gradients)
    assert found is None or all(bool(each.isfinite().all()) for each in found)
