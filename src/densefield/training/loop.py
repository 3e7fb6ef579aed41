"""The training loop: deep learning in stage 1, fully connected deep structured models in stage 2."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from densefield.datasets.loading import Batch, evaluation_batches, training_batches
from densefield.datasets.sample import Dataset
from densefield.errors import DensefieldError, InputError
from densefield.labels import VOID
from densefield.metrics.counts import Counts
from densefield.metrics.metrics import mean_iou
from densefield.metrics.segmentation_metrics import confusion_matrix
from densefield.nn.losses import log_likelihood_loss
from densefield.nn.segmenter import Segmenter
from densefield.runs.checkpoint import (
    BEST,
    LAST,
    PREVIOUS,
    Progress,
    keep_previous,
    random_states,
    restore,
    write_checkpoint,
)
from densefield.runs.config import Config
from densefield.runs.machines import deterministic, start_fabric, total
from densefield.runs.processes import this_process
from densefield.runs.run_folder import begin, find_checkpoint, write_settings
from densefield.runs.stopping import Terminated, naming_lost_processes, noticing_sigterm
from densefield.training.build import Part, augmentation, build_datasets, build_optimizer, build_segmenter
from densefield.training.display import Display
from densefield.training.log import RunLog

DIVERGED = 10.0  # times the loss of guessing: where the truth has so little probability nothing is to be saved
POWER = 0.9  # of the schedule "poly"


class Diverged(DensefieldError):
    """The loss is no number any more, or far above that of guessing."""


def train(config: Config, run: str | PathLike[str], *, resume: bool = False) -> float:
    """Trains as the settings say, in the folder `run`, and returns the best mean IoU on validation (paper, Eq. 2).

    Stage 1 is the network alone, q = softmax(f) (paper, Fig. 1); stage 2 is the network and the CRF together, from the
    weights of stage 1 (Fig. 3). Both maximise the log-likelihood of the true labels under the marginals. With `resume`
    it resumes from the run's last checkpoint, and ends with the parameters it would have had without interruption.

    SIGTERM ends the run after the step or the validation under way: it writes a checkpoint and raises Terminated.
    Where another process of the run does not answer for as long as ``$DENSEFIELD_TIMEOUT`` says, LostProcess is raised.
    """
    folder, training = Path(run), config.training
    with deterministic(), naming_lost_processes(this_process()[1]):
        # All that can be wrong with the settings is found before anything is written.
        fabric = start_fabric(config)
        train_set, val_set = build_datasets(config)
        checkpoint = find_checkpoint(folder, config, resume)
        torch.manual_seed(training.seed)
        segmenter = build_segmenter(config)
        started = begin(segmenter, config) if checkpoint is None else f"resuming after step {checkpoint['step']}"
        model, optimizer = fabric.setup(segmenter, build_optimizer(config.optimizer, segmenter))
        torch.manual_seed(training.seed + fabric.global_rank)  # for dropout: each process has images of its own
        labels = config.network.num_classes
        at = Progress(torch.zeros(labels, labels, dtype=torch.int64, device=fabric.device))
        if checkpoint is not None:
            at = restore(folder / LAST, checkpoint, segmenter, optimizer.optimizer, fabric.global_rank, fabric.device)
        batches = training_batches(
            train_set,
            augmentation(config.data, segmenter.network.normalization),  # type: ignore[arg-type]
            training.batch,
            seed=training.seed,
            workers=training.workers,
            start=at.position,
            shard=(fabric.global_rank, fabric.world_size),
        )
        fabric.barrier()  # until all processes have looked into the folder
        writes = fabric.is_global_zero
        if writes:
            write_settings(folder, config)
        with (
            closing(batches),  # which ends its workers
            RunLog(folder, training.stage, segmenter.crf, at.step, writes=writes) as log,
            Display(training.steps, at.step, shown=writes) as display,
            noticing_sigterm() as request,
        ):
            display.say(started)
            iou, images, clock = None, 0, time.perf_counter()
            written = None if checkpoint is None else at.step  # the step of the last checkpoint
            while at.step < training.steps:
                batch = next(batches)
                set_rates(optimizer, config, at.step)
                with _telling_where(folder, at.step + 1, at.step, written):
                    loss = training_step(fabric, model, optimizer, batch, training.accumulate, at.overlap)
                at.step, at.position, images = at.step + 1, batch.position or at.position, images + training.batch
                speed = images / (time.perf_counter() - clock)
                display.step(at.step, loss, iou, speed)

                scores: dict[str, float] = {}
                better, ends = False, at.step == training.steps
                if ends or at.step % training.validate_every == 0:
                    with _telling_where(folder, at.step, at.step, written):
                        iou = validate(fabric, segmenter, val_set, training.workers)
                    scores = {"iou": iou, "train_iou": _mean_iou(fabric, at.overlap)}
                    better, at.best = iou > at.best, max(iou, at.best)
                    at.overlap.zero_()
                    display.validated(at.step, loss, iou, speed)
                if scores or at.step % training.log_every == 0:
                    log.write(at.step, segmenter.crf, loss=loss, images_per_second=speed, **scores)
                stops = _any_process(fabric, request.came)
                if scores or stops or at.step % training.checkpoint_every == 0:
                    rng, written = random_states(), at.step
                    if writes:
                        keep_previous(folder)
                    for path in [BEST] * better + [LAST]:  # the best first, since the last one tells how good it is
                        if writes:
                            write_checkpoint(folder / path, config, segmenter, optimizer.state_dict(), at, rng)
                if scores or at.step % training.log_every == 0:
                    images, clock = 0, time.perf_counter()
                if stops and not ends:
                    raise Terminated(
                        f"stopped by SIGTERM after step {at.step} of {training.steps}; the checkpoint is "
                        f"{folder / LAST}. Continue with resume=True."
                    )
        return at.best


def _any_process(fabric: Fabric, flag: bool) -> bool:
    """Whether the flag is set in any process; all come to the same decision."""
    if fabric.world_size == 1:
        return flag
    return bool(total(fabric, torch.tensor(int(flag), device=fabric.device)) > 0)


def training_step(
    fabric: Fabric, model: Any, optimizer: torch.optim.Optimizer, batch: Batch, parts: int, overlap: Tensor
) -> float:
    """One round of the algorithm (paper, Fig. 3; Fig. 1 without a CRF), and its loss, the mean over pixels.

    The batch is this process's share; it is gone through in `parts`, whose gradients add up. `overlap` (L, L) counts
    true and predicted labels. Parameters are left alone where the loss or a gradient is not finite.
    """
    assert batch.labels is not None
    pixels = total(fabric, (batch.labels != VOID).sum().to(fabric.device)).clamp(min=1)
    mean = torch.zeros((), device=fabric.device)
    optimizer.zero_grad()
    for number, (image, label, padding) in enumerate(_split(batch, parts, fabric.device), start=1):
        with fabric.no_backward_sync(model, enabled=number < parts):
            # 1. Forward pass: scores f. 2. Marginals by T mean-field iterations of filtering. See Segmenter.forward.
            # Padding takes no part in them.
            log_q = _marginals(model, image, padding)
            # The mean over pixels of all parts and processes (Eq. 6); DDP will divide by the number of processes.
            loss = log_likelihood_loss(log_q, label, reduction="sum") / pixels
            # 3. Back-tracking through the iterations, which gives ∂L/∂f and the CRF's own gradients (Eq. 7 and 8).
            # 4. Backward pass from ∂L/∂f down through the network, by the chain rule.
            fabric.backward(loss * fabric.world_size)
        mean += loss.detach()
        overlap += confusion_matrix(log_q.detach(), label)
    mean = total(fabric, mean)
    _check(float(mean), model, log_q.shape[1])
    # 5. Parameter update.
    optimizer.step()
    return float(mean)


@torch.inference_mode()
def validate(fabric: Fabric, segmenter: Segmenter, dataset: Dataset, workers: int = 0) -> float:
    """Mean intersection over union on whole images, which the processes share among them."""
    segmenter.eval()
    if fabric.world_size > 1:  # means of batch normalisation are each process's own until its next step
        for buffer in segmenter.buffers():
            torch.distributed.broadcast(buffer, 0)
    labels, share = len(dataset.classes), range(fabric.global_rank, len(dataset), fabric.world_size)
    counts = torch.zeros(labels, labels, dtype=torch.int64, device=fabric.device)
    for batch in evaluation_batches(Part(dataset, share), workers=workers):
        for image, label, padding in _split(batch, 1, fabric.device):
            with fabric.autocast():
                counts += confusion_matrix(_marginals(segmenter, image, padding), label)
    segmenter.train()
    return _mean_iou(fabric, counts)


def _mean_iou(fabric: Fabric, confusion: Tensor) -> float:
    """The mean IoU of the counts of all processes."""
    return float(mean_iou(Counts.from_confusion(total(fabric, confusion).cpu().numpy())))


def set_rates(optimizer: torch.optim.Optimizer, config: Config, step: int) -> None:
    """The learning rates of this step: "constant", or "poly", which falls to zero as (1 - step/steps)^0.9."""
    left = 1 - step / config.training.steps
    for group in optimizer.param_groups:
        group["lr"] = group["rate"] * (left**POWER if config.optimizer.schedule == "poly" else 1.0)


def _split(batch: Batch, parts: int, device: torch.device) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
    """Image, label and padding of the batch in equal parts, on the device."""
    assert batch.labels is not None
    size = len(batch.labels) // parts
    for start in range(0, parts * size, size):
        here = slice(start, start + size)
        padding = None if batch.padding is None else batch.padding[here].to(device)
        yield batch.image[here].to(device), batch.labels[here].to(device), padding


def _marginals(model: Any, image: Tensor, padding: Tensor | None) -> Tensor:
    """log q; what the CRF refuses, such as scores that are not finite, is a result of training."""
    try:
        log_q: Tensor = model(image, padding)
    except InputError as error:
        raise Diverged(str(error)) from error
    return log_q


def _check(loss: float, model: Any, num_classes: int) -> None:
    """Raises where an update would do harm; all processes come to the same decision."""
    guessing = max(math.log(num_classes), 1.0)
    if not loss <= DIVERGED * guessing:
        raise Diverged(f"the loss is {loss:.4g}, while guessing has {guessing:.2f}.")
    gradients = [each.grad for each in model.parameters() if each.grad is not None]
    if not torch.stack([each.isfinite().all() for each in gradients]).all():
        raise Diverged(f"a gradient is not finite, though the loss is {loss:.4g}.")


@contextmanager
def _telling_where(run: Path, step: int, parameters: int, written: int | None) -> Iterator[None]:
    """Adds the step, the last good checkpoint and the cure to what has diverged.

    `parameters` are those after this step, with which it happened; `written` is the step of the last checkpoint.
    """
    try:
        yield
    except Diverged as error:
        raise Diverged(f"training stopped at step {step}: {error}\n{_cure(run, parameters, written)}") from error


def _cure(run: Path, parameters: int, written: int | None) -> str:
    if parameters == 0:
        return "Nothing was learnt yet: look at the CRF's widths and weights, the data, and what the run started from."
    # The last checkpoint may hold the very parameters that failed; a later step has shown that the one before is good.
    good = run / (PREVIOUS if written == parameters else LAST)
    cure = "Lower the learning rates, optimizer.lr_top, lr_rest or lr_crf"
    if written is not None and good.exists():
        return f"The last good checkpoint is {good}. {cure}, and start a new run with training.start_from={good}."
    return f"There is no good checkpoint yet. {cure}, and start again."
