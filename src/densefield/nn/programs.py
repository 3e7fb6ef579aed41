"""The convex programs of convergent inference in torch, differentiated by their stationarity condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from densefield.crf.convergent import check_convergent, solve_diagonal, solve_matrix
from densefield.crf.mean_field import log_softmax, update
from densefield.crf.pairwise import Pairwise
from densefield.filters.torch_modes import forbid_second_derivatives

if TYPE_CHECKING:
    from densefield.nn.torch_terms import BatchTerm

# K̂(i,i), (N, 1), and μ of the kernels whose pixels send nothing to themselves.
Own = Sequence[tuple[Tensor, Tensor]]

_BATCH = 1 << 20  # numbers in the matrices that are solved together


def convergent_mean_field(scores: Tensor, pairwise: Sequence[Pairwise[Tensor]], iterations: int) -> Tensor:
    """log q^T of T steps of convergent inference, (N, L), with gradients (paper, Inference, CCCP).

    The twin of densefield.crf.convergent.convergent_steps for tensors. The programs are solved on the CPU.
    """
    check_convergent_terms(pairwise)
    log_q = scores.log_softmax(-1)
    for _ in range(iterations):
        log_q = convergent_step(scores, pairwise, log_q)
    return log_q


def check_convergent_terms(pairwise: Sequence[Pairwise[Tensor] | BatchTerm]) -> None:
    """check_convergent() for tensors."""
    check_convergent(numpy_terms(pairwise))


def numpy_terms(pairwise: Sequence[Pairwise[Tensor] | BatchTerm]) -> list[Any]:
    """Terms whose weights are arrays, as check_convergent() takes them."""
    terms: Any = pairwise
    return [replace(term, mu=_to_numpy(term.mu)) for term in terms]


def convergent_step(scores: Tensor, pairwise: Sequence[Pairwise[Tensor]], log_q: Tensor) -> Tensor:
    """The next log q, (N, L): the minimum of the free energy with its concave part linearised at q."""
    q = log_q.exp()
    c = update(scores, [replace(term, own=None) for term in pairwise], q)
    return solve_programs(c, [(term.own, term.mu) for term in pairwise if term.own is not None], q)


def solve_programs(c: Tensor, own: Own, q: Tensor) -> Tensor:
    """log q of the least Σ_l q_l log q_l - q·c + ½ qᵀ D q at every pixel, (N, L), with D_i = Σ_m K̂_m(i,i) μ_m.

    `q` is where to start. The derivative is that of program_slope().
    """
    if not own:
        return log_softmax(c)
    if _is_diagonal(own):
        return _DiagonalProgram.apply(c, _diagonals(own, c))  # type: ignore[no-any-return, no-untyped-call]
    return _MatrixProgram.apply(c, *_matrices(own, c), q.detach())  # type: ignore[no-any-return, no-untyped-call]


def program_slope(cotangent: Tensor, q: Tensor, own: Own) -> Tensor:
    """From ∂loss/∂log q to ∂loss/∂c, (N, L), for the solutions q of solve_programs()."""
    if not own:
        return torch.addcmul(cotangent, q, cotangent.sum(1, keepdim=True), value=-1)
    if _is_diagonal(own):
        return _diagonal_slope(cotangent, q, _diagonals(own, q))
    return _matrix_slope(cotangent, q, *_matrices(own, q))


def _is_diagonal(own: Own) -> bool:
    return all(mu.ndim < 2 for _, mu in own)


def _diagonals(own: Own, like: Tensor) -> Tensor:
    """The diagonals of D, (N, L)."""
    d = torch.zeros_like(like)
    for k, mu in own:
        d = d + k * mu
    return d


def _matrices(own: Own, like: Tensor) -> tuple[Tensor, Tensor]:
    """Factors (N, M) and matrices (M, L, L) of D."""
    labels = torch.eye(like.shape[1], dtype=like.dtype, device=like.device)
    matrices = torch.stack([mu if mu.ndim == 2 else labels * mu for _, mu in own])
    return torch.cat([k for k, _ in own], dim=1), matrices


def _diagonal_slope(v: Tensor, q: Tensor, d: Tensor) -> Tensor:
    """v s - q s Σ(v s)/Σ(q s) with s = 1/(1 + d q)."""
    share = 1 / (1 + d * q)
    x, y = v * share, q * share
    return x - y * (x.sum(1, keepdim=True) / y.sum(1, keepdim=True))


def _matrix_slope(v: Tensor, q: Tensor, factors: Tensor, matrices: Tensor) -> Tensor:
    """x - y Σx/Σy with x = (I + Q D)⁻¹ v, y = (I + Q D)⁻¹ q and Q = diag q."""
    unit = torch.eye(v.shape[1], dtype=v.dtype, device=v.device)
    g = torch.empty_like(v)
    rows = max(1, _BATCH // max(1, v.shape[1] ** 2))
    for first in range(0, len(v), rows):
        here = slice(first, first + rows)
        system = unit + q[here, :, None] * torch.tensordot(factors[here], matrices, dims=1)
        x, y = torch.linalg.solve(system, torch.stack([v[here], q[here]], dim=2)).unbind(2)
        g[here] = x - y * (x.sum(1, keepdim=True) / y.sum(1, keepdim=True))
    return g


class _DiagonalProgram(torch.autograd.Function):
    """log q (N, L) with log q + d q = c - ν and Σ q = 1, for c and d (N, L).

    ∂c is that of _diagonal_slope(), and ∂d = -q ∂c.
    """

    @staticmethod
    def forward(ctx: Any, c: Tensor, d: Tensor) -> Tensor:
        log_q = _from_numpy(solve_diagonal(_to_numpy(c), _to_numpy(d)), c)
        ctx.save_for_backward(c, d, log_q)
        return log_q

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor | None, ...]:
        c, d, log_q = ctx.saved_tensors
        q = log_q.detach().exp()
        g = _diagonal_slope(cotangent.detach(), q, d.detach())
        return forbid_second_derivatives((g, -q * g), cotangent, c, d)


class _MatrixProgram(torch.autograd.Function):
    """log q (N, L) with log q + D_i q = c - ν, Σ q = 1 and D_i = Σ_m s_im M_m.

    Factors s are (N, M), and matrices M_m (L, L). ∂c = g is that of _matrix_slope(), ∂s_im = -gᵀ M_m q, and
    ∂M_m = -Σ_i s_im g qᵀ.
    """

    @staticmethod
    def forward(ctx: Any, c: Tensor, factors: Tensor, matrices: Tensor, start: Tensor) -> Tensor:
        solved = solve_matrix(_to_numpy(c), _to_numpy(factors), _to_numpy(matrices), _to_numpy(start))
        log_q = _from_numpy(solved, c)
        ctx.save_for_backward(c, factors, matrices, log_q)
        return log_q

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor | None, ...]:
        c, factors, matrices, log_q = ctx.saved_tensors
        q, s, m = log_q.detach().exp(), factors.detach(), matrices.detach()
        g = _matrix_slope(cotangent.detach(), q, s, m)
        to_factors = -torch.stack([(g * (q @ matrix.T)).sum(1) for matrix in m], dim=1)
        to_matrices = -torch.stack([(column[:, None] * g).T @ q for column in s.T])
        return *forbid_second_derivatives((g, to_factors, to_matrices), cotangent, c, factors, matrices), None


def _to_numpy(tensor: Tensor) -> Any:
    return tensor.detach().cpu().numpy()


def _from_numpy(array: Any, like: Tensor) -> Tensor:
    return torch.from_numpy(array).to(like)
