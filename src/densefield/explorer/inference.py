"""Inference for the settings of the page, with the results of `densefield.refine`, bit for bit."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from densefield.crf.compatibility import checked_weight
from densefield.crf.crf_tables import kernel_to_table
from densefield.crf.kernels import Kernel
from densefield.crf.label_mask import LabelMask
from densefield.crf.model import CRF
from densefield.crf.pairwise import Pairwise
from densefield.crf.problem import Problem
from densefield.crf.unary import Unary
from densefield.explorer.gallery import Picture
from densefield.explorer.inputs import Given, given_input, unary_of
from densefield.explorer.settings import DATA_RANGE, Settings, canonical
from densefield.filters.threads import check_threads
from densefield.refinement.mask_input import mask_input, mask_roughness, refined_mask, without_edges
from densefield.refinement.refine import for_present_labels
from densefield.refinement.scores import possible_labels, score_kernels, with_colours

V = TypeVar("V")
Check = Callable[[], None]  # raises if the request is no longer wanted

RESULTS_IN_MEMORY = 3
MOST_RESULTS = 512 << 20  # bytes of all results in memory together, and of the lattices that they refer to
MOST_LATTICES = 768 << 20  # bytes of all lattices in memory together
MOST_PIXELS = 1 << 22  # of a photo: beyond, findings and free energy would need too much time and memory


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
    def rows(self) -> npt.NDArray[np.int16]:
        """The row of the most probable label of each pixel, (H, W)."""
        best: npt.NDArray[np.int16] = self.marginals.argmax(axis=0).astype(np.int16)
        return best

    @cached_property
    def rows_before(self) -> npt.NDArray[np.int16]:
        """The row of the best label of each pixel before inference, (H, W); -1 where no label is preferred."""
        best: npt.NDArray[np.int16] = self.unary.argmax(axis=0).astype(np.int16)
        if len(self.unary) > 1:
            best[self.unary.max(axis=0) == self.unary.min(axis=0)] = -1
        return best

    @property
    def size(self) -> int:
        """The memory of the arrays, in bytes, and an estimate of that of the lattices."""
        arrays = [self.marginals, self.unary, *self.given.arguments.values()]
        arrays += [] if self.problem is None else [self.problem.scores]
        arrays += [] if self.points is None else [self.points]
        buffers = {_address(each): each.nbytes for each in arrays if isinstance(each, np.ndarray)}
        terms = () if self.problem is None else self.problem.pairwise
        labels = 2 * 2 * self.marginals[0].size  # rows and rows_before
        return int(sum(buffers.values()) + sum(map(term_size, terms)) + labels)


def _address(array: npt.NDArray[Any]) -> int:
    """Where the numbers of an array are: the same for views of it."""
    return int(array.__array_interface__["data"][0])


def term_size(term: Pairwise[Any]) -> int:
    """The memory of a pairwise term in bytes; that of a lattice is an estimate.

    Of each pixel a lattice of d dimensions has d features, d + 1 vertices with their weights, and its normalisation.
    """
    if term.lattice is None:
        return int(term.before.nbytes)
    return lattice_size(len(term.before), term.lattice.features.shape[1], term.lattice.num_vertices)


def lattice_size(pixels: int, dimensions: int, vertices: int) -> int:
    """An estimate of the memory of a lattice and its normalisation, in bytes."""
    return pixels * (12 * dimensions + 16) + 50 * vertices


def is_large(size: tuple[int, ...]) -> bool:
    """Whether a photo is too large for findings and free energy."""
    return math.prod(size) > MOST_PIXELS


class Recent(Generic[V]):
    """The values used last, up to a total size; safe to use from several threads.

    Parameters
    ----------
    most
        The total size. One value alone may be larger.
    count
        Number of values.
    """

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

    def put(self, key: Hashable, value: V, size: int, keep: Collection[Hashable] = ()) -> None:
        """Adds a value of a size, for which the least recently used ones, but those to keep, make room."""
        with self._lock:
            self._entries.pop(key, None)
            self._drop(size, keep)
            self._entries[key] = size, value

    def make_room(self, size: int, keep: Collection[Hashable] = ()) -> None:
        """Drops the least recently used values, but those to keep, until one more of this size fits."""
        with self._lock:
            self._drop(size, keep)

    def clear(self) -> None:
        """Drops all values."""
        with self._lock:
            self._entries.clear()

    def _drop(self, size: int, keep: Collection[Hashable] = ()) -> None:
        for key in [key for key in self._entries if key not in keep]:
            total = sum(each for each, _ in self._entries.values())
            if len(self._entries) < self._count and total + size <= self._most:
                return
            del self._entries[key]


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
        self._results: Recent[Result] = Recent(MOST_RESULTS, RESULTS_IN_MEMORY)
        self._terms: Recent[Pairwise[Any]] = Recent(MOST_LATTICES)
        self._index: int | None = None  # of the image whose results and lattices are in memory
        self._size = 0  # of the last result
        self._roughness: dict[int, float | None] = {}  # of the mask's file, by image

    def result(self, index: int, picture: Picture, settings: Settings, key: str, check: Check) -> Result:
        """The result for settings, whose canonical text is `key`; `check` raises if it is no longer wanted."""
        found = self._results.get((index, key))
        if found is None:
            check()
            if index != self._index:
                self._results.clear()
                self._terms.clear()
                self._index, self._size = index, 0
            self._results.make_room(self._size)  # before the new one needs it
            given = given_input(picture, settings)
            if settings.model == "kernels":
                found = self._by_kernels(index, picture, settings, given, check)
            elif "labels" in given.arguments:
                found = self._by_mask(picture, settings, self._with_roughness(index, picture, settings, given))
            else:
                found = self._by_scores(picture, settings, given)
            self._size = found.size
            self._results.put((index, key), found, self._size)
        return found

    def _by_kernels(self, index: int, picture: Picture, settings: Settings, given: Given, check: Check) -> Result:
        """`refine(…, crf=…)`."""
        assert settings.crf is not None
        unary = unary_of(picture, given)
        crf = for_present_labels(settings.crf, unary)
        bare = crf.replace(kernels=[]).problem(unary.scores, picture.pixels)
        terms = []
        keys = [_term_key(index, crf, kernel) for kernel in crf.kernels]
        for kernel, key in zip(crf.kernels, keys, strict=True):
            check()
            term = self._term(key, keys, crf, kernel, unary, picture)
            mu = checked_weight(kernel.weight, len(unary.scores)).astype(np.float32)
            terms.append(replace(term, mu=mu))
        check()
        problem = replace(bare, pairwise=tuple(terms))
        return _result(given, unary, crf, problem, crf.marginals_of(problem))

    def _term(
        self, key: Hashable, keep: Collection[Hashable], crf: CRF, kernel: Kernel, unary: Unary, picture: Picture
    ) -> Pairwise[Any]:
        """The pairwise term of a kernel, with any weight; lattices of the keys to `keep` are needed with it."""
        term = self._terms.get(key)
        if term is None:
            pixels = picture.size[0] * picture.size[1]
            self._terms.make_room(lattice_size(pixels, 5, pixels // 4), keep)  # before the new one needs it
            plain = replace(kernel, weight=1.0)
            (term,) = crf.replace(kernels=[plain]).problem(unary.scores[:1], picture.pixels).pairwise
            self._terms.put(key, term, term_size(term), keep)
        return term

    def _with_roughness(self, index: int, picture: Picture, settings: Settings, given: Given) -> Given:
        """The input with the roughness of the settings, or that of the mask's file where labels are painted over it."""
        roughness = settings.roughness
        if roughness is None and given.unpainted is not None:
            if index not in self._roughness:
                photo, mask = _checked_mask(picture, given.unpainted)
                self._roughness[index] = mask_roughness(photo, mask, DATA_RANGE, self.threads)
            roughness = self._roughness[index]
        return given if roughness is None else replace(given, arguments={**given.arguments, "roughness": roughness})

    def _by_mask(self, picture: Picture, settings: Settings, given: Given) -> Result:
        """`refine(image, labels=…)` by the learnt model."""
        photo, mask = _checked_mask(picture, given.arguments)
        roughness = given.arguments.get("roughness")
        found = refined_mask(photo, mask, roughness, settings.iterations, None, DATA_RANGE, self.threads)
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


def _checked_mask(picture: Picture, arguments: dict[str, Any]) -> tuple[npt.NDArray[Any], LabelMask]:
    """Photo and mask of the arguments of `refine`."""
    return mask_input(picture.pixels, arguments["labels"], arguments.get("num_classes"), arguments["void"], None)


def _term_key(index: int, crf: CRF, kernel: Kernel) -> Hashable:
    """What a lattice depends on: everything but the weight."""
    table = {name: value for name, value in kernel_to_table(kernel).items() if name != "weight"}
    options = crf.options
    return index, canonical(table), options.exclude_self, options.operator, options.halo, options.axis_order


def _result(given: Given, unary: Unary, crf: CRF, problem: Problem, marginals: npt.NDArray[np.float32]) -> Result:
    rows = np.arange(len(marginals)) if unary.labels is None else unary.labels
    return Result(given, marginals, rows, unary.scores, crf, problem)
