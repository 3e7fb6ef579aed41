"""The dense CRF as a torch module: owns the parameters, calls mean field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar, get_args, overload

import torch
from torch import Tensor, nn

from densefield.crf.binding import Method
from densefield.crf.features import AxisOrder
from densefield.crf.kernels import Kernel, Normalization
from densefield.crf.model import CRF, PHOTO_KERNELS
from densefield.crf.unary import warn_of_scores
from densefield.diagnose.explain import explain_batch
from densefield.diagnose.finding import Finding
from densefield.errors import InputError, InputTypeError
from densefield.filters.lattice_design import Operator
from densefield.filters.torch_modes import check_torch_mode
from densefield.nn.colours import warn_of_colours, without_alpha
from densefield.nn.inputs import (
    check_finite_scores,
    checked_scores,
    explained_failure,
    gather_sites,
    hidden_sites,
    items_of_lists,
    joined,
    present_pixels,
)
from densefield.nn.kernel_parameters import Array, KernelParameters, kernel_dimensions
from densefield.nn.mean_field import fastest_mean_field
from densefield.nn.native_op import Adjoint
from densefield.nn.parameter_checks import check_devices, check_parameters, checked_size, matching_parameters
from densefield.nn.positions import GridPositions

Self = TypeVar("Self", bound="DenseCRF")


class DenseCRF(nn.Module):
    """log q^T of the dense CRF with gradients to scores, image, kernel shapes and weights (paper, Eq. 5 and 9).

    * ``num_classes``: L. ``channels``, ``axes``: of the image, and how many axes the pixels' grid has; every axis and
      channel has a width of its own, so the default kernels have the paper's nine parameters.
    * ``kernels``: any number of Spatial, Bilateral and Custom, which give the initial values; their parameters are
      found under their names: ``spatial``, ``bilateral``, a second spatial one ``spatial2``, a Custom one its feature.
      A Custom kernel compares as many features as it has widths.
    * ``iterations``, ``exclude_self``, ``method``, ``operator``, ``halo``, ``threads``, ``data_range``,
      ``axis_order``: those of CRF.
    * ``adjoint``: "keep" the marginals of every update for the backward pass, or "recompute" them. Float64, exact
      filters and devices other than a CPU always keep them.

    Scores in half precision, and those under autocast, are computed with in float32.

    >>> import torch
    >>> crf = DenseCRF(num_classes=2)
    >>> scores, image = torch.zeros(1, 2, 4, 6), torch.zeros(1, 3, 4, 6)
    >>> image[..., 3:] = 255.0
    >>> scores[0, 0, 0, 0] = scores[0, 1, 0, 5] = 4.0  # one hint on either side
    >>> crf(scores, image).argmax(1)[0, 0]
    tensor([0, 0, 0, 1, 1, 1])
    >>> print(crf)
    DenseCRF(
      num_classes=2, iterations=5
      spatial: sigma 3, weight 3, symmetric
      bilateral: sigma_xy 60, sigma_rgb 10, weight 5, symmetric
    )
    """

    def __init__(
        self,
        num_classes: int,
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
        data_range: float | Sequence[float] | None = None,
        axis_order: AxisOrder = "xy",
    ) -> None:
        super().__init__()
        self.num_classes = checked_size(num_classes, "num_classes")
        self.channels = checked_size(channels, "channels")
        self.axes = checked_size(axes, "axes")
        if adjoint not in get_args(Adjoint):
            raise InputError(f"adjoint is {adjoint!r}, expected one of {', '.join(get_args(Adjoint))}.")
        self.adjoint = adjoint
        checked = CRF(  # the same options are wrong for both
            kernels,
            iterations=iterations,
            exclude_self=exclude_self,
            method=method,
            operator=operator,
            halo=halo,
            threads=threads,
            data_range=data_range,
            axis_order=axis_order,
        )
        self.iterations, self.exclude_self, self.method = checked.iterations, checked.exclude_self, checked.method
        self.operator, self.halo, self.threads = checked.operator, checked.halo, checked.threads
        self.data_range, self.axis_order = checked.data_range, checked.axis_order
        self._range_known, self._scores_known = data_range is not None, False
        self._positions = GridPositions(axis_order)
        self._normalizations: list[Normalization] = [kernel.normalization for kernel in checked.kernels]
        self._parts = [tuple(kernel.widths_of_parts()) for kernel in checked.kernels]
        self._dimensions: dict[str, int] = {}
        self._names: list[str] = []
        for kernel in checked.kernels:
            self._add(kernel)

    def _add(self, kernel: Kernel) -> None:
        dimensions = kernel_dimensions(kernel, self.axes, self.channels)
        parameters = KernelParameters(kernel, dimensions, self.num_classes, self.data_range)
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

    @classmethod
    def from_numpy(
        cls: type[Self], crf: CRF, num_classes: int, *, adjoint: Adjoint = "keep", channels: int = 3, axes: int = 2
    ) -> Self:
        """The module with the kernels and options of a CRF for NumPy; to_numpy() is the way back.

        >>> DenseCRF.from_numpy(CRF(iterations=7), num_classes=21).iterations
        7
        """
        if not isinstance(crf, CRF):
            raise InputTypeError(f"crf is a {type(crf).__name__}, expected a densefield.CRF.")
        return cls(num_classes, crf.kernels, **crf.options(), adjoint=adjoint, channels=channels, axes=axes)

    @classmethod
    def load(cls: type[Self], path: str | PathLike[str], num_classes: int, **options: Any) -> Self:
        """The module with the CRF of a file that save(), CRF.save() or `densefield tune` wrote.

        * ``num_classes``: L. A file has the weights of all labels or one for all.
        * ``options``: ``adjoint``, ``channels``, ``axes``, ``threads`` and ``data_range``, which are not in the file.
        """
        from densefield.crf.crf_file import read_crf

        numpy_options = {name: options.pop(name) for name in ("threads", "data_range") if name in options}
        return cls.from_numpy(read_crf(path, num_classes, **numpy_options), num_classes, **options)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the kernels as they are now and the options to a TOML file, which CRF.load() reads too."""
        from densefield.crf.crf_file import write_crf

        write_crf(path, self.to_numpy())

    if TYPE_CHECKING:  # what forward returns, which nn.Module.__call__ does not tell

        @overload
        def __call__(
            self,
            scores: Tensor,
            image: Tensor | None = ...,
            *,
            features: Mapping[str, Tensor] | None = ...,
            spacing: Sequence[float] | None = ...,
            ignore: Tensor | None = ...,
        ) -> Tensor: ...

        @overload
        def __call__(
            self,
            scores: Sequence[Tensor],
            image: Sequence[Tensor] | None = ...,
            *,
            features: Mapping[str, Sequence[Tensor]] | None = ...,
            spacing: Sequence[float] | None = ...,
            ignore: Sequence[Tensor] | None = ...,
        ) -> list[Tensor]: ...

        def __call__(self, scores: Any, image: Any = None, **options: Any) -> Any:
            """Log marginals, by forward()."""

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
        check_torch_mode("DenseCRF", (scores, image, *(features or {}).values(), *self.parameters()))
        f = checked_scores(scores, self.num_classes, self.axes if "position" in self._dimensions else None)
        kernels = self._kernel_parameters()
        check_devices(kernels, f.device)
        dtype = torch.float64 if f.dtype == torch.float64 else torch.float32
        positions = self._positions(f, dtype, spacing) if "position" in self._dimensions else None
        image = without_alpha(image, self.channels)
        sites = gather_sites(self._dimensions, f, dtype, positions, image, features or {})
        present = present_pixels(ignore, f, dtype)
        if present is not None:
            sites = hidden_sites(sites, present)
        with torch.autocast(f.device.type, enabled=False):
            # As exact as to_numpy() has them; features are divided in the precision of the computation.
            shapes = [each.shape(torch.float64 if f.device.type == "cpu" else dtype) for each in kernels.values()]
            weights = [each.weight(dtype) for each in kernels.values()]
            if not torch.compiler.is_compiling():
                check_finite_scores(f)
                check_parameters(kernels, shapes, weights, dtype)
                if not self._scores_known and len(f):
                    self._scores_known = True  # those of one network are of one kind
                    warn_of_scores(f[0].detach().cpu().float().numpy())
                if image is not None and "channel" in self._dimensions and not self._range_known:
                    self._range_known = warn_of_colours(image, kernels.values(), ignore)  # once is enough
            try:
                log_q = fastest_mean_field(
                    f.flatten(2).to(dtype),
                    [joined([sites[part] for part in parts]) for parts in self._parts],
                    shapes,
                    weights,
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
            except InputError as error:
                named = dict(zip(self._names, self._parts, strict=True))
                raise explained_failure(error, named, sites, shapes, f.shape[2:]) from None
        return log_q.reshape(f.shape)

    def freeze(self: Self, *patterns: str) -> Self:
        """Stops learning the parameters whose names match ``"bilateral.*"`` or ``"*.log_sigma"``; returns self.

        >>> crf = DenseCRF(num_classes=2).freeze("spatial.*", "*.log_weight")
        >>> [name for name, parameter in crf.named_parameters() if parameter.requires_grad]
        ['bilateral.log_sigma']
        """
        for parameter in matching_parameters(self, patterns):
            parameter.requires_grad_(False)
        return self

    def learn(self: Self, *patterns: str) -> Self:
        """Learns the parameters whose names match, which is what all do at first; returns self."""
        for parameter in matching_parameters(self, patterns):
            parameter.requires_grad_()
        return self

    def values(self) -> dict[str, float | Array]:
        """What the parameters stand for now, in their own units: widths, covariances and weights by name.

        >>> DenseCRF(num_classes=2).values()["spatial.sigma"].round(4).tolist()
        [3.0, 3.0]
        """
        values: dict[str, float | Array] = {}
        for name, parameters in self._kernel_parameters().items():
            for what, value in parameters.values().items():
                values[f"{name}.{what}"] = value if value.ndim else float(value)
        return values

    def explain(
        self,
        scores: Tensor,  # (B, L, …)
        image: Tensor,  # (B, C, …)
        *,
        spacing: Sequence[float] | None = None,
        ignore: Tensor | None = None,  # (B, …)
    ) -> list[list[Finding]]:
        """Why marginals are blank or like the scores, for each item of the batch, as densefield.explain says it.

        >>> crf, scores = DenseCRF(num_classes=2), torch.zeros(1, 2, 9, 9)
        >>> print(crf.explain(scores, torch.zeros(1, 3, 9, 9))[0][0].what)
        No pixel prefers any label, so there is nothing to spread.
        """
        return explain_batch(self.to_numpy(), scores, image, spacing=spacing, ignore=ignore)

    def to_numpy(self) -> CRF:
        """The CRF for NumPy with the kernels as they are now."""
        return CRF([each.kernel() for each in self._kernel_parameters().values()], **self._options())

    def __repr__(self) -> str:
        """Labels, iterations, options that are not the default, and a line for each kernel."""
        default = {**CRF(()).options(), "adjoint": "keep", "channels": 3, "axes": 2}
        now = {**self._options(), **{name: getattr(self, name) for name in ("adjoint", "channels", "axes")}}
        shown = {name: value for name, value in now.items() if name == "iterations" or value != default[name]}
        lines = [", ".join(f"{name}={value!r}" for name, value in {"num_classes": self.num_classes, **shown}.items())]
        lines += [f"{name}: {parameters!r}" for name, parameters in self._kernel_parameters().items()]
        return "\n  ".join(["DenseCRF(", *lines]) + "\n)"

    def _options(self) -> dict[str, Any]:
        """The options of CRF, by name."""
        return {name: getattr(self, name) for name in CRF(()).options()}

    def reset_parameters(self) -> None:
        """Sets all parameters to what the kernels say: for a module made on the meta device, after to_empty()."""
        for parameters in self._kernel_parameters().values():
            parameters.reset_parameters()

    def __prepare_scriptable__(self) -> None:
        """What torch.jit.script calls first."""
        raise NotImplementedError("DenseCRF does not support torch.jit.script. Use torch.export or torch.compile.")

    def _kernel_parameters(self) -> dict[str, KernelParameters]:
        return {name: getattr(self, name) for name in self._names}
