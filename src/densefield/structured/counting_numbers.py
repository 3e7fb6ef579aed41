"""Counting numbers: the weights ρ of region entropies in the approximate entropy of the model.

Every approximation here has the form Σ_r ρ_r H(b_r) + Σ_i (1 − Σ_{r∋i} ρ_r) H(b_i), so ρ defines it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import lru_cache

import torch
from torch import Tensor

from densefield.errors import InputError
from densefield.structured.factor_graph import FactorGraph

Weights = Mapping[str, Tensor]  # ρ_r > 0, (R,) for each group of regions of two or more variables

MAX_VARIABLES = 2000  # for inverting the graph's Laplacian, at cubic cost
_GROWTH_STEPS = 20


def bethe_weights(graph: FactorGraph) -> dict[str, Tensor]:
    """Weights ρ = 1: the Bethe entropy, exact on trees, and concave for trees and single loops only.

    Parameters
    ----------
    graph
        The factor graph.

    Examples
    --------
    >>> bethe_weights(FactorGraph([2] * 3, {"pair": [[0, 1], [1, 2]]}))
    {'pair': tensor([1., 1.], dtype=torch.float64)}
    """
    return {name: torch.ones(len(group.variables), dtype=torch.float64) for name, group in graph.factors.items()}


@lru_cache(maxsize=64)
def convex_weights(graph: FactorGraph) -> dict[str, Tensor]:
    """Weights that sum to at most 1 at each variable, so every entropy has a weight of 0 or more: concave.

    In connected components that are trees ρ = 1, since the Bethe entropy is concave there. Elsewhere all weights grow
    together, each until the sum at one of its variables reaches 1.

    Parameters
    ----------
    graph
        The factor graph.

    Examples
    --------
    >>> square = FactorGraph([2] * 5, {"pair": [[0, 1], [1, 2], [2, 3], [3, 0]], "tree": [[3, 4]]})
    >>> convex_weights(square)["pair"]
    tensor([0.5000, 0.5000, 0.3333, 0.3333], dtype=torch.float64)
    """
    regions = _Regions(graph)
    free = ~regions.in_trees(graph)
    weights = (~free).double()
    for _ in range(_GROWTH_STEPS):
        left = 1 - regions.sum(weights.where(free, 0.0))
        growing = free & (regions.minimum(left) > 1e-9)
        degree = regions.sum(growing.double()).clamp(min=1)
        weights = weights + regions.minimum(left / degree).where(growing, 0.0)
    return regions.split(weights)


@lru_cache(maxsize=64)
def tree_weights(graph: FactorGraph) -> dict[str, Tensor]:
    """Probability that a random spanning tree contains a region.

    For pairs, all spanning trees are equally probable: by Kirchhoff's theorem ρ is the effective resistance between
    the two variables if every pair is a resistor of 1 Ω. With larger regions, or more than 2000 variables, the weights
    are those of ``forest_weights``.

    Parameters
    ----------
    graph
        The factor graph.

    Examples
    --------
    >>> cycle = FactorGraph([2] * 4, {"pair": [[0, 1], [1, 2], [2, 3], [3, 0]]})
    >>> tree_weights(cycle)["pair"]
    tensor([0.7500, 0.7500, 0.7500, 0.7500], dtype=torch.float64)
    """
    pairs = all(len(group.num_states) == 2 for group in graph.factors.values())
    if pairs and len(graph.num_states) <= MAX_VARIABLES:
        return _resistances(graph)
    return forest_weights(graph)


def forest_weights(graph: FactorGraph, forests: int = 32, seed: int = 0) -> dict[str, Tensor]:
    """How often a region is in random forests.

    A forest adds regions in random order, the least used first, unless they close a loop.

    Parameters
    ----------
    graph
        The factor graph.
    forests
        Minimum number of forests; more are drawn until each region has been used.
    seed
        Random seed.

    Examples
    --------
    >>> triples = FactorGraph([2] * 4, {"three": [[0, 1, 2], [1, 2, 3]], "two": [[0, 3]]})
    >>> {name: weights.tolist() for name, weights in forest_weights(triples).items()}
    {'three': [0.5, 0.5], 'two': [1.0]}
    """
    if forests < 1:
        raise InputError(f"forests is {forests!r}, expected 1 or more.")
    regions = [region for group in graph.factors.values() for region in group.variables.tolist()]
    taken = [0] * len(regions)
    generator = random.Random(seed)
    drawn = 0
    while drawn < forests or (taken and min(taken) == 0):
        drawn += 1
        order = sorted(range(len(regions)), key=lambda region: (taken[region], generator.random()))
        for region in _forest(regions, order, len(graph.num_states)):
            taken[region] += 1
    return _Regions(graph).split(torch.tensor(taken, dtype=torch.float64) / drawn)


def _resistances(graph: FactorGraph) -> dict[str, Tensor]:
    size = len(graph.num_states)
    laplacian = torch.zeros(size, size, dtype=torch.float64)
    for group in graph.factors.values():
        i, j = group.variables.T
        laplacian.index_put_((i, j), torch.full((len(i),), -1.0, dtype=torch.float64), accumulate=True)
    laplacian = laplacian + laplacian.T
    laplacian -= torch.diag(laplacian.sum(1))
    inverse = torch.linalg.pinv(laplacian, hermitian=True)
    weights = {}
    for name, group in graph.factors.items():
        i, j = group.variables.T
        weights[name] = (inverse[i, i] + inverse[j, j] - 2 * inverse[i, j]).clamp(max=1.0)
    return weights


def _forest(regions: list[list[int]], order: list[int], variables: int) -> list[int]:
    """The regions that join unconnected variables when they are added in the given order."""
    parent = list(range(variables))

    def root(variable: int) -> int:
        while parent[variable] != variable:
            parent[variable] = parent[parent[variable]]
            variable = parent[variable]
        return variable

    taken = []
    for region in order:
        roots = {root(variable) for variable in regions[region]}
        if len(roots) == len(regions[region]):
            taken.append(region)
            first = roots.pop()
            for other in roots:
                parent[other] = first
    return taken


class _Regions:
    """All regions of two or more variables as one list."""

    def __init__(self, graph: FactorGraph) -> None:
        self._groups = graph.factors
        self._count = len(graph.num_states)
        sizes = [len(group.num_states) for group in self._groups.values() for _ in range(len(group.variables))]
        self._variables = torch.cat(
            [group.variables.flatten() for group in self._groups.values()] or [torch.zeros(0).long()]
        )
        self._region = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes, dtype=torch.long))
        self._total = len(sizes)

    def sum(self, weights: Tensor) -> Tensor:
        """Σ_{r∋i} ρ_r for every variable, (N,)."""
        zeros = torch.zeros(self._count, dtype=torch.float64)
        return zeros.index_add(0, self._variables, weights[self._region])

    def minimum(self, values: Tensor) -> Tensor:
        """The minimum of the variables' values in each region, (regions,)."""
        start = torch.full((self._total,), float("inf"), dtype=torch.float64)
        return start.scatter_reduce(0, self._region, values[self._variables], "amin")

    def split(self, weights: Tensor) -> dict[str, Tensor]:
        """The weights of each group."""
        parts = torch.split(weights, [len(group.variables) for group in self._groups.values()])
        return dict(zip(self._groups, parts, strict=True))

    def in_trees(self, graph: FactorGraph) -> Tensor:
        """Which regions are in connected components without a loop, (regions,)."""
        component_of = _components(graph)
        component = component_of[self._variables]
        # A component of v variables is a tree if Σ_r (size of r − 1) = v − 1.
        ones = torch.ones(self._count, dtype=torch.long)
        variables = torch.zeros(self._count, dtype=torch.long).index_add(0, component_of, ones)
        places = torch.zeros(self._count, dtype=torch.long).index_add(0, component, torch.ones_like(component))
        first = torch.zeros(self._total, dtype=torch.long).scatter_reduce(0, self._region, component, "amax")
        regions = torch.zeros(self._count, dtype=torch.long).index_add(0, first, torch.ones_like(first))
        return (places - regions == variables - 1)[first]


