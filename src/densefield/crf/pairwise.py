"""Pairwise terms: a kernel's filter, normalization and compatibility, bound to the pixels of an image."""

from __future__ import annotations

import math
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from densefield import _core
from densefield.crf.compatibility import mix
from densefield.crf.features import grid_lines, grid_positions
from densefield.crf.kernels import Normalization
from densefield.crf.options import AxisOrder, CRFOptions
from densefield.filters.exact import ExactFilter
from densefield.filters.lattice import LatticeFilter
from densefield.filters.pixel_order import PixelOrder, write_features, write_grid
from densefield.filters.threads import call_on_release

A = TypeVar("A")  # numpy.ndarray or torch.Tensor
Array = npt.NDArray[Any]

TINY = 1e-20  # added to sums before division, as in pydensecrf
CACHED_MB = 160  # of all cached terms together: one of a photo of three million pixels


@dataclass(frozen=True)
class Pairwise(Generic[A]):
    """The term μ ⊗ K̂ of one kernel, with K̂ = diag(after) K diag(before).

    If `own` is given, the diagonal of K̂ is left out: pixels send nothing to themselves.
    """

    filtering: Callable[[A], A]  # K v for values (N, L)
    before: A  # (N, 1)
    after: A  # (N, 1)
    own: A | None  # (N, 1): K̂(i,i)
    mu: A  # (), (L,) or (L, L)
    lattice: LatticeFilter | None = None  # the same filter for native mean field
    diagonal: A | None = None  # (N,): k(i,i), if `own` is given

    @property
    def is_symmetric(self) -> bool:
        """Whether K̂ is symmetric if K is: the same factors on both sides."""
        return self.before is self.after

    def smooth(self, q: A) -> A:
        """K̂ q for marginals (N, L): the message before compatibility (paper, Eq. 5)."""
        values: Any = q
        result: Any = self.filtering(values * self.before)
        result = result * self.after
        if self.own is not None:
            result = result - values * self.own
        return result  # type: ignore[no-any-return]

    def message(self, q: A) -> A:
        """Σ_j Σ_l′ μ(l, l′) k̂(i,j) q_j(l′), (N, L)."""
        return mix(self.smooth(q), self.mu)


def normalized(
    filtering: Callable[[A], A],
    normalization: Normalization,
    mu: A,
    present: A,  # (N, 1): 0 for ignored pixels, 1 for others
    diagonal: A | None = None,  # (N,): k(i,i), if pixels send nothing to themselves
    lattice: LatticeFilter | None = None,
) -> Pairwise[A]:
    """The term of a filter K with D = K·1 over the pixels that are present.

    K̂ is D^-½ K D^-½ for "symmetric", D⁻¹ K for "after", K D⁻¹ for "before" and K for "none". Works for NumPy arrays and
    for tensors, which it is differentiable in.
    """
    here: Any = present
    before, after = here, here
    if normalization != "none":
        total: Any = filtering(present)
        # Rounding may leave a sum of either sign at ignored pixels.
        total = here * (total + TINY) + (1 - here)
        if normalization == "symmetric":
            before = after = here / total**0.5
        else:
            factor = here / total
            before, after = (factor, here) if normalization == "before" else (here, factor)
    own: Any = None if diagonal is None else before * after * diagonal[:, None]  # type: ignore[index]
    return Pairwise(filtering, before, after, own, mu, lattice, diagonal)


def bind(
    features: Array,  # (N, d), divided by the widths
    normalization: Normalization,
    mu: Array,
    options: CRFOptions,
    threads: int,
    present: Array | None = None,  # (N, 1); None if no pixel is ignored
) -> Pairwise[Array]:
    """The term of a Gaussian kernel on NumPy features: the one place where a kernel gets its filter."""
    k: LatticeFilter | ExactFilter[Array]
    lattice = None
    if options.method == "exact":
        k = ExactFilter(features)
    else:
        k = lattice = LatticeFilter(
            features,
            operator=options.operator,
            halo=options.halo,
            calibrate=normalization == "none",
            threads=threads,
        )
    diagonal = k.diagonal() if options.exclude_self else None
    if present is not None:
        return normalized(k.apply, normalization, mu, present, diagonal, lattice)
    ones = np.ones((len(features), 1), features.dtype)
    return _normalized_in_place(k.apply, normalization, mu, ones, lattice, diagonal)


def _normalized_in_place(
    filtering: Callable[[Array], Array],
    normalization: Normalization,
    mu: Array,
    ones: Array,  # (N, 1)
    lattice: LatticeFilter | None,
    diagonal: Array | None = None,  # (N,)
) -> Pairwise[Array]:
    """normalized() if every pixel is present: equal up to rounding, in a quarter of the time."""
    if normalization == "none":
        return Pairwise(filtering, ones, ones, None if diagonal is None else diagonal[:, None], mu, lattice, diagonal)
    factor = filtering(ones)
    factor += TINY
    if normalization == "symmetric":
        np.sqrt(factor, out=factor)
    np.divide(1, factor, out=factor)
    before = ones if normalization == "after" else factor
    after = ones if normalization == "before" else factor
    own = None
    if diagonal is not None:
        own = before * after
        own *= diagonal[:, None]
    return Pairwise(filtering, before, after, own, mu, lattice, diagonal)


