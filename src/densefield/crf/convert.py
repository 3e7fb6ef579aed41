"""Conversion of the CRF layers of other packages to a CRF with the same marginals."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from densefield.crf.kernels import Bilateral, Spatial, Widths, checked_widths
from densefield.crf.model import CRF
from densefield.errors import InputError, InputTypeError, warn

Array = npt.NDArray[np.float64]
Framework = Literal["caffe", "keras", "pytorch"]

_ROUNDING = 1e-5  # as much asymmetry, relative to the matrix, as float32 leaves


def from_crfasrnn(
    *,
    theta_alpha: float = 160.0,
    theta_beta: float = 3.0,
    theta_gamma: float = 3.0,
    spatial_weights: npt.ArrayLike = 3.0,
    bilateral_weights: npt.ArrayLike = 5.0,
    compatibility: npt.ArrayLike | None = None,
    framework: Framework | None = None,
    iterations: int = 10,
) -> CRF:
    """The CRF of a CRF-as-RNN layer (Zheng et al., ICCV 2015), on its lattice.

    Parameters
    ----------
    theta_alpha, theta_beta
        Widths of the bilateral kernel, in pixels and in colour levels.
    theta_gamma
        Width of the spatial kernel in pixels.
    spatial_weights, bilateral_weights
        A number, one per class, or the layer's matrices (L, L).
    compatibility
        The layer's compatibility matrix (L, L), with ``framework``; None is that of a new layer.
    framework
        "caffe", "keras" or "pytorch". The first two subtract the pairwise term, the last adds it, so that their
        matrices have opposite signs.
    iterations
        10 in the published networks of all three; ``CrfRnn`` of the PyTorch version itself has 5.

    Notes
    -----
    The layer iterates z = f ∓ C Σ_m W_m (D_m⁻¹ K_m q), q = softmax z, with K = exp(-½‖Δ‖²/θ²). Hence μ_m = ∓C W_m with
    the normalisation "after". It returns the logits z, where densefield returns their softmax or log softmax.

    Pass the image that the layer was given: BGR, 0…255 less the means. Means and the order of channels change the
    lattice that approximates the kernel, not the kernel.

    A learnt μ is seldom symmetric, as ours must be. The same number added to a column of μ changes no marginal, so that
    columns are shifted first to leave the least asymmetry; then (μ + μᵀ)/2 is taken, with a warning of its size.

    >>> print(from_crfasrnn(iterations=5))
    CRF: 5 iterations, operator 'pydensecrf'
      spatial: sigma 3, weight 3, after
      bilateral: sigma_xy 160, sigma_rgb 3, weight 5, after
    """
    if framework is not None and framework not in get_args(Framework):
        raise InputError(f"framework is {framework!r}, expected one of {', '.join(get_args(Framework))}.")
    if compatibility is not None and framework is None:
        raise InputError(
            "compatibility is given without framework. Add framework='caffe', 'keras' or 'pytorch': their matrices "
            "have different signs."
        )
    mix = None if compatibility is None else _array(compatibility) * (1 if framework == "pytorch" else -1)
    other = "'caffe' or 'keras'" if framework == "pytorch" else "'pytorch'"
    hint = (
        f"Check the signs of the weights, or use framework={other}." if framework else "Check the signs of the weights."
    )
    spatial, bilateral = (
        _checked_mu(_product(mix, weights), name, hint)
        for weights, name in ((spatial_weights, "spatial"), (bilateral_weights, "bilateral"))
    )
    kernels = (
        Spatial(theta_gamma, weight=spatial, normalization="after"),
        Bilateral(theta_alpha, theta_beta, weight=bilateral, normalization="after"),
    )
    return CRF(kernels, iterations=iterations, operator="pydensecrf")


def from_monai(
    *,
    iterations: int = 5,
    bilateral_weight: float = 1.0,
    gaussian_weight: float = 1.0,
    bilateral_spatial_sigma: Widths = 5.0,
    bilateral_color_sigma: float = 0.5,
    gaussian_spatial_sigma: Widths = 5.0,
    update_factor: float = 3.0,
    compatibility_matrix: npt.ArrayLike | None = None,  # (L, L)
    data_range: float = 1.0,
) -> CRF:
    """The CRF of MONAI's CRF block, on its lattice; the parameters are the block's, and ``data_range``.

    Parameters
    ----------
    iterations, bilateral_weight, gaussian_weight, bilateral_color_sigma, update_factor, compatibility_matrix
        Those of the block.
    bilateral_spatial_sigma, gaussian_spatial_sigma
        One width, or one per axis in the order (planes, )rows, columns.
    data_range
        Range of the block's images, usually 0…1. Pass the same images here. For images 0…255 use
        ``from_monai(…).replace(data_range=255)``.

    Notes
    -----
    The block iterates q = softmax(f + u Cᵀ Σ_m w_m (D_m⁻¹ K_m q)), so that μ_m = u w_m Cᵀ with the normalisation
    "after"; without a matrix labels attract themselves. It takes logits and returns marginals q, as ``CRF.marginals``
    does. Asymmetry of C is treated as in ``from_crfasrnn``.

    >>> print(from_monai())
    CRF: 5 iterations, operator 'pydensecrf', data_range 1.0, axis_order 'yx'
      spatial: sigma 5, weight 3, after
      bilateral: sigma_xy 5, sigma_rgb 127.5, weight 3, after
    """
    if not (np.ndim(data_range) == 0 and np.isfinite(data_range) and data_range > 0):
        raise InputError(f"data_range is {data_range!r}, expected a number above 0, such as 1 or 255.")
    colour = checked_widths(bilateral_color_sigma)
    if colour.ndim:
        raise InputError(f"bilateral_color_sigma is {bilateral_color_sigma!r}, expected one number, as MONAI has it.")
    mix = None if compatibility_matrix is None else _array(compatibility_matrix).T
    hint = "MONAI does that too with these arguments; positive entries of its matrix attract."
    spatial, bilateral = (
        _checked_mu(_product(mix, _array(update_factor) * _array(weight)), name, hint)
        for weight, name in ((gaussian_weight, "spatial"), (bilateral_weight, "bilateral"))
    )
    kernels = (
        Spatial(gaussian_spatial_sigma, weight=spatial, normalization="after"),
        Bilateral(bilateral_spatial_sigma, float(colour) * 255 / data_range, weight=bilateral, normalization="after"),
    )
    return CRF(kernels, iterations=iterations, operator="pydensecrf", data_range=data_range, axis_order="yx")


def _checked_mu(mu: Array, name: str, hint: str) -> float | Array:
    """μ as a kernel takes it, with a warning if equal labels repel each other on average."""
    weight = _symmetric(mu, name)
    own = float(np.mean(np.diagonal(weight) if np.ndim(weight) == 2 else weight))
    others = (float(np.sum(weight)) - own * len(mu)) / max(len(mu) * (len(mu) - 1), 1) if np.ndim(weight) == 2 else 0.0
    if own < others:
        warn(
            f"the {name} weights drive equal labels apart: their mean is {own:.3g}, that of pairs {others:.3g}. {hint}"
        )
    return weight


def _product(mix: Array | None, weights: npt.ArrayLike) -> Array:
    """C W, of shape (), (L,) or (L, L)."""
    w = _array(weights)
    if mix is None:
        return w
    if mix.ndim != 2 or mix.shape[0] != mix.shape[1] or (w.ndim and w.shape[0] != len(mix)):
        raise InputError(
            f"the compatibility has shape {mix.shape} and the weights {w.shape}, expected (L, L), and (), (L,) or "
            "(L, L)."
        )
    product: Array = mix @ w if w.ndim == 2 else mix * w  # (L,) is a diagonal matrix, which scales columns
    return product


def _symmetric(mu: Array, name: str) -> float | Array:
    """The symmetric matrix that gives the same marginals, or else nearly the same."""
    if mu.ndim != 2:
        return float(mu) if mu.ndim == 0 else mu
    if mu.shape[0] != mu.shape[1]:
        raise InputError(f"the {name} weights have shape {mu.shape}, expected (), (L,) or (L, L).")
    mu = mu + (mu - mu.T).mean(axis=1)  # what is added to a column is the same for all labels
    symmetric: Array = (mu + mu.T) / 2
    size = np.linalg.norm(symmetric)
    lost = np.linalg.norm(mu - symmetric)
    if lost > _ROUNDING * size:
        warn(
            f"the compatibility of the {name} kernel is not symmetric; its symmetric part is taken, which leaves out "
            f"{lost / max(size, np.finfo(np.float64).tiny):.0%} of its size. Check the result against the original."
        )
    return symmetric


def _array(given: npt.ArrayLike) -> Array:
    """As float64, from an array or a torch parameter."""
    tensor: Any = given
    array = tensor.detach().cpu().numpy() if hasattr(given, "detach") else given
    try:
        return np.array(array, np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(
            f"a weight is {given!r}, expected a number, one per label (L,), or a matrix (L, L)."
        ) from None
