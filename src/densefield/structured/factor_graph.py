"""Factor graphs: variables, regions and the scores that fit them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import SupportsIndex

import torch
from torch import Tensor

from densefield.errors import InputError, InputTypeError
from densefield.structured.log_domain import NEG_INF

Scores = Mapping[str, Tensor]


class Potts:
    """A group of pairs that score a weight if the two labels are equal and 0 otherwise; messages take O(L).

    The scores of such a group are the weights, (B, R); a positive weight attracts.

    Parameters
    ----------
    pairs
        The two variables of each pair, (R, 2) integers.

    Examples
    --------
    >>> FactorGraph([3, 3, 3], {"equal": Potts([[0, 1], [1, 2]])})
    FactorGraph(3 variables, equal: 2)
    """

    def __init__(self, pairs: object) -> None:
        self.pairs = pairs


@dataclass(frozen=True, eq=False)
class Group:
    """Regions of one shape, whose scores are one tensor."""

    name: str
    variables: Tensor  # (R, k) integers
    num_states: tuple[int, ...]  # L_1 … L_k, the same for all regions
    potts: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one item's scores: (R, L_1, …, L_k), or (R,) for Potts."""
        return (len(self.variables),) if self.potts else (len(self.variables), *self.num_states)

    def tables(self, scores: Tensor) -> Tensor:
        """Tables of scores (B, R, L_1, …, L_k), for Potts made from weights (B, R)."""
        if not self.potts:
            return scores
        same = torch.eye(self.num_states[0], dtype=torch.bool, device=scores.device)
        return scores[..., None, None].where(same, 0.0)


