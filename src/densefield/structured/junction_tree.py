"""Exact inference by variable elimination: fast on trees and wherever the tree-width is low."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from densefield.errors import InputError
from densefield.structured.beliefs import Beliefs, check_possible
from densefield.structured.enumeration import group_marginals, stack_variables
from densefield.structured.factor_graph import FactorGraph, Scores, batch_size, flat_index
from densefield.structured.log_domain import align, difference, log_sum, marginalise

MAX_ENTRIES = 10**7  # of the largest table, per item of a batch


def junction_tree(graph: FactorGraph, scores: Scores) -> Beliefs:
    """Exact marginals and log Z: messages up the junction tree, then marginals down.

    Upwards, variables are eliminated one by one, which gives p(y_i | separator). Downwards, the marginals of a clique
    are that times the separator's marginals, which the parent has. The cost is the size of the largest clique's table:
    the number of states to the power of tree-width + 1.

    Parameters
    ----------
    graph
        The factor graph; no clique's table may have more than 10⁷ entries.
    scores
        The scores of each group of regions, as ``FactorGraph`` describes them.

    Examples
    --------
    >>> import torch
    >>> graph = FactorGraph([2] * 50, {"unary": [[0]], "pair": [[i, i + 1] for i in range(49)]})
    >>> scores = {"unary": torch.tensor([[[3.0, 0.0]]]), "pair": 2 * torch.eye(2).reshape(1, 1, 2, 2)}
    >>> beliefs = junction_tree(graph, scores)
    >>> beliefs.variable_log_marginals[0, [0, 5, 49]].exp()
    tensor([[0.9526, 0.0474],
            [0.6160, 0.3840],
            [0.5000, 0.5000]])
    """
    full = graph.checked(scores)
    order = buckets(graph)
    tables, log_partition = _upwards(graph, full, lambda table: log_sum(table, 1))
    check_possible(log_partition)
    beliefs: list[Tensor] = [log_partition] * len(order)
    for index in reversed(range(len(order))):
        bucket = order[index]
        conditional = difference(tables[index], log_sum(tables[index], 1, keepdim=True))
        if bucket.parent is not None:
            above = marginalise(beliefs[bucket.parent], order[bucket.parent].clique, bucket.separator)
            conditional = conditional + above.unsqueeze(1)
        beliefs[index] = conditional
    single: dict[int, Tensor] = {}
    found: dict[tuple[str, int], Tensor] = {}
    for bucket, belief in zip(order, beliefs, strict=True):
        single[bucket.variable] = marginalise(belief, bucket.clique, (bucket.variable,))
        for name, row in bucket.regions:
            region = tuple(graph.groups[name].variables[row].tolist())
            found[name, row] = marginalise(belief, bucket.clique, region)
    log_marginals = {
        name: group_marginals(group, torch.stack([found[name, row] for row in range(len(group.variables))], 1))
        for name, group in graph.groups.items()
    }
    return Beliefs(log_marginals, stack_variables(graph, [single[i] for i in range(len(single))]), log_partition)


def exact_map(graph: FactorGraph, scores: Scores) -> Tensor:
    """The configuration y* = argmax F(x, ŷ), (B, N), by elimination with maxima instead of sums (paper, Eq. 1).

    Parameters
    ----------
    graph, scores
        As in ``junction_tree``.

    Examples
    --------
    >>> import torch
    >>> graph = FactorGraph([2, 2, 2], {"unary": [[0], [2]], "pair": [[0, 1], [1, 2]]})
    >>> unary = torch.tensor([[[0.0, 3.0], [1.0, 0.0]]])
    >>> exact_map(graph, {"unary": unary, "pair": 5 * torch.eye(2).reshape(1, 1, 2, 2)})
    tensor([[1, 1, 1]])
    """
    with torch.no_grad():
        full = graph.checked(scores)
        tables, best = _upwards(graph, full, lambda table: table.amax(1))
        check_possible(best)
        return _downwards(graph, tables, batch_size(full), 1, lambda table: table.argmax(-1))[0]


def exact_samples(graph: FactorGraph, scores: Scores, count: int, generator: torch.Generator | None = None) -> Tensor:
    """Independent samples from p(y | x), (count, B, N), by elimination.

    Parameters
    ----------
    graph, scores
        As in ``junction_tree``.
    count
        Number of samples of each item.
    generator
        Source of random numbers; torch's default if None.

    Examples
    --------
    >>> import torch
    >>> graph = FactorGraph([2, 2], {"pair": [[0, 1]]})
    >>> equal = torch.tensor([[0.0, float("-inf")], [float("-inf"), 0.0]])
    >>> samples = exact_samples(graph, {"pair": equal[None, None]}, 100, torch.Generator().manual_seed(88))
    >>> samples.shape, bool((samples[..., 0] == samples[..., 1]).all())
    (torch.Size([100, 1, 2]), True)
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise InputError(f"count is {count!r}, expected an integer, 0 or more.")

    def draw(table: Tensor) -> Tensor:
        p = table.softmax(-1)
        flat = p.reshape(-1, p.shape[-1])
        if not len(flat):
            return flat.new_zeros(p.shape[:-1], dtype=torch.long)
        return torch.multinomial(flat, 1, generator=generator).reshape(p.shape[:-1])

    with torch.no_grad():
        full = graph.checked(scores)
        tables, log_partition = _upwards(graph, full, lambda table: log_sum(table, 1))
        check_possible(log_partition)
        return _downwards(graph, tables, batch_size(full), count, draw)


