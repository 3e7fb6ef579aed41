"""Message passing on a grid: in the log domain for any scores, or with probabilities, which is faster."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from densefield.structured.grid import GridGraph
from densefield.structured.log_domain import difference, finite_or_zero
from densefield.structured.message_passing import Factor, PottsFactor, TableFactor

# The first and the second pixels of pairs, as shifted views of (B, H, W, L).
FIRST = {"right": (slice(None), slice(None), slice(None, -1)), "down": (slice(None), slice(None, -1))}
SECOND = {"right": (slice(None), slice(None), slice(1, None)), "down": (slice(None), slice(1, None))}
SLOTS = (FIRST, SECOND)

# With this range of scores the product of four messages, e⁻⁸⁰ or e⁻⁶⁸⁰ at least, does not underflow.
_MAX_RANGE = {torch.float32: 20.0, torch.float64: 170.0}
_MIN_POTTS_WEIGHT = -3.0  # below it 1 − p cancels

Messages = dict[tuple[str, int], Tensor]  # by name and receiving slot: (B, rows, columns, L)


class GridMessagePassing(ABC):
    """The update of all messages, with the weights ρ (H, W-1) and (H-1, W) of pairs."""

    def __init__(self, grid: GridGraph, unary: Tensor, weights: dict[str, Tensor], pairs: dict[str, Tensor]) -> None:
        self.grid, self.unary, self.weights = grid, unary, weights
        self._pairs = pairs

    def start(self) -> Messages:
        """Uniform messages."""
        batch, labels = self.unary.shape[0], self.grid.num_states
        sizes = self.grid.pairs
        return {(name, slot): self._uniform(batch, *sizes[name], labels) for name in sizes for slot in (0, 1)}

    def update(self, messages: Messages, mask: Tensor | None, damping: float) -> Messages:
        """Replace all messages, or those to the pixels of a mask (H, W, 1), all computed from the old ones."""
        found: Messages = {}
        combined = self._combined(messages)
        for (name, slot), old in messages.items():
            new = self._message(name, slot, combined[SLOTS[1 - slot][name]], messages[name, 1 - slot])
            if damping:
                new = self._damped(new, old, damping)
            found[name, slot] = new if mask is None else torch.where(mask[SLOTS[slot][name][1:]], new, old)
        return found

    def totals(self, messages: Messages) -> Tensor:
        """log b_i up to a constant, (B, H, W, L)."""
        totals = self.unary.clone()
        for (name, slot), mu in self.logs(messages).items():
            totals[SLOTS[slot][name]] += self.weights[name].unsqueeze(-1) * mu
        return totals

    @abstractmethod
    def logs(self, messages: Messages) -> Messages:
        """The logarithms μ of the messages."""

    @abstractmethod
    def belief(self, name: str, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Log marginals of pairs given ν of both pixels, and their log-normalisers."""

    @abstractmethod
    def _uniform(self, *size: int) -> Tensor:
        """A message without information."""

    @abstractmethod
    def _combined(self, messages: Messages) -> Tensor:
        """Scores and all messages combined at each pixel, (B, H, W, L)."""

    @abstractmethod
    def _message(self, name: str, slot: int, combined: Tensor, back: Tensor) -> Tensor:
        """The message to a slot, from the combined messages at the other slot without the message `back` to it."""

    @abstractmethod
    def _damped(self, new: Tensor, old: Tensor, damping: float) -> Tensor:
        """The weighted mean of both in the log domain."""


