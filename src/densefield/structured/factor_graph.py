"""A score that is a sum over small regions of variables: which variables, which regions, and what fits them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import SupportsIndex

import torch
from torch import Tensor

from densefield.errors import InputError, InputTypeError
from densefield.structured.log_domain import NEVER

Scores = Mapping[str, Tensor]


class Potts:
    """Pairs of variables that have a weight where their labels are equal and 0 where not: messages in O(L).

    The scores of such a group are the weights, (B, regions); a positive one attracts.
    """

    def __init__(self, pairs: object) -> None:
        self.pairs = pairs


@dataclass(frozen=True, eq=False)
class Group:
    """Regions of one shape, whose scores come in one tensor."""

    name: str
    variables: Tensor  # (R, k) integers
    labels: tuple[int, ...]  # L_1 … L_k, the same for all regions
    potts: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """(R, L_1, …, L_k), or (R,) for Potts: the scores of one item of a batch."""
        return (len(self.variables),) if self.potts else (len(self.variables), *self.labels)

    def tables(self, scores: Tensor) -> Tensor:
        """Scores (B, R, L_1, …, L_k), also of Potts' weights (B, R)."""
        if not self.potts:
            return scores
        same = torch.eye(self.labels[0], dtype=torch.bool, device=scores.device)
        return scores[..., None, None].where(same, 0.0)