@dataclass(frozen=True)
class PixelGrid:
    """Where the pixels of an image are, and the order in which filters have them."""

    shape: tuple[int, ...]
    spacing: tuple[float, ...] | None = None  # size of a pixel along x, y(, z)
    axis_order: AxisOrder = "xy"
    order: PixelOrder | None = None  # None for the order of the array

    @cached_property
    def positions(self) -> Array:
        """(N, axes), in the order of the array."""
        return grid_positions(self.shape, self.spacing, self.axis_order)

    def features(
        self,
        names: Sequence[str],
        parts: Mapping[str, Array],
        shape: npt.NDArray[np.float64],
        dtype: npt.DTypeLike,
        threads: int,
    ) -> Array:
        """What bind() filters by: the named parts over the widths, (N, d), in the order of the filters."""
        if dtype != np.float32 or shape.ndim != 1:
            columns = [self.positions if name == "position" else parts[name] for name in names]
            return scaled_features(columns, shape, dtype, self.order)
        features = _core.new_array(math.prod(self.shape), len(shape))
        first = 0
        for name in names:
            last = first + (len(self.shape) if name == "position" else parts[name].shape[1])
            if name == "position":
                lines = grid_lines(self.shape, self.spacing, self.axis_order)
                places = [first + column for _, column in lines]
                write_grid([line for line, _ in lines], shape[places].tolist(), places, features, self.order, threads)
            else:
                write_features(parts[name], shape[first:last].tolist(), features, first, self.order, threads)
            first = last
        return features

    def bind(
        self,
        names: Sequence[str],  # of the parts that the kernel compares
        parts: Mapping[str, Array],  # (N, d) each, in the order of the array; positions are known
        shape: npt.NDArray[np.float64],  # widths (d,), or W (d, d) of features W p
        normalization: Normalization,
        mu: Array,
        options: CRFOptions,
        threads: int,
        present: Array | None = None,  # (N, 1), in the order of the array
        cached: bool = True,  # whether the next image is likely to have the same widths
    ) -> Pairwise[Array]:
        """The term of a kernel on this grid; those of positions alone are cached for the next image."""
        if not cached or tuple(names) != ("position",):
            features = self.features(names, parts, shape, mu.dtype, threads)
            return bind(features, normalization, mu, options, threads, self._ordered(present))
        grid = self.shape, self.spacing, self.axis_order, self.order is None
        filter_options = options.method, options.operator, options.halo, options.exclude_self, mu.dtype.str, threads
        key = grid, shape.shape, shape.tobytes(), normalization, filter_options
        term = _cache.get(key)
        if term is None:
            features = self.features(names, parts, shape, mu.dtype, threads)
            term = bind(features, normalization, np.ones((), mu.dtype), options, threads)
            _cache.put(key, term)
        term = replace(term, mu=mu)
        return term if present is None else self.masked(term, normalization, present)

    def masked(self, term: Pairwise[Array], normalization: Normalization, present: Array) -> Pairwise[Array]:
        """The term of the same filter with some pixels ignored; `present` is (N, 1) in the order of the array."""
        here = self._ordered(present)
        return normalized(term.filtering, normalization, term.mu, here, term.diagonal, term.lattice)

    def _ordered(self, present: Array | None) -> Any:
        return present if present is None or self.order is None else present[self.order.indices]


def scaled_features(
    parts: Sequence[Array],  # (N, d) each, in the order of the array
    shape: npt.NDArray[np.float64],  # widths (d,), or W (d, d)
    dtype: npt.DTypeLike,
    order: PixelOrder | None = None,
) -> Array:
    """p/σ or W p of all parts side by side, (N, d), in the given pixel order, rounded from double precision.

    >>> scaled_features([np.array([[2.0], [4.0]])], np.array([2.0]), np.float64).tolist()
    [[1.0], [2.0]]
    """
    columns = np.concatenate([np.asarray(part, np.float64) for part in parts], axis=1)
    with np.errstate(over="ignore", invalid="ignore"):  # the filter refuses what is not finite
        scaled: Array = (columns / shape if shape.ndim == 1 else columns @ shape.T).astype(dtype)
    return scaled if order is None else scaled[order.indices]


class _Cache:
    """Terms of positions alone, the least recently used removed first; shared by all CRFs and threads.

    No call waits for the lock, which a forked process may inherit locked: the cache is then not used.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[float, Pairwise[Array]]] = OrderedDict()

    def get(self, key: Hashable) -> Pairwise[Array] | None:
        if not self._lock.acquire(blocking=False):
            return None
        try:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][1]
        finally:
            self._lock.release()

    def put(self, key: Hashable, term: Pairwise[Array]) -> None:
        limit = os.environ.get("DENSEFIELD_CACHE_MB", "")
        most = min(CACHED_MB, int(limit)) if limit.isdigit() else CACHED_MB
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._entries[key] = _megabytes(term), term
            while sum(size for size, _ in self._entries.values()) > most:
                self._entries.popitem(last=False)
        finally:
            self._lock.release()

    def clear(self) -> None:
        self._entries = OrderedDict()


def _megabytes(term: Pairwise[Array]) -> float:
    """The memory of a term of positions, as measured: 45 bytes per pixel and 50 per vertex."""
    vertices = 0 if term.lattice is None else term.lattice.num_vertices
    return (45 * len(term.before) + 50 * vertices) / 1e6


_cache = _Cache()
call_on_release(_cache.clear)
