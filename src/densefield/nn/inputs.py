"""Checks of the tensors that DenseCRF is called with: scores, images, features and masks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from densefield import _core
from densefield.crf.image_range import range_problem, warn_of_range
from densefield.errors import FeatureSpanError, InputError, InputTypeError
from densefield.filters.autograd import torch_threads
from densefield.nn.kernel_parameters import KernelParameters
from densefield.nn.shape_hints import pixels_hint, scores_hint


def checked_scores(
    scores: object,
    num_classes: int,
    axes: int | None,  # of the grid; None for any number, if no kernel compares positions
) -> Tensor:
    """Scores (B, L, …) in floating point; check_finite_scores checks their values."""
    if not isinstance(scores, Tensor):
        raise InputTypeError(
            f"the scores are of type {type(scores).__name__}, expected a torch tensor (batch, classes, rows, columns), "
            "or a list of (classes, rows, columns). For numpy arrays use densefield.CRF, or torch.from_numpy(scores)."
        )
    if not scores.is_floating_point():
        raise InputTypeError(
            f"the scores have dtype {scores.dtype}, expected floating point numbers, a network's logits."
        )
    shape = tuple(scores.shape)
    if scores.ndim not in (3, 4, 5):
        raise InputError(
            f"the scores have shape {shape}, expected (batch, classes, rows, columns), "
            "(batch, classes, planes, rows, columns) or (batch, classes, points)."
            + scores_hint(shape, num_classes, axes or scores.ndim - 1)
        )
    if scores.shape[1] != num_classes:
        raise InputError(
            f"the scores have shape {shape}, which is for {scores.shape[1]} classes, but there are {num_classes}."
            + scores_hint(shape, num_classes, axes or scores.ndim - 2)
        )
    if axes is not None and scores.ndim - 2 != axes:
        hint = scores_hint(shape, num_classes, axes) or f" Make the module with axes={scores.ndim - 2}."
        raise InputError(
            f"the scores have shape {shape}, {scores.ndim - 2} axes of pixels, but the kernels have widths for {axes}."
            + hint
        )
    return scores


def check_finite_scores(scores: Tensor) -> None:
    """Raises, with the first place, if scores hold NaN or infinity."""
    values = scores.detach()
    # On a CPU not by torch, whose threads would still spin while native code starts.
    if values.device.type == "cpu" and values.dtype == torch.float32 and values.is_contiguous():
        if _core.all_finite(values.reshape(-1).numpy(), torch_threads(None)):
            return
    elif bool(values.sum().isfinite()):
        return
    wrong = ~values.isfinite()
    if bool(wrong.any()):
        where = tuple(wrong.nonzero()[0].tolist())
        raise InputError(
            f"the scores hold NaN or infinity at {int(wrong.sum())} of {wrong.numel()} places, first at {where}. "
            "For a label that is ruled out use a large negative score such as -1e4."
        )


def checked_part(
    given: object,  # (B, C, …), or (1, C, …) for all items
    name: str,
    channels: int,
    scores: Tensor,  # (B, L, …)
    dtype: torch.dtype,
) -> Tensor:
    """An image or a feature (B, d, …) or (1, d, …), in the precision of the computation."""
    batch, shape = scores.shape[0], tuple(scores.shape[2:])
    argument = "image" if name == "the image" else "feature"
    if not isinstance(given, Tensor):
        cure = ""
        if hasattr(given, "__array__"):  # probably with channels last
            cure = f" Use torch.from_numpy({argument}).movedim(-1, 0)[None]."
        raise InputTypeError(
            f"{name} is of type {type(given).__name__}, expected a torch tensor (batch, channels, …).{cure}"
        )
    if given.dtype == torch.bool or given.is_complex():
        raise InputTypeError(f"{name} has dtype {given.dtype}, expected integers or floating point numbers.")
    came = tuple(given.shape)
    if came[2:] != shape or came[0] not in (batch, 1):
        expected = ", ".join(str(n) for n in (batch, channels, *shape))
        raise InputError(
            f"{name} has shape {came}, but the scores have {tuple(scores.shape)}: expected ({expected})."
            + pixels_hint(came, channels, tuple(scores.shape), name, argument)
        )
    if came[1] != channels:
        raise InputError(
            f"{name} has {came[1]} channels, but its kernel has widths for {channels}: make the module with "
            + (f"channels={came[1]}." if name == "the image" else f"sigma=[…], one width for each of the {came[1]}.")
        )
    if given.device != scores.device:
        raise InputError(f"{name} is on {given.device}, but the scores are on {scores.device}: move one to the other.")
    return given if given.dtype == torch.uint8 else given.to(dtype)  # native code reads bytes


def present_pixels(ignore: object, scores: Tensor, dtype: torch.dtype) -> Tensor | None:
    """0 for ignored pixels and 1 for others, (B, N)."""
    if ignore is None:
        return None
    expected = (scores.shape[0], *scores.shape[2:])
    if not isinstance(ignore, Tensor) or ignore.dtype != torch.bool or tuple(ignore.shape) != expected:
        came = f"{ignore.dtype} {tuple(ignore.shape)}" if isinstance(ignore, Tensor) else type(ignore).__name__
        hint = " It has no batch axis: pass ignore[None]." if getattr(ignore, "shape", None) == expected[1:] else ""
        raise InputError(f"ignore is {came}, expected a boolean tensor {expected}, True for pixels to leave out.{hint}")
    return (~ignore).to(scores.device, dtype).flatten(1)


def without_ignored(parts: Mapping[str, Tensor], present: Tensor) -> dict[str, Tensor]:  # (B, d, …) each; (B, N)
    """Replaces the features of ignored pixels by those of one present pixel, so that nothing depends on them."""
    mask = present > 0
    rows = torch.arange(len(mask), device=mask.device)
    first = mask.to(torch.uint8).argmax(dim=1)

    def replace(part: Tensor) -> Tensor:
        flat = part.expand(len(mask), *part.shape[1:]).flatten(2)
        one = flat[rows, :, first].nan_to_num(0, 0, 0)[..., None].detach()
        return torch.where(mask[:, None], flat, one).reshape(len(mask), *part.shape[1:])

    return {name: replace(part) for name, part in parts.items()}


def checked_parts(
    dimensions: Mapping[str, int],  # of all features that the kernels compare
    scores: Tensor,  # (B, L, …)
    dtype: torch.dtype,
    image: object,
    features: Mapping[str, object],
) -> dict[str, Tensor]:
    """The features that the kernels compare besides positions, by name, each (B, d, …) or (1, d, …)."""
    _check_feature_names(set(dimensions) - {"position", "channel"}, features)
    parts: dict[str, Tensor] = {}
    for name, dimension in dimensions.items():
        if name == "channel":
            if image is None:
                raise InputError("a bilateral kernel compares colours, but no image was given: pass image=.")
            parts[name] = checked_part(image, "the image", dimension, scores, dtype)
        elif name != "position":
            parts[name] = _near_origin(features[name], f"feature {name!r}", dimension, scores, dtype)
    return parts


def _near_origin(given: object, name: str, channels: int, scores: Tensor, dtype: torch.dtype) -> Tensor:
    """A feature; with more digits than single precision has, relative to the first pixel: only differences matter."""
    if not isinstance(given, Tensor) or given.dtype not in (torch.float64, torch.int32, torch.int64):
        return checked_part(given, name, channels, scores, dtype)
    part = checked_part(given, name, channels, scores, torch.float64)
    origin = part.detach().flatten(2)[:, :, :1].nan_to_num(0, 0, 0)
    return (part - origin.reshape(*origin.shape[:2], *[1] * (part.ndim - 2))).to(dtype)


def _check_feature_names(needed: Iterable[str], features: Mapping[str, object]) -> None:
    """Raises unless features= has exactly the features of the Custom kernels."""
    wanted = set(needed)
    for name in sorted(wanted - set(features)):
        raise InputError(
            f"a kernel compares {name!r}, but features= has {', '.join(sorted(features)) or 'nothing'}: pass "
            f"features={{{name!r}: tensor}}."
        )
    for name in sorted(set(features) - wanted):
        raise InputError(f"features= has {name!r}, which no kernel compares: add a Custom kernel of that name.")


def explained_failure(
    error: FeatureSpanError,
    parts_of_kernels: Mapping[str, Sequence[str]],  # by the name of the kernel
    parts: Mapping[str, Tensor],  # (B, d, …) each, with positions
    shapes: Sequence[Tensor],  # per kernel (d,) or (d, d)
) -> InputError:
    """The error of a filter in terms of the input: NaN in the image or a feature, or a kernel that is too narrow."""
    for name, part in parts.items():
        wrong = ~part.detach().isfinite().all(dim=1)
        if bool(wrong.any()):
            where = tuple(wrong.nonzero()[0].tolist())
            what = "the image" if name == "channel" else f"feature {name!r}"
            return InputError(
                f"{what} holds NaN or infinity at {int(wrong.sum())} of {wrong.numel()} pixels, first at {where}. Put "
                "finite numbers there, and leave those pixels out with ignore=."
            )
    spans = {}
    for (kernel, names), shape in zip(parts_of_kernels.items(), shapes, strict=True):
        columns = kernel_features([parts[name] for name in names]).detach().double()
        scaled = columns / shape.detach() if shape.ndim == 1 else columns @ shape.detach().T
        spans[kernel] = float((scaled.amax((0, 1)) - scaled.amin((0, 1))).max())
    if not spans:
        return error
    worst = max(spans, key=lambda kernel: spans[kernel])
    return InputError(f"the {worst} kernel compares numbers that span {spans[worst]:.3g} of its widths: {error}")


def kernel_features(parts: Sequence[Tensor]) -> Tensor:
    """Parts (B, d, …) or (1, d, …) side by side, (B, N, Σd)."""
    items = next((part.shape[0] for part in parts if part.shape[0] != 1), 1)  # len() would be fixed in a traced graph
    return torch.cat([part.expand(items, *part.shape[1:]).flatten(2) for part in parts], dim=1).transpose(1, 2)


def without_alpha(image: Any, channels: int) -> Any:
    """The image (B, C, …) without a constant alpha, if it has one channel too many; else unchanged.

    >>> without_alpha(torch.ones(1, 4, 2, 2), channels=3).shape
    torch.Size([1, 3, 2, 2])
    """
    if channels not in (1, 3) or not isinstance(image, Tensor) or image.ndim < 3 or image.shape[1] != channels + 1:
        return image
    if torch.compiler.is_compiling() or not image.numel():
        return image
    alpha = image.detach()[:, -1].flatten(1)
    return image[:, :-1] if bool((alpha == alpha[:, :1]).all()) else image


def warn_of_colours(image: Tensor, kernels: Iterable[KernelParameters], ignore: Tensor | None = None) -> bool:
    """Warns at the user's call if the values are probably not in 0…255; returns whether it did.

    8-bit images are not checked. Others take one pass, without the ignored pixels.

    >>> warn_of_colours(torch.zeros(1, 3, 2, 2, dtype=torch.uint8), [])
    False
    """
    widths = [each.channel_widths() for each in kernels] if image.dtype != torch.uint8 and image.numel() else []
    width = min((float(each.min()) for each in widths if each.size), default=None)
    if width is None:
        return False
    seen_pixels = image.detach()
    if ignore is not None:
        seen_pixels = seen_pixels.movedim(1, -1).expand(*ignore.shape, -1)[~ignore.to(image.device)]
    if not seen_pixels.numel():
        return False
    if seen_pixels.device.type == "cpu" and seen_pixels.dtype == torch.float32:
        low, high = float(seen_pixels.numpy().min()), float(seen_pixels.numpy().max())  # see check_finite_scores
    else:
        low, high = (float(value) for value in seen_pixels.aminmax())
    seen = low, high, width, not image.is_floating_point()
    if range_problem(*seen) is None:
        return False
    warn_of_range(*seen)
    return True
