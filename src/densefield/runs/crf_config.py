"""The settings of the CRF of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from densefield.crf.compatibility import is_positive_semidefinite
from densefield.crf.crf_tables import KERNELS, OPTIONS, kernel_problems, kernel_to_table, kernels_from_tables
from densefield.crf.model import PHOTO_KERNELS
from densefield.crf.options import MOST_ITERATIONS, AxisOrder
from densefield.errors import InputError
from densefield.filters.lattice_design import MAX_HALO, Operator
from densefield.runs.config_section import Section

EMBEDDING = "embedding"  # the feature of custom kernels that networks give


class CRFConfig(Section):
    """The CRF of stage 2 before training: the keys of `crf.toml`, and `enabled` and `freeze`.

    Kernels are stored with all their fields, as in `densefield.crf.crf_tables`.
    """

    enabled: bool = True  # false trains the network alone in stage 2 too, for comparison
    freeze: tuple[str, ...] = ()  # names of parameters that are not learnt, such as "*.log_sigma"
    iterations: int = Field(default=5, ge=1, le=MOST_ITERATIONS)
    test_iterations: int | None = Field(default=None, ge=1, le=MOST_ITERATIONS)  # in validation, eval and predict
    inference: Literal["parallel", "convergent"] = "parallel"
    exclude_self: bool = False
    operator: Operator = "symmetric"
    halo: int = Field(default=0, ge=0, le=MAX_HALO)
    axis_order: AxisOrder = "xy"
    kernels: tuple[dict[str, Any], ...] = tuple(kernel_to_table(kernel) for kernel in PHOTO_KERNELS)

    @field_validator("kernels")
    @classmethod
    def _kernels_can_be_learnt(cls, tables: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        problems = kernel_problems(tables) or list(_training_problems(tables))
        if problems:
            raise ValueError("\n".join(problems))
        kernels = kernels_from_tables(tables)
        forms = [table.get("compatibility", "potts") for table in tables]
        return tuple(kernel_to_table(kernel, form) for kernel, form in zip(kernels, forms, strict=True))

    @model_validator(mode="after")
    def _convergent_inference_is_possible(self) -> CRFConfig:
        if self.inference != "convergent":
            return self
        for place, table in enumerate(self.kernels):
            if table["normalization"] in ("after", "before"):
                raise ValueError(
                    f'inference is "convergent", which expects symmetric kernel matrices, but {KERNELS}.{place} has '
                    f'normalization = "{table["normalization"]}": use "symmetric" or "none", or inference = "parallel"'
                )
            if not is_positive_semidefinite(np.asarray(table["weight"], np.float64)):
                raise ValueError(
                    f'inference is "convergent", which expects positive semi-definite weights, but that of '
                    f"{KERNELS}.{place} is not: for some combination of labels, alike pixels repel each other. Change "
                    'it, or use inference = "parallel"'
                )
        for name in parameter_names(self.kernels):
            if name.endswith(".matrix") and not any(fnmatchcase(name, pattern) for pattern in self.freeze):
                raise ValueError(
                    f'inference is "convergent", which expects positive semi-definite weights, but {name} is learnt '
                    'without such a bound: use compatibility = "per_label", a weight for each label, or add '
                    f'"{name}" to crf.freeze, or use inference = "parallel"'
                )
        return self

    @model_validator(mode="after")
    def _frozen_parameters_exist(self) -> CRFConfig:
        names = list(parameter_names(self.kernels))
        for pattern in self.freeze:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise ValueError(f"freeze has {pattern!r}, which matches none of {', '.join(names)}")
        return self

    def tables(self) -> dict[str, Any]:
        """The keys of `crf.toml`."""
        return {**{name: getattr(self, name) for name in OPTIONS}, KERNELS: list(self.kernels)}


def _training_problems(tables: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Problems of kernels that are valid in a file, but cannot be learnt on photos."""
    if not tables:
        yield f"{KERNELS}: is empty, expected one kernel or more; enabled = false trains without a CRF"
    for place, (table, kernel) in enumerate(zip(tables, kernels_from_tables(tables), strict=True)):
        if table["kind"] == "custom" and (problem := _custom_problem(table)):
            yield f"{KERNELS}.{place}{problem}"
            continue
        try:
            kernel.shape({"position": 2, "channel": 3, EMBEDDING: np.size(table.get("sigma", 1.0))})
        except InputError as error:
            yield f"{KERNELS}.{place}: {error}"
        weight = np.asarray(kernel.weight, np.float64)
        if weight.ndim < 2 and table.get("compatibility") != "matrix" and (weight <= 0).any():
            yield (
                f"{KERNELS}.{place}.weight: is {weight.tolist()}, expected more than 0, since its logarithm is learnt: "
                'remove the kernel, or set compatibility = "matrix"'
            )


def _custom_problem(table: Mapping[str, Any]) -> str | None:
    """Why a custom kernel cannot be used in training, which has no features but the embedding of the network."""
    if table["feature"] != EMBEDDING:
        return (
            f": compares {table['feature']!r}, but training has positions, colours and the network's own embedding "
            f'only: set feature = "{EMBEDDING}"'
        )
    if "covariance" in table:
        return f".covariance: is given, but the {EMBEDDING} kernel has widths: use sigma and sigma_xy"
    if "sigma_xy" not in table:
        return ".sigma_xy: is missing, expected the kernel's width in pixels, since it compares positions too"
    return None


def parameter_names(tables: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The names of the parameters of these kernels in DenseCRF."""
    seen: Counter[str] = Counter()
    for table in tables:
        kind = table["feature"] if table["kind"] == "custom" else table["kind"]
        seen[kind] += 1
        name = kind if seen[kind] == 1 else f"{kind}{seen[kind]}"
        shape = ("log_diagonal", "lower") if "covariance" in table else ("log_sigma",)
        is_matrix = np.ndim(table["weight"]) == 2 or table.get("compatibility") == "matrix"
        yield from (f"{name}.{part}" for part in (*shape, "matrix" if is_matrix else "log_weight"))
