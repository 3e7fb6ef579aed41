"""Parameters of other packages' CRFs as kernels of ours."""

from __future__ import annotations

import warnings
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from densefield.crf.kernels import Bilateral, Kernel, Spatial, checked_widths
from densefield.errors import InputError, InputTypeError

Array = npt.NDArray[np.float64]
Sign = Literal["energy", "score"]

_ROUNDING = 1e-5  # as much asymmetry, relative to the matrix, as float32 leaves


def from_crfasrnn(
    *,
    theta_alpha: float = 160.0,
    theta_beta: float = 3.0,
    theta_gamma: float = 3.0,
    spatial_weights: npt.ArrayLike = 3.0,  # (), (L,) or (L, L)
    bilateral_weights: npt.ArrayLike = 5.0,
    compatibility: npt.ArrayLike | None = None,  # (L, L); None where labels only attract themselves
    sign: Sign = "energy",
) -> tuple[Kernel, ...]:
    """The kernels of a CRF-as-RNN layer (Zheng et al., ICCV 2015).

    That layer iterates z = f ∓ C Σ_m W_m (D_m⁻¹ K_m q) with K = exp(-½‖Δ‖²/θ²): θ_γ is the width of the spatial
    kernel, θ_α and θ_β are those of the bilateral one in position and in colour. Its Caffe and Keras versions subtract
    (``sign="energy"``, C = -I at first), its PyTorch version adds (``sign="score"``, C = I at first). Hence
    μ_m = ∓C W_m with the normalisation "after".

    It returns z, the logits, where densefield returns their log softmax. Its image is 0…255, less a mean, which makes
    no difference. A learnt μ is seldom symmetric, as ours must be. The same number added to a column of μ changes no
    marginal, so columns are first shifted to leave as little asymmetry as can be; of what is left, (μ + μᵀ)/2 is taken,
    with a warning that says how much that changes.

    >>> spatial, bilateral = from_crfasrnn()
    >>> spatial.sigma, spatial.weight, spatial.normalization, bilateral.sigma_xy, bilateral.sigma_rgb
    (3.0, 3.0, 'after', 160.0, 3.0)
    """
    if sign not in get_args(Sign):
        raise InputError(f"sign is {sign!r}, expected one of {', '.join(get_args(Sign))}.")
    mix = None if compatibility is None else _array(compatibility) * (-1 if sign == "energy" else 1)
    return (
        Spatial(theta_gamma, weight=_symmetric(_product(mix, spatial_weights), "spatial"), normalization="after"),
        Bilateral(
            theta_alpha,
            theta_beta,
            weight=_symmetric(_product(mix, bilateral_weights), "bilateral"),
            normalization="after",
        ),
    )


def from_monai(
    *,
    bilateral_weight: float = 1.0,
    gaussian_weight: float = 1.0,
    bilateral_spatial_sigma: float = 5.0,
    bilateral_color_sigma: float = 0.5,
    gaussian_spatial_sigma: float = 5.0,
    update_factor: float = 3.0,
    compatibility_matrix: npt.ArrayLike | None = None,  # (L, L)
    colour_range: float = 1.0,  # what is 255 here was this there
) -> tuple[Kernel, ...]:
    """The kernels of MONAI's CRF block; its other argument, iterations, is that of CRF and DenseCRF.

    That block iterates q = softmax(f + u Cᵀ Σ_m w_m (D_m⁻¹ K_m q)), so μ_m = u w_m Cᵀ with the normalisation "after";
    without a matrix labels attract themselves. It returns q, where DenseCRF returns log q. Asymmetry of C is dealt with
    as in from_crfasrnn.

    Its colour width refers to the image as it was given there, usually 0…1, and is converted to colours 0…255; with
    ``colour_range=255`` it is left as it is. Its order of axes is (row, column), ours (x, y): with one width for all
    axes that is the same kernel, though lattices of the two differ a little.

    >>> spatial, bilateral = from_monai()
    >>> spatial.weight, bilateral.sigma_rgb
    (3.0, 127.5)
    """
    if not (np.isfinite(colour_range) and colour_range > 0):
        raise InputError(f"colour_range is {colour_range!r}, expected a number above 0, such as 1 or 255.")
    mix = None if compatibility_matrix is None else _array(compatibility_matrix).T
    colour = checked_widths(bilateral_color_sigma)
    if colour.ndim:
        raise InputError(f"bilateral_color_sigma is {bilateral_color_sigma!r}, expected one number, as MONAI has it.")
    sigma_rgb = float(colour) * 255 / colour_range
    spatial, bilateral = (_product(mix, update_factor * weight) for weight in (gaussian_weight, bilateral_weight))
    return (
        Spatial(gaussian_spatial_sigma, weight=_symmetric(spatial, "spatial"), normalization="after"),
        Bilateral(bilateral_spatial_sigma, sigma_rgb, weight=_symmetric(bilateral, "bilateral"), normalization="after"),
    )


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
        warnings.warn(
            f"the compatibility of the {name} kernel is not symmetric; its symmetric part is taken, which leaves out "
            f"{lost / max(size, np.finfo(np.float64).tiny):.0%} of its size. Check the result against the original.",
            stacklevel=3,
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