class LogDomain(GridMessagePassing):
    """Logarithms of messages, for any scores and weights."""

    def __init__(self, grid: GridGraph, unary: Tensor, weights: dict[str, Tensor], pairs: dict[str, Tensor]) -> None:
        super().__init__(grid, unary, weights, pairs)
        self._factors: dict[str, Factor] = {}
        for name, given in pairs.items():
            share = weights[name].reshape(*weights[name].shape, *[1] * (given.ndim - 3))
            flat = (given / share).flatten(1, 2)
            self._factors[name] = PottsFactor(flat) if grid.potts else TableFactor(flat)

    def logs(self, messages: Messages) -> Messages:
        """The messages themselves."""
        return messages

    def belief(self, name: str, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """By the factors of general graphs."""
        log_b, norm = self._factors[name].belief([first.flatten(1, 2), second.flatten(1, 2)])
        return _unflatten(log_b, first), _unflatten(norm, first)

    def _uniform(self, *size: int) -> Tensor:
        return self.unary.new_zeros(size)

    def _combined(self, messages: Messages) -> Tensor:
        return self.totals(messages)

    def _message(self, name: str, slot: int, combined: Tensor, back: Tensor) -> Tensor:
        sent = difference(combined, back).flatten(1, 2)
        message = self._factors[name].message(slot, [None, sent] if slot == 0 else [sent, None], maximise=False)
        message = message - finite_or_zero(message.amax(-1, keepdim=True))
        return _unflatten(message, back)

    def _damped(self, new: Tensor, old: Tensor, damping: float) -> Tensor:
        return (1 - damping) * new + damping * old


class ProbabilityDomain(GridMessagePassing):
    """Products of probabilities, without an exponential per iteration, for ρ = 1 and scores of a limited range.

    A Potts message is 1 + (eʷ − 1) p, in O(L). The message of a table E = exp f is the product E p. p is the product
    of the sender's scores and the messages to it, except the message from this pair.
    """

    def __init__(self, grid: GridGraph, unary: Tensor, weights: dict[str, Tensor], pairs: dict[str, Tensor]) -> None:
        super().__init__(grid, unary, weights, pairs)
        self._probabilities = (unary - unary.detach().amax(-1, keepdim=True)).exp()
        if grid.potts:
            self._kernels = {name: torch.expm1(given).unsqueeze(-1) for name, given in pairs.items()}
        else:
            self._tops = {
                name: given.detach().max() if given.numel() else given.new_zeros(()) for name, given in pairs.items()
            }
            self._kernels = {name: (given - self._tops[name]).exp() for name, given in pairs.items()}

    @staticmethod
    def accurate(pairs: Tensor, potts: bool) -> bool:
        """Whether products of messages are accurate for these scores of pairs."""
        if not pairs.numel():
            return True
        low, high = (float(value) for value in torch.aminmax(pairs))
        if potts:
            return low >= _MIN_POTTS_WEIGHT and high <= _MAX_RANGE[pairs.dtype]
        return high - low <= _MAX_RANGE[pairs.dtype]

    def logs(self, messages: Messages) -> Messages:
        """The logarithms of positive messages."""
        return {key: message.log() for key, message in messages.items()}

    def belief(self, name: str, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """As in the log domain, but the normaliser needs no table over pairs of labels."""
        if self.grid.potts:
            log_b, norm = PottsFactor(self._pairs[name].flatten(1, 2)).belief(
                [first.flatten(1, 2), second.flatten(1, 2)]
            )
            return _unflatten(log_b, first), _unflatten(norm, first)
        tops = [nu.detach().amax(-1, keepdim=True) for nu in (first, second)]
        scaled = [(nu - top).exp() for nu, top in zip((first, second), tops, strict=True)]
        norm = (self._product(name, 1, scaled[0]) * scaled[1]).sum(-1, keepdim=True).log()
        norm = norm + tops[0] + tops[1] + self._tops[name]
        log_b = self._pairs[name] + (first - norm).unsqueeze(-1) + second.unsqueeze(-2)
        return log_b, norm.squeeze(-1)

    def _uniform(self, *size: int) -> Tensor:
        return self.unary.new_ones(size)

    def _combined(self, messages: Messages) -> Tensor:
        combined = self._probabilities.clone()
        for (name, slot), message in messages.items():
            combined[SLOTS[slot][name]] *= message
        return combined

    def _message(self, name: str, slot: int, combined: Tensor, back: Tensor) -> Tensor:
        sent = combined / back
        if self.grid.potts:
            return 1 + sent * (self._kernels[name] / sent.sum(-1, keepdim=True))
        message = self._product(name, slot, sent)
        return message / message.amax(-1, keepdim=True)

    def _damped(self, new: Tensor, old: Tensor, damping: float) -> Tensor:
        return new ** (1 - damping) * old**damping

    def _product(self, name: str, slot: int, sent: Tensor) -> Tensor:
        """The product E p, summed over the labels of the sender."""
        kernel = self._kernels[name] if slot == 1 else self._kernels[name].transpose(-1, -2)
        if kernel.ndim == 2:
            return sent @ kernel
        flat = torch.bmm(
            sent.reshape(-1, 1, self.grid.num_states), kernel.reshape(-1, self.grid.num_states, self.grid.num_states)
        )
        return flat.reshape(sent.shape)


def _unflatten(pairs: Tensor, like: Tensor) -> Tensor:
    """(B, rows · columns, …) as (B, rows, columns, …)."""
    return pairs.reshape(*like.shape[:3], *pairs.shape[2:])
