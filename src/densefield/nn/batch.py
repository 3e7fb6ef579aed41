"""Kernels bound to every image of a batch: lattices and normalisations that items share are made once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from densefield import _core
from densefield.crf.binding import Bound
from densefield.crf.coupling import couple, couple_everyone
from densefield.crf.kernels import Normalization
from densefield.filters.lattice import LatticeFilter
from densefield.filters.lattice_design import Operator

R = TypeVar("R")


@dataclass(frozen=True)
class BatchOptions:
    """What is the same for every image of a batch."""

    normalizations: tuple[Normalization, ...]
    iterations: int
    exclude_self: bool
    operator: Operator
    halo: int
    threads: int


class BoundBatch:
    """Kernels bound to every image of a batch.

    A kernel whose features are the same for all images has one lattice. Its normalisation is shared too, among the
    images without pixels to ignore.
    """

    def __init__(
        self,
        features: Sequence[Tensor],  # per kernel (B, N, d) or (1, N, d), not yet divided by widths
        shapes: Sequence[Tensor],  # per kernel: widths (d,), or W (d, d)
        weights: Sequence[Tensor],
        present: Tensor | None,  # (B, N): 1 for pixels that take part, 0 for those to ignore
        size: tuple[int, int],  # images, points
        options: BatchOptions,
    ) -> None:
        images, points = size
        self.points, self.options = points, options
        # Images in parallel wait for each other less than threads within one.
        self.workers = max(1, min(options.threads, images))
        self.threads = max(1, options.threads // self.workers)
        self._mu = [weight.detach().numpy() for weight in weights]
        self._shapes = [shape.detach().numpy() for shape in shapes]
        self._features = [feature.detach() for feature in features]
        self._present = self._masks(present, images)
        common = [m for m, feature in enumerate(features) if feature.shape[0] == 1]
        lattices = {m: self._lattice(m, 0) for m in common}
        diagonals = {m: lattices[m].diagonal() if options.exclude_self else None for m in common}
        everyone = {
            m: self._couple(m, lattices[m], None, diagonals[m]) for m in common if any(p is None for p in self._present)
        }

        def bind(m: int, item: int) -> Bound:
            if m in common:
                mask = self._present[item]
                return everyone[m] if mask is None else self._couple(m, lattices[m], mask, diagonals[m])
            k = self._lattice(m, item)
            return self._couple(m, k, self._present[item], k.diagonal() if options.exclude_self else None)

        self.items = self.each(images, lambda item: [bind(m, item) for m in range(len(features))])

    def each(self, images: int, task: Callable[[int], R]) -> list[R]:
        """task(0), task(1), … on as many threads as there are images for; Ctrl-C ends them all."""
        if self.workers == 1:
            return [task(item) for item in range(images)]
        cancellation = _core.Cancellation()

        def run(item: int) -> R:
            cancellation.enter()
            try:
                return task(item)
            finally:
                cancellation.leave()

        with ThreadPoolExecutor(self.workers) as pool:
            try:
                return list(pool.map(run, range(images)))
            except BaseException:
                cancellation.cancel()  # Python interrupts the main thread alone, which waits here
                raise

    def _masks(self, present: Tensor | None, images: int) -> list[np.ndarray[Any, np.dtype[np.float32]] | None]:
        """(N, 1) for each image; None for one without pixels to ignore."""
        if present is None:
            return [None] * images
        rows = present.detach().to(torch.float32).numpy()
        return [None if row.all() else np.ascontiguousarray(row[:, None]) for row in rows]

    def _lattice(self, m: int, item: int) -> LatticeFilter:
        p, shape = self._features[m], self._shapes[m]
        rows = np.ascontiguousarray(p[item if p.shape[0] > 1 else 0].numpy())
        with np.errstate(all="ignore"):  # what is not finite is refused by the filter
            # As the NumPy CRF has them, to the last bit: widths in single precision, products with W in double.
            x = rows / shape.astype(np.float32) if shape.ndim == 1 else (rows.astype(np.float64) @ shape.T)
        return LatticeFilter(
            x.astype(np.float32, copy=False),
            operator=self.options.operator,
            halo=self.options.halo,
            calibrate=self.options.normalizations[m] == "none",
            threads=self.threads,  # also where images share it, since they use it at the same time
        )

    def _couple(
        self,
        m: int,
        k: LatticeFilter,
        present: np.ndarray[Any, np.dtype[np.float32]] | None,  # (N, 1)
        diagonal: np.ndarray[Any, np.dtype[np.float32]] | None,  # (N,)
    ) -> Bound:
        normalization, mu = self.options.normalizations[m], self._mu[m]
        ones = np.ones((self.points, 1), np.float32) if present is None else present
        if present is None and diagonal is None:
            return Bound(k, couple_everyone(k.apply, normalization, mu, ones))
        return Bound(k, couple(k.apply, normalization, mu, ones, diagonal))


# A batch lives as long as the tensor that carries its number, which autograd keeps for the backward pass. Where that
# tensor is a copy and the batch is gone, it is bound again.
live: WeakValueDictionary[int, BoundBatch] = WeakValueDictionary()
_numbers = itertools.count(1)


class _Ticket(np.ndarray[Any, np.dtype[np.int64]]):
    """The number of a batch, holding on to it."""

    batch: BoundBatch


def ticket_of(batch: BoundBatch) -> Tensor:
    """A tensor with the number of the batch in `live`, which keeps the batch alive."""
    number = next(_numbers)
    live[number] = batch
    array = np.array([number], np.int64).view(_Ticket)
    array.batch = batch
    return torch.from_numpy(array)
