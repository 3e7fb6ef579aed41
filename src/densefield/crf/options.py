"""Options of inference: one value object that CRF and DenseCRF share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from operator import index
from typing import Any, Literal, SupportsIndex, TypedDict, get_args

from densefield.crf.arrays import checked_numbers
from densefield.crf.kernels import Normalization
from densefield.errors import InputError, InputTypeError
from densefield.filters.lattice_design import Operator, check_lattice_options
from densefield.filters.operator import Method
from densefield.filters.threads import check_threads

AxisOrder = Literal["xy", "yx"]
Inference = Literal["parallel", "convergent", "sequential"]

MOST_ITERATIONS = 1 << 20


class OptionArguments(TypedDict, total=False):
    """CRFOptions as keyword arguments, for type checkers and editors."""

    iterations: int
    inference: Inference
    exclude_self: bool
    method: Method
    operator: Operator
    halo: int
    threads: int | None
    data_range: float | Sequence[float] | None
    axis_order: AxisOrder


@dataclass(frozen=True)
class CRFOptions:
    """Options of inference, checked.

    Parameters
    ----------
    iterations
        Number of mean-field iterations T.
    inference
        "parallel" updates all pixels at once. "convergent" lowers the free energy in every iteration; kernels must be
        normalised by "symmetric" or "none", and weights positive semi-definite. "sequential" updates pixel after pixel,
        for exact filters with exclude_self in CRF: a yardstick for small images.
    exclude_self
        Whether pixels send no message to themselves, the paper's j ≠ i.
    method
        "lattice" filters in O(N); "exact" sums over all pairs, in float64 if the scores are float64.
    operator
        "symmetric", or "pydensecrf" for that package's lattice. See LatticeFilter.
    halo
        Rings of vertices added to the lattice: more are slower and more accurate. See LatticeFilter.
    threads
        Number of threads; all available processors by default.
    data_range
        Range of the image's channels, to which sigma_rgb is scaled: 1 for floats 0…1, 65535 for 16 bits, or one number
        per channel. By default 255, with a warning if the values contradict it.
    axis_order
        Order of position features and of widths per axis: "xy", or "yx" for lattices with rows first, as MONAI's.
        Volumes have xyz or zyx.

    >>> CRFOptions(iterations=10).iterations
    10
    """

    iterations: int = 5
    inference: Inference = "parallel"
    exclude_self: bool = False
    method: Method = "lattice"
    operator: Operator = "symmetric"
    halo: int = 0
    threads: int | None = None
    data_range: float | Sequence[float] | None = None
    axis_order: AxisOrder = "xy"

    def __post_init__(self) -> None:
        object.__setattr__(self, "iterations", _checked_iterations(self.iterations))
        object.__setattr__(self, "exclude_self", bool(self.exclude_self))
        object.__setattr__(self, "data_range", _checked_data_range(self.data_range))
        for name, choices in (
            ("inference", get_args(Inference)),
            ("method", get_args(Method)),
            ("axis_order", get_args(AxisOrder)),
        ):
            if getattr(self, name) not in choices:
                raise InputError(f"{name} is {getattr(self, name)!r}, expected one of {', '.join(choices)}.")
        check_lattice_options(self.operator, self.halo)
        object.__setattr__(self, "halo", index(self.halo))  # a NumPy integer becomes an int
        if self.threads is not None:
            object.__setattr__(self, "threads", check_threads(self.threads))
        check_inference(self.inference, self)

    def changed(self) -> dict[str, Any]:
        """The options that differ from their defaults.

        >>> CRFOptions(halo=1).changed()
        {'halo': 1}
        """
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) != field.default}

    def replace(self, **changes: Any) -> CRFOptions:
        """A copy with some `changes`; unknown names raise an error that lists the known ones.

        >>> CRFOptions().replace(iterations=3).changed()
        {'iterations': 3}
        """
        return checked_options({**asdict(self), **changes})


def check_inference(inference: Inference, options: CRFOptions) -> None:
    """Raises if the other `options` do not allow this kind of inference."""
    if inference == "convergent" and options.method == "lattice" and options.operator != "symmetric":
        raise InputError(
            f"convergent inference expects symmetric kernel matrices, but operator is {options.operator!r}. "
            "Use operator='symmetric' or method='exact'."
        )
    if inference == "sequential" and options.method != "exact":
        raise InputError(
            f"sequential inference expects method='exact', but method is {options.method!r}. "
            "Use inference='convergent' on a lattice."
        )
    if inference == "sequential" and not options.exclude_self:
        raise InputError(
            "sequential inference is for pixels that send nothing to themselves, but exclude_self is False. "
            "Use exclude_self=True."
        )


def check_normalizations(inference: Inference, named: Iterable[tuple[str, Normalization]]) -> None:
    """Raises if this inference does not allow the normalization of a kernel."""
    for name, normalization in named:
        if inference == "convergent" and normalization in ("after", "before"):
            raise InputError(
                f"convergent inference expects symmetric kernel matrices, but the {name} kernel has "
                f"normalization={normalization!r}. Use normalization='symmetric' or 'none', or parallel inference."
            )


def checked_options(arguments: Any) -> CRFOptions:
    """CRFOptions of keyword arguments."""
    known = [field.name for field in fields(CRFOptions)]
    unknown = [name for name in arguments if name not in known]
    if unknown:
        raise InputTypeError(f"unknown option {unknown[0]!r}, expected one of {', '.join(known)}.")
    return CRFOptions(**arguments)


def _checked_iterations(count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, SupportsIndex) or not 0 <= count.__index__() <= MOST_ITERATIONS:
        raise InputError(f"iterations is {count!r}, expected an integer from 0 to {MOST_ITERATIONS}.")
    return count.__index__()


def _checked_data_range(given: float | Sequence[float] | None) -> float | tuple[float, ...] | None:
    if given is None:
        return None
    array = checked_numbers(given, "data_range", "a number such as 1 or 65535, or one per channel")
    if array.ndim > 1 or not array.size or not all(0 < value < float("inf") for value in array.flat):
        raise InputError(f"data_range is {given!r}, expected a finite number above 0, or one per channel.")
    return float(array) if array.ndim == 0 else tuple(array.tolist())


def check_attribute(name: str, value: object) -> None:
    """Raises if an option is set as an attribute of a CRF, or its options to something else."""
    if name == "options" and not isinstance(value, CRFOptions):
        raise InputTypeError(
            f"options are of type {type(value).__name__}, expected CRFOptions: use crf.options.replace(…)."
        )
    if name in CRFOptions.__dataclass_fields__:
        raise AttributeError(f"options are set together: crf.options = crf.options.replace({name}=…).")