class FactorGraph:
    """A score F(x, y) = Σ_r f_r(x, y_r), summed over regions r of few variables each (paper, Eq. 3).

    Scores are a mapping with the same names as ``regions``: tensors (B, R, L_1, …, L_k), and (B, R) for ``Potts``. B
    and R may be 1 if all items or all regions share the scores. A score of −inf forbids a configuration. Scores of
    several regions with the same single variable are added; larger regions must differ in their variables.

    Parameters
    ----------
    num_states
        Number of states of each variable. The label of a variable is an integer from 0 to its number of states − 1.
    regions
        Groups of regions by name. A group lists the variables of each of its regions, (R, k); all its regions have the
        same number of variables with the same numbers of states, in that order. ``Potts(pairs)`` is a group too.

    Examples
    --------
    >>> import torch
    >>> graph = FactorGraph([3, 3, 2], {"unary": [[0], [1]], "pair": [[0, 1]], "other": [[1, 2]]})
    >>> graph
    FactorGraph(3 variables, unary: 2 × 3, pair: 1 × 3 × 3, other: 1 × 3 × 2)
    >>> pair = torch.eye(3).reshape(1, 1, 3, 3)  # the same for all four items
    >>> scores = {"unary": torch.zeros(4, 2, 3), "pair": pair, "other": torch.ones(1, 1, 3, 2)}
    >>> graph.score(scores, torch.tensor([[0, 0, 1]]).expand(4, 3))
    tensor([2., 2., 2., 2.])
    """

    def __init__(self, num_states: Sequence[int], regions: Mapping[str, object]) -> None:
        self.num_states = tuple(_checked_count(count) for count in num_states)
        if not self.num_states:
            raise InputError("num_states is empty, expected the number of states of each variable.")
        if not isinstance(regions, Mapping) or not regions:
            raise InputTypeError(f"regions is {regions!r}, expected groups by name: {{'pair': [[0, 1], [1, 2]]}}.")
        self.groups = {name: self._group(name, given) for name, given in regions.items()}
        self._check_distinct()

    def __repr__(self) -> str:
        groups = [f"{name}: {' × '.join(map(str, group.shape))}" for name, group in self.groups.items()]
        return f"FactorGraph({', '.join([f'{len(self.num_states)} variables', *groups])})"

    @cached_property
    def factors(self) -> dict[str, Group]:
        """The groups of regions of two or more variables."""
        return {name: group for name, group in self.groups.items() if len(group.num_states) > 1}

    @cached_property
    def neighbours(self) -> list[set[int]]:
        """The variables that share a region with each variable."""
        found: list[set[int]] = [set() for _ in self.num_states]
        for group in self.factors.values():
            for region in group.variables.tolist():
                for variable in region:
                    found[variable].update(region)
        return [others - {variable} for variable, others in enumerate(found)]

    def checked(self, scores: Scores) -> dict[str, Tensor]:
        """The `scores` of every group expanded to (B, R, L_1, …, L_k); raises if they do not fit the graph."""
        if not isinstance(scores, Mapping) or set(scores) != set(self.groups):
            raise wrong_groups(scores, self.groups)
        return checked_scores(scores, {name: group.shape for name, group in self.groups.items()})

    def checked_configuration(self, labels: object, batch: int) -> Tensor:
        """The `labels` (B, N) of a `batch` as int64; raises if they are not a configuration of the graph."""
        labels = integer_labels(labels, (batch, len(self.num_states)))
        wrong = (labels < 0) | (labels >= torch.tensor(self.num_states, device=labels.device))
        if bool(wrong.any()):
            item, variable = (int(index) for index in wrong.nonzero()[0])
            raise InputError(
                f"variable {variable} of item {item} has the label {int(labels[item, variable])}, expected 0 to "
                f"{self.num_states[variable] - 1}."
            )
        return labels

    def score(self, scores: Scores, labels: Tensor) -> Tensor:
        """The score F(x, y) (B,) of configurations; its gradient is the empirical marginals (paper, Eq. 3).

        Parameters
        ----------
        scores
            The scores of each group of regions.
        labels
            One label for each variable, (B, N) integers.
        """
        full = self.checked(scores)
        batch = batch_size(full)
        y = self.checked_configuration(labels, batch)
        total = next(iter(full.values())).new_zeros(batch)
        for name, group in self.groups.items():
            chosen = y[:, group.variables.to(y.device)]  # (B, R, k)
            if group.potts:
                total = total + full[name].where(chosen[..., 0] == chosen[..., 1], 0.0).sum(1)
            else:
                index = flat_index(chosen, group.num_states)
                total = total + full[name].flatten(2).gather(2, index.unsqueeze(2)).sum((1, 2))
        return total

    def unary(self, scores: Scores) -> Tensor:
        """The summed `scores` of single variables (B, N, L), −inf for states that a variable does not have."""
        first = next(iter(scores.values()))
        most = max(self.num_states)
        exists = torch.arange(most) < torch.tensor(self.num_states).unsqueeze(1)
        total = first.new_zeros(exists.shape).masked_fill(~exists.to(first.device), NEG_INF)
        total = total.expand(batch_size(scores), *exists.shape)
        for name, group in self.groups.items():
            if len(group.num_states) == 1:
                padded = torch.nn.functional.pad(scores[name], (0, most - group.num_states[0]))
                total = total.index_add(1, group.variables[:, 0].to(first.device), padded)
        return total

    def _group(self, name: object, given: object) -> Group:
        if not isinstance(name, str):
            raise InputTypeError(f"a group is called {name!r}, expected a string.")
        potts = isinstance(given, Potts)
        variables = _checked_regions(name, given.pairs if isinstance(given, Potts) else given, len(self.num_states))
        counts = torch.tensor(self.num_states)[variables]
        num_states = tuple(counts[0].tolist())
        other = (counts != counts[0]).any(1)
        if bool(other.any()):
            row = int(other.nonzero()[0])
            raise InputError(
                f"group {name!r}: region {row} has {tuple(counts[row].tolist())} states, and region 0 has "
                f"{num_states}. Put regions of different shapes into different groups."
            )
        if potts and (len(num_states) != 2 or num_states[0] != num_states[1]):
            raise InputError(
                f"group {name!r} is Potts with {num_states} states, expected pairs of variables with equally many."
            )
        return Group(name, variables, num_states, potts)

    def _check_distinct(self) -> None:
        seen: dict[frozenset[int], str] = {}
        for name, group in self.factors.items():
            for region in group.variables.tolist():
                key = frozenset(region)
                if key in seen:
                    raise InputError(
                        f"the variables {sorted(key)} have a region in {seen[key]!r} and another in {name!r}. "
                        "Add their scores in one region: two would be a loop for message passing."
                    )
                seen[key] = name


