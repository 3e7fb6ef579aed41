"""Hints for errors: the probable mistake in the shape of a tensor, and its cure."""

from __future__ import annotations

Shape = tuple[int, ...]

_MODES = {1: "linear", 2: "bilinear", 3: "trilinear"}


def scores_hint(shape: Shape, num_classes: int, axes: int) -> str:
    """Why scores of this shape are probably not (batch, classes, …), after a space; "" if unknown.

    >>> scores_hint((21, 375, 500), 21, axes=2)
    ' There is no batch axis: pass scores[None], or a list of tensors.'
    >>> scores_hint((1, 1000, 4), 4, axes=1)
    ' The classes are the last axis: use scores.transpose(1, 2).'
    """
    if len(shape) == axes + 1 and shape[0] == num_classes:
        return " There is no batch axis: pass scores[None], or a list of tensors."
    if shape[:3] == (1, 1, num_classes):
        return " Items of a list have no batch axis: pass the tensor itself, or scores[0] in the list."
    if len(shape) > 2 and shape[-1] == num_classes and shape[1] != num_classes:
        swap = "transpose(1, 2)" if len(shape) == 3 else "movedim(-1, 1)"
        return f" The classes are the last axis: use scores.{swap}."
    if len(shape) <= 4 and shape[:1] == (num_classes,) and shape[1:2] != (num_classes,):
        return " There is no batch axis: pass scores[None], or a list of tensors."
    return ""


def pixels_hint(came: Shape, channels: int, scores: Shape, name: str, argument: str) -> str:
    """Why an image or feature of the shape `came` does not fit scores (B, L, …); "" if unknown.

    `channels` is the number of widths of its kernel, `name` its name in errors, `argument` the variable in code.

    >>> pixels_hint((1, 3, 375, 500), 3, (1, 21, 47, 63), "the image", "image").partition("scores, ")[2]
    "torch.nn.functional.interpolate(scores, size=image.shape[-2:], mode='bilinear', align_corners=False)."
    """
    grid = scores[2:]
    axes = len(grid)
    if came == (channels, *grid):
        return f" {_capital(name)} has no batch axis: pass {argument}[None]."
    if came == (*grid, channels):
        return f" {_capital(name)} has no batch axis, and its channels come last: use {argument}.movedim(-1, 0)[None]."
    if came[1:-1] == grid:
        swap = "transpose(1, 2)" if axes == 1 else "movedim(-1, 1)"
        return f" Its channels come last: use {argument}.{swap}."
    if len(came) != len(scores):
        return ""
    if axes == 2 and came[2:] == grid[::-1]:
        return f" Rows and columns are swapped: use {argument}.transpose(-2, -1)."
    if axes == 1 and came[2] == scores[1]:
        return " The classes of the scores are the last axis: use scores.transpose(1, 2)."
    larger = came[2:] != grid and all(large >= small for large, small in zip(came[2:], grid, strict=True))
    if argument == "image" and larger:
        return (
            f" The scores are {_size(grid)} and the image {_size(came[2:])}: upsample the scores, "
            f"torch.nn.functional.interpolate(scores, size=image.shape[-{axes}:], mode={_MODES[axes]!r}, "
            "align_corners=False)."
        )
    return ""


def _size(shape: Shape) -> str:
    return "×".join(str(side) for side in shape)


def _capital(name: str) -> str:
    return name[0].upper() + name[1:]
