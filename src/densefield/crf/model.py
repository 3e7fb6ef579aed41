"""The dense CRF for NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from densefield.crf.arrays import checked_ignore, image_array
from densefield.crf.convergent import check_convergent, convergent_steps
from densefield.crf.image_range import warn_of_image
from densefield.crf.kernels import Bilateral, Kernel, Normalization, Spatial
from densefield.crf.mean_field import Step, free_energy, mean_field_steps
from densefield.crf.native import native_mean_field, new_array
from densefield.crf.options import (
    CRFOptions,
    Inference,
    check_attribute,
    check_inference,
    check_normalizations,
    checked_options,
)
from densefield.crf.problem import Problem, Solution, build_problem
from densefield.crf.sequential import sequential_steps
from densefield.crf.unary import warn_of_scores
from densefield.errors import InputError, InputTypeError
from densefield.filters.threads import check_threads

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from densefield.crf.options import OptionArguments

Array = npt.NDArray[np.floating]
Self = TypeVar("Self", bound="CRF")

# Smoothing over three pixels, and agreement of similar colours within a part of a photo.
PHOTO_KERNELS: tuple[Kernel, ...] = (Spatial(3, weight=3), Bilateral(60, 10, weight=5))


class CRF:
    """p(y) ∝ exp(Σ_i f_i(y_i) + Σ_{i<j} Σ_m μ_m(y_i, y_j) k̂_m(i,j)) over the pixels of an image (paper, Eq. 9).

    Filters of positions alone are cached for the next image of the same size.

    Parameters
    ----------
    kernels
        Any number of Spatial, Bilateral and Custom kernels.
    **options
        The fields of `densefield.crf.CRFOptions`: iterations, inference, exclude_self, method, operator, halo, threads,
        data_range and axis_order. They are found again in ``crf.options``.

    >>> import numpy as np
    >>> image = np.zeros((4, 6, 3), np.uint8)
    >>> image[:, 3:] = 255
    >>> scores = np.zeros((2, 4, 6))
    >>> scores[0, 0, 0] = scores[1, 0, 5] = 4.0  # one hint on either side
    >>> CRF().solve(scores, image).labels[0]
    array([0, 0, 0, 1, 1, 1])
    """

    def __init__(self, kernels: Sequence[Kernel] = PHOTO_KERNELS, **options: Unpack[OptionArguments]) -> None:
        self.kernels = checked_kernels(kernels)
        self.options = checked_options(options)

    def __setattr__(self, name: str, value: object) -> None:
        check_attribute(name, value)
        if isinstance(value, CRFOptions):
            check_normalizations(value.inference, _normalizations(self.kernels))
        super().__setattr__(name, value)

    @classmethod
    def load(cls: type[Self], path: str | PathLike[str], **options: Any) -> Self:
        """Reads a CRF from a TOML file, such as `densefield tune` writes.

        Parameters
        ----------
        path
            The file.
        **options
            Options that replace those of the file.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     CRF([Spatial(2, weight=1.5)], iterations=3).save(f"{folder}/crf.toml")
        ...     print(CRF.load(f"{folder}/crf.toml", data_range=1.0))
        CRF: 3 iterations, data_range 1.0
          spatial: sigma 2, weight 1.5, symmetric
        """
        from densefield.crf.crf_file import read_crf  # which imports this class

        crf = read_crf(path)
        return cls(crf.kernels, **asdict(crf.options.replace(**options)))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes kernels and options, without method, threads and data_range, to the TOML file `path` for load()."""
        from densefield.crf.crf_file import write_crf

        write_crf(path, self)

    def replace(self: Self, **changes: Any) -> Self:
        """A copy with other kernels or options, the `changes`.

        >>> CRF(threads=1).replace(iterations=10).options.changed()
        {'iterations': 10, 'threads': 1}
        """
        kernels = changes.pop("kernels", self.kernels)
        return type(self)(kernels, **asdict(self.options.replace(**changes)))

    def __repr__(self) -> str:
        changed = [f"{name} {value!r}" for name, value in self.options.changed().items() if name != "iterations"]
        head = ", ".join([f"CRF: {self.options.iterations} iterations", *changed])
        return "\n".join([head, *(f"  {kernel.name}: {kernel.describe()}" for kernel in self.kernels)])

    def solve(
        self,
        scores: Array,
        image: npt.NDArray[np.generic] | None = None,
        *,
        features: Mapping[str, Array] | None = None,
        spacing: Sequence[float] | None = None,
        ignore: npt.NDArray[np.bool_] | None = None,
        tolerance: float | None = None,
        damping: float = 0.0,
        convergent: bool = False,
        energies: bool = False,
    ) -> Solution:
        """Runs mean-field inference.

        Parameters
        ----------
        scores
            (L, H, W), (L, D, H, W) for volumes, or (L, N) for points: a network's logits.
        image
            (H, W, C) or (H, W), colours 0…255. Only bilateral kernels need it.
        features
            Arrays of Custom kernels by name, (H, W, d) or (N, d).
        spacing
            Size of a pixel along x, y(, z), by default 1.
        ignore
            (H, W): True for pixels that neither send nor receive messages, and may hold any values.
        tolerance
            Stop as soon as no marginal changes by more than this.
        damping
            From 0 to below 1: the weight of the last log marginals in the next ones.
        convergent
            Lower the free energy in every iteration, as the option ``inference="convergent"`` does for all calls.
            Kernels must be symmetric and weights positive semi-definite.
        energies
            Compute the free energy of every iteration.
        """
        if tolerance is not None and not (_is_number(tolerance) and 0 < tolerance < math.inf):
            raise InputError(
                f"tolerance is {tolerance!r}, expected a finite number above 0, or None for all iterations."
            )
        inference = self._checked_inference(damping, convergent)
        problem = self.problem_with_warnings(scores, image, features=features, spacing=spacing, ignore=ignore)
        if self.options.method == "lattice" and problem.scores.size and not (damping or energies):
            return self._solve_natively(problem, inference, tolerance)
        solution = None
        steps = self._steps(problem, inference, damping, energies, tolerance)
        for solution in islice(steps, self.options.iterations + 1):
            if solution.converged:
                break
        assert solution is not None  # q⁰ always exists
        return solution

    def steps(
        self,
        scores: Array,
        image: npt.NDArray[np.generic] | None = None,
        *,
        damping: float = 0.0,
        convergent: bool = False,
        energies: bool = False,
        **inputs: Any,
    ) -> Iterator[Solution]:
        """q⁰, q¹, q², … one at a time and without end, to watch convergence.

        The parameters are those of solve().
        """
        inference = self._checked_inference(damping, convergent)
        problem = self.problem_with_warnings(scores, image, **inputs)
        return self._steps(problem, inference, damping, energies, None)

    def marginals(
        self, scores: Array, image: npt.NDArray[np.generic] | None = None, **options: Any
    ) -> npt.NDArray[np.float32]:
        """The marginals of solve(), (L, …), without the rest; parameters are those of solve()."""
        if set(options) - {"features", "spacing", "ignore"}:
            return self.solve(scores, image, **options).marginals.astype(np.float32, copy=False)
        return self.marginals_of(self.problem_with_warnings(scores, image, **options))

    def problem(self, scores: Array, image: npt.NDArray[np.generic] | None = None, **inputs: Any) -> Problem:
        """The checked inputs with the kernels bound to the image, without warnings; parameters are those of solve()."""
        return build_problem(self.kernels, self.options, scores, image, **inputs)

    def marginals_of(self, problem: Problem) -> npt.NDArray[np.float32]:
        """The marginals (L, …) of a `problem`."""
        options = self.options
        if options.method != "lattice":
            *_, last = islice(_updates(problem, options.inference), options.iterations + 1)
            return problem.unflatten(last.q).astype(np.float32, copy=False)
        q = new_array(*problem.scores.shape)
        native_mean_field(
            problem.pairwise,
            problem.scores,
            options.iterations,
            check_threads(options.threads),
            convergent=_is_convergent(problem, options.inference),
            marginals=q,
            order=problem.order,
        )
        return q.reshape(len(q), *problem.shape)

    def problem_with_warnings(self, scores: Array, image: npt.NDArray[np.generic] | None, **inputs: Any) -> Problem:
        """The `problem`, with warnings of doubtful scores and colours; parameters are those of solve()."""
        problem = build_problem(self.kernels, self.options, scores, image, **inputs)
        warn_of_scores(problem.scores)
        if image is not None and self.options.data_range is None:
            pixels = image_array(image)
            channels = pixels.shape[-1] if pixels.ndim > len(problem.shape) else 1
            ignore = checked_ignore(inputs.get("ignore"))
            warn_of_image(pixels if ignore is None else pixels[~ignore], channels, self.kernels)
        return problem

    def _solve_natively(self, problem: Problem, inference: Inference, tolerance: float | None) -> Solution:
        f = problem.scores
        q, log_q = new_array(*f.shape), new_array(*f.shape)
        residuals = np.zeros(self.options.iterations, np.float32)
        iterations = native_mean_field(
            problem.pairwise,
            f,
            self.options.iterations,
            check_threads(self.options.threads),
            convergent=_is_convergent(problem, inference),
            marginals=q,
            log_marginals=log_q,
            residuals=residuals,
            tolerance=tolerance,
            order=problem.order,
        )
        shape = (len(f), *problem.shape)
        changes = tuple(residuals[:iterations].tolist())
        converged = None if tolerance is None else bool(changes and changes[-1] <= tolerance)
        return Solution(q.reshape(shape), log_q.reshape(shape), iterations, changes, None, converged)

    def _checked_inference(self, damping: float, convergent: bool) -> Inference:
        """The inference of one call."""
        inference: Inference = "convergent" if convergent else self.options.inference
        if not (_is_number(damping) and 0 <= damping < 1):
            raise InputError(f"damping is {damping!r}, expected a number from 0 (no damping) to below 1.")
        if damping and inference != "parallel":
            which = "convergent=True" if convergent else f"inference={inference!r}"
            raise InputError(f"damping is {damping} with {which}, which needs none: leave one of them out.")
        if convergent and self.options.inference == "sequential":
            raise InputError("convergent is True, but inference is 'sequential': leave one of them out.")
        check_inference(inference, self.options)
        check_normalizations(inference, _normalizations(self.kernels))
        return inference

    def _steps(
        self, problem: Problem, inference: Inference, damping: float, energies: bool, tolerance: float | None
    ) -> Iterator[Solution]:
        return _solutions(problem, _updates(problem, inference, damping), energies, tolerance)


