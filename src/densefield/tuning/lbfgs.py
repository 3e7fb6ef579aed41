"""The CRF's parameters learnt on the log-likelihood by L-BFGS, the scores staying as they are (KK13)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call

from densefield.errors import InputError
from densefield.labels import VOID
from densefield.nn.dense_crf import DenseCRF
from densefield.nn.losses import log_likelihood_loss
from densefield.runs.score_sources import ScoreSource

# Where logarithms of widths and weights may go. Beyond lies nothing that a lattice can hold, or that has an effect.
WIDTHS = (math.log(0.3), math.log(2000.0))
WEIGHTS = (math.log(1e-4), math.log(200.0))
CHANGE = 1e-5  # of the loss: a step that brings less is the last; measures are told to four digits
SCALE = 100.0  # of the loss as L-BFGS sees it: its first step is as long as the gradient, up to 1


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of the loss: the mean over pixels, and what the parameters were."""

    loss: float
    values: Mapping[str, float]


def learn_crf(
    crf: DenseCRF,
    source: ScoreSource,
    *,
    evaluations: int = 30,
    watch: Callable[[Evaluation], None] | None = None,
) -> float:
    """Minimises the mean of -log q_i(y_i) over the images' pixels (paper, Eq. 6) by L-BFGS, in place; returns it.

    Every evaluation goes through all images, one by one, adding up gradients. The parameters are left where the loss
    was the lowest, which is never above that at the start. `watch` is called after each evaluation.
    """
    if evaluations < 1:
        raise InputError(f"evaluations is {evaluations}, expected 1 or more.")
    pixels = sum(int((source[index].label != VOID).sum()) for index in range(len(source)))
    if not pixels:
        raise InputError("no pixel of the learning images has a true label: there is nothing to learn from.")
    learnt = {name: parameter for name, parameter in crf.named_parameters() if parameter.requires_grad}
    best_loss, best = math.inf, {name: parameter.detach().clone() for name, parameter in learnt.items()}
    done = 0
    optimiser = torch.optim.LBFGS(
        learnt.values(),
        max_iter=evaluations,
        max_eval=evaluations,
        tolerance_grad=SCALE * 1e-6,
        tolerance_change=SCALE * CHANGE,  # of the loss
        line_search_fn="strong_wolfe",
    )

    def closure() -> float:
        nonlocal best_loss, best, done
        if done >= evaluations:  # within a line search the optimiser does not look at its limit
            raise _EnoughError
        optimiser.zero_grad()
        within = {name: _bounded(name, parameter) for name, parameter in learnt.items()}
        loss = _accumulate(crf, source, within, pixels)
        excess = _excess(learnt, within)
        (SCALE * excess).backward()  # type: ignore[no-untyped-call]
        done += 1
        if loss < best_loss and float(excess.detach()) == 0.0:
            best_loss, best = loss, {name: value.detach().clone() for name, value in within.items()}
        if watch is not None:
            watch(Evaluation(loss, flat_values(within)))
        return SCALE * (loss + float(excess.detach()))

    with contextlib.suppress(_EnoughError):
        optimiser.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for name, parameter in learnt.items():
            parameter.copy_(best[name])
            parameter.grad = None
    return best_loss


def flat_values(parameters: Mapping[str, Tensor]) -> dict[str, float]:
    """Every number by its name, in its own units.

    >>> list(flat_values(dict(DenseCRF(2).named_parameters())))[:3]
    ['spatial.sigma.0', 'spatial.sigma.1', 'spatial.weight']
    """
    flat: dict[str, float] = {}
    for name, value in parameters.items():
        plain, number = name.replace("log_", ""), value.detach().double()
        number = number.exp() if "log_" in name else number
        if number.ndim:
            flat.update({f"{plain}.{place}": float(item) for place, item in enumerate(number.flatten())})
        else:
            flat[plain] = float(number)
    return flat


class _EnoughError(Exception):
    """As many evaluations as were asked for are done."""


def _accumulate(crf: DenseCRF, source: ScoreSource, parameters: Mapping[str, Tensor], pixels: int) -> float:
    """The loss of all images with these parameters; SCALE times the gradients are added to what they were made of."""
    leaves = {name: value.detach().requires_grad_() for name, value in parameters.items()}
    total = 0.0
    for index in range(len(source)):
        scored = source[index]
        log_q = functional_call(crf, leaves, (scored.scores[None], scored.image[None]))
        loss = log_likelihood_loss(log_q, scored.label[None], reduction="sum") / pixels
        loss.backward()  # type: ignore[no-untyped-call]
        total += float(loss.detach())
    gradients = [torch.zeros_like(leaf) if leaf.grad is None else SCALE * leaf.grad for leaf in leaves.values()]
    torch.autograd.backward(list(parameters.values()), gradients)
    return total


def _bounded(name: str, parameter: Tensor) -> Tensor:
    """Within the bounds; L-BFGS may leap far beyond them while it searches a line."""
    bounds = {"log_weight": WEIGHTS, "log_sigma": WIDTHS}.get(name.rpartition(".")[2])
    return parameter.clone() if bounds is None else parameter.clamp(*bounds)


def _excess(free: Mapping[str, Tensor], within: Mapping[str, Tensor]) -> Tensor:
    """Half the square of how far parameters are beyond their bounds, which drives them back."""
    squares: Iterable[Tensor] = ((free[name] - within[name].detach()).square().sum() for name in free)
    return sum(squares, torch.zeros(())) / 2