class FactorGraph:
    """F(x, y) = Σ_r f_r(x, y_r) over regions r of few variables each (paper, Eq. 3).

    * ``labels``: how many labels each variable has.
    * ``regions``: groups of regions by name. A group lists the variables of each of its regions, which agree in how
      many there are and in how many labels they have, in their order; or it is ``Potts`` of pairs.

    Scores are given by the same names: (B, R, L_1, …, L_k), and (B, R) for Potts, where B and R may be 1 for what
    all items, or all regions, share. A configuration is forbidden by a score of −inf. Several regions of a single
    variable add up; larger regions must differ in their variables.

    >>> import torch
    >>> graph = FactorGraph([3, 3, 2], {"unary": [[0], [1]], "pair": [[0, 1]], "other": [[1, 2]]})
    >>> graph
    FactorGraph(3 variables, unary: 2 × 3, pair: 1 × 3 × 3, other: 1 × 3 × 2)
    >>> pair = torch.eye(3).reshape(1, 1, 3, 3)  # the same for all four items
    >>> scores = {"unary": torch.zeros(4, 2, 3), "pair": pair, "other": torch.ones(1, 1, 3, 2)}
    >>> graph.score(scores, torch.tensor([[0, 0, 1]]).expand(4, 3))
    tensor([2., 2., 2., 2.])
    """

    def __init__(self, labels: Sequence[int], regions: Mapping[str, object]) -> None:
        self.labels = tuple(_checked_count(count) for count in labels)
        if not self.labels:
            raise InputError("labels is empty, expected the number of labels of each variable.")
        if not isinstance(regions, Mapping) or not regions:
            raise InputTypeError(f"regions is {regions!r}, expected groups by name: {{'pair': [[0, 1], [1, 2]]}}.")
        self.groups = {name: self._group(name, given) for name, given in regions.items()}
        self._check_distinct()

    def __repr__(self) -> str:
        groups = [f"{name}: {' × '.join(map(str, group.shape))}" for name, group in self.groups.items()]
        return f"FactorGraph({', '.join([f'{len(self.labels)} variables', *groups])})"

    @cached_property
    def factors(self) -> dict[str, Group]:
        """The groups of regions of two and more variables."""
        return {name: group for name, group in self.groups.items() if len(group.labels) > 1}

    @cached_property
    def neighbours(self) -> list[set[int]]:
        """Which variables each variable shares a region with."""
        found: list[set[int]] = [set() for _ in self.labels]
        for group in self.factors.values():
            for region in group.variables.tolist():
                for variable in region:
                    found[variable].update(region)
        return [others - {variable} for variable, others in enumerate(found)]

    def checked(self, scores: Scores) -> dict[str, Tensor]:
        """The scores of every group at full size, (B, R, L_1, …, L_k); raises for what does not fit."""
        if not isinstance(scores, Mapping) or set(scores) != set(self.groups):
            given = ", ".join(map(str, scores)) if isinstance(scores, Mapping) else type(scores).__name__
            raise InputError(f"the scores are of {given}, expected those of {', '.join(self.groups)}.")
        return checked_scores(scores, {name: group.shape for name, group in self.groups.items()})

    def checked_configuration(self, labels: object, batch: int) -> Tensor:
        """Labels (B, N) as int64; raises for what is no configuration."""
        if not isinstance(labels, Tensor) or labels.is_floating_point() or labels.dtype == torch.bool:
            kind = labels.dtype if isinstance(labels, Tensor) else type(labels).__name__
            raise InputTypeError(f"the labels are {kind}, expected a torch tensor of integers.")
        if tuple(labels.shape) != (batch, len(self.labels)):
            raise InputError(
                f"the labels have shape {tuple(labels.shape)}, expected {(batch, len(self.labels))}: one for each "
                "variable of each item."
            )
        wrong = (labels < 0) | (labels >= torch.tensor(self.labels, device=labels.device))
        if bool(wrong.any()):
            item, variable = (int(index) for index in wrong.nonzero()[0])
            raise InputError(
                f"variable {variable} of item {item} has the label {int(labels[item, variable])}, expected 0 to "
                f"{self.labels[variable] - 1}."
            )
        return labels.long()

    def score(self, scores: Scores, labels: Tensor) -> Tensor:
        """F(x, y) (B,) of configurations (B, N), with gradients: those are the empirical marginals (paper, Eq. 3)."""
        full = self.checked(scores)
        batch = batch_size(full)
        y = self.checked_configuration(labels, batch)
        total = next(iter(full.values())).new_zeros(batch)
        for name, group in self.groups.items():
            chosen = y[:, group.variables.to(y.device)]  # (B, R, k)
            if group.potts:
                total = total + full[name].where(chosen[..., 0] == chosen[..., 1], 0.0).sum(1)
            else:
                index = flat_index(chosen, group.labels)
                total = total + full[name].flatten(2).gather(2, index.unsqueeze(2)).sum((1, 2))
        return total

    def unary(self, scores: Scores) -> Tensor:
        """The summed scores of single variables (B, N, L), −inf for labels that a variable does not have."""
        first = next(iter(scores.values()))
        most = max(self.labels)
        exists = torch.arange(most) < torch.tensor(self.labels).unsqueeze(1)
        total = first.new_zeros(exists.shape).masked_fill(~exists.to(first.device), NEVER)
        total = total.expand(batch_size(scores), *exists.shape)
        for name, group in self.groups.items():
            if len(group.labels) == 1:
                padded = torch.nn.functional.pad(scores[name], (0, most - group.labels[0]))
                total = total.index_add(1, group.variables[:, 0].to(first.device), padded)
        return total

    def _group(self, name: object, given: object) -> Group:
        if not isinstance(name, str):
            raise InputTypeError(f"a group is called {name!r}, expected a string.")
        potts = isinstance(given, Potts)
        variables = _checked_regions(name, given.pairs if isinstance(given, Potts) else given, len(self.labels))
        counts = torch.tensor(self.labels)[variables]
        labels = tuple(counts[0].tolist())
        other = (counts != counts[0]).any(1)
        if bool(other.any()):
            row = int(other.nonzero()[0])
            raise InputError(
                f"group {name!r}: region {row} has {tuple(counts[row].tolist())} labels, and region 0 has {labels}. "
                "Put regions of different shapes into groups of their own."
            )
        if potts and (len(labels) != 2 or labels[0] != labels[1]):
            raise InputError(
                f"group {name!r} is Potts with {labels} labels, expected pairs of as many labels on both sides."
            )
        return Group(name, variables, labels, potts)

    def _check_distinct(self) -> None:
        seen: dict[frozenset[int], str] = {}
        for name, group in self.factors.items():
            for region in group.variables.tolist():
                key = frozenset(region)
                if key in seen:
                    raise InputError(
                        f"the variables {sorted(key)} have a region in {seen[key]!r} and another in {name!r}. Add "
                        "their scores up in one region: as two they would be a loop to message passing."
                    )
                seen[key] = name


