"""The dense CRF as a torch module: owns the parameters, calls mean field."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, SupportsIndex, TypeVar, get_args, overload

import torch
from torch import Tensor, nn

from densefield.crf.binding import Method
from densefield.crf.crf import CRF, PHOTO_KERNELS
from densefield.crf.kernels import Kernel, Normalization
from densefield.crf.native_torch import Adjoint, torch_mean_field
from densefield.crf.parameters import Array, KernelParameters, kernel_dimensions
from densefield.crf.reference_torch import reference_mean_field
from densefield.crf.sites import checked_spacing
from densefield.crf.sites_torch import (
    check_finite_scores,
    checked_scores,
    gather_sites,
    grid_positions,
    items_of_lists,
    present_pixels,
)
from densefield.errors import InputError
from densefield.filters.lattice_design import Operator

Self = TypeVar("Self", bound="DenseCRF")

# Filters are built by NumPy and native code, which a compiler cannot look into.
_reference: Callable[..., Tensor] = torch.compiler.disable(reference_mean_field)  # type: ignore[no-untyped-call]


class DenseCRF(nn.Module):
    """log q^T of the dense CRF with gradients to scores, image, kernel shapes and weights (paper, Eq. 5 and 9).

    * ``labels``: L. ``channels``, ``axes``: of the image, and how many axes the pixels' grid has; every axis and
      channel has a width of its own, so the default kernels have the paper's nine parameters.
    * ``kernels``: any number of Spatial, Bilateral and Custom, which give the initial values; their parameters are
      found under their names: ``spatial``, ``bilateral``, a second spatial one ``spatial2``, a Custom one its feature.
      A Custom kernel compares as many features as it has widths.
    * ``iterations``, ``exclude_self``, ``method``, ``operator``, ``halo``, ``threads``: those of CRF.
    * ``adjoint``: "keep" the marginals of every update for the backward pass, or "recompute" them. Float64, exact
      filters and devices other than a CPU always keep them.

    Scores in half precision, and those under autocast, are computed with in float32.

    >>> import torch
    >>> crf = DenseCRF(labels=2)
    >>> scores, image = torch.zeros(1, 2, 4, 6), torch.zeros(1, 3, 4, 6)
    >>> image[..., 3:] = 255.0
    >>> scores[0, 0, 0, 0] = scores[0, 1, 0, 5] = 4.0  # one hint on either side
    >>> crf(scores, image).argmax(1)[0, 0]
    tensor([0, 0, 0, 1, 1, 1])
    >>> sum(parameter.numel() for parameter in crf.parameters())
    9
    """

    def __init__(
        self,
        labels: int,
        kernels: Sequence[Kernel] = PHOTO_KERNELS,
        *,
        iterations: int = 5,
        exclude_self: bool = False,
        method: Method = "lattice",
        operator: Operator = "symmetric",
        halo: int = 0,
        adjoint: Adjoint = "keep",
        threads: int | None = None,
        channels: int = 3,
        axes: int = 2,
    ) -> None:
        super().__init__()
        self.labels = _checked_size(labels, "labels")
        self.channels = _checked_size(channels, "channels")
        self.axes = _checked_size(axes, "axes")
        if adjoint not in get_args(Adjoint):
            raise InputError(f"adjoint is {adjoint!r}, expected one of {', '.join(get_args(Adjoint))}.")
        self.adjoint = adjoint
        self.method, self.operator, self.halo, self.threads = method, operator, halo, threads
        self._positions: dict[tuple[object, ...], Tensor] = {}
        checked = CRF(  # the same options are wrong for both
            kernels,
            iterations=iterations,
            exclude_self=exclude_self,
            method=method,
            operator=operator,
            halo=halo,
            threads=threads,
        )
        self.iterations, self.exclude_self = checked.iterations, checked.exclude_self
        self._normalizations: list[Normalization] = [kernel.normalization for kernel in checked.kernels]
        self._parts = [tuple(kernel.widths_of_parts()) for kernel in checked.kernels]
        self._dimensions: dict[str, int] = {}
        self._names: list[str] = []
        for kernel in checked.kernels:
            self._add(kernel)

    def _add(self, kernel: Kernel) -> None:
        dimensions = kernel_dimensions(kernel, self.axes, self.channels)
        parameters = KernelParameters(kernel, dimensions, self.labels)
        for part in kernel.widths_of_parts():
            if self._dimensions.setdefault(part, dimensions[part]) != dimensions[part]:
                raise InputError(
                    f"two kernels compare {part!r}, one by {self._dimensions[part]} widths and one by "
                    f"{dimensions[part]}: give both as many."
                )
        name, count = kernel.name, 1
        while name in self._names:
            count += 1
            name = f"{kernel.name}{count}"
        if hasattr(self, name):
            raise InputError(f"a kernel is called {name!r}, a name that the module itself uses: choose another.")
        self._names.append(name)
        self.add_module(name, parameters)

    @overload
    def forward(
        self,
        scores: Tensor,
        image: Tensor | None = ...,
        *,
        features: Mapping[str, Tensor] | None = ...,
        spacing: Sequence[float] | None = ...,
        ignore: Tensor | None = ...,
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        scores: Sequence[Tensor],
        image: Sequence[Tensor] | None = ...,
        *,
        features: Mapping[str, Sequence[Tensor]] | None = ...,
        spacing: Sequence[float] | None = ...,
        ignore: Sequence[Tensor] | None = ...,
    ) -> list[Tensor]: ...

    def forward(
        self,
        scores: Any,  # (B, L, H, W), (B, L, D, H, W) or (B, L, N); or a list of items without the first axis
        image: Any = None,  # (B, C, …), colours 0…255
        *,
        features: Mapping[str, Any] | None = None,  # of Custom kernels, by name: (B, d, …)
        spacing: Sequence[float] | None = None,  # size of a pixel along x, y(, z)
        ignore: Any = None,  # (B, …) boolean: pixels that neither send nor receive
    ) -> Any:
        """Log marginals like the scores; a list of them for a list of scores, whose items may differ in size.

        They are float32, and float64 for scores in float64. An image or feature (1, C, …) serves the whole batch.
        """
        if isinstance(scores, list | tuple):
            items = items_of_lists(scores, image, features or {}, ignore)
            return [self(**item, spacing=spacing)[0] for item in items]
        f = checked_scores(scores, self.labels)
        dtype = torch.float64 if f.dtype == torch.float64 else torch.float32
        positions = self._grid(f, dtype, spacing) if "position" in self._dimensions else None
        sites = gather_sites(self._dimensions, f, dtype, positions, image, features or {})
        present = present_pixels(ignore, f, dtype)
        if not torch.compiler.is_compiling():
            check_finite_scores(f)
        parameters = self._kernel_parameters()
        with torch.autocast(f.device.type, enabled=False):
            log_q = _mean_field(
                f.flatten(2).to(dtype),
                [_joined([sites[part] for part in parts]) for parts in self._parts],
                [each.shape(dtype) for each in parameters],
                [each.weight(dtype) for each in parameters],
                normalizations=self._normalizations,
                iterations=self.iterations,
                exclude_self=self.exclude_self,
                present=present,
                method=self.method,
                operator=self.operator,
                halo=self.halo,
                adjoint=self.adjoint,
                threads=self.threads,
            )
        return log_q.reshape(f.shape)

    def freeze(self: Self, *patterns: str) -> Self:
        """Stops learning the parameters whose names match ``"bilateral.*"`` or ``"*.log_sigma"``; returns self.

        >>> crf = DenseCRF(labels=2).freeze("spatial.*", "*.log_weight")
        >>> [name for name, parameter in crf.named_parameters() if parameter.requires_grad]
        ['bilateral.log_sigma']
        """
        return self._set_learning(patterns, False)

    def learn(self: Self, *patterns: str) -> Self:
        """Learns the parameters whose names match, which is what all do at first; returns self."""
        return self._set_learning(patterns, True)

    def values(self) -> dict[str, float | Array]:
        """What the parameters stand for now, in their own units: widths, covariances and weights by name.

        >>> DenseCRF(labels=2).values()["spatial.sigma"].round(4).tolist()
        [3.0, 3.0]
        """
        values: dict[str, float | Array] = {}
        for name, parameters in zip(self._names, self._kernel_parameters(), strict=True):
            for what, value in parameters.values().items():
                values[f"{name}.{what}"] = value if value.ndim else float(value)
        return values

    def to_numpy(self) -> CRF:
        """The CRF for NumPy with the kernels as they are now."""
        return CRF(
            [parameters.kernel() for parameters in self._kernel_parameters()],
            iterations=self.iterations,
            exclude_self=self.exclude_self,
            method=self.method,
            operator=self.operator,
            halo=self.halo,
            threads=self.threads,
        )

    def extra_repr(self) -> str:
        """The options, for print()."""
        names = ("labels", "iterations", "exclude_self", "method", "operator", "halo", "adjoint", "channels", "axes")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)

    def __getstate__(self) -> dict[str, Any]:
        """All but the positions, which are made again where they are needed."""
        return {**self.__dict__, "_positions": {}}

    def _kernel_parameters(self) -> list[KernelParameters]:
        return [getattr(self, name) for name in self._names]

    def _grid(self, scores: Tensor, dtype: torch.dtype, spacing: Sequence[float] | None) -> Tensor:
        """Positions (1, N, axes); those of the last size are kept."""
        shape = tuple(scores.shape[2:])
        if len(shape) != self.axes:
            raise InputError(
                f"the scores have shape {tuple(scores.shape)}, {len(shape)} axes of pixels, but the kernels have "
                f"widths for {self.axes}: make the module with axes={len(shape)}."
            )
        if torch.compiler.is_compiling():  # which makes constants of its own
            return grid_positions(shape, spacing).to(scores.device, dtype)
        steps = checked_spacing(spacing, self.axes)
        key = (shape, steps, scores.device, dtype)
        positions = self._positions.get(key)
        if positions is None:
            with torch.inference_mode(False):  # what is kept may be needed for training later
                positions = grid_positions(shape, spacing).to(scores.device, dtype)
            self._positions = {key: positions}
        return positions

    def _set_learning(self: Self, patterns: tuple[str, ...], learning: bool) -> Self:
        known = dict(self.named_parameters())
        matched: list[nn.Parameter] = []
        for pattern in patterns or ("",):
            found = [parameter for name, parameter in known.items() if fnmatchcase(name, pattern)]
            if not found:
                raise InputError(f"no parameter is called {pattern!r}, expected one of {', '.join(known)}; or '*'.")
            matched += found
        for parameter in matched:
            parameter.requires_grad_(learning)
        return self


def _mean_field(
    scores: Tensor,  # (B, L, N)
    features: Sequence[Tensor],  # per kernel (B, N, d) or (1, N, d)
    shapes: Sequence[Tensor],  # per kernel (d,) or (d, d)
    weights: Sequence[Tensor],  # per kernel (), (L,) or (L, L)
    *,
    normalizations: Sequence[Normalization],
    iterations: int,
    exclude_self: bool,
    present: Tensor | None,  # (B, N)
    method: Method,
    operator: Operator,
    halo: int,
    adjoint: Adjoint,
    threads: int | None,
) -> Tensor:
    """Log marginals (B, L, N), by the quickest way that there is for these tensors."""
    if method == "lattice" and scores.device.type == "cpu" and scores.dtype == torch.float32:
        return torch_mean_field(
            scores,
            features,
            shapes,
            weights,
            normalizations=normalizations,
            iterations=iterations,
            exclude_self=exclude_self,
            present=present,
            operator=operator,
            halo=halo,
            adjoint=adjoint,
            threads=threads,
        )
    return _reference(
        scores,
        features,
        shapes,
        weights,
        normalizations=normalizations,
        iterations=iterations,
        exclude_self=exclude_self,
        present=present,
        method=method,
        operator=operator,
        halo=halo,
    )


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Parts (B, N, d) or (1, N, d) side by side."""
    items = next((part.shape[0] for part in parts if part.shape[0] != 1), 1)  # len() would be fixed in a traced graph
    return torch.cat([part.expand(items, -1, -1) for part in parts], dim=2)


def _checked_size(size: object, name: str) -> int:
    if isinstance(size, bool) or not isinstance(size, SupportsIndex) or size.__index__() < 1:
        raise InputError(f"{name} is {size!r}, expected a whole number, 1 or more.")
    return size.__index__()
