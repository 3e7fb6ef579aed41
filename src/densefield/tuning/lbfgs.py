"""Parameters learnt on the log-likelihood of the marginals by L-BFGS (KK13): those of a CRF, or of unary and CRF."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from densefield.errors import InputError
from densefield.labels import VOID
from densefield.nn.dense_crf import DenseCRF
from densefield.nn.losses import log_likelihood_loss
from densefield.runs.scored_images import ScoreSource

# Bounds of the logarithms of widths and weights: values beyond have no effect, or do not fit into a lattice.
WIDTHS = (math.log(0.3), math.log(2000.0))
WEIGHTS = (math.log(1e-4), math.log(200.0))
MIN_CHANGE = 1e-5  # of the loss: a step that gains less is the last; metrics are shown with four digits
SCALE = 100.0  # of the loss for L-BFGS, whose first step has the length of the gradient, up to 1


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of the loss.

    Parameters
    ----------
    loss
        The mean over pixels plus the penalty.
    values
        The parameters by name.
    """

    loss: float
    values: Mapping[str, float]


def learn_crf(
    crf: DenseCRF,
    source: ScoreSource,
    *,
    evaluations: int = 30,
    watch: Callable[[Evaluation], None] | None = None,
) -> float:
    """Minimises the mean of -log q_i(y_i) over all pixels (paper, Eq. 6) by L-BFGS, in place; returns the lowest loss.

    Parameters
    ----------
    crf
        The CRF. Its parameters end at the lowest loss found, which is never above that at the start.
    source
        The scored images. Every evaluation accumulates gradients over all of them, one by one.
    evaluations
        Maximum number of evaluations of the loss.
    watch
        Called after each evaluation.
    """
    return learn(crf, source, evaluations=evaluations, watch=watch)


def learn(
    module: nn.Module,
    source: ScoreSource,
    *,
    evaluations: int,
    penalty: Callable[[Mapping[str, Tensor]], Tensor] | None = None,
    watch: Callable[[Evaluation], None] | None = None,
) -> float:
    """Minimises the loss of a module (scores, image) → log marginals, in place; returns the lowest loss.

    Parameters
    ----------
    module
        A DenseCRF, or a module that computes the scores of one. Widths and weights of kernels stay within bounds.
    source
        The inputs of the module: scores, or what it computes scores from.
    evaluations, watch
        Those of `learn_crf`.
    penalty
        A function of the parameters, by name, that is added to the loss.
    """
    if evaluations < 1:
        raise InputError(f"evaluations is {evaluations}, expected 1 or more.")
    pixels = sum(int((source[index].labels != VOID).sum()) for index in range(len(source)))
    if not pixels:
        raise InputError("no pixel of the learning images has a true label: there is nothing to learn from.")
    learnt = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    best_loss, best = math.inf, {name: parameter.detach().clone() for name, parameter in learnt.items()}
    done = 0
    optimiser = torch.optim.LBFGS(
        learnt.values(),
        max_iter=evaluations,
        max_eval=evaluations,
        tolerance_grad=SCALE * 1e-6,
        tolerance_change=SCALE * MIN_CHANGE,  # of the loss
        line_search_fn="strong_wolfe",
    )

    def closure() -> float:
        nonlocal best_loss, best, done
        if done >= evaluations:  # the optimiser does not check its limit within a line search
            raise _EnoughError
        optimiser.zero_grad()
        within = {name: _bounded(name, parameter) for name, parameter in learnt.items()}
        loss = _accumulate(module, source, within, pixels)
        if penalty is not None:
            added = penalty(learnt)
            (SCALE * added).backward()  # type: ignore[no-untyped-call]
            loss += float(added.detach())
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
    """Every parameter by name, in its own units: widths and weights, not their logarithms.

    >>> list(flat_values(dict(DenseCRF(2).named_parameters())))[:3]
    ['spatial.sigma.0', 'spatial.sigma.1', 'spatial.weight']
    """
    flat: dict[str, float] = {}
    for name, value in parameters.items():
        plain, number = name.replace("log_", ""), value.detach().double()
        numbers = (number.exp() if "log_" in name else number).flatten().tolist()
        flat.update({f"{plain}.{place}" if number.ndim else plain: each for place, each in enumerate(numbers)})
    return flat


class _EnoughError(Exception):
    """The maximum number of evaluations is reached."""


def _accumulate(module: nn.Module, source: ScoreSource, parameters: Mapping[str, Tensor], pixels: int) -> float:
    """The loss of all images; SCALE times its gradients are back-propagated through the parameters."""
    leaves = {name: value.detach().requires_grad_() for name, value in parameters.items()}
    total = 0.0
    for index in range(len(source)):
        scored = source[index]
        log_q = functional_call(module, leaves, (scored.scores[None], scored.image[None]))
        loss = log_likelihood_loss(log_q, scored.labels[None], reduction="sum") / pixels
        loss.backward()  # type: ignore[no-untyped-call]
        total += float(loss.detach())
    gradients = [torch.zeros_like(leaf) if leaf.grad is None else SCALE * leaf.grad for leaf in leaves.values()]
    torch.autograd.backward(list(parameters.values()), gradients)
    return total


def _bounded(name: str, parameter: Tensor) -> Tensor:
    """The parameter clamped to its bounds, which a line search of L-BFGS may leave by far."""
    bounds = {"log_weight": WEIGHTS, "log_sigma": WIDTHS}.get(name.rpartition(".")[2])
    return parameter.clone() if bounds is None else parameter.clamp(*bounds)


def _excess(free: Mapping[str, Tensor], within: Mapping[str, Tensor]) -> Tensor:
    """A penalty: half the squared distance of the parameters to their bounds."""
    squares: Iterable[Tensor] = ((free[name] - within[name].detach()).square().sum() for name in free)
    return sum(squares, torch.zeros(())) / 2
