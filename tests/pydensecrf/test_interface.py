"""Names, constants, arguments and error classes equal those of pydensecrf, if installed."""

from __future__ import annotations

import inspect
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import densefield.pydensecrf.densecrf as our_densecrf
import densefield.pydensecrf.eigen as our_eigen
import densefield.pydensecrf.utils as our_utils
from densefield.errors import InputWarning

REASON = "pydensecrf is not installed: pip install 'densefield[peers]'"
their_densecrf = pytest.importorskip("pydensecrf.densecrf", reason=REASON)
their_eigen = pytest.importorskip("pydensecrf.eigen", reason=REASON)
their_utils = pytest.importorskip("pydensecrf.utils", reason=REASON)

IMPORTED = {"Number", "np", "warning"}  # names their modules import


def public_names(module: object) -> set[str]:
    return {name for name in dir(module) if not name.startswith("_")} - IMPORTED


@pytest.mark.parametrize(
    "theirs, ours", [(their_densecrf, our_densecrf), (their_eigen, our_eigen), (their_utils, our_utils)]
)
def test_every_public_name_exists(theirs, ours):
    assert public_names(theirs) <= public_names(ours)


@pytest.mark.parametrize("name", ["DenseCRF", "DenseCRF2D", "ConstUnary", "LogisticUnary", "Unary"])
def test_every_public_method_exists(name):
    assert public_names(getattr(their_densecrf, name)) <= public_names(getattr(our_densecrf, name))


@pytest.mark.parametrize("name", [name for name in dir(their_densecrf) if name.isupper()])
def test_constants_are_equal(name):
    assert getattr(our_densecrf, name) == getattr(their_densecrf, name)
    assert repr(getattr(our_densecrf, name)) == repr(getattr(their_densecrf, name))


@pytest.mark.parametrize("name", sorted(public_names(their_utils)))
def test_functions_take_the_same_arguments_with_the_same_defaults(name):
    def arguments(function):
        return [(p.name, p.default) for p in inspect.signature(function).parameters.values()]

    assert arguments(getattr(our_utils, name)) == arguments(getattr(their_utils, name))


H, W, L = 4, 6, 3
N = H * W
U = np.random.default_rng(313).random((L, N), dtype=np.float32)
IMAGE = np.random.default_rng(314).integers(0, 256, (H, W, 3), dtype=np.uint8)


def made(m):
    d = m.DenseCRF2D(W, H, L)
    d.setUnaryEnergy(U.copy())
    return d


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.DenseCRF(nvar=3, nlabels=2),
        lambda m: m.DenseCRF(3.0, np.uint8(2)),
        lambda m: m.DenseCRF2D(W, H, 2.0),
        lambda m: made(m).setUnaryEnergy(u=U, f=None),
        lambda m: made(m).setUnaryEnergy(memoryview(U)),
        lambda m: made(m).setUnary(m.ConstUnary(u=U)),
        lambda m: made(m).setUnary(m.LogisticUnary(L=U, f=np.eye(N, dtype=np.float32))),
        lambda m: made(m).addPairwiseEnergy(features=U, compat=1, kernel=0, normalization=0),
        lambda m: made(m).addPairwiseEnergy(U, np.float32(2), 1.0, True),
        lambda m: made(m).addPairwiseEnergy(U, -3),
        lambda m: made(m).addPairwiseEnergy(U, np.ones((L, L), np.float32)),
        lambda m: made(m).addPairwiseGaussian(
            sxy=3, compat=3, kernel=m.DIAG_KERNEL, normalization=m.NORMALIZE_SYMMETRIC
        ),
        lambda m: made(m).addPairwiseGaussian([3, 2], 3),
        lambda m: made(m).addPairwiseGaussian(np.array([3, 2, 1]), 3),
        lambda m: made(m).addPairwiseGaussian(-2, 3),
        lambda m: made(m).addPairwiseBilateral(
            sxy=(5, 4), srgb=(6, 7, 8), rgbim=IMAGE, compat=3, kernel=m.FULL_KERNEL, normalization=m.NORMALIZE_AFTER
        ),
        lambda m: made(m).addPairwiseBilateral(5, 6, IMAGE > 100, 3),
        lambda m: made(m).stepInference(*made(m).startInference()),
    ],
)
def test_what_pydensecrf_accepts_gives_the_same_result(call):
    assert type(call(our_densecrf)).__name__ == type(call(their_densecrf)).__name__


@pytest.mark.parametrize(
    "sxy",
    [
        float("inf"),
        (float("inf"), 3),
        1e39,  # infinite in float32
        Fraction(5, 2),
        Decimal("2.5"),
        [Fraction(3), Decimal(2)],
        {0: 3, 1: 2},
        range(3, 5),
        np.longdouble(3),
        [np.float64(3.3), np.float16(2)],
    ],
    ids=repr,
)
def test_widths_that_pydensecrf_accepts_give_the_same_marginals(sxy):
    results = []
    for m in (their_densecrf, our_densecrf):
        d = made(m)
        d.addPairwiseGaussian(sxy, 3)
        d.addPairwiseBilateral(sxy, (9, float("inf"), 20), IMAGE, 2)
        results.append(np.array(d.inference(5)))
    np.testing.assert_allclose(results[1], results[0], rtol=0, atol=1e-6)  # rounding of float32


