"""Two ways to the messages on a grid: in logarithms, for any scores; in probabilities, quicker."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from densefield.structured.factors import Factor, PottsFactor, TableFactor
from densefield.structured.grid import GridGraph
from densefield.structured.log_domain import difference, finite_or_zero

# The first and the second pixels of pairs, as shifted views of (B, H, W, L).
FIRST = {"right": (slice(None), slice(None), slice(None, -1)), "down": (slice(None), slice(None, -1))}
SECOND = {"right": (slice(None), slice(None), slice(1, None)), "down": (slice(None), slice(1, None))}
PLACES = (FIRST, SECOND)

# Four messages multiply to e⁻⁸⁰ or e⁻⁶⁸⁰ at least, which is still a number.
_WIDEST = {torch.float32: 20.0, torch.float64: 170.0}
_STRONGEST_REPULSION = -3.0  # beyond it 1 − p cancels

Messages = dict[tuple[str, int], Tensor]  # by name and the slot that receives: (B, rows, columns, L)


class Way(ABC):
    """The update of all messages with the weights ρ of pairs, (H, W-1) and (H-1, W)."""

    def __init__(self, grid: GridGraph, unary: Tensor, weights: dict[str, Tensor], pairs: dict[str, Tensor]) -> None:
        self.grid, self.unary, self.weights = grid, unary, weights
        self._pairs = pairs

    def start(self) -> Messages:
        """Messages that say nothing."""
        batch, labels = self.unary.shape[0], self.grid.labels
        sizes = self.grid.pairs
        return {(name, slot): self._nothing(batch, *sizes[name], labels) for name in sizes for slot in (0, 1)}

    def update(self, messages: Messages, mask: Tensor | None, damping: float) -> Messages:
        """All messages from the old ones; or those to the pixels of a mask (H, W, 1), and the others as they were."""
        found: Messages = {}
        whole = self._whole(messages)
        for (name, slot), old in messages.items():
            new = self._message(name, slot, whole[PLACES[1 - slot][name]], messages[name, 1 - slot])
            if damping:
                new = self._damped(new, old, damping)
            found[name, slot] = new if mask is None else torch.where(mask[PLACES[slot][name][1:]], new, old)
        return found

    def totals(self, messages: Messages) -> Tensor:
        """log b_i up to a constant, (B, H, W, L)."""
        totals = self.unary.clone()
        for (name, slot), mu in self.logs(messages).items():
            totals[PLACES[slot][name]] += self.weights[name].unsqueeze(-1) * mu
        return totals

    @abstractmethod
    def logs(self, messages: Messages) -> Messages:
        """The logarithms μ of messages."""

    @abstractmethod
    def belief(self, name: str, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Log marginals of pairs given ν of both pixels, and the logarithms of what they were divided by."""

    @abstractmethod
    def _nothing(self, *size: int) -> Tensor:
        """A message without preference."""

    @abstractmethod
    def _whole(self, messages: Messages) -> Tensor:
        """What all messages say together at each pixel, (B, H, W, L)."""

    @abstractmethod
    def _message(self, name: str, slot: int, whole: Tensor, back: Tensor) -> Tensor:
        """To the pixels of a slot, from what those of the other know without the message that went to them."""

    @abstractmethod
    def _damped(self, new: Tensor, old: Tensor, damping: float) -> Tensor:
        """The mean of both in the log domain."""