def _components(graph: FactorGraph) -> Tensor:
    """The connected component of each variable, (N,)."""
    component = [-1] * len(graph.num_states)
    for start in range(len(component)):
        if component[start] < 0:
            waiting = [start]
            component[start] = start
            while waiting:
                for other in graph.neighbours[waiting.pop()]:
                    if component[other] < 0:
                        component[other] = start
                        waiting.append(other)
    return torch.tensor(component)


def total_weights(graph: FactorGraph, weights: Weights) -> Tensor:
    """Σ_{r∋i} ρ_r for every variable, (N,)."""
    first = next(iter(weights.values()), None)
    total = torch.zeros(len(graph.num_states)) if first is None else first.new_zeros(len(graph.num_states))
    for name, group in graph.factors.items():
        index = group.variables.flatten().to(total.device)
        total = total.index_add(0, index, weights[name].repeat_interleave(len(group.num_states)))
    return total


def checked_weights(graph: FactorGraph, weights: Weights) -> Weights:
    """The weights; raises if they do not fit the graph."""
    for name, group in graph.factors.items():
        given = weights.get(name)
        if not isinstance(given, Tensor) or tuple(given.shape) != (len(group.variables),):
            raise InputError(
                f"the weights of {name!r} are {given!r}, expected a tensor of {len(group.variables)} numbers, one for "
                "each region."
            )
        check_positive(name, given)
    return weights


def check_positive(name: str, weights: Tensor) -> None:
    """Raise unless all weights are positive and finite."""
    if not bool(((weights > 0) & weights.isfinite()).all()):
        low, high = float(weights.min()), float(weights.max())
        raise InputError(f"the weights of {name!r} are from {low} to {high}, expected positive finite numbers.")
