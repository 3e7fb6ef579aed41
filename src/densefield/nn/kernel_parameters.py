"""The learnable parameters of one kernel; logarithms keep widths and weights positive."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from densefield.crf.compatibility import checked_weight
from densefield.crf.image_range import LEVELS
from densefield.crf.kernels import Custom, Kernel, channel_widths, in_short
from densefield.errors import InputError

Array = npt.NDArray[np.float64]

META_CURE = "use crf.to_empty(device=...) and then crf.reset_parameters(), or crf.load_state_dict(state, assign=True)."


class KernelParameters(nn.Module):
    """Shape and weight of one kernel.

    * ``log_sigma`` (d,): logarithms of the widths. A full covariance has ``log_diagonal`` (d,) and ``lower``
      (d·(d-1)/2,) instead: the lower triangular W with WᵀW = Σ⁻¹, its diagonal as logarithms.
    * ``log_weight`` () or (L,); a matrix weight has ``matrix`` (L, L) instead, used as (M + Mᵀ)/2.

    Untrained parameters have exactly the kernel's values in any precision: exp(log 60) is not 60 in float32, so a
    parameter that still has its initial value stands for the initial number. These numbers are plain tensors, neither
    parameters nor buffers: they are not in the state dict, and to_empty() does not touch them.

    >>> from densefield.crf.kernels import Spatial
    >>> parameters = KernelParameters(Spatial(3, weight=3), {"position": 2}, num_classes=21)
    >>> [name for name, _ in parameters.named_parameters()]
    ['log_sigma', 'log_weight']
    >>> parameters.values()["sigma"].tolist()
    [3.0, 3.0]
    """

    def __init__(
        self,
        kernel: Kernel,
        dimensions: Mapping[str, int],
        num_classes: int,
        data_range: float | Sequence[float] | None = None,  # what 255 levels are in the image's own unit
    ) -> None:
        super().__init__()
        self._kernel = kernel
        self._dimensions = {part: dimensions[part] for part in kernel.widths_of_parts()}
        self._unit = self._unit_of_features(data_range)
        self._initial: dict[str, Tensor] = {}
        self._start: dict[str, Tensor] = {}
        shape = kernel.shape(self._dimensions)
        if shape.ndim == 1:
            self._add("log_sigma", shape)
        else:
            self._add("log_diagonal", np.diagonal(shape))
            self._add("lower", shape[np.tril_indices(len(shape), -1)])
        weight = checked_weight(kernel.weight, num_classes)
        if weight.ndim == 2:
            self._add("matrix", weight)
        elif (weight > 0).all():
            self._add("log_weight", weight)
        else:
            raise InputError(
                f"the weight of the {kernel.name} kernel is {weight.tolist()}, expected more than 0, since its "
                "logarithm is learnt. For a weight of any sign give a matrix, such as weight * "
                f"numpy.eye({num_classes})."
            )

    def _add(self, name: str, values: Array) -> None:
        start = np.log(values) if name.startswith("log_") else values
        dtype = torch.get_default_dtype()
        self._initial[name] = _constant(values, torch.float64)
        self._start[name] = _constant(start, dtype)
        self.register_parameter(name, nn.Parameter(torch.tensor(start, dtype=dtype)))

    def _unit_of_features(self, data_range: float | Sequence[float] | None) -> list[float] | None:
        """One pixel or colour level in the unit of the features, (d,); None if it is 1."""
        if data_range is None or "channel" not in self._dimensions:
            return None
        channels = self._dimensions["channel"]
        given = np.asarray(data_range, np.float64)
        if given.ndim and len(given) != channels:
            raise InputError(f"data_range has {len(given)} numbers, but images have {channels} channels.")
        unit = np.ones(sum(self._dimensions.values()))
        unit[-channels:] = given / LEVELS
        return [float(each) for each in unit]

    def reset_parameters(self) -> None:
        """Sets the parameters to the kernel's values: for modules made on the meta device, after to_empty().

        >>> from densefield.crf.kernels import Spatial
        >>> with torch.device("meta"):
        ...     parameters = KernelParameters(Spatial(3, weight=2), {"position": 2}, num_classes=21)
        >>> parameters.to_empty(device="cpu").reset_parameters()
        >>> parameters.values()
        {'sigma': array([3., 3.]), 'weight': array(2.)}
        """
        for name, start in self._start.items():
            parameter: Tensor = getattr(self, name)
            # Libraries that load checkpoints patch torch.nn.init to skip loaded parameters, so it decides what to set.
            nn.init.constant_(parameter, math.nan)
            with torch.no_grad():
                parameter.copy_(torch.where(parameter.isnan(), start.to(parameter), parameter))

    def value(self, name: str) -> Tensor:
        """The value of a parameter, in double precision if the device has it."""
        parameter: Tensor = getattr(self, name)
        precise = torch.float32 if parameter.device.type == "mps" else torch.float64
        value = parameter.to(precise).exp() if name.startswith("log_") else parameter.to(precise)
        untrained = parameter.detach() == self._start[name].to(parameter)
        correction = self._initial[name].to(value) - value.detach()
        return value + correction.where(untrained, 0)

    def shape(self, dtype: torch.dtype) -> Tensor:
        """Widths σ (d,), features are p/σ; or W (d, d), features are W p: in the unit of the features."""
        shape = self._own_shape()
        if self._unit is not None:
            unit = shape.new_tensor(self._unit)
            shape = shape * unit if shape.ndim == 1 else shape / unit
        return shape.to(dtype)

    def _own_shape(self) -> Tensor:
        """σ or W in pixels and levels."""
        if "log_sigma" in self._initial:
            return self.value("log_sigma")
        return _triangular(self.value("log_diagonal"), self.value("lower"))

    def weight(self, dtype: torch.dtype) -> Tensor:
        """μ: (), (L,) or a symmetric (L, L)."""
        return self._own_weight().to(dtype)

    def _own_weight(self) -> Tensor:
        if "log_weight" in self._initial:
            return self.value("log_weight")
        matrix = self.value("matrix")
        return (matrix + matrix.T) / 2

    def values(self) -> dict[str, Array]:
        """The current values in the kernel's units: sigma or covariance, and weight."""
        if any(parameter.is_meta for parameter in self.parameters()):
            raise InputError(f"the parameters of the {self._kernel.name} kernel have no values yet: {META_CURE}")
        shape = _to_numpy(self._own_shape())
        weight = _to_numpy(self._own_weight())
        if shape.ndim == 1:
            return {"sigma": shape, "weight": weight}
        if np.array_equal(shape, self._kernel.shape(self._dimensions)):  # unchanged: no rounding by inverses
            return {"covariance": np.array(self._kernel.covariance, np.float64), "weight": weight}
        unwhitened = np.linalg.inv(shape)
        return {"covariance": unwhitened @ unwhitened.T, "weight": weight}

    def channel_widths(self) -> Array:
        """The current colour widths (C,) in levels; empty for kernels without colours."""
        if "channel" not in self._dimensions:
            return np.empty(0)
        return channel_widths(self.kernel(), self._dimensions["channel"])

    def kernel(self) -> Kernel:
        """The current kernel.

        >>> from densefield.crf.kernels import Spatial
        >>> KernelParameters(Spatial(3, weight=3), {"position": 2}, num_classes=21).kernel().sigma.tolist()
        [3.0, 3.0]
        """
        values = self.values()
        if "covariance" in values:
            return replace(self._kernel, covariance=values["covariance"], weight=values["weight"])
        return replace(_with_widths(self._kernel, values["sigma"], self._dimensions), weight=values["weight"])

    def __repr__(self) -> str:
        """The current kernel in one line."""
        if any(parameter.is_meta for parameter in self.parameters()):
            return f"not initialised, {self._kernel.normalization}"
        try:
            return self.kernel().describe()
        except InputError:  # invalid numbers, such as NaN
            return ", ".join(f"{name} {in_short(value)}" for name, value in self.values().items())


