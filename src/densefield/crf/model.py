"""The dense CRF for NumPy: marginals of scores and an image."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from densefield.crf.arrays import checked_ignore, image_array
from densefield.crf.binding import FilterChoice, Method
from densefield.crf.convergent import convergent_steps
from densefield.crf.energy import free_energy
from densefield.crf.features import AxisOrder
from densefield.crf.image_range import checked_data_range, warn_of_image
from densefield.crf.kernels import Bilateral, Kernel, Spatial
from densefield.crf.mean_field import Step, mean_field_steps
from densefield.crf.native import native_mean_field, new_array
from densefield.crf.problem import Kept, Problem, checked_iterations, pose
from densefield.crf.solution import Solution
from densefield.crf.unary import warn_of_scores
from densefield.errors import InputError, InputTypeError
from densefield.filters.lattice_design import Operator, check_lattice_options
from densefield.filters.threads import check_threads

Array = npt.NDArray[np.floating]
Self = TypeVar("Self", bound="CRF")

# Three pixels of smoothing, and agreement among pixels alike in colour within a part of a photo.
PHOTO_KERNELS: tuple[Kernel, ...] = (Spatial(3, weight=3), Bilateral(60, 10, weight=5))


class CRF:
    """p(y) ∝ exp(Σ_i f_i(y_i) + Σ_{i<j} Σ_m μ_m(y_i, y_j) k̂_m(i,j)), for one image after another (paper, Eq. 9).

    * ``kernels``: any number of Spatial, Bilateral and Custom.
    * ``iterations``: T, the number of updates.
    * ``exclude_self``: pixels send nothing to themselves, the paper's j ≠ i. Slow on a lattice.
    * ``method``: "lattice", in O(N); or "exact", the sum over all pairs, in float64 where the scores are.
    * ``operator``, ``halo``, ``threads``: those of LatticeFilter.
    * ``data_range``: the range of the images' colours, which sigma_rgb is scaled to: 1 for floats 0…1, 65535 for 16
      bits, or one number for each channel. By default it is 0…255, with a warning where the values contradict it.
    * ``axis_order``: "xy", or "yx" for lattices that have rows before columns, as MONAI's; widths per axis are in the
      same order. For volumes it is xyz or zyx.

    Kernels of positions alone are kept from one image to the next of the same size. Files of CRFs, which `densefield
    tune` writes too, are read by load() and written by save().

    >>> import numpy as np
    >>> image = np.zeros((4, 6, 3), np.uint8)
    >>> image[:, 3:] = 255
    >>> scores = np.zeros((2, 4, 6))
    >>> scores[0, 0, 0] = scores[1, 0, 5] = 4.0  # one hint on either side
    >>> CRF().solve(scores, image).labels[0]
    array([0, 0, 0, 1, 1, 1])
    """

    def __init__(
        self,
        kernels: Sequence[Kernel] = PHOTO_KERNELS,
        *,
        iterations: int = 5,
        exclude_self: bool = False,
        method: Method = "lattice",
        operator: Operator = "symmetric",
        halo: int = 0,
        threads: int | None = None,
        data_range: float | Sequence[float] | None = None,
        axis_order: AxisOrder = "xy",
    ) -> None:
        if not isinstance(kernels, Iterable):
            raise InputTypeError(f"kernels are a {type(kernels).__name__}, expected a list of them: use [kernel].")
        self.kernels = tuple(kernels)
        for kernel in self.kernels:
            if not isinstance(kernel, Kernel):
                raise InputError(f"a kernel is {kernel!r}, expected Spatial, Bilateral or Custom.")
        self.iterations = checked_iterations(iterations)
        self.exclude_self = bool(exclude_self)
        if method not in get_args(Method):
            raise InputError(f"method is {method!r}, expected one of {', '.join(get_args(Method))}.")
        check_lattice_options(operator, halo)
        if axis_order not in get_args(AxisOrder):
            raise InputError(f"axis_order is {axis_order!r}, expected one of {', '.join(get_args(AxisOrder))}.")
        self.method, self.operator, self.halo, self.threads = method, operator, halo, threads
        self.axis_order = axis_order
        self._choice = FilterChoice(method, operator, halo, check_threads(threads))
        self._data_range = checked_data_range(data_range)
        self.data_range = None if self._data_range is None else self._data_range.tolist()
        self._kept: Kept = {}

    @classmethod
    def load(cls: type[Self], path: str | PathLike[str], **options: Any) -> Self:
        """The CRF in a TOML file, such as `densefield tune` writes; `options` are arguments that replace the file's.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     CRF([Spatial(2, weight=1.5)], iterations=3).save(f"{folder}/crf.toml")
        ...     print(CRF.load(f"{folder}/crf.toml", data_range=1.0))
        CRF: 3 iterations, data_range 1.0
          spatial: sigma 2, weight 1.5, symmetric
        """
        from densefield.crf.crf_file import read_crf  # which knows this class

        crf = read_crf(Path(path))
        return cls(crf.kernels, **{**crf.options(), **options})

    def save(self, path: str | PathLike[str]) -> None:
        """Writes kernels and options to a TOML file for load(); data_range and threads are not part of it."""
        from densefield.crf.crf_file import write_crf

        write_crf(Path(path), self)

    @property
    def channel_range(self) -> npt.NDArray[np.float64] | None:
        """data_range as an array, () or (C,); None where it was not given."""
        return self._data_range

    def options(self) -> dict[str, Any]:
        """All arguments but the kernels, by name.

        >>> CRF(threads=1).options()["iterations"]
        5
        """
        names = ("iterations", "exclude_self", "method", "operator", "halo", "threads", "data_range", "axis_order")
        return {name: getattr(self, name) for name in names}

    def replace(self: Self, **changes: Any) -> Self:
        """The same CRF with other options.

        >>> CRF(threads=1).replace(iterations=10).iterations
        10
        """
        return type(self)(**{"kernels": self.kernels, **self.options(), **changes})

    def __repr__(self) -> str:
        default = CRF(()).options() | {"iterations": self.iterations}  # which are said first
        changed = [f"{name} {value!r}" for name, value in self.options().items() if value != default[name]]
        head = ", ".join([f"CRF: {self.iterations} iterations", *changed])
        return "\n".join([head, *(f"  {kernel.name}: {kernel.describe()}" for kernel in self.kernels)])

    def __getstate__(self) -> dict[str, Any]:
        """Without the kernels kept from the last image, which are quickly made again."""
        return {**self.__dict__, "_kept": {}}

    def solve(
        self,
        scores: Array,  # (L, …): (L, H, W), (L, D, H, W) or (L, N)
        image: npt.NDArray[np.generic] | None = None,  # (…, C) or (…)
        *,
        features: Mapping[str, Array] | None = None,  # of Custom kernels, by name: (…, d) or (N, d)
        spacing: Sequence[float] | None = None,  # size of a pixel along x, y(, z)
        ignore: npt.NDArray[np.bool_] | None = None,  # (…): pixels that neither send nor receive
        tolerance: float | None = None,
        damping: float = 0.0,
        convergent: bool = False,
        energies: bool = False,
    ) -> Solution:
        """Marginals after `iterations` updates, or earlier where no marginal changes by more than the tolerance.

        With damping α, from 0 to below 1, the next log marginals are α of the last ones and 1-α of the update. With
        `convergent` the free energy falls at every step, whether or not pixels are excluded from their own sums; the
        kernels must be symmetric and their weights positive semi-definite.
        """
        if tolerance is not None and not (_is_number(tolerance) and 0 < tolerance < math.inf):
            raise InputError(
                f"tolerance is {tolerance!r}, expected a finite number above 0, or None for all iterations."
            )
        self._check_updates(damping, convergent)
        problem = self._pose_and_warn(scores, image, features=features, spacing=spacing, ignore=ignore)
        if self._choice.method == "lattice" and not (damping or convergent or energies):
            return self._solve_natively(problem, tolerance)
        solution = None
        updates = self._updates(problem, damping, convergent)
        for solution in islice(self._steps(problem, updates, energies, tolerance), self.iterations + 1):
            if solution.converged:
                break
        assert solution is not None  # q⁰ is always there
        return solution

    def steps(
        self,
        scores: Array,
        image: npt.NDArray[np.generic] | None = None,
        *,
        features: Mapping[str, Array] | None = None,
        spacing: Sequence[float] | None = None,
        ignore: npt.NDArray[np.bool_] | None = None,
        damping: float = 0.0,
        convergent: bool = False,
        energies: bool = False,
    ) -> Iterator[Solution]:
        """q⁰, q¹, q², … one at a time and without end, for those who watch it converge."""
        self._check_updates(damping, convergent)
        problem = self._pose_and_warn(scores, image, features=features, spacing=spacing, ignore=ignore)
        return self._steps(problem, self._updates(problem, damping, convergent), energies, None)

    def pose(
        self,
        scores: Array,
        image: npt.NDArray[np.generic] | None = None,
        *,
        features: Mapping[str, Array] | None = None,
        spacing: Sequence[float] | None = None,
        ignore: npt.NDArray[np.bool_] | None = None,
    ) -> Problem:
        """The scores and the kernels bound to this image, checked; without warnings of doubtful input."""
        return pose(
            self.kernels,
            self._choice,
            scores,
            image,
            features=features,
            spacing=spacing,
            ignore=ignore,
            exclude_self=self.exclude_self,
            data_range=self._data_range,
            axis_order=self.axis_order,
            kept=self._kept,
        )

    def _pose_and_warn(self, scores: Array, image: npt.NDArray[np.generic] | None, **options: Any) -> Problem:
        problem = self.pose(scores, image, **options)
        warn_of_scores(problem.scores)
        if image is not None and self._data_range is None:
            pixels = image_array(image)
            channels = pixels.shape[-1] if pixels.ndim > len(problem.shape) else 1
            ignore = checked_ignore(options.get("ignore"))
            warn_of_image(pixels if ignore is None else pixels[~ignore], channels, self.kernels)
        return problem

    def marginals(
        self, scores: Array, image: npt.NDArray[np.generic] | None = None, **options: Any
    ) -> npt.NDArray[np.float32]:
        """The marginals of solve() alone, (L, …), where nothing else is wanted of it."""
        if set(options) - {"features", "spacing", "ignore"}:
            return self.solve(scores, image, **options).marginals.astype(np.float32, copy=False)
        return self.marginals_of(self._pose_and_warn(scores, image, **options))

    def marginals_of(self, problem: Problem) -> npt.NDArray[np.float32]:
        """The marginals (L, …) of what pose() made."""
        if self._choice.method != "lattice":
            *_, last = islice(mean_field_steps(problem.rows, problem.couplings), self.iterations + 1)
            return problem.unflatten(last.q).astype(np.float32, copy=False)
        q = new_array(*problem.scores.shape)
        native_mean_field(
            problem.kernels, problem.scores, self.iterations, self._choice.threads, marginals=q, order=problem.order
        )
        return q.reshape(len(q), *problem.shape)

    def _solve_natively(self, problem: Problem, tolerance: float | None) -> Solution:
        f = problem.scores
        q, log_q = new_array(*f.shape), new_array(*f.shape)
        residuals = np.zeros(self.iterations, np.float32)
        steps = native_mean_field(
            problem.kernels,
            f,
            self.iterations,
            self._choice.threads,
            marginals=q,
            log_marginals=log_q,
            residuals=residuals,
            tolerance=tolerance,
            order=problem.order,
        )
        shape = (len(f), *problem.shape)
        changes = tuple(residuals[:steps].tolist())
        converged = None if tolerance is None else bool(changes and changes[-1] <= tolerance)
        return Solution(q.reshape(shape), log_q.reshape(shape), steps, changes, None, converged)

    def _check_updates(self, damping: float, convergent: bool) -> None:
        if not (_is_number(damping) and 0 <= damping < 1):
            raise InputError(f"damping is {damping!r}, expected a number from 0, which is none, to below 1.")
        if not convergent:
            return
        if damping:
            raise InputError(f"damping is {damping} with convergent=True, which needs none: leave one of them out.")
        if self._choice.method == "lattice" and self._choice.operator != "symmetric":
            raise InputError(
                f"convergent inference expects symmetric kernel matrices, but operator is {self._choice.operator!r}. "
                "Use operator='symmetric' or method='exact'."
            )

    def _updates(self, problem: Problem, damping: float, convergent: bool) -> Iterator[Step[Array]]:
        if convergent:
            return convergent_steps(problem.rows, problem.couplings)
        return mean_field_steps(problem.rows, problem.couplings, damping)

    def _steps(
        self, problem: Problem, updates: Iterator[Step[Array]], energies: bool, tolerance: float | None
    ) -> Iterator[Solution]:
        f, couplings = problem.rows, problem.couplings
        residuals: list[float] = []
        levels: list[float] = []
        for count, step in enumerate(updates):
            if count:
                residuals.append(step.residual)
            if energies:
                levels.append(free_energy(step.q, step.log_q, f, couplings))
            yield Solution(
                problem.unflatten(step.q),
                problem.unflatten(step.log_q),
                count,
                tuple(residuals),
                tuple(levels) if energies else None,
                None if tolerance is None else step.residual <= tolerance,
            )


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
