"""Gaussian filters as autograd functions: one rule for all filters, whose backward is the adjoint."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from densefield.errors import InputError, InputTypeError
from densefield.filters.exact import ExactFilter
from densefield.filters.lattice import LatticeFilter
from densefield.filters.lattice_torch import TorchLatticeFilter
from densefield.filters.operator import Derivative, GaussianFilter, Method, check_derivative, check_simd
from densefield.filters.threads import check_threads, default_threads
from densefield.filters.torch_modes import check_torch_mode, forbid_second_derivatives


def gaussian_filter(
    features: Tensor,  # (N, d) or (B, N, d)
    values: Tensor,  # (N, C) or (B, N, C)
    *,
    method: Method = "lattice",
    derivative: Derivative = "gaussian",
    **options: Any,
) -> Tensor:
    """Return K v = Σ_j exp(-½‖x_i - x_j‖²) v_j with gradients by values and features, and so by widths.

    Parameters
    ----------
    features
        (N, d) one kernel for the complete batch, or (B, N, d) one for each item; already divided by the widths.
    values
        (N, C) or (B, N, C).
    method
        "lattice" is the native lattice for float32 on a CPU and the lattice in torch operations otherwise; "exact" is
        the O(N²) sum.
    derivative
        The derivative by features; see `GaussianFilter.gradients`.
    options
        Keyword arguments of `LatticeFilter`, for "lattice" only. The default of `threads` is at most torch's number of
        threads; `threads` and `simd` have no effect on the lattice in torch operations.

    >>> import torch
    >>> position = torch.tensor([[0.0], [1.0], [2.0]])
    >>> width = torch.tensor(2.0, requires_grad=True)
    >>> gaussian_filter(position / width, torch.eye(3), method="exact").sum().backward()
    >>> width.grad > 0
    tensor(True)
    """
    if method not in get_args(Method):
        raise InputError(f"method is {method!r}, expected one of {', '.join(get_args(Method))}.")
    for name, tensor in (("features", features), ("values", values)):
        if not isinstance(tensor, Tensor):
            raise InputTypeError(f"{name} are of type {type(tensor).__name__}, expected a torch tensor.")
    check_torch_mode("gaussian_filter", (features, values))
    if features.ndim == 3:
        if values.ndim != 3 or len(values) != len(features):
            raise InputError(
                f"features are a batch of {len(features)}, so values must be ({len(features)}, N, C), "
                f"but their shape is {tuple(values.shape)}."
            )
        items = [
            gaussian_filter(x, v, method=method, derivative=derivative, **options)
            for x, v in zip(features, values, strict=True)
        ]
        return torch.stack(items) if items else values.clone()
    k: GaussianFilter[Any]
    if method == "exact":
        if options:
            raise InputError(f"the exact filter takes no options, got {', '.join(options)}.")
        k = ExactFilter(features)
    else:
        k = _lattice(features, **options)
    return apply_filter(k, values, features, derivative=derivative)


def _lattice(
    features: Tensor, *, threads: int | None = None, simd: str = "auto", **options: Any
) -> LatticeFilter | TorchLatticeFilter:
    """The native lattice for float32 on a CPU, else the one in torch operations."""
    count = torch_threads(threads)
    check_simd(simd)
    if features.device.type == "cpu" and features.dtype == torch.float32:
        return LatticeFilter(features.detach().numpy(), threads=count, simd=simd, **options)
    return TorchLatticeFilter(features, **options)


def torch_threads(threads: int | None) -> int:
    """Return `threads` if given, else the default limited to torch's threads, which data loaders set to one."""
    return check_threads(threads) if threads is not None else min(default_threads(), torch.get_num_threads())


