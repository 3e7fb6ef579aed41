"""Mean field in which some marginals are held fixed: how the marginals of a frame are carried to the next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from densefield.crf.problem import Problem

Float32 = npt.NDArray[np.float32]


def with_held_marginals(problem: Problem, held: npt.NDArray[np.bool_], marginals: Float32) -> Problem:
    """The problem whose held pixels send fixed marginals; only the other pixels are inferred.

    In the update z_i = f_i + Σ_j k̂(i,j) μ q_j of mean field (paper, Eq. 5), the terms of held pixels j are constant.
    They are added to the scores once, and held pixels send nothing more. Results at held pixels have no meaning.

    Parameters
    ----------
    problem
        The pixels of several frames, and the terms that couple them.
    held
        (N,): True for held pixels.
    marginals
        (L, M): the marginals of the M held pixels.

    >>> from densefield.crf import CRF, Custom
    >>> crf = CRF([Custom("place", sigma=1.0, weight=2.0)])
    >>> problem = crf.problem(np.zeros((2, 2), np.float32), features={"place": np.zeros((2, 1), np.float32)})
    >>> carried = with_held_marginals(problem, np.array([True, False]), np.array([[0.0], [1.0]], np.float32))
    >>> bool(crf.marginals_of(carried)[1, 1] > 0.7)
    True
    """
    values = np.zeros((problem.scores.shape[1], len(marginals)), np.float32)
    values[held] = marginals.T
    sends = (~held).astype(np.float32)[:, None]
    if problem.order is not None:
        values, sends = values[problem.order.indices], sends[problem.order.indices]
    messages = sum((term.message(values) for term in problem.pairwise), np.zeros_like(values))
    scores = problem.scores + problem.on_grid(messages).T
    terms = tuple(replace(term, before=term.before * sends) for term in problem.pairwise)
    return replace(problem, scores=np.ascontiguousarray(scores, np.float32), pairwise=terms)