def _updates(problem: Problem, inference: Inference, damping: float = 0.0) -> Iterator[Step[Array]]:
    """q⁰, q¹, q², … in NumPy."""
    if inference == "convergent":
        return convergent_steps(problem.rows, problem.pairwise)
    if inference == "sequential":
        return sequential_steps(problem.rows, problem.pairwise)
    return mean_field_steps(problem.rows, problem.pairwise, damping)


def _is_convergent(problem: Problem, inference: Inference) -> bool:
    """Whether native code solves a program per pixel; raises if the terms do not allow it."""
    if inference != "convergent":
        return False
    check_convergent(problem.pairwise)
    return True


def _solutions(
    problem: Problem, steps: Iterator[Step[Array]], energies: bool, tolerance: float | None
) -> Iterator[Solution]:
    residuals: list[float] = []
    levels: list[float] = []
    f = problem.rows
    for count, step in enumerate(steps):
        if count:
            residuals.append(step.residual)
        if energies:
            levels.append(free_energy(step.q, step.log_q, f, problem.pairwise))
        yield Solution(
            problem.unflatten(step.q),
            problem.unflatten(step.log_q),
            count,
            tuple(residuals),
            tuple(levels) if energies else None,
            None if tolerance is None else step.residual <= tolerance,
        )


def checked_kernels(kernels: object) -> tuple[Kernel, ...]:
    """Kernels as a tuple."""
    if not isinstance(kernels, Iterable):
        raise InputTypeError(f"kernels are of type {type(kernels).__name__}, expected a list of them: use [kernel].")
    found = tuple(kernels)
    for kernel in found:
        if not isinstance(kernel, Kernel):
            raise InputError(f"a kernel is {kernel!r}, expected Spatial, Bilateral or Custom.")
    return found


def _normalizations(kernels: Sequence[Kernel]) -> Iterator[tuple[str, Normalization]]:
    return ((kernel.name, kernel.normalization) for kernel in kernels)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