def apply_filter(
    k: GaussianFilter[Any],
    values: Tensor,  # (N, C) or (B, N, C)
    features: Tensor | None = None,  # (N, d)
    *,
    derivative: Derivative = "gaussian",
    stretch: Tensor | None = None,  # (d, d)
    present: Tensor | None = None,  # (N, 1)
) -> Tensor:
    """Return K v with gradients, for a filter that is applied more than once.

    Parameters
    ----------
    k
        The filter.
    values
        (N, C) or (B, N, C).
    features
        (N, d) those `k` was made from, if they need a gradient.
    derivative
        The derivative by features; see `GaussianFilter.gradients`.
    stretch
        (d, d) unit matrix A, if the gradient by A of features A x is wanted: for a `TorchLatticeFilter` it takes fewer
        filterings than the gradient by features.
    present
        (N, 1) 0 for points whose values and cotangents are zero because they take no part, 1 for others; makes the
        gradient by `stretch` more accurate.

    >>> import numpy as np, torch
    >>> values = torch.ones(3, 1, requires_grad=True)
    >>> apply_filter(LatticeFilter(np.zeros((3, 2))), values).sum().backward()
    >>> values.grad.round().tolist()
    [[3.0], [3.0], [3.0]]
    """
    check_derivative(derivative)
    check_torch_mode("apply_filter", (values, features, stretch))
    if derivative == "lattice" and isinstance(k, ExactFilter):
        raise InputError("derivative is 'lattice', but an exact filter has no lattice: use 'gaussian'.")
    if features is not None and tuple(features.shape) != (k.num_points, k.dimension):
        raise InputError(
            f"features have shape {tuple(features.shape)}, expected ({k.num_points}, {k.dimension}), "
            "those the filter was made from."
        )
    if stretch is not None and not isinstance(k, TorchLatticeFilter):
        raise InputTypeError(f"stretch needs a TorchLatticeFilter, but the filter is of type {type(k).__name__}.")
    if stretch is not None and tuple(stretch.shape) != (k.dimension, k.dimension):
        raise InputError(f"stretch has shape {tuple(stretch.shape)}, expected ({k.dimension}, {k.dimension}).")
    if present is not None and stretch is None:
        raise InputError("present is given, but no stretch, whose gradient alone depends on it.")
    if present is not None and tuple(present.shape) != (k.num_points, 1):
        raise InputError(f"present has shape {tuple(present.shape)}, expected ({k.num_points}, 1).")
    result: Tensor = _Filtering.apply(  # type: ignore[no-untyped-call]
        values, features, stretch, k, derivative, present
    )
    return result


class _Filtering(torch.autograd.Function):
    """Forward K v; backward Kᵀ g by values and ∂⟨g, K v⟩ by features."""

    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        features: Tensor | None,
        stretch: Tensor | None,
        k: GaussianFilter[Any],
        derivative: Derivative,
        present: Tensor | None,
    ) -> Tensor:
        ctx.filter, ctx.derivative, ctx.present = k, derivative, present
        ctx.save_for_backward(values if any(ctx.needs_input_grad[1:3]) else None, features, stretch)
        return _to_tensor(k.apply(_to_array(values, k)))

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor | None, ...]:
        k = ctx.filter
        g = _to_array(cotangent, k)
        values, features, stretch = ctx.saved_tensors
        to_features = to_stretch = None
        if ctx.needs_input_grad[2]:
            to_stretch = -k.second_moments(g, values.detach(), ctx.present)
        if ctx.needs_input_grad[1]:
            to_values, to_features = map(_to_tensor, k.gradients(g, _to_array(values, k), ctx.derivative))
        else:
            to_values = _to_tensor(k.apply_adjoint(g))
        gradients = to_values, to_features, to_stretch
        return *forbid_second_derivatives(gradients, cotangent, values, features, stretch), None, None, None


def _to_array(values: Tensor, k: GaussianFilter[Any]) -> Any:
    """The detached tensor, as a numpy array sharing its memory if the filter takes arrays."""
    detached = values.detach()
    if not isinstance(k, LatticeFilter):
        return detached
    if detached.device.type != "cpu":
        raise InputTypeError(f"values are on {detached.device}, but a LatticeFilter works on the CPU.")
    return detached.numpy()


def _to_tensor(array: Any) -> Tensor:
    return torch.from_numpy(array) if isinstance(array, np.ndarray) else array
