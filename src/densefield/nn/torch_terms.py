"""Pairwise terms of a whole batch in torch operations, and the sums of their gradients in back-tracking."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from densefield.crf.compatibility import mix
from densefield.crf.kernels import Normalization
from densefield.crf.options import CRFOptions
from densefield.crf.pairwise import normalized
from densefield.filters.batch_moments import batch_moments
from densefield.filters.lattice_batch import BatchLattice, WeightedSums


@dataclass(frozen=True)
class BatchTerm:
    """The term μ ⊗ K̂ of one kernel on the P pixels of a batch, with K̂ = diag(after) K diag(before).

    The factors are part of the weights of splat and slice, so values are not multiplied by them.
    """

    lattice: BatchLattice
    normalization: Normalization
    mu: Tensor  # (), (L,) or (L, L)
    present: Tensor  # (P, 1): 0 for ignored pixels, 1 for others
    before: Tensor  # (P, 1)
    after: Tensor  # (P, 1)
    own: Tensor | None  # (P, 1): K̂(i,i), if pixels send nothing to themselves
    is_symmetric: bool  # the same factors on both sides
    splat_before: WeightedSums
    splat_after: WeightedSums
    slice_before: WeightedSums
    slice_after: WeightedSums

    def smooth(self, q: Tensor) -> Tensor:
        """K̂ q, (P, L)."""
        result = self.slice_after(self.lattice.blur(self.splat_before(q)))
        return result if self.own is None else result.addcmul_(self.own, q, value=-1)

    def add_message(self, z: Tensor, q: Tensor) -> None:
        """z += K̂ q μᵀ (paper, Eq. 5), in place."""
        if self.mu.ndim == 2:
            z.addmm_(self.smooth(q), self.mu.T)
        else:
            z.addcmul_(self.smooth(q), self.mu)


def bind_batch(
    features: Tensor,  # (B, N, d), or (1, N, d) for all images, divided by the widths
    images: int,
    normalization: Normalization,
    mu: Tensor,
    options: CRFOptions,
    present: Tensor,  # (P, 1) with P = B·N
) -> BatchTerm:
    """The term of a kernel on all images."""
    lattice = BatchLattice(
        features, images, operator=options.operator, halo=options.halo, calibrate=normalization == "none"
    )
    diagonal = lattice.diagonal()[:, 0] if options.exclude_self else None
    term = normalized(lattice.apply, normalization, mu, present, diagonal)
    splat_before, slice_after = lattice.splat_times(term.before), lattice.slice_times(term.after)
    splat_after, slice_before = splat_before, slice_after
    if not term.is_symmetric:
        splat_after, slice_before = lattice.splat_times(term.after), lattice.slice_times(term.before)
    return BatchTerm(
        lattice,
        normalization,
        mu,
        present,
        term.before,
        term.after,
        term.own,
        term.is_symmetric,
        splat_before,
        splat_after,
        slice_before,
        slice_after,
    )


class KernelSums:
    """The sums over iterations that the gradients of one kernel follow from (paper, Learning).

    With a = Sᵀ(after · g^t) and b = Sᵀ(before · q^(t-1) μᵀ) they are sums of products between vertices, for the shape,
    and between pixels, for the normalization. If μ is a number, b is without it, and it is multiplied at the end.
    """

    def __init__(self, term: BatchTerm, *, weight: bool, shape: bool, features: bool) -> None:
        self._term, self._weight, self._shape, self._features = term, weight, shape, features
        self._mu = torch.zeros_like(term.mu)
        at, x = term.lattice.at, term.lattice.features
        self._diagonal, self._moved = at.new_zeros(len(at)), torch.zeros_like(at)
        self._sent, self._received, self._own = x.new_zeros(3, len(x))
        # Only differences of features matter; near the origin they lose less to rounding.
        self._x = x - x.mean(0) if features else x
        self._slopes = torch.zeros_like(x) if features else x

    def add(self, g: Tensor, q: Tensor, h: Tensor, solved: Tensor | None = None) -> None:
        """h += K̂ᵀ g^t μ in place, and everything that follows from g^t and q^(t-1), (P, L).

        In convergent inference, what a pixel would send to itself is left out at the solution q^t: `solved`. Then h
        has the whole K̂, with its diagonal.
        """
        term, lattice = self._term, self._term.lattice
        a = term.splat_after(g)
        a_blurred = lattice.blur(a, adjoint=True)
        if self._shape or self._features:
            mixed = q if term.mu.ndim == 0 else mix(q, term.mu)
            self._add_pairs(g, mixed, a, a_blurred)
        back = term.slice_before(a_blurred)
        if self._shape or self._features:
            self._received += _inner(mixed, back)
        if term.own is not None:
            if self._shape or self._features:
                left_out = mixed if solved is None else solved if term.mu.ndim == 0 else mix(solved, term.mu)
                self._own += term.own[:, 0] * _inner(g, left_out)
            if solved is None:
                back.addcmul_(term.own, g, value=-1)
            elif self._weight:
                self._mu -= _to_mu(term.own * g, solved, term.mu)
        if self._weight:
            self._mu += _to_mu(back, q, term.mu)
        if term.mu.ndim == 2:
            h.addmm_(back, term.mu)
        else:
            h.addcmul_(back, term.mu)

    def _add_pairs(self, g: Tensor, mixed: Tensor, a: Tensor, a_blurred: Tensor) -> None:
        """Products between vertices and between pixels; `mixed` is q μᵀ, or q if μ is a number."""
        term, lattice = self._term, self._term.lattice
        b = term.splat_before(mixed)
        b_blurred = lattice.blur(b)
        self._sent += term.slice_after(b_blurred).mul_(g).sum(1)
        if self._shape:
            self._diagonal += _inner(a, b_blurred) + _inner(a_blurred, b)
            for axis, at in enumerate(lattice.at.T):
                self._moved[:, axis] += lattice.blur(at[:, None] * b).mul_(a).sum(1)
        if self._features:
            self._add_slopes(g, mixed)

    def _add_slopes(self, g: Tensor, mixed: Tensor) -> None:
        """First moments of the features: Σ_j k̂(i,j) x_j (g_i·m_j + m_i·g_j)."""
        term, blur = self._term, self._term.lattice.blur
        for axis, x in enumerate(self._x.T):
            sent = term.slice_after(blur(term.splat_before(x[:, None] * mixed)))
            self._slopes[:, axis] += sent.mul_(g).sum(1)
            received = term.slice_before(blur(term.splat_after(x[:, None] * g), adjoint=True))
            self._slopes[:, axis] += received.mul_(mixed).sum(1)

    def to_weight(self) -> Tensor:
        """∂loss/∂μ."""
        return self._mu

    def to_moments(self) -> Tensor:
        """Σ_ij (∂loss/∂k(i,j)) k(i,j) (x_i - x_j)(x_i - x_j)ᵀ, (d, d), in float64 on the CPU."""
        lattice, present, scale = self._term.lattice, self._term.present, self._scale
        sums = scale * self._diagonal, scale * self._moved, scale * self._sent
        return batch_moments(lattice, *sums, self._to_total(), present)

    def to_features(self) -> Tensor:
        """∂loss/∂x, (P, d)."""
        x, v = self._x, self._to_total()
        slopes: Tensor = self._scale * (self._slopes - (self._sent + self._received)[:, None] * x)
        if v is None:
            return slopes
        # Through D = K·1 over the pixels that are present.
        present, column, lattice = self._term.present, v[:, None], self._term.lattice
        filtered = lattice.apply(torch.cat([present, present * x], 1))  # K·1 and K·x
        back = lattice.apply(torch.cat([column, column * x], 1), adjoint=True)
        total = column * filtered[:, :1] + present * back[:, :1]
        slopes += column * filtered[:, 1:] + present * back[:, 1:] - total * x
        return slopes

    @property
    def _scale(self) -> Tensor:
        """What b was left without."""
        mu = self._term.mu
        return mu if mu.ndim == 0 else mu.new_ones(())

    def _to_total(self) -> Tensor | None:
        """∂loss/∂D (P,), with D in `after`, in `before`, or its root in both."""
        term, sent, received = self._term, self._sent - self._own, self._received - self._own
        if term.normalization == "none":
            return None
        to_total: Tensor
        if term.normalization == "symmetric":
            to_total = -(term.before[:, 0] ** 2) / 2 * (sent + received)
        elif term.normalization == "after":
            to_total = -term.after[:, 0] * sent
        else:
            to_total = -term.before[:, 0] * received
        return self._scale * to_total


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """Σ_l a_il b_il, one number per row."""
    return (a * b).sum(1)


def _to_mu(back: Tensor, q: Tensor, mu: Tensor) -> Tensor:
    """Σ_i (K̂ᵀ g)_il q_il′ for all l and l′, for equal ones, or summed over equal ones: of the shape of μ."""
    if mu.ndim == 2:
        return back.T @ q
    products = (back * q).sum(0)
    return products if mu.ndim else products.sum()