def kernel_dimensions(kernel: Kernel, axes: int, channels: int) -> dict[str, int]:
    """The number of features of each part; that of a Custom kernel follows from its widths or covariance."""
    known = {"position": axes, "channel": channels}
    if isinstance(kernel, Custom):
        shape = np.shape(kernel.sigma if kernel.covariance is None else kernel.covariance)
        known[kernel.feature] = shape[0] if shape else 1
    return known


def _triangular(diagonal: Tensor, below: Tensor) -> Tensor:
    """The lower triangular matrix with this diagonal (d,) and these elements below it (d·(d-1)/2,), row by row.

    >>> _triangular(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0, 6.0])).tolist()
    [[1.0, 0.0, 0.0], [4.0, 2.0, 0.0], [5.0, 6.0, 3.0]]
    """
    rows = []
    for row in range(len(diagonal)):
        first = row * (row - 1) // 2
        nothing = diagonal.new_zeros(len(diagonal) - row - 1)
        rows.append(torch.cat([below[first : first + row], diagonal[row : row + 1], nothing]))
    return torch.stack(rows)


def _with_widths(kernel: Kernel, sigma: Array, dimensions: Mapping[str, int]) -> Kernel:
    """The kernel with the widths sigma (d,) of all its parts."""
    parts = list(kernel.width_fields)
    ends = np.cumsum([dimensions[part] for part in parts])[:-1]
    return kernel.with_widths(dict(zip(parts, np.split(sigma, ends), strict=True)))


def _constant(values: Array, dtype: torch.dtype) -> Tensor:
    """A tensor on the CPU, also within torch.device("meta"), not registered with the module that holds it.

    It is a Parameter because compilers treat the sizes of other tensors as dynamic.
    """
    return nn.Parameter(torch.from_numpy(np.array(values, np.float64)).to(dtype), requires_grad=False)


def _to_numpy(tensor: Tensor) -> Array:
    return tensor.detach().cpu().double().numpy()
