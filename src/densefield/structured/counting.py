"""Counting numbers: how much of each region's entropy counts in that of the model.

All entropies here are Σ_r ρ_r H(b_r) + Σ_i (1 − Σ_{r∋i} ρ_r) H(b_i), so the weights ρ say everything.
"""

from __future__ import annotations

import random
from functools import lru_cache

import torch
from torch import Tensor

from densefield.errors import InputError
from densefield.structured.factor_graph import FactorGraph

MOST_VARIABLES = 2000  # whose graph is inverted; the cost is cubic
_ROUNDS = 20


def bethe_weights(graph: FactorGraph) -> dict[str, Tensor]:
    """ρ = 1: Bethe's entropy, exact on trees and concave only there and with single loops."""
    return {name: torch.ones(len(group.variables), dtype=torch.float64) for name, group in graph.factors.items()}


@lru_cache(maxsize=64)
def convex_weights(graph: FactorGraph) -> dict[str, Tensor]:
    """Weights of which no variable has more than 1 in all, so that every entropy counts with 0 or more: concave.

    In parts of the graph that are trees ρ = 1, where Bethe's entropy is concave already. Elsewhere all weights grow
    together, each until one of its variables has enough.

    >>> square = FactorGraph([2] * 5, {"pair": [[0, 1], [1, 2], [2, 3], [3, 0]], "tree": [[3, 4]]})
    >>> convex_weights(square)["pair"]
    tensor([0.5000, 0.5000, 0.3333, 0.3333], dtype=torch.float64)
    """
    regions = _Regions(graph)
    free = ~regions.in_trees(graph)
    weights = (~free).double()
    for _ in range(_ROUNDS):
        left = 1 - regions.sum(weights.where(free, 0.0))
        growing = free & (regions.least(left) > 1e-9)
        degree = regions.sum(growing.double()).clamp(min=1)
        weights = weights + regions.least(left / degree).where(growing, 0.0)
    return regions.split(weights)


@lru_cache(maxsize=64)
def tree_weights(graph: FactorGraph) -> dict[str, Tensor]:
    """How probable it is that a region is in a random spanning tree.

    For pairs, all spanning trees are equally probable: by Kirchhoff's theorem ρ is the resistance between the two
    variables, were every pair a wire of resistance 1. With larger regions, or more than 2000 variables, it is an
    average over forests that take regions in random order as long as they close no loop, those that were taken least
    before first.

    >>> cycle = FactorGraph([2] * 4, {"pair": [[0, 1], [1, 2], [2, 3], [3, 0]]})
    >>> tree_weights(cycle)["pair"]
    tensor([0.7500, 0.7500, 0.7500, 0.7500], dtype=torch.float64)
    """
    pairs = all(len(group.labels) == 2 for group in graph.factors.values())
    if pairs and len(graph.labels) <= MOST_VARIABLES:
        return _resistances(graph)
    return forest_weights(graph)


def forest_weights(graph: FactorGraph, forests: int = 32, seed: int = 0) -> dict[str, Tensor]:
    """How often a region is in forests drawn one after another, at least as many as it takes to use every region.

    >>> triples = FactorGraph([2] * 4, {"three": [[0, 1, 2], [1, 2, 3]], "two": [[0, 3]]})
    >>> {name: weights.tolist() for name, weights in forest_weights(triples).items()}
    {'three': [0.5, 0.5], 'two': [1.0]}
    """
    if forests < 1:
        raise InputError(f"forests is {forests!r}, expected 1 or more.")
    regions = [region for group in graph.factors.values() for region in group.variables.tolist()]
    taken = [0] * len(regions)
    draws = random.Random(seed)
    drawn = 0
    while drawn < forests or (taken and min(taken) == 0):
        drawn += 1
        # What was taken least comes first; chance decides between equals.
        order = sorted(range(len(regions)), key=lambda region: (taken[region], draws.random()))
        for region in _forest(regions, order, len(graph.labels)):
            taken[region] += 1
    return _Regions(graph).split(torch.tensor(taken, dtype=torch.float64) / drawn)


def _resistances(graph: FactorGraph) -> dict[str, Tensor]:
    size = len(graph.labels)
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
    """Regions that are taken in the given order, each if all its variables are as yet unconnected."""
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
    """All regions of two and more variables as one list."""

    def __init__(self, graph: FactorGraph) -> None:
        self._groups = graph.factors
        self._count = len(graph.labels)
        sizes = [len(group.labels) for group in self._groups.values() for _ in range(len(group.variables))]
        self._variables = torch.cat(
            [group.variables.flatten() for group in self._groups.values()] or [torch.zeros(0).long()]
        )
        self._region = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes, dtype=torch.long))
        self._total = len(sizes)

    def sum(self, weights: Tensor) -> Tensor:
        """Σ_{r∋i} of every variable, (N,)."""
        zeros = torch.zeros(self._count, dtype=torch.float64)
        return zeros.index_add(0, self._variables, weights[self._region])

    def least(self, values: Tensor) -> Tensor:
        """The least of the variables' values in each region, (regions,)."""
        start = torch.full((self._total,), float("inf"), dtype=torch.float64)
        return start.scatter_reduce(0, self._region, values[self._variables], "amin")

    def split(self, weights: Tensor) -> dict[str, Tensor]:
        """By group."""
        parts = torch.split(weights, [len(group.variables) for group in self._groups.values()])
        return dict(zip(self._groups, parts, strict=True))

    def in_trees(self, graph: FactorGraph) -> Tensor:
        """Which regions lie in connected parts without a loop, (regions,)."""
        part = _parts(graph)[self._variables]
        # A part of v variables is a tree if its regions, each with its size less one, add up to v − 1.
        ones = torch.ones(self._count, dtype=torch.long)
        variables = torch.zeros(self._count, dtype=torch.long).index_add(0, _parts(graph), ones)
        places = torch.zeros(self._count, dtype=torch.long).index_add(0, part, torch.ones_like(part))
        first = torch.zeros(self._total, dtype=torch.long).scatter_reduce(0, self._region, part, "amax")
        regions = torch.zeros(self._count, dtype=torch.long).index_add(0, first, torch.ones_like(first))
        return (places - regions == variables - 1)[first]


def _parts(graph: FactorGraph) -> Tensor:
    """The number of the connected part that each variable is in, (N,)."""
    part = [-1] * len(graph.labels)
    for start in range(len(part)):
        if part[start] < 0:
            waiting = [start]
            part[start] = start
            while waiting:
                for other in graph.neighbours[waiting.pop()]:
                    if part[other] < 0:
                        part[other] = start
                        waiting.append(other)
    return torch.tensor(part)
