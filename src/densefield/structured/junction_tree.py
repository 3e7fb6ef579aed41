"""Exact inference by elimination: quick on trees and wherever the tree-width is low."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from densefield.errors import InputError
from densefield.structured.beliefs import Beliefs, check_possible
from densefield.structured.elimination import Bucket, buckets
from densefield.structured.enumeration import equal_or_all, stack_variables
from densefield.structured.factor_graph import FactorGraph, Scores, batch_size, flat_index
from densefield.structured.log_domain import align, difference, log_sum, marginalise


def junction_tree(graph: FactorGraph, scores: Scores) -> Beliefs:
    """Exact marginals and log Z: messages up the junction tree, then marginals down it.

    Variables are eliminated one by one; p(y_i | separator) of each is kept. Downwards, the marginals of a clique are
    that times those of the separator, which the parent has. The cost is that of the largest clique's table, the number
    of labels to the power of tree-width + 1.

    >>> import torch
    >>> graph = FactorGraph([2] * 50, {"unary": [[0]], "pair": [[i, i + 1] for i in range(49)]})
    >>> scores = {"unary": torch.tensor([[[3.0, 0.0]]]), "pair": 2 * torch.eye(2).reshape(1, 1, 2, 2)}
    >>> beliefs = junction_tree(graph, scores)
    >>> beliefs.variables[0, [0, 5, 49]].exp()
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
        name: equal_or_all(group, torch.stack([found[name, row] for row in range(len(group.variables))], 1))
        for name, group in graph.groups.items()
    }
    return Beliefs(log_marginals, stack_variables(graph, [single[i] for i in range(len(single))]), log_partition)


def exact_map(graph: FactorGraph, scores: Scores) -> Tensor:
    """y* = argmax F(x, ŷ), (B, N), by elimination with the maximum in place of the sum (paper, Eq. 1).

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
    """Independent samples of p(y | x), (count, B, N), by elimination and drawing back.

    >>> import torch
    >>> graph = FactorGraph([2, 2], {"pair": [[0, 1]]})
    >>> never = torch.tensor([[0.0, float("-inf")], [float("-inf"), 0.0]])
    >>> samples = exact_samples(graph, {"pair": never[None, None]}, 100, torch.Generator().manual_seed(88))
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


def _upwards(
    graph: FactorGraph, scores: Scores, eliminate: Callable[[Tensor], Tensor]
) -> tuple[list[Tensor], Tensor]:  # tables (B, clique) of all buckets, and what is left of the roots (B,)
    order = buckets(graph)
    dense = {name: group.tables(scores[name]) for name, group in graph.groups.items()}
    total = next(iter(scores.values())).new_zeros(batch_size(scores))
    tables: list[Tensor] = [total.reshape(-1, *[1] * len(bucket.clique)) for bucket in order]
    for index, bucket in enumerate(order):
        for name, row in bucket.regions:
            region = tuple(graph.groups[name].variables[row].tolist())
            tables[index] = tables[index] + align(dense[name][:, row], region, bucket.clique)
        tables[index] = _whole(graph, tables[index], bucket)
        message = eliminate(tables[index])
        if bucket.parent is None:
            total = total + message
        else:
            parent = order[bucket.parent].clique
            tables[bucket.parent] = tables[bucket.parent] + align(message, bucket.separator, parent)
    return tables, total


def _whole(graph: FactorGraph, table: Tensor, bucket: Bucket) -> Tensor:
    """The table with all its axes at full length, also where no region mentions a variable."""
    return table.expand(-1, *(graph.labels[variable] for variable in bucket.clique))


def _downwards(
    graph: FactorGraph, tables: list[Tensor], batch: int, count: int, choose: Callable[[Tensor], Tensor]
) -> Tensor:  # (count, B, N)
    """Labels chosen one variable at a time, given those of the separator, which were chosen before."""
    order = buckets(graph)
    labels = torch.zeros(count, batch, len(order), dtype=torch.long, device=tables[0].device)
    for table, bucket in zip(reversed(tables), reversed(order), strict=True):
        given = labels[..., list(bucket.separator)]
        index = (
            flat_index(given, tuple(graph.labels[i] for i in bucket.separator))
            if bucket.separator
            else labels[..., 0] * 0
        )
        rows = table.flatten(2).transpose(1, 2) if bucket.separator else table.unsqueeze(1)  # (B, separator, L)
        chosen = rows.expand(count, -1, -1, -1).gather(2, index[..., None, None].expand(-1, -1, 1, rows.shape[-1]))
        labels[..., bucket.variable] = choose(chosen.squeeze(2))
    return labels
