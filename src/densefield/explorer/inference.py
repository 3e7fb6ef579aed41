"""Inference for the settings of the page, with the results of `densefield.refine`, bit for bit."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from densefield.crf.compatibility import checked_weight
from densefield.crf.crf_tables import kernel_to_table
from densefield.crf.kernels import Kernel
from densefield.crf.model import CRF
from densefield.crf.pairwise import Pairwise
from densefield.crf.problem import Problem
from densefield.crf.unary import Unary
from densefield.explorer.gallery import Picture
from densefield.explorer.inputs import Given, given_input, unary_of
from densefield.explorer.settings import DATA_RANGE, Settings, canonical
from densefield.filters.threads import check_threads
from densefield.refinement.mask_input import mask_input, refined_mask, without_edges
from densefield.refinement.refine import for_present_labels
from densefield.refinement.scores import possible_labels, score_kernels, with_colours

V = TypeVar("V")
Check = Callable[[], None]  # raises if the request is no longer wanted

RESULTS_IN_MEMORY = 3
MOST_VALUES = 1 << 26  # of all results in memory together: 256 MB
MOST_PIXELS = 1 << 22  # of all lattices in memory together: about 0.8 GB


@dataclass(frozen=True)
class Result:
    """The result of inference, and the problem that it solves.

    Parameters
    ----------
    given
        The input.
    marginals
        (K, H, W).
    numbers
        (K,): the label of each row.
    unary
        Scores (K, H, W) before inference.
    crf
        The CRF that was used, for the labels of the rows.
    problem
        Scores and pairwise terms; None if nothing is coupled.
    points
        The pixels of the problem by index, if not all take part.
    """

    given: Given
    marginals: npt.NDArray[np.float32]
    numbers: npt.NDArray[np.intp]
    unary: npt.NDArray[np.floating]
    crf: CRF
    problem: Problem | None
    points: npt.NDArray[np.int32] | None = None
    facts: dict[str, Any] = field(default_factory=dict)  # that the page shows

    @cached_property
    def rows(self) -> npt.NDArray[np.intp]:
        """The row of the most probable label of each pixel, (H, W)."""
        best: npt.NDArray[np.intp] = self.marginals.argmax(axis=0)
        return best

    @cached_property
    def rows_before(self) -> npt.NDArray[np.intp]:
        """The row of the best label of each pixel before inference, (H, W); -1 where no label is preferred."""
        best = self.unary.argmax(axis=0)
        decided = self.unary.max(axis=0) > self.unary.min(axis=0) if len(self.unary) > 1 else np.ones(best.shape, bool)
        return np.where(decided, best, -1)


class Recent(Generic[V]):
    """The values used last, up to a total size; safe to use from several threads."""

    def __init__(self, most: int, count: int = 1 << 30) -> None:
        self._most, self._count = most, count
        self._entries: OrderedDict[Hashable, tuple[int, V]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> V | None:
        """The value of a key, if it is still there."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][1]

    def put(self, key: Hashable, value: V, size: int) -> None:
        """Adds a value of a size, and drops the least recently used ones beyond the total; the last one stays."""
        with self._lock:
            self._entries[key] = size, value
            self._entries.move_to_end(key)
            while len(self._entries) > 1 and (
                len(self._entries) > self._count or sum(size for size, _ in self._entries.values()) > self._most
            ):
                self._entries.popitem(last=False)


