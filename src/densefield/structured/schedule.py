"""Which variables are updated together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import torch
from torch import Tensor

from densefield.errors import InputError
from densefield.structured.factor_graph import FactorGraph

Schedule = Literal["parallel", "sequential"]


@dataclass(frozen=True, eq=False)
class Link:
    """The places at which some regions of a group hold variables of a step: slot number `slot` of the rows `rows`."""

    group: str
    slot: int
    rows: Tensor | None  # (r,); None for all regions of the group
    places: Tensor  # (r,): where in the step's variables that of each row stands


@dataclass(frozen=True, eq=False)
class Step:
    """Variables that are updated at once, and every place at which a region holds one of them."""

    variables: Tensor  # (n,)
    links: tuple[Link, ...]


@lru_cache(maxsize=64)
def steps(graph: FactorGraph, schedule: Schedule) -> tuple[Step, ...]:
    """The steps of one sweep: all variables at once, or one colour after another.

    Variables of one colour share no region, so that updating them at once is the same as one after another: a
    sequential schedule without a loop over variables. A chain and a grid have two colours, a complete graph as many as
    variables.

    >>> cycle = FactorGraph([2] * 5, {"pair": [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]]})
    >>> [step.variables.tolist() for step in steps(cycle, "sequential")]
    [[0, 2], [1, 3], [4]]
    """
    if schedule not in get_args(Schedule):
        raise InputError(f"schedule is {schedule!r}, expected one of {', '.join(get_args(Schedule))}.")
    if schedule == "parallel":
        return (_step(graph, torch.arange(len(graph.labels))),)
    colours = colouring(graph)
    return tuple(_step(graph, (colours == colour).nonzero()[:, 0]) for colour in range(int(colours.max()) + 1))


def colouring(graph: FactorGraph) -> Tensor:
    """Colours 0, 1, … (N,) of which no two variables of a region share one: to each the least that is free."""
    colours = [-1] * len(graph.labels)
    for variable, neighbours in enumerate(graph.neighbours):
        taken = {colours[other] for other in neighbours}
        colours[variable] = next(colour for colour in range(len(taken) + 1) if colour not in taken)
    return torch.tensor(colours)


def _step(graph: FactorGraph, variables: Tensor) -> Step:
    place = torch.full((len(graph.labels),), -1)
    place[variables] = torch.arange(len(variables))
    links = []
    for name, group in graph.factors.items():
        for slot in range(len(group.labels)):
            here = place[group.variables[:, slot]]
            rows = (here >= 0).nonzero()[:, 0]
            if len(rows):
                links.append(Link(name, slot, None if len(rows) == len(here) else rows, here[rows]))
    return Step(variables, tuple(links))