def checked_scores(scores: Scores, shapes: Mapping[str, tuple[int, ...]], shared: int = 1) -> dict[str, Tensor]:
    """Scores of every name expanded to (B, *shape); the batch and the first `shared` axes of the shape may be 1."""
    for name, given in scores.items():
        if not isinstance(given, Tensor):
            raise InputTypeError(f"the scores {name!r} are a {type(given).__name__}, expected a torch tensor.")
        if given.dtype not in (torch.float32, torch.float64):
            raise InputTypeError(f"the scores {name!r} have dtype {given.dtype}, expected float32 or float64.")
    if len({(given.dtype, given.device) for given in scores.values()}) > 1:
        kinds = ", ".join(f"{name}: {given.dtype} on {given.device}" for name, given in scores.items())
        raise InputTypeError(f"the scores differ ({kinds}), expected one dtype and one device.")
    sizes = {given.shape[0] for given in scores.values() if given.ndim} - {1}
    if len(sizes) > 1:
        raise InputError(f"the scores have batches of {', '.join(map(str, sorted(sizes)))}, expected one size, or 1.")
    batch = next(iter(sizes), 1)
    full = {}
    for name, shape in shapes.items():
        size, whole = tuple(scores[name].shape), (batch, *shape)
        common = zip(size[: shared + 1], whole, strict=False)
        if (
            len(size) != len(whole)
            or size[shared + 1 :] != whole[shared + 1 :]
            or any(a not in (1, b) for a, b in common)
        ):
            raise InputError(f"the scores {name!r} have shape {size}, expected {whole}.")
        full[name] = scores[name].expand(whole)
        top = scores[name].detach()
        if top.numel() and not bool((top < math.inf).all()):  # NaN is not less than anything
            raise InputError(f"the scores {name!r} hold NaN or +inf, expected numbers, or −inf for what is forbidden.")
    return full


def batch_size(scores: Scores) -> int:
    """B."""
    return next(iter(scores.values())).shape[0]


def flat_index(
    chosen: Tensor,  # (…, k)
    labels: tuple[int, ...],
) -> Tensor:
    """Where in a flattened table L_1 × … × L_k the labels stand."""
    index = torch.zeros_like(chosen[..., 0])
    for axis, count in enumerate(labels):
        index = index * count + chosen[..., axis]
    return index


def _checked_count(count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, SupportsIndex) or count.__index__() < 1:
        raise InputError(f"labels holds {count!r}, expected the number of labels of each variable, 1 or more.")
    return count.__index__()


def _checked_regions(name: str, given: object, count: int) -> Tensor:
    expected = "expected the variables of each region, as many in all: [[0, 1], [1, 2]]."
    try:
        variables = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"group {name!r} cannot be read: {error}; {expected}") from error
    if variables.ndim != 2 or not variables.numel():
        raise InputError(f"group {name!r} has shape {tuple(variables.shape)}, {expected}")
    if variables.is_floating_point() or variables.dtype == torch.bool:
        raise InputTypeError(f"group {name!r} has dtype {variables.dtype}, expected integers.")
    variables = variables.long().cpu()
    if bool(((variables < 0) | (variables >= count)).any()):
        raise InputError(
            f"group {name!r} names variables {int(variables.min())} to {int(variables.max())}, expected 0 to "
            f"{count - 1}."
        )
    ordered = variables.sort(1).values
    twice = (ordered[:, 1:] == ordered[:, :-1]).any(1)
    if bool(twice.any()):
        region = variables[int(twice.nonzero()[0])].tolist()
        raise InputError(f"group {name!r} has the region {region}, which names a variable twice.")
    return variables