class Inference:
    """Results by image and settings; recent results and lattices are kept in memory.

    A lattice depends on widths alone, so a changed weight, confidence or number of iterations needs no new one.

    Parameters
    ----------
    threads
        Number of threads; all processors by default.
    """

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads
        self._results: Recent[Result] = Recent(MOST_VALUES, RESULTS_IN_MEMORY)
        self._terms: Recent[Pairwise[Any]] = Recent(MOST_PIXELS)

    def result(self, index: int, picture: Picture, settings: Settings, key: str, check: Check) -> Result:
        """The result for settings, whose canonical text is `key`; `check` raises if it is no longer wanted."""
        found = self._results.get((index, key))
        if found is None:
            check()
            given = given_input(picture, settings)
            if settings.model == "kernels":
                found = self._by_kernels(index, picture, settings, given, check)
            elif "labels" in given.arguments:
                found = self._by_mask(picture, settings, given)
            else:
                found = self._by_scores(picture, settings, given)
            self._results.put((index, key), found, found.marginals.size)
        return found

    def _by_kernels(self, index: int, picture: Picture, settings: Settings, given: Given, check: Check) -> Result:
        """`refine(…, crf=…)`."""
        assert settings.crf is not None
        unary = unary_of(picture, given)
        crf = for_present_labels(settings.crf, unary)
        bare = crf.replace(kernels=[]).problem(unary.scores, picture.pixels)
        terms = []
        for kernel in crf.kernels:
            check()
            term = self._term(index, crf, kernel, unary, picture)
            mu = checked_weight(kernel.weight, len(unary.scores)).astype(np.float32)
            terms.append(replace(term, mu=mu))
        check()
        problem = replace(bare, pairwise=tuple(terms))
        return _result(given, unary, crf, problem, crf.marginals_of(problem))

    def _term(self, index: int, crf: CRF, kernel: Kernel, unary: Unary, picture: Picture) -> Pairwise[Any]:
        """The pairwise term of a kernel, with any weight."""
        table = {name: value for name, value in kernel_to_table(kernel).items() if name != "weight"}
        options = crf.options
        key = index, canonical(table), options.exclude_self, options.operator, options.halo, options.axis_order
        term = self._terms.get(key)
        if term is None:
            plain = replace(kernel, weight=1.0)
            (term,) = crf.replace(kernels=[plain]).problem(unary.scores[:1], picture.pixels).pairwise
            self._terms.put(key, term, picture.pixels.shape[0] * picture.pixels.shape[1])
        return term

    def _by_mask(self, picture: Picture, settings: Settings, given: Given) -> Result:
        """`refine(image, labels=…)` by the learnt model."""
        arguments = given.arguments
        photo, mask = mask_input(
            picture.pixels, arguments["labels"], arguments.get("num_classes"), arguments["void"], None
        )
        found = refined_mask(photo, mask, settings.roughness, settings.iterations, None, DATA_RANGE, self.threads)
        scores = np.zeros((len(mask.labels), *mask.rows.shape), np.float32)
        np.put_along_axis(scores, mask.rows[None].astype(np.intp), 1, axis=0)
        if mask.known is not None:
            scores[:, ~mask.known] = 0
        if found is None:
            return Result(given, without_edges(mask), mask.labels, scores, CRF([]), None)
        band = found.band
        places = np.ascontiguousarray(band.features[:, :2])
        problem = None
        if len(band.points):
            problem = band.crf.problem(band.scores, features={"place": places, "pixel": band.features})
        facts = {
            "roughness": None if found.roughness is None else found.roughness.width,
            "kernels": [f"{kernel.name}: {kernel.describe()}" for kernel in band.crf.kernels],
            "coupled": len(band.points) / mask.rows.size,
        }
        return Result(given, found.marginals, mask.labels, scores, band.crf, problem, band.points, facts)

    def _by_scores(self, picture: Picture, settings: Settings, given: Given) -> Result:
        """`refine(image, probabilities=…)` or `logits=` by the learnt model."""
        every = unary_of(picture, given)
        crf = CRF(score_kernels(every.scores.shape[1:]), iterations=settings.iterations, data_range=DATA_RANGE)
        crf = crf.replace(threads=self.threads)
        unary = possible_labels(every, check_threads(self.threads))
        problem = with_colours(crf.problem(unary.scores, picture.pixels), picture.pixels, crf.options)
        facts = {"kernels": [f"{kernel.name}: {kernel.describe()}" for kernel in crf.kernels]}
        return replace(_result(given, unary, crf, problem, crf.marginals_of(problem)), facts=facts)


def _result(given: Given, unary: Unary, crf: CRF, problem: Problem, marginals: npt.NDArray[np.float32]) -> Result:
    rows = np.arange(len(marginals)) if unary.labels is None else unary.labels
    numbers = rows if given.numbers is None else given.numbers[rows]
    return Result(given, marginals, numbers, unary.scores, crf, problem)