class InLogarithms(Way):
    """With any scores and weights."""

    def __init__(self, grid: GridGraph, unary: Tensor, weights: dict[str, Tensor], pairs: dict[str, Tensor]) -> None:
        super().__init__(grid, unary, weights, pairs)
        self._factors: dict[str, Factor] = {}
        for name, given in pairs.items():
            share = weights[name].reshape(*weights[name].shape, *[1] * (given.ndim - 3))
            flat = (given / share).flatten(1, 2)
            self._factors[name] = PottsFactor(flat) if grid.potts else TableFactor(flat)

    def logs(self, messages: Messages) -> Messages:
        """They are logarithms."""
        return messages

    def belief(self, name: str, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """By the factors of general graphs."""
        log_b, norm = self._factors[name].belief([first.flatten(1, 2), second.flatten(1, 2)])
        return _unflat(log_b, first), _unflat(norm, first)

    def _nothing(self, *size: int) -> Tensor:
        return self.unary.new_zeros(size)

    def _whole(self, messages: Messages) -> Tensor:
        return self.totals(messages)

    def _message(self, name: str, slot: int, whole: Tensor, back: Tensor) -> Tensor:
        sent = difference(whole, back).flatten(1, 2)
        message = self._factors[name].message(slot, [None, sent] if slot == 0 else [sent, None], maximise=False)
        message = message - finite_or_zero(message.amax(-1, keepdim=True))
        return _unflat(message, back)

    def _damped(self, new: Tensor, old: Tensor, damping: float) -> Tensor:
        return (1 - damping) * new + damping * old


class InProbabilities(Way):
    """With ρ = 1 and scores of pairs that do not differ by much: products, without an exponential in a sweep.

    To Potts the message is 1 + (eʷ − 1) p, in O(L); to a table E = exp f it is the product E p, where p is what the
    sender knows: the product of all that it was sent, divided by what came from this pair.
    """

    def __init__(self, grid: GridGraph, unary: Tensor, weights: dict[str, Tensor], pairs: dict[str, Tensor]) -> None:
        super().__init__(grid, unary, weights, pairs)
        self._likely = (unary - unary.detach().amax(-1, keepdim=True)).exp()
        if grid.potts:
            self._kernels = {name: torch.expm1(given).unsqueeze(-1) for name, given in pairs.items()}
        else:
            self._tops = {
                name: given.detach().max() if given.numel() else given.new_zeros(()) for name, given in pairs.items()
            }
            self._kernels = {name: (given - self._tops[name]).exp() for name, given in pairs.items()}

    @staticmethod
    def accurate(pairs: Tensor, potts: bool) -> bool:
        """Whether products of messages keep all digits that matter."""
        if not pairs.numel():
            return True
        low, high = (float(value) for value in torch.aminmax(pairs))
        if potts:
            return low >= _STRONGEST_REPULSION and high <= _WIDEST[pairs.dtype]
        return high - low <= _WIDEST[pairs.dtype]

    def logs(self, messages: Messages) -> Messages:
        """They are positive."""
        return {key: message.log() for key, message in messages.items()}

    def belief(self, name: str, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """As in logarithms, but what is divided by is found without a table of all pairs of labels."""
        if self.grid.potts:
            log_b, norm = PottsFactor(self._pairs[name].flatten(1, 2)).belief(
                [first.flatten(1, 2), second.flatten(1, 2)]
            )
            return _unflat(log_b, first), _unflat(norm, first)
        tops = [nu.detach().amax(-1, keepdim=True) for nu in (first, second)]
        likely = [(nu - top).exp() for nu, top in zip((first, second), tops, strict=True)]
        norm = (self._product(name, 1, likely[0]) * likely[1]).sum(-1, keepdim=True).log()
        norm = norm + tops[0] + tops[1] + self._tops[name]
        log_b = self._pairs[name] + (first - norm).unsqueeze(-1) + second.unsqueeze(-2)
        return log_b, norm.squeeze(-1)

    def _nothing(self, *size: int) -> Tensor:
        return self.unary.new_ones(size)

    def _whole(self, messages: Messages) -> Tensor:
        whole = self._likely.clone()
        for (name, slot), message in messages.items():
            whole[PLACES[slot][name]] *= message
        return whole

    def _message(self, name: str, slot: int, whole: Tensor, back: Tensor) -> Tensor:
        sent = whole / back
        if self.grid.potts:
            return 1 + sent * (self._kernels[name] / sent.sum(-1, keepdim=True))
        message = self._product(name, slot, sent)
        return message / message.amax(-1, keepdim=True)

    def _damped(self, new: Tensor, old: Tensor, damping: float) -> Tensor:
        return new ** (1 - damping) * old**damping

    def _product(self, name: str, slot: int, sent: Tensor) -> Tensor:
        """Σ over the labels of the sender of E times what it knows."""
        kernel = self._kernels[name] if slot == 1 else self._kernels[name].transpose(-1, -2)
        if kernel.ndim == 2:
            return sent @ kernel
        flat = torch.bmm(sent.reshape(-1, 1, self.grid.labels), kernel.reshape(-1, self.grid.labels, self.grid.labels))
        return flat.reshape(sent.shape)


def _unflat(pairs: Tensor, like: Tensor) -> Tensor:
    """(B, rows · columns, …) as (B, rows, columns, …)."""
    return pairs.reshape(*like.shape[:3], *pairs.shape[2:])