def _upwards(graph: FactorGraph, scores: Scores, eliminate: Callable[[Tensor], Tensor]) -> tuple[list[Tensor], Tensor]:
    """Tables (B, clique) of all buckets, and the sum of the roots' messages (B,)."""
    order = buckets(graph)
    dense = {name: group.tables(scores[name]) for name, group in graph.groups.items()}
    total = next(iter(scores.values())).new_zeros(batch_size(scores))
    tables: list[Tensor] = [total.reshape(-1, *[1] * len(bucket.clique)) for bucket in order]
    for index, bucket in enumerate(order):
        for name, row in bucket.regions:
            region = tuple(graph.groups[name].variables[row].tolist())
            tables[index] = tables[index] + align(dense[name][:, row], region, bucket.clique)
        # Variables of no region have axes of length 1 so far.
        tables[index] = tables[index].expand(-1, *(graph.num_states[variable] for variable in bucket.clique))
        message = eliminate(tables[index])
        if bucket.parent is None:
            total = total + message
        else:
            parent = order[bucket.parent].clique
            tables[bucket.parent] = tables[bucket.parent] + align(message, bucket.separator, parent)
    return tables, total


def _downwards(
    graph: FactorGraph, tables: list[Tensor], batch: int, count: int, choose: Callable[[Tensor], Tensor]
) -> Tensor:  # (count, B, N)
    """Choose the label of one variable after another, given the labels of its separator."""
    order = buckets(graph)
    labels = torch.zeros(count, batch, len(order), dtype=torch.long, device=tables[0].device)
    for table, bucket in zip(reversed(tables), reversed(order), strict=True):
        given = labels[..., list(bucket.separator)]
        index = (
            flat_index(given, tuple(graph.num_states[i] for i in bucket.separator))
            if bucket.separator
            else labels[..., 0] * 0
        )
        rows = table.flatten(2).transpose(1, 2) if bucket.separator else table.unsqueeze(1)  # (B, separator, L)
        chosen = rows.expand(count, -1, -1, -1).gather(2, index[..., None, None].expand(-1, -1, 1, rows.shape[-1]))
        labels[..., bucket.variable] = choose(chosen.squeeze(2))
    return labels


@dataclass(frozen=True)
class Bucket:
    """An eliminated variable, its separator (its neighbours at that time), and the regions that are summed then."""

    variable: int
    separator: tuple[int, ...]
    parent: int | None  # the bucket that receives the message: the one of the separator's first variable
    regions: tuple[tuple[str, int], ...]  # group and row

    @property
    def clique(self) -> tuple[int, ...]:
        """The variable and its separator: the axes of the bucket's table."""
        return (self.variable, *self.separator)


@lru_cache(maxsize=64)
def buckets(graph: FactorGraph) -> tuple[Bucket, ...]:
    """The cliques of a junction tree in the order of elimination, children before parents.

    The next variable is the one whose elimination adds the fewest new edges (min-fill). In a tree it adds none, so
    tables stay as small as the regions.

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
        entries = math.prod(graph.num_states[i] for i in (variable, *separator))
        if entries > MAX_ENTRIES:
            raise InputError(
                f"exact elimination needs a table over {len(separator) + 1} variables with {entries} entries, expected "
                f"at most {MAX_ENTRIES}. Use loopy_belief_propagation or another approximation."
            )
        parent = place[separator[0]] if separator else None
        found.append(Bucket(variable, separator, parent, tuple(regions[index])))
    return tuple(found)


def _min_fill(graph: FactorGraph) -> tuple[list[int], dict[int, set[int]]]:
    """The elimination order, and the remaining neighbours of each variable at its elimination."""
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
