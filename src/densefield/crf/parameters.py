"""The parameters of one kernel, free to move: logarithms of what must stay above zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from densefield.crf.compatibility import checked_weight
from densefield.crf.kernels import Bilateral, Custom, Kernel, Spatial
from densefield.errors import InputError

Array = npt.NDArray[np.float64]


class KernelParameters(nn.Module):
    """Shape and weight of one kernel.

    * ``log_sigma`` (d,): logarithms of the widths; for a full covariance instead ``log_diagonal`` (d,) and ``lower``
      (d·(d-1)/2,): the triangular matrix W with WᵀW = Σ⁻¹, its diagonal by logarithms, and what is below it, row by
      row.
    * ``log_weight`` () or (L,); for a weight that is a matrix instead ``matrix`` (L, L), used as (M + Mᵀ)/2.

    >>> [name for name, _ in KernelParameters(Spatial(3, weight=3), {"position": 2}, labels=21).named_parameters()]
    ['log_sigma', 'log_weight']
    """

    _places: Tensor

    def __init__(self, kernel: Kernel, dimensions: Mapping[str, int], labels: int) -> None:
        super().__init__()
        self._kernel = kernel
        self._dimensions = {part: dimensions[part] for part in kernel.widths_of_parts()}
        shape = kernel.shape(self._dimensions)
        if shape.ndim == 1:
            self.log_sigma = _parameter(np.log(shape))
        else:
            self.log_diagonal = _parameter(np.log(np.diagonal(shape)))
            self.lower = _parameter(shape[np.tril_indices(len(shape), -1)])
            self.register_buffer("_places", torch.as_tensor(_triangular_places(len(shape))), persistent=False)
        weight = checked_weight(kernel.weight, labels)
        if weight.ndim == 2:
            self.matrix = _parameter(weight)
        elif (weight > 0).all():
            self.log_weight = _parameter(np.log(weight))
        else:
            raise InputError(
                f"the weight of the {kernel.name} kernel is {weight.tolist()}, expected more than 0, since its "
                f"logarithm is learnt. For a weight of any sign give a matrix, such as weight * numpy.eye({labels})."
            )

    def shape(self, dtype: torch.dtype) -> Tensor:
        """Widths σ (d,), features are p/σ; or W (d, d), features are W p."""
        if hasattr(self, "log_sigma"):
            return self.log_sigma.to(dtype).exp()
        nothing = torch.zeros(1, dtype=dtype, device=self.lower.device)
        return torch.cat([self.log_diagonal.to(dtype).exp(), self.lower.to(dtype), nothing])[self._places]

    def weight(self, dtype: torch.dtype) -> Tensor:
        """μ: (), (L,) or a symmetric (L, L)."""
        if hasattr(self, "log_weight"):
            return self.log_weight.to(dtype).exp()
        return (self.matrix.to(dtype) + self.matrix.to(dtype).T) / 2

    def values(self) -> dict[str, Array]:
        """What the parameters stand for, in the kernel's own units: sigma or covariance, and weight."""
        shape = _to_numpy(self.shape(torch.float64))
        weight = _to_numpy(self.weight(torch.float64))
        if shape.ndim == 1:
            return {"sigma": shape, "weight": weight}
        unwhitened = np.linalg.inv(shape)
        return {"covariance": unwhitened @ unwhitened.T, "weight": weight}

    def kernel(self) -> Kernel:
        """The kernel as it is now.

        >>> KernelParameters(Spatial(3, weight=3), {"position": 2}, labels=21).kernel().sigma.round(4).tolist()
        [3.0, 3.0]
        """
        values = self.values()
        if "covariance" in values:
            return replace(self._kernel, covariance=values["covariance"], weight=values["weight"])
        return replace(_with_widths(self._kernel, values["sigma"], self._dimensions), weight=values["weight"])


def kernel_dimensions(kernel: Kernel, axes: int, channels: int) -> dict[str, int]:
    """How many numbers each part of the kernel has; those of a Custom kernel are told by its widths or covariance."""
    known = {"position": axes, "channel": channels}
    if isinstance(kernel, Custom):
        shape = np.shape(kernel.sigma if kernel.covariance is None else kernel.covariance)
        known[kernel.feature] = shape[0] if shape else 1
    return known


def _triangular_places(dimension: int) -> npt.NDArray[np.int64]:
    """Where each element of a lower triangular matrix is among its diagonal, what is below it, and one zero.

    >>> _triangular_places(3).tolist()
    [[0, 6, 6], [3, 1, 6], [4, 5, 2]]
    """
    below = dimension * (dimension - 1) // 2
    places = np.full((dimension, dimension), dimension + below)
    places[np.diag_indices(dimension)] = np.arange(dimension)
    places[np.tril_indices(dimension, -1)] = dimension + np.arange(below)
    return places


def _with_widths(kernel: Kernel, sigma: Array, dimensions: Mapping[str, int]) -> Kernel:
    if isinstance(kernel, Bilateral):
        axes = dimensions["position"]
        return replace(kernel, sigma_xy=sigma[:axes], sigma_rgb=sigma[axes:])
    if isinstance(kernel, Spatial | Custom):
        return replace(kernel, sigma=sigma)
    raise InputError(f"the kernel is a {type(kernel).__name__}, expected Spatial, Bilateral or Custom.")


def _parameter(values: Array) -> nn.Parameter:
    return nn.Parameter(torch.tensor(values, dtype=torch.get_default_dtype()))


def _to_numpy(tensor: Tensor) -> Array:
    return tensor.detach().cpu().numpy()
