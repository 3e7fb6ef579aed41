"""The dense CRF as a torch module with learnable parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar, get_args, overload

import torch
from torch import Tensor, nn

from densefield.crf.kernels import Kernel
from densefield.crf.model import CRF, PHOTO_KERNELS, checked_kernels
from densefield.crf.options import CRFOptions, check_attribute, check_normalizations, checked_options
from densefield.crf.unary import warn_of_scores
from densefield.diagnose.explain import explain_batch
from densefield.diagnose.result import Finding
from densefield.errors import FeatureSpanError, InputError, InputTypeError
from densefield.filters.torch_modes import check_torch_mode
from densefield.nn.backends import Backend, CheckedBatch, all_parts, infer_batch
from densefield.nn.batch import KernelSpec, OpOptions
from densefield.nn.hand_over import without_autocast
from densefield.nn.inference import Adjoint
from densefield.nn.inputs import (
    check_finite_scores,
    checked_parts,
    checked_scores,
    explained_failure,
    present_pixels,
    warn_of_colours,
    without_alpha,
    without_ignored,
)
from densefield.nn.kernel_parameters import Array, KernelParameters, kernel_dimensions
from densefield.nn.lists import batches_of_lists, checked_spacings
from densefield.nn.parameter_checks import check_devices, check_parameters, checked_size, matching_parameters

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from densefield.crf.options import OptionArguments

Self = TypeVar("Self", bound="DenseCRF")


class DenseCRF(nn.Module):
    """log q^T of the dense CRF with gradients to scores, image, kernel shapes and weights (paper, Eq. 5 and 9).

    Every axis and channel has its own width, so the default kernels have the paper's nine parameters. Scores in half
    precision, and those under autocast, are processed in float32.

    Parameters
    ----------
    num_classes
        Number of classes L.
    kernels
        Any number of Spatial, Bilateral and Custom kernels, which give the initial values. Their parameters have the
        names ``spatial``, ``bilateral``, ``spatial2`` for a second spatial one, and the feature's name for a Custom
        one, which compares one feature per width.
    adjoint
        "store" the marginals of every iteration for the backward pass, or "recompute" them. Exact filters store them in
        both cases. "implicit" differentiates the fixed point, in memory that does not depend on `iterations`, which
        must suffice to reach it: inference stops there.
    backend
        "native" code on the CPU, which tensors of other devices are copied to, or "torch" operations on the device of
        the tensors. Float64 and exact filters always use torch operations.
    channels
        Number of channels of the images.
    axes
        Number of axes of the pixel grid: 2 for images, 3 for volumes.
    **options
        The fields of `densefield.crf.CRFOptions`, which are found again in ``crf.options``.

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
        adjoint: Adjoint = "store",
        backend: Backend = "native",
        channels: int = 3,
        axes: int = 2,
        **options: Unpack[OptionArguments],
    ) -> None:
        super().__init__()
        self.num_classes = checked_size(num_classes, "num_classes")
        self.channels = checked_size(channels, "channels")
        self.axes = checked_size(axes, "axes")
        if adjoint not in get_args(Adjoint):
            raise InputError(f"adjoint is {adjoint!r}, expected one of {', '.join(get_args(Adjoint))}.")
        self.adjoint = adjoint
        if backend not in get_args(Backend):
            raise InputError(f"backend is {backend!r}, expected one of {', '.join(get_args(Backend))}.")
        self.backend = backend
        self._options = _with_gradients(checked_options(options))
        self._range_checked = self.options.data_range is not None
        self._scores_checked = False
        self._specs: dict[str, KernelSpec] = {}
        self._dimensions: dict[str, int] = {}
        for kernel in checked_kernels(kernels):
            self._add(kernel)
        self.options = self._options

    def __setattr__(self, name: str, value: Any) -> None:
        check_attribute(name, value)
        super().__setattr__(name, value)

    @property
    def options(self) -> CRFOptions:
        """The options of inference."""
        return self._options

    @options.setter
    def options(self, options: CRFOptions) -> None:
        if options.data_range != self._options.data_range:
            raise InputError(
                "data_range is part of the parameters' units and cannot be changed: use "
                "DenseCRF.from_numpy(crf.to_numpy().replace(data_range=…), num_classes)."
            )
        check_normalizations(options.inference, ((name, spec.normalization) for name, spec in self._specs.items()))
        self._options = _with_gradients(options)
        names = tuple(name for name in self._dimensions if name != "position")
        self._settings = OpOptions(tuple(self._specs.values()), names, options)
        self._encoded = self._settings.encode()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features of Custom kernels, which forward() needs as features=."""
        return tuple(name for name in self._dimensions if name not in ("position", "channel"))

    def _add(self, kernel: Kernel) -> None:
        dimensions = kernel_dimensions(kernel, self.axes, self.channels)
        parameters = KernelParameters(kernel, dimensions, self.num_classes, self.options.data_range)
        for part in kernel.widths_of_parts():
            if self._dimensions.setdefault(part, dimensions[part]) != dimensions[part]:
                raise InputError(
                    f"two kernels compare {part!r}, one by {self._dimensions[part]} widths and one by "
                    f"{dimensions[part]}: use the same number of widths in both."
                )
        name, count = kernel.name, 1
        while name in self._specs:
            count += 1
            name = f"{kernel.name}{count}"
        if hasattr(self, name):
            raise InputError(f"a kernel is called {name!r}, a name that the module itself uses: choose another.")
        self._specs[name] = KernelSpec(tuple(kernel.widths_of_parts()), kernel.normalization)
        self.add_module(name, parameters)

    @classmethod
    def from_numpy(
        cls: type[Self],
        crf: CRF,
        num_classes: int,
        *,
        adjoint: Adjoint = "store",
        backend: Backend = "native",
        channels: int = 3,
        axes: int = 2,
    ) -> Self:
        """The module with the kernels and options of a CRF for NumPy, the inverse of to_numpy().

        Parameters
        ----------
        crf
            The CRF.
        num_classes, adjoint, backend, channels, axes
            Those of DenseCRF.

        >>> DenseCRF.from_numpy(CRF(iterations=7), num_classes=21).options.iterations
        7
        """
        if not isinstance(crf, CRF):
            raise InputTypeError(f"crf is of type {type(crf).__name__}, expected a densefield.CRF.")
        own: Any = {"adjoint": adjoint, "backend": backend, "channels": channels, "axes": axes}
        return cls(num_classes, crf.kernels, **asdict(crf.options), **own)

    @classmethod
    def load(cls: type[Self], path: str | PathLike[str], num_classes: int, **options: Any) -> Self:
        """Reads the CRF of a TOML file that save(), CRF.save() or `densefield tune` wrote.

        Parameters
        ----------
        path
            The file.
        num_classes
            Number of classes L; the file has one weight for all classes, or weights for L classes.
        **options
            adjoint, backend, channels, axes, threads and data_range, which are not in the file.
        """
        from densefield.crf.crf_file import read_crf

        numpy_options = {name: options.pop(name) for name in ("threads", "data_range") if name in options}
        return cls.from_numpy(read_crf(path, num_classes, **numpy_options), num_classes, **options)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the current kernels and the options to the TOML file `path`, which CRF.load() reads too."""
        from densefield.crf.crf_file import write_crf

        write_crf(path, self.to_numpy())

    if TYPE_CHECKING:  # nn.Module.__call__ does not say what forward returns

        @overload
        def __call__(
            self,
            scores: Tensor,
            image: Tensor | None = ...,
            *,
            features: Mapping[str, Tensor] | None = ...,
            spacing: Sequence[float] | Sequence[Sequence[float]] | None = ...,
            ignore: Tensor | None = ...,
        ) -> Tensor: ...

        @overload
        def __call__(
            self,
            scores: Sequence[Tensor],
            image: Sequence[Tensor] | None = ...,
            *,
            features: Mapping[str, Sequence[Tensor]] | None = ...,
            spacing: Sequence[float] | Sequence[Sequence[float]] | None = ...,
            ignore: Sequence[Tensor] | None = ...,
        ) -> list[Tensor]: ...

        def __call__(self, scores: Any, image: Any = None, **options: Any) -> Any:
            """Log marginals, by forward()."""

    def forward(
        self,
        scores: Any,
        image: Any = None,
        *,
        features: Mapping[str, Any] | None = None,
        spacing: Any = None,
        ignore: Any = None,
    ) -> Any:
        """Log marginals of the shape of the scores, in float32, or float64 for scores in float64.

        Parameters
        ----------
        scores
            (B, L, H, W), (B, L, D, H, W) or (B, L, N); or a list of such tensors without the batch axis, which may
            differ in size. The result is then a list too.
        image
            (B, C, …), colours 0…255; or (1, C, …) for the whole batch.
        features
            Features of Custom kernels by name, (B, d, …) or (1, d, …).
        spacing
            Size of a pixel along x, y(, z), by default 1; or a list with one for each image.
        ignore
            (B, …), boolean: True for pixels that neither send nor receive messages, and may hold any values.
        """
        if isinstance(scores, list | tuple):
            found: dict[int, Tensor] = {}
            for items, arguments in batches_of_lists(scores, image, features or {}, ignore, spacing):
                found.update(zip(items, self(**arguments).unbind(), strict=True))
            return [found[item] for item in range(len(scores))]
        check_torch_mode("DenseCRF", (scores, image, *(features or {}).values(), *self.parameters()))
        f = checked_scores(scores, self.num_classes, self.axes if "position" in self._dimensions else None)
        kernels = self._kernel_parameters()
        check_devices(kernels, f.device)
        if spacing is not None:
            spacing = checked_spacings(spacing, f.ndim - 2, len(f))
        dtype = torch.float64 if f.dtype == torch.float64 else torch.float32
        image = without_alpha(image, self.channels)
        parts = checked_parts(self._dimensions, f, dtype, image, features or {})
        present = present_pixels(ignore, f, dtype)
        if present is not None:
            parts = without_ignored(parts, present)
        with without_autocast(f.device):
            # As exact as those of to_numpy(), where the device has float64.
            precise = torch.float32 if f.device.type == "mps" else torch.float64
            shapes = [each.shape(precise) for each in kernels.values()]
            weights = [each.weight(dtype) for each in kernels.values()]
            if not torch.compiler.is_compiling():
                check_finite_scores(f)
                check_parameters(kernels, shapes, weights, dtype)
                self._warn_once(f, image, ignore)
            batch = CheckedBatch(f.to(dtype), parts, present, spacing)
            try:
                return infer_batch(batch, shapes, weights, self._settings, self._encoded, self.adjoint, self.backend)
            except FeatureSpanError as error:
                every = all_parts(batch, self.options) if "position" in self._dimensions else parts
                names = {name: spec.parts for name, spec in self._specs.items()}
                raise explained_failure(error, names, every, shapes) from None

    def _warn_once(self, scores: Tensor, image: Tensor | None, ignore: Tensor | None) -> None:
        """Warns of doubtful scores and colours: one network gives one kind of scores."""
        if not self._scores_checked and len(scores):
            self._scores_checked = True
            warn_of_scores(scores[0].detach().cpu().float().numpy())
        if image is not None and "channel" in self._dimensions and not self._range_checked:
            self._range_checked = warn_of_colours(image, self._kernel_parameters().values(), ignore)

    def freeze(self: Self, *patterns: str) -> Self:
        """Stops learning the parameters whose names match; returns self.

        Parameters
        ----------
        patterns
            Names of parameters, or shell-style patterns such as `bilateral.*` for a whole kernel.

        >>> crf = DenseCRF(num_classes=2).freeze("spatial.*", "*.log_weight")
        >>> [name for name, parameter in crf.named_parameters() if parameter.requires_grad]
        ['bilateral.log_sigma']
        """
        for parameter in matching_parameters(self, patterns):
            parameter.requires_grad_(False)
        return self

    def unfreeze(self: Self, *patterns: str) -> Self:
        """Learns the parameters whose names match again, the inverse of freeze(); returns self.

        Parameters
        ----------
        patterns
            Names of parameters, or patterns as in freeze().
        """
        for parameter in matching_parameters(self, patterns):
            parameter.requires_grad_()
        return self

    def values(self) -> dict[str, float | Array]:
        """The current widths, covariances and weights by name, in their own units.

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
        """The findings of densefield.explain for each item of the batch.

        Parameters
        ----------
        scores, image, spacing, ignore
            Those of forward().

        >>> crf, scores = DenseCRF(num_classes=2), torch.zeros(1, 2, 9, 9)
        >>> print(crf.explain(scores, torch.zeros(1, 3, 9, 9))[0][0].what)
        No pixel prefers any label, so there is nothing to spread.
        """
        return explain_batch(self.to_numpy(), scores, image, spacing=spacing, ignore=ignore)

    def to_numpy(self) -> CRF:
        """The CRF for NumPy with the current kernels."""
        return CRF([each.kernel() for each in self._kernel_parameters().values()], **asdict(self.options))

    def __repr__(self) -> str:
        """Number of classes, iterations, options that differ from their defaults, and a line for each kernel."""
        default = {"adjoint": "store", "backend": "native", "channels": 3, "axes": 2}
        own = {name: getattr(self, name) for name in default if getattr(self, name) != default[name]}
        shown = {
            "num_classes": self.num_classes,
            "iterations": self.options.iterations,
            **self.options.changed(),
            **own,
        }
        lines = [", ".join(f"{name}={value!r}" for name, value in shown.items())]
        lines += [f"{name}: {parameters!r}" for name, parameters in self._kernel_parameters().items()]
        return "\n  ".join(["DenseCRF(", *lines]) + "\n)"

    def reset_parameters(self) -> None:
        """Sets all parameters to their initial values: for a module made on the meta device, after to_empty()."""
        for parameters in self._kernel_parameters().values():
            parameters.reset_parameters()

    def __prepare_scriptable__(self) -> None:
        """torch.jit.script calls it first."""
        raise NotImplementedError("DenseCRF does not support torch.jit.script. Use torch.export or torch.compile.")

    def _kernel_parameters(self) -> dict[str, KernelParameters]:
        return {name: getattr(self, name) for name in self._specs}


def _with_gradients(options: CRFOptions) -> CRFOptions:
    if options.inference == "sequential":
        raise InputError("inference is 'sequential', which has no gradients: use 'parallel' or 'convergent'.")
    return options