def test_an_unknown_kernel_constant_has_no_effect_but_a_warning():
    theirs, ours = made(their_densecrf), made(our_densecrf)
    theirs.addPairwiseGaussian(3, 3, their_densecrf.NORMALIZE_SYMMETRIC)  # passed as the kernel
    with pytest.warns(InputWarning, match="kernel is .*normalization= by name"):
        ours.addPairwiseGaussian(3, 3, our_densecrf.NORMALIZE_SYMMETRIC)
    np.testing.assert_allclose(np.array(ours.inference(5)), np.array(theirs.inference(5)), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda m: m.DenseCRF(N, L, 9),
        lambda m: m.DenseCRF(N, L, device=2),
        lambda m: m.DenseCRF2D(W, H, L, 9, device=2),
    ],
)
def test_extra_arguments_are_ignored_with_a_warning(make):
    assert type(make(their_densecrf)).__name__ in ("DenseCRF", "DenseCRF2D")
    with pytest.warns(InputWarning, match="surplus arguments .*(9|device=2).* ignored"):
        crf = make(our_densecrf)
    crf.setUnaryEnergy(U)
    assert np.array(crf.inference(1)).shape == (L, N)


@pytest.mark.parametrize(
    "count", [0, 2, 2.9, -1, True, np.int64(2), np.float32(2), np.array(2)], ids=lambda count: repr(count)
)
def test_numbers_of_iterations_are_interpreted_alike(count):
    results = []
    for m in (their_densecrf, our_densecrf):
        d = made(m)
        d.addPairwiseGaussian(1, 3)
        results.append(np.array(d.inference(count)))
    np.testing.assert_allclose(results[1], results[0], atol=1e-5)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.DenseCRF(),
        lambda m: m.DenseCRF("a", 2),
        lambda m: m.DenseCRF2D(3, 2),
        lambda m: m.DenseCRF(3, 2).addPairwiseGaussian(3, 3),
        lambda m: made(m).setUnaryEnergy(),
        lambda m: made(m).setUnaryEnergy(U[:2]),
        lambda m: made(m).setUnaryEnergy(U.T.copy()),
        lambda m: made(m).setUnaryEnergy(U.astype(np.float64)),
        lambda m: made(m).setUnaryEnergy(U.astype(np.float16)),
        lambda m: made(m).setUnaryEnergy(U.astype(np.int32)),
        lambda m: made(m).setUnaryEnergy(U.astype(">f4")),
        lambda m: made(m).setUnaryEnergy(U.reshape(L, H, W)),
        lambda m: made(m).setUnaryEnergy(U.ravel()),
        lambda m: made(m).setUnaryEnergy(U.tolist()),
        lambda m: made(m).setUnaryEnergy(None),
        lambda m: made(m).setUnaryEnergy(U, U, U),
        lambda m: made(m).setUnary(U),
        lambda m: m.ConstUnary(U.astype(np.float64)),
        lambda m: m.ConstUnary(None),
        lambda m: m.LogisticUnary(U),
        lambda m: made(m).inference(None),
        lambda m: made(m).inference("3"),
        lambda m: made(m).inference(float("nan")),
        lambda m: made(m).klDivergence(3),
        lambda m: made(m).klDivergence(np.array(made(m).inference(1))),
        lambda m: made(m).stepInference(1, 2, 3),
        lambda m: made(m).addPairwiseEnergy(U),
        lambda m: made(m).addPairwiseEnergy(U[:, :3].copy(), 1),
        lambda m: made(m).addPairwiseEnergy(U.astype(np.float64), 1),
        lambda m: made(m).addPairwiseEnergy(None, 1),
        lambda m: made(m).addPairwiseEnergy(U, None),
        lambda m: made(m).addPairwiseEnergy(U, "a"),
        lambda m: made(m).addPairwiseEnergy(U, [1, 2, 3]),
        lambda m: made(m).addPairwiseEnergy(U, 1j),
        lambda m: made(m).addPairwiseEnergy(U, np.ones(L)),
        lambda m: made(m).addPairwiseEnergy(U, np.ones((L, L))),
        lambda m: made(m).addPairwiseEnergy(U, np.ones((L, L, L), np.float32)),
        lambda m: made(m).addPairwiseEnergy(U, np.array(2, np.float32)),
        lambda m: made(m).addPairwiseEnergy(U, 1, kernel="a"),
        lambda m: made(m).addPairwiseEnergy(U, 1, normalization=None),
        lambda m: made(m).addPairwiseEnergy(U, 1, norm=2),
        lambda m: made(m).addPairwiseGaussian("ab", 3),
        lambda m: made(m).addPairwiseGaussian(None, 3),
        lambda m: made(m).addPairwiseBilateral(5, 6, IMAGE),
        lambda m: made(m).addPairwiseBilateral(5, 6, IMAGE.astype(np.float32), 3),
        lambda m: made(m).addPairwiseBilateral(5, 6, IMAGE[:3], 3),
        lambda m: made(m).addPairwiseBilateral(5, 6, IMAGE.swapaxes(0, 1).copy(), 3),
        lambda m: made(m).addPairwiseBilateral(5, 6, np.concatenate([IMAGE, IMAGE], 2), 3),
        lambda m: made(m).addPairwiseBilateral(5, 6, None, 3),
        lambda m: made(m).addPairwiseBilateral(5, 6, IMAGE.tolist(), 3),
    ],
)
def test_what_pydensecrf_rejects_raises_the_same_class_of_error(call):
    with pytest.raises(Exception) as theirs:  # noqa: PT011
        call(their_densecrf)
    with pytest.raises(theirs.type):
        call(our_densecrf)
