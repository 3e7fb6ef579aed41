"""Native mean field, that of whole batches in torch, and their readable twin, with the same arguments.

Features are (B, N, d) or (1, N, d) per kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from densefield.crf.options import CRFOptions
from densefield.nn.batch import KernelSpec, OpOptions
from densefield.nn.native_op import native_op
from densefield.nn.reference import reference_mean_field
from densefield.nn.torch_mean_field import torch_mean_field


def native(
    scores: Any,
    features: Sequence[Any],
    shapes: Sequence[Any],
    weights: Sequence[Any],
    *,
    normalizations: Sequence[Any],
    present: Any = None,
    adjoint: Any = "store",
    **options: Any,
) -> Any:
    names = tuple(f"feature{m}" for m in range(len(features)))
    specs = tuple(KernelSpec((name,), normalization) for name, normalization in zip(names, normalizations, strict=True))
    parts = [feature.transpose(1, 2) for feature in features]
    encoded = OpOptions(specs, names, CRFOptions(**options)).encode()
    return native_op(scores, parts, shapes, weights, present, None, encoded, adjoint)


def reference(
    scores: Any,
    features: Sequence[Any],
    shapes: Sequence[Any],
    weights: Sequence[Any],
    *,
    normalizations: Sequence[Any],
    present: Any = None,
    adjoint: Any = "store",
    **options: Any,
) -> Any:
    return reference_mean_field(
        scores, features, shapes, weights, normalizations, CRFOptions(**options), present, adjoint
    )


def batched(
    scores: Any,
    features: Sequence[Any],
    shapes: Sequence[Any],
    weights: Sequence[Any],
    *,
    normalizations: Sequence[Any],
    present: Any = None,
    adjoint: Any = "store",
    **options: Any,
) -> Any:
    fixed = CRFOptions(**options)
    return torch_mean_field(scores, features, shapes, weights, normalizations, fixed, present, adjoint)
