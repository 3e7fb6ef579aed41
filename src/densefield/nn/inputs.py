"""What is known of every pixel, from tensors: checked, and with pixels in rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from densefield.errors import InputError, InputTypeError
from densefield.nn.shape_hints import pixels_hint, scores_hint


def checked_scores(
    scores: object,
    num_classes: int,
    axes: int | None,  # of the grid; None where no kernel compares positions, and pixels may have any number of axes
) -> Tensor:
    """Scores (B, L, …) of floating point numbers; their values are looked at by check_finite_scores."""
    if not isinstance(scores, Tensor):
        raise InputTypeError(
            f"the scores are a {type(scores).__name__}, expected a torch tensor (batch, labels, rows, columns), or a "
            "list of (labels, rows, columns). For numpy arrays use densefield.CRF, or torch.from_numpy(scores)."
        )
    if not scores.is_floating_point():
        raise InputTypeError(
            f"the scores have dtype {scores.dtype}, expected floating point numbers, a network's logits."
        )
    shape = tuple(scores.shape)
    if scores.ndim not in (3, 4, 5):
        raise InputError(
            f"the scores have shape {shape}, expected (batch, labels, rows, columns), "
            "(batch, labels, planes, rows, columns) or (batch, labels, points)."
            + scores_hint(shape, num_classes, axes or scores.ndim - 1)
        )
    if scores.shape[1] != num_classes:
        raise InputError(
            f"the scores have shape {shape}, which is for {scores.shape[1]} labels, but there are {num_classes}."
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
    """Raises, and says where, if scores hold NaN or infinity."""
    values = scores.detach()
    # The sum is finite only if every score is; most of the time one pass settles it.
    if bool(values.sum().isfinite()):
        return
    wrong = ~values.isfinite()
    if bool(wrong.any()):
        where = tuple(wrong.nonzero()[0].tolist())
        raise InputError(
            f"the scores hold NaN or infinity at {int(wrong.sum())} of {wrong.numel()} places, first at {where}. "
            "For a label that is ruled out use a large negative score such as -1e4."
        )


def pixel_rows(
    given: object,  # (B, C, …), or (1, C, …) for all items
    name: str,
    channels: int,
    scores: Tensor,  # (B, L, …)
    dtype: torch.dtype,
) -> Tensor:
    """An image or a feature as (B, N, C) or (1, N, C), in the precision of the computation."""
    batch, shape = scores.shape[0], tuple(scores.shape[2:])
    argument = "image" if name == "the image" else "feature"
    if not isinstance(given, Tensor):
        cure = ""
        if hasattr(given, "__array__"):  # as NumPy has it, with channels last
            cure = f" Use torch.from_numpy({argument}).movedim(-1, 0)[None]."
        raise InputTypeError(f"{name} is a {type(given).__name__}, expected a torch tensor (batch, channels, …).{cure}")
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
    return given.flatten(2).transpose(1, 2).to(dtype)


def present_pixels(ignore: object, scores: Tensor, dtype: torch.dtype) -> Tensor | None:
    """1 for pixels that take part and 0 for those to ignore, (B, N)."""
    if ignore is None:
        return None
    expected = (scores.shape[0], *scores.shape[2:])
    if not isinstance(ignore, Tensor) or ignore.dtype != torch.bool or tuple(ignore.shape) != expected:
        came = f"{ignore.dtype} {tuple(ignore.shape)}" if isinstance(ignore, Tensor) else type(ignore).__name__
        hint = " It has no batch axis: pass ignore[None]." if getattr(ignore, "shape", None) == expected[1:] else ""
        raise InputError(f"ignore is {came}, expected a boolean tensor {expected}, True for pixels to leave out.{hint}")
    return (~ignore).to(scores.device, dtype).flatten(1)


def hidden_sites(sites: Mapping[str, Tensor], present: Tensor) -> dict[str, Tensor]:  # each (B, N, d); (B, N)
    """Sites whose ignored pixels have the numbers of one that takes part, so that nothing depends on what they hold.

    Positions stay: they are the same whatever the image.
    """
    seen = present > 0
    rows = torch.arange(len(seen), device=seen.device)
    first = seen.to(torch.uint8).argmax(dim=1)

    def hide(values: Tensor) -> Tensor:
        each = values.expand(len(seen), -1, -1)
        return torch.where(seen[..., None], each, each[rows, first].nan_to_num(0, 0, 0)[:, None].detach())

    return {part: values if part == "position" else hide(values) for part, values in sites.items()}


def gather_sites(
    dimensions: Mapping[str, int],  # of every part that the kernels compare
    scores: Tensor,  # (B, L, …)
    dtype: torch.dtype,
    positions: Tensor | None,  # (1, N, axes)
    image: object,
    features: Mapping[str, object],
) -> dict[str, Tensor]:
    """Every part that the kernels compare, by name, each (B, N, d) or (1, N, d)."""
    _check_feature_names(set(dimensions) - {"position", "channel"}, features)
    sites: dict[str, Tensor] = {}
    for part, dimension in dimensions.items():
        if part == "position" and positions is not None:
            sites[part] = positions
        elif part == "channel":
            if image is None:
                raise InputError("a bilateral kernel compares colours, but no image was given: pass image=.")
            sites[part] = pixel_rows(image, "the image", dimension, scores, dtype)
        else:
            sites[part] = _near_origin(features[part], f"feature {part!r}", dimension, scores, dtype)
    return sites


def _near_origin(given: object, name: str, channels: int, scores: Tensor, dtype: torch.dtype) -> Tensor:
    """pixel_rows of a feature, seen from the first pixel where it has more digits than single precision: only
    differences count."""
    if not isinstance(given, Tensor) or given.dtype not in (torch.float64, torch.int32, torch.int64):
        return pixel_rows(given, name, channels, scores, dtype)
    rows = pixel_rows(given, name, channels, scores, torch.float64)
    return (rows - rows[:, :1].detach().nan_to_num(0, 0, 0)).to(dtype)


def items_of_lists(
    scores: Sequence[Tensor], image: Any, features: Mapping[str, Any], ignore: Any
) -> Iterator[dict[str, Any]]:
    """Lists of tensors without a batch axis as batches of one, each with the names of its arguments."""
    lists = {"image": image, "ignore": ignore, **{f"features[{name!r}]": each for name, each in features.items()}}
    for item in scores:
        if not isinstance(item, Tensor):
            raise InputTypeError(f"the scores are a list with a {type(item).__name__} in it, expected torch tensors.")
    for name, given in lists.items():
        if given is not None and (not isinstance(given, list | tuple) or len(given) != len(scores)):
            came = f"a list of {len(given)}" if isinstance(given, list | tuple) else f"a {type(given).__name__}"
            raise InputError(f"the scores are a list of {len(scores)}, but {name} is {came}: expected as many.")
    for index, item in enumerate(scores):
        yield {
            "scores": item[None],
            "image": None if image is None else image[index][None],
            "features": {name: each[index][None] for name, each in features.items()},
            "ignore": None if ignore is None else ignore[index][None],
        }


def _check_feature_names(needed: Iterable[str], features: Mapping[str, object]) -> None:
    """Raises unless features= has exactly what the Custom kernels compare."""
    wanted = set(needed)
    for name in sorted(wanted - set(features)):
        raise InputError(
            f"a kernel compares {name!r}, but features= has {', '.join(sorted(features)) or 'nothing'}: pass "
            f"features={{{name!r}: tensor}}."
        )
    for name in sorted(set(features) - wanted):
        raise InputError(f"features= has {name!r}, which no kernel compares: add a Custom kernel of that name.")


def explained_failure(
    error: InputError,
    parts_of_kernels: Mapping[str, Sequence[str]],  # by the kernel's name
    sites: Mapping[str, Tensor],  # each (B, N, d) or (1, N, d)
    shapes: Sequence[Tensor],  # per kernel (d,) or (d, d)
    grid: Sequence[int],
) -> InputError:
    """The error of a filter with the name of what it was made from: the image, a feature, or a kernel."""
    for part, values in sites.items():
        wrong = ~values.detach().isfinite().all(dim=2)
        if bool(wrong.any()):
            item, pixel = wrong.nonzero()[0].tolist()
            where = (item, *(int(i) for i in np.unravel_index(pixel, tuple(grid))))
            name = "the image" if part == "channel" else f"feature {part!r}"
            return InputError(
                f"{name} holds NaN or infinity at {int(wrong.sum())} of {wrong.numel()} pixels, first at {where}. Put "
                "finite numbers there, and leave those pixels out with ignore=."
            )
    spans = {}
    for (kernel, parts), shape in zip(parts_of_kernels.items(), shapes, strict=True):
        columns = joined([sites[part] for part in parts]).detach().double()
        scaled = columns / shape.detach() if shape.ndim == 1 else columns @ shape.detach().T
        spans[kernel] = float((scaled.amax((0, 1)) - scaled.amin((0, 1))).max())
    if not spans:
        return error
    worst = max(spans, key=lambda kernel: spans[kernel])
    return InputError(f"the {worst} kernel compares numbers that span {spans[worst]:.3g} of its widths: {error}")


def joined(parts: Sequence[Tensor]) -> Tensor:
    """Parts (B, N, d) or (1, N, d) side by side."""
    items = next((part.shape[0] for part in parts if part.shape[0] != 1), 1)  # len() would be fixed in a traced graph
    return torch.cat([part.expand(items, -1, -1) for part in parts], dim=2)
