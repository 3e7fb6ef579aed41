"""How a CRF is tuned."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Literal, get_args

from densefield.errors import InputError
from densefield.tuning.space import CRITERIA, Criterion, Setting, Space

Search = Literal["random", "grid", "none"]


@dataclass(frozen=True)
class Tuning:
    """The options of tune_crf().

    Settings are tried on images at 1/shrink of their size, by `criterion`. From the best one L-BFGS learns all widths
    and weights on the log-likelihood: with at most `evaluations` of the loss on the shrunk images, and a third as many
    at full size. With 0 evaluations nothing is learnt.
    """

    search: Search = "random"
    trials: int = 24  # of a random search
    criterion: Criterion = "negative_log_likelihood"
    space: Space = field(default_factory=Space)
    shrink: int = 2
    evaluations: int = 24
    iterations: int = 5
    images: int | None = None  # at most so many, half of them to learn from; all by default
    seed: int = 0

    def __post_init__(self) -> None:
        """Checks what can be checked without data."""
        if self.search not in get_args(Search):
            raise InputError(f"search is {self.search!r}, expected one of {', '.join(get_args(Search))}.")
        if self.criterion not in CRITERIA:
            raise InputError(f"the criterion is {self.criterion!r}, expected one of {', '.join(CRITERIA)}.")
        least = {"trials": 1, "shrink": 1, "evaluations": 0, "iterations": 1, "seed": 0}
        for name, lowest in least.items():
            if getattr(self, name) < lowest:
                raise InputError(f"{name} is {getattr(self, name)}, expected {lowest} or more.")

    def settings(self) -> list[Setting]:
        """What is tried."""
        if self.search == "none":
            return [Setting()]
        if self.search == "grid":
            return list(self.space.grid())
        return list(itertools.islice(self.space.random(self.seed), self.trials))
