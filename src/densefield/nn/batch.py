"""Pairwise terms of a batch of images, and the options that the torch operator carries as a string."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from densefield import _core
from densefield.crf.kernels import Normalization
from densefield.crf.options import CRFOptions
from densefield.crf.pairwise import Pairwise, PixelGrid
from densefield.filters.autograd import torch_threads
from densefield.filters.pixel_order import pixel_order

Array = npt.NDArray[Any]
R = TypeVar("R")


@dataclass(frozen=True)
class KernelSpec:
    """The fixed part of a kernel: the features it compares, by name, and its normalization."""

    parts: tuple[str, ...]
    normalization: Normalization


@dataclass(frozen=True)
class OpOptions:
    """What is fixed for a module; passed through torch operators as one string."""

    kernels: tuple[KernelSpec, ...]
    names: tuple[str, ...]  # of the feature tensors
    options: CRFOptions

    def encode(self) -> str:
        """The options as JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    @lru_cache(maxsize=64)
    def decode(text: str) -> OpOptions:
        """The options of encode()."""
        table = json.loads(text)
        table["kernels"] = tuple(KernelSpec(tuple(each["parts"]), each["normalization"]) for each in table["kernels"])
        table["names"] = tuple(table["names"])
        table["options"] = CRFOptions(**table["options"])
        return OpOptions(**table)


class BatchTerms:
    """Pairwise terms of every image of a batch; kernels with the same features for all images have one lattice."""

    def __init__(
        self,
        scores: Tensor,
        parts: Sequence[Tensor],
        shapes: Sequence[Tensor],
        weights: Sequence[Tensor],
        present: Tensor | None,
        spacing: Sequence[float] | None,  # of each axis; or of each axis of each image
        settings: OpOptions,
        cached: bool,  # whether filters of positions are cached for the next image
    ) -> None:
        images, _, *grid = scores.shape
        self._cached = cached
        self.settings, self.size = settings, tuple(scores.shape)
        # How many threads there are by default is decided here, not when a model is compiled.
        self.all_threads = torch_threads(settings.options.threads)
        # Parallel images synchronise less often than threads within one image.
        self.workers = max(1, min(self.all_threads, images))
        self.threads = max(1, self.all_threads // self.workers)
        self.order = pixel_order(tuple(grid))
        axes = len(grid)
        steps = [None] if spacing is None else [tuple(spacing[n : n + axes]) for n in range(0, len(spacing), axes)]
        self._grids = [PixelGrid(tuple(grid), each, settings.options.axis_order, self.order) for each in steps]
        self._parts = {name: part.detach().flatten(2).numpy() for name, part in zip(settings.names, parts, strict=True)}
        self._shapes = [shape.detach().double().numpy() for shape in shapes]
        self._weights = [weight.detach().numpy() for weight in weights]
        self._present = self._masks(present, images)
        self._shared: dict[int, Pairwise[Array]] = {}
        for m, kernel in enumerate(settings.kernels):
            same = all(name == "position" or len(self._parts[name]) == 1 for name in kernel.parts)
            if same and not ("position" in kernel.parts and len(self._grids) > 1):
                self._shared[m] = self._bind(m, 0, None)
        self.items = self.each(self._bind_item)

    def each(self, task: Callable[[int], R]) -> list[R]:
        """task(item) of every image, in parallel; Ctrl-C ends all of them."""
        images = self.size[0]
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
                cancellation.cancel()  # Python interrupts only the main thread, which waits here
                raise

    def _masks(self, present: Tensor | None, images: int) -> list[Array | None]:
        """(N, 1) for each image; None for an image without ignored pixels."""
        if present is None:
            return [None] * images
        rows = present.detach().to(torch.float32).numpy()
        return [None if row.all() else np.ascontiguousarray(row[:, None]) for row in rows]

    def _bind_item(self, item: int) -> list[Pairwise[Array]]:
        present, terms = self._present[item], []
        for m, kernel in enumerate(self.settings.kernels):
            if m not in self._shared:
                terms.append(self._bind(m, item, present))
            elif present is None:
                terms.append(self._shared[m])
            else:
                terms.append(self._grid(item).masked(self._shared[m], kernel.normalization, present))
        return terms

    def _grid(self, item: int) -> PixelGrid:
        return self._grids[item if len(self._grids) > 1 else 0]

    def _bind(self, m: int, item: int, present: Array | None) -> Pairwise[Array]:
        kernel, parts = self.settings.kernels[m], {}
        for name in kernel.parts:
            if name != "position":
                parts[name] = self._parts[name][item if len(self._parts[name]) > 1 else 0].T
        return self._grid(item).bind(
            kernel.parts,
            parts,
            self._shapes[m],
            kernel.normalization,
            self._weights[m],
            self.settings.options,
            self.threads,
            present,
            cached=self._cached,
        )


# A batch lives as long as the tensor that carries its number, which autograd keeps for the backward pass. If that
# tensor is a copy and the batch is gone, it is bound again.
live: WeakValueDictionary[int, BatchTerms] = WeakValueDictionary()
_numbers = itertools.count(1)


class _Ticket(np.ndarray[Any, np.dtype[np.int64]]):
    """The number of a batch, with a reference to it."""

    batch: BatchTerms


def ticket_of(batch: BatchTerms) -> Tensor:
    """A tensor with the number of the batch in `live`, which keeps the batch alive."""
    number = next(_numbers)
    live[number] = batch
    array = np.array([number], np.int64).view(_Ticket)
    array.batch = batch
    return torch.from_numpy(array)
