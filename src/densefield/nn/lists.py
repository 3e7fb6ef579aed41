"""Lists of images of any sizes: images of the same size are one batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from densefield.crf.features import checked_spacing
from densefield.errors import InputError, InputTypeError


def batches_of_lists(
    scores: Sequence[Tensor],  # (L, …) each
    image: Any,
    features: Mapping[str, Any],
    ignore: Any,
    spacing: Any,
) -> Iterator[tuple[list[int], dict[str, Any]]]:
    """The items of each batch, and the batch as keyword arguments of DenseCRF.

    Images of the same size are computed together: the CRF of a batch runs one image on each thread, which is faster
    than all threads on one image.

    >>> small, large = torch.zeros(2, 3, 4), torch.zeros(2, 5, 5)
    >>> batches = list(batches_of_lists([small, large, small], None, {}, None, None))
    >>> [(items, tuple(batch["scores"].shape)) for items, batch in batches]
    [([0, 2], (2, 2, 3, 4)), ([1], (1, 2, 5, 5))]
    """
    others = {"image": image, "ignore": ignore, **{f"features[{name!r}]": each for name, each in features.items()}}
    given = {name: _checked_list(name, each, len(scores)) for name, each in others.items() if each is not None}
    given["scores"] = _checked_list("scores", scores, len(scores))
    is_nested = _is_nested(spacing, len(scores))
    groups: dict[object, list[int]] = {}
    for item in range(len(scores)):
        kinds = tuple((each[item].shape, each[item].dtype, each[item].device) for each in given.values())
        groups.setdefault(kinds, []).append(item)
    for items in groups.values():
        batch = {name: _batch([each[item] for item in items]) for name, each in given.items()}
        yield (
            items,
            {
                "scores": batch["scores"],
                "image": batch.get("image"),
                "features": {name: batch[f"features[{name!r}]"] for name in features},
                "ignore": batch.get("ignore"),
                "spacing": [spacing[item] for item in items] if is_nested else spacing,
            },
        )


def checked_spacings(spacing: Any, axes: int, images: int) -> list[tuple[float, ...]]:
    """The size of a pixel along x, y(, z): one for the whole batch, or one for each image.

    >>> checked_spacings((2, 1), axes=2, images=3), checked_spacings([(1, 1), (2, 2)], axes=2, images=2)
    ([(2.0, 1.0)], [(1.0, 1.0), (2.0, 2.0)])
    """
    each = spacing if _is_nested(spacing, images) else [spacing]
    return [checked_spacing(one, axes) for one in each]


def _checked_list(name: str, given: Any, count: int) -> Sequence[Tensor]:
    if not isinstance(given, list | tuple) or len(given) != count:
        came = f"a list of {len(given)}" if isinstance(given, list | tuple) else f"of type {type(given).__name__}"
        raise InputError(f"the scores are a list of {count}, but {name} is {came}: expected as many.")
    for item in given:
        if not isinstance(item, Tensor):
            raise InputTypeError(
                f"{'the scores are' if name == 'scores' else f'{name} is'} a list with an element of type "
                f"{type(item).__name__}, expected torch tensors, with channels first."
            )
    return given


def _batch(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(tensors)) if len(tensors) > 1 else tensors[0][None]  # a single image needs no copy


def _is_nested(spacing: Any, images: int) -> bool:
    """Whether there is a spacing for each image, instead of one for all."""
    if not isinstance(spacing, list | tuple) or not all(isinstance(each, list | tuple) for each in spacing):
        return False
    if len(spacing) != images:
        raise InputError(f"there are {images} images, but spacing is a list of {len(spacing)}: expected as many.")
    return True
