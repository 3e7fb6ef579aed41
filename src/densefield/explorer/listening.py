"""One pixel: its marginals, the messages it gets, and the pixels it listens to."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.crf.compatibility import mix
from densefield.crf.mean_field import exponential, log_softmax
from densefield.crf.pairwise import Pairwise
from densefield.errors import InputError
from densefield.explorer.inference import Result

Array = npt.NDArray[Any]


def kernel_row(result: Result, kernel: int, pixel: int) -> Array | None:
    """k̂(i, ·), the weights with which a pixel listens to all others, (H·W,), in the order of the image.

    They are those that inference uses: K̂ᵀ e_i, the adjoint of the normalised filter applied to a unit impulse at
    pixel i, in O(N). None for a pixel that is too far from any edge for the learnt model to couple it.
    """
    problem = result.problem
    if problem is None:
        return None
    if not 0 <= kernel < len(problem.pairwise):
        raise InputError(f"there is no kernel number {kernel}, expected 0 to {len(problem.pairwise) - 1}.")
    place = _place(result, pixel)
    if place is None:
        return None
    row = problem.on_grid(_row(problem.pairwise[kernel], place))
    if result.points is None:
        return row
    everywhere = np.zeros(result.marginals[0].size, row.dtype)
    everywhere[result.points] = row
    return everywhere


def _row(term: Pairwise[Array], place: int) -> Array:
    """Row `place` of K̂ = diag(after) K diag(before), without its diagonal if that is left out, (N,)."""
    assert term.lattice is not None
    impulse = np.zeros((len(term.before), 1), np.float32)
    impulse[place] = term.after[place]
    row = term.lattice.apply_adjoint(impulse) * term.before
    if term.own is not None:
        row[place] -= term.own[place]
    return row[:, 0]


def _place(result: Result, pixel: int) -> int | None:
    """The row of a pixel in the pairwise terms."""
    assert result.problem is not None
    if result.points is not None:
        found = np.flatnonzero(result.points == pixel)
        return int(found[0]) if found.size else None
    order = result.problem.order
    return pixel if order is None else int(order.inverse[pixel])


def pixel_facts(result: Result, pixel: int) -> dict[str, Any]:
    """Marginals of a pixel before and after inference, and the scores that the neighbours of each kernel add."""
    after = result.marginals.reshape(len(result.numbers), -1)[:, pixel]
    facts: dict[str, Any] = {"numbers": result.numbers.tolist(), "after": after.tolist(), "messages": []}
    problem = result.problem
    place = None if problem is None else _place(result, pixel)
    facts["coupled"] = place is not None
    column = pixel if result.points is None or place is None else place
    if problem is None or place is None:
        return facts
    f = problem.scores[:, column]
    facts["scores"] = f.tolist()
    facts["before"] = exponential(log_softmax(f[None]))[0].tolist()
    q = result.marginals.reshape(len(result.numbers), -1).T
    for number, kernel in enumerate(result.crf.kernels):
        row = kernel_row(result, number, pixel)
        assert row is not None
        message = mix((row @ q)[None], problem.pairwise[number].mu)
        facts["messages"].append({"kernel": kernel.name, "scores": np.asarray(message)[0].tolist(), **_reach(row)})
    return facts


def _reach(row: Array) -> dict[str, float]:
    """The sum of a row, and the number of equally weighted pixels that would be as concentrated.

    >>> _reach(np.array([0.25, 0.25, 0.25, 0.25]))
    {'total': 1.0, 'pixels': 4.0}
    """
    weights = np.maximum(row, 0).astype(np.float64)
    total = float(weights.sum())
    return {"total": total, "pixels": total**2 / float(np.square(weights).sum()) if total > 0 else 0.0}


def as_heat(row: Array) -> npt.NDArray[np.uint8]:
    """A row as bytes for the page: the square root of the weights over the largest, 0…255.

    >>> as_heat(np.array([0.0, 0.25, 1.0])).tolist()
    [0, 128, 255]
    """
    weights = np.maximum(row, 0)
    heat: npt.NDArray[np.uint8] = np.rint(255 * np.sqrt(weights / max(float(weights.max()), 1e-30))).astype(np.uint8)
    return heat
