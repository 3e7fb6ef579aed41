"""The diagonal k(i,i) of a lattice in torch operations, in time linear in the number of points.

k(i,i) = Σ_kl w_k B(u_k, u_l) w_l with the weights w of the corners u of point i's simplex. So B is needed for pairs of
vertices that are corners of one simplex only. Their keys differ by Σ_a γ_a s_a, with s_a the step along axis a, and
paths through the blur are followed from both ends towards each other: for "symmetric", whose passes are 0…d and back,

    F_a(u, w) = Σ_{α+β=γ_a} tap^(|α|+|β|) F_{a+1}(u + α s_a, w - β s_a)

with α and β of -1, 0 or 1, B = F_0, and F_{d+1}(u, w) = 1 for u = w. Terms with a missing vertex are zero. An operator
that blurs each axis once has α = 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from densefield.filters.lattice_geometry import previous_vertices

_MOST_POINTS = 1 << 16  # at a time


def lattice_diagonal(
    vertex: Tensor,  # (N, d+1): corners of each point's simplex
    weights: Tensor,  # (N, d+1)
    following: Tensor,  # (d+1, M): the next vertex along each axis, M if it is missing
    keys: Tensor,  # (M, d+1): coordinates of the vertices
    passes: Sequence[tuple[int, float]],  # of the blur: (axis, tap)
) -> Tensor:
    """Σ_kl w_k B(u_k, u_l) w_l for each point, (N,): the diagonal of S·B·Sᵀ."""
    parts = [
        _diagonal(vertex[first : first + _MOST_POINTS], weights[first : first + _MOST_POINTS], following, keys, passes)
        for first in range(0, len(vertex), _MOST_POINTS)
    ]
    return torch.cat(parts) if parts else weights.new_empty(0)


def _diagonal(
    vertex: Tensor, weights: Tensor, following: Tensor, keys: Tensor, passes: Sequence[tuple[int, float]]
) -> Tensor:
    corners, vertices = vertex.shape[1], len(keys)
    symmetric = len(passes) > corners
    one, other = torch.ones(corners, corners, device=vertex.device).nonzero().T
    if symmetric:  # B(u, w) counts for B(w, u) too
        one, other = torch.triu_indices(corners, corners, device=vertex.device)
    simplices, simplex = torch.unique(vertex, dim=0, return_inverse=True)
    codes, pair = torch.unique(simplices[:, one] * vertices + simplices[:, other], return_inverse=True)
    between = _Paths(following, [tap for _, tap in passes[:corners]], symmetric, weights.dtype)
    found = between(codes // vertices, codes % vertices, keys)[pair]  # (simplices, pairs)
    if symmetric:
        found = torch.where(one == other, found, 2 * found)
    return (found[simplex] * weights[:, one] * weights[:, other]).sum(1)


class _Paths:
    """B(u, w) for pairs of vertices of one simplex."""

    def __init__(self, following: Tensor, taps: Sequence[float], symmetric: bool, dtype: torch.dtype) -> None:
        self._corners, self._vertices = following.shape
        self._taps, self._symmetric, self._dtype = taps, symmetric, dtype
        missing = following.new_full((self._corners, 1), self._vertices)
        here = torch.arange(self._vertices + 1, device=following.device).expand(self._corners, -1)
        steps = [previous_vertices(following), following]
        before, after = (torch.cat([each, missing], 1) for each in steps)
        self._moved = torch.stack([before, here, after])  # (3, d+1, M + 1), by the step + 1

    def __call__(self, u: Tensor, w: Tensor, keys: Tensor) -> Tensor:
        """The sum over all γ. All steps together are no step, so γ is known up to a constant."""
        difference = keys[w] - keys[u]  # Σ_b γ_b - (d+1) γ_a
        least = (difference.amax(1, keepdim=True) - difference) // self._corners  # γ with a minimum of 0
        reach = 2 if self._symmetric else 1
        rows, gammas = [], []
        for constant in range(-reach, reach + 1):
            gamma = least + constant
            rows.append((gamma.amax(1) <= reach).nonzero()[:, 0])
            gammas.append(gamma[rows[-1]])
        row = torch.cat(rows)
        values = self._follow(u[row], w[row], torch.cat(gammas), 0)
        return values.new_zeros(len(u)).index_add_(0, row, values)

    def _follow(self, u: Tensor, w: Tensor, gamma: Tensor, axis: int) -> Tensor:
        """F_axis(u, w); `gamma` (pairs, d+1) counts from this axis on."""
        if axis == self._corners:
            return torch.ones(len(u), dtype=self._dtype, device=u.device)
        sources, nearer, factors = [], [], []
        for alpha in (-1, 0, 1) if self._symmetric else (0,):
            beta = gamma[:, axis] - alpha
            u_next = self._moved[alpha + 1, axis][u]
            w_next = self._moved[1 - beta.clamp(-1, 1), axis, w]
            source = ((beta.abs() <= 1) & (u_next < self._vertices) & (w_next < self._vertices)).nonzero()[:, 0]
            sources.append(source)
            nearer.append((u_next * self._vertices + w_next)[source])
            factors.append(self._taps[axis] ** (abs(alpha) + beta[source].abs()).to(self._dtype))
        source = torch.cat(sources)
        # The remaining steps are linearly independent: equal pairs have equal γ from the next axis on.
        codes, target = torch.unique(torch.cat(nearer), return_inverse=True)
        example = torch.zeros_like(codes)
        example[target] = source
        deeper = self._follow(codes // self._vertices, codes % self._vertices, gamma[example], axis + 1)
        return deeper.new_zeros(len(u)).index_add_(0, source, torch.cat(factors) * deeper[target])