def checked_scores(scores: Scores, shapes: Mapping[str, tuple[int, ...]], shared: int = 1) -> dict[str, Tensor]:
    """Scores expanded to (B, *shape); the batch and the first `shared` axes of the shape may be 1."""
    for name, given in scores.items():
        if not isinstance(given, Tensor):
            raise InputTypeError(f"the scores {name!r} are of type {type(given).__name__}, expected a torch tensor.")
        if given.dtype not in (torch.float32, torch.float64):
            raise InputTypeError(f"the scores {name!r} have dtype {given.dtype}, expected float32 or float64.")
    if len({(given.dtype, given.device) for given in scores.values()}) > 1:
        kinds = ", ".join(f"{name}: {given.dtype} on {given.device}" for name, given in scores.items())
        raise InputTypeError(f"the scores differ ({kinds}), expected one dtype and one device.")
    sizes = {given.shape[0] for given in scores.values() if given.ndim} - {1}
    if len(sizes) > 1:
        raise InputError(
            f"the scores have batches of {', '.join(map(str, sorted(sizes)))}, expected one batch size, or 1."
        )
    batch = next(iter(sizes), 1)
    full = {}
    for name, shape in shapes.items():
        size, expected = tuple(scores[name].shape), (batch, *shape)
        common = zip(size[: shared + 1], expected, strict=False)
        if (
            len(size) != len(expected)
            or size[shared + 1 :] != expected[shared + 1 :]
            or any(a not in (1, b) for a, b in common)
        ):
            raise InputError(f"the scores {name!r} have shape {size}, expected {expected}.")
        full[name] = scores[name].expand(expected)
        top = scores[name].detach()
        if top.numel() and not bool((top < math.inf).all()):  # NaN is not less than anything
            raise InputError(
                f"the scores {name!r} hold NaN or +inf, expected finite numbers, or −inf to forbid a configuration."
            )
    return full


def wrong_groups(scores: object, groups: Iterable[str]) -> InputError:
    """The error for scores that are not a mapping with these names."""
    given = ", ".join(map(str, scores)) if isinstance(scores, Mapping) else type(scores).__name__
    return InputError(f"the scores have the groups {given}, expected {', '.join(groups)}.")


def integer_labels(labels: object, shape: tuple[int, ...]) -> Tensor:
    """Labels of the given shape as int64; raises for other types and shapes."""
    if not isinstance(labels, Tensor) or labels.is_floating_point() or labels.dtype == torch.bool:
        kind = labels.dtype if isinstance(labels, Tensor) else type(labels).__name__
        raise InputTypeError(f"the labels are {kind}, expected a torch tensor of integers.")
    if tuple(labels.shape) != shape:
        raise InputError(
            f"the labels have shape {tuple(labels.shape)}, expected {shape}: one label for each variable of each item."
        )
    return labels.long()


def batch_size(scores: Scores) -> int:
    """The batch size B of expanded scores."""
    return next(iter(scores.values())).shape[0]


def flat_index(
    chosen: Tensor,  # (…, k)
    num_states: tuple[int, ...],
) -> Tensor:
    """The index of the labels in a flattened table L_1 × … × L_k."""
    index = torch.zeros_like(chosen[..., 0])
    for axis, count in enumerate(num_states):
        index = index * count + chosen[..., axis]
    return index


def _checked_count(count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, SupportsIndex) or count.__index__() < 1:
        raise InputError(f"num_states holds {count!r}, expected the number of states of each variable, 1 or more.")
    return count.__index__()


def _checked_regions(name: str, given: object, count: int) -> Tensor:
    expected = "expected the variables of each region, equally many: [[0, 1], [1, 2]]."
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
