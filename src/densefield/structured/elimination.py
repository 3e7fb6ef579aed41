"""In which order variables are eliminated, and over which others each then reaches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from densefield.errors import InputError
from densefield.structured.factor_graph import FactorGraph

MOST_ENTRIES = 10**7  # of the largest table, for one item of a batch


@dataclass(frozen=True)
class Bucket:
    """A variable, those it still shares a region with when its turn comes, and the regions that are summed then."""

    variable: int
    separator: tuple[int, ...]
    parent: int | None  # the bucket that takes the message: that of the separator's first variable in the order
    regions: tuple[tuple[str, int], ...]  # group and row

    @property
    def clique(self) -> tuple[int, ...]:
        """The variable and its separator, the axes of the bucket's table."""
        return (self.variable, *self.separator)


@lru_cache(maxsize=64)
def buckets(graph: FactorGraph) -> tuple[Bucket, ...]:
    """The cliques of a junction tree in the order of elimination, children before parents.

    Next comes the variable whose elimination joins the fewest pairs that were not joined yet (min-fill); in a tree that
    is none, so tables stay as small as the regions are.

    >>> chain = FactorGraph([2] * 4, {"pair": [[0, 1], [1, 2], [2, 3]]})
    >>> [bucket.clique for bucket in buckets(chain)]
    [(0, 1), (1, 2), (2, 3), (3,)]
    """
    order, separators = _min_fill(graph)
    place = {variable: index for index, variable in enumerate(order)}
    regions: list[list[tuple[str, int]]] = [[] for _ in order]
    for name, group in graph.groups.items():
        for row, region in enumerate(group.variables.tolist()):
            regions[min(place[variable] for variable in region)].append((name, row))
    found = []
    for index, variable in enumerate(order):
        separator = tuple(sorted(separators[variable], key=place.__getitem__))
        entries = math.prod(graph.labels[i] for i in (variable, *separator))
        if entries > MOST_ENTRIES:
            raise InputError(
                f"exact elimination needs a table over {len(separator) + 1} variables with {entries} entries, expected "
                f"{MOST_ENTRIES} at most. Use loopy_belief_propagation, or another approximation."
            )
        parent = place[separator[0]] if separator else None
        found.append(Bucket(variable, separator, parent, tuple(regions[index])))
    return tuple(found)


def _min_fill(graph: FactorGraph) -> tuple[list[int], dict[int, set[int]]]:
    """The order, and the neighbours that each variable has left when it is eliminated."""
    neighbours = [set(others) for others in graph.neighbours]

    def missing(variable: int) -> int:
        others = neighbours[variable]
        return sum(len(others) - 1 - len(others & neighbours[other]) for other in others)

    cost = {variable: missing(variable) for variable in range(len(neighbours))}
    order, separators = [], {}
    while cost:
        variable = min(cost, key=cost.__getitem__)
        others = neighbours[variable]
        order.append(variable)
        separators[variable] = others
        del cost[variable]
        for other in others:
            neighbours[other] |= others - {other}
            neighbours[other].discard(variable)
        for changed in others.union(*(neighbours[other] for other in others)):
            cost[changed] = missing(changed)
    return order, separators
