"""The training loop: the network alone in stage 1, network and CRF together in stage 2."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from densefield.datasets.loading import Batch, evaluation_batches, training_batches
from densefield.datasets.sample import Dataset, Subset
from densefield.errors import DensefieldError, InputError
from densefield.io.files import write_atomically
from densefield.labels import VOID
from densefield.metrics.counts import Counts
from densefield.metrics.metrics import mean_iou
from densefield.metrics.segmentation_metrics import confusion_matrix
from densefield.nn.losses import log_likelihood_loss
from densefield.nn.segmenter import Segmenter
from densefield.runs.build import build_crf, build_segmenter, set_iterations
from densefield.runs.checkpoint import (
    TrainingState,
    Validation,
    find_checkpoint,
    keep_previous,
    load_start,
    random_states,
    restore,
    write_checkpoint,
)
from densefield.runs.config import Config
from densefield.runs.devices import AUTO
from densefield.runs.distributed import (
    deterministic,
    naming_lost_processes,
    rank_and_world_size,
    start_fabric,
    total,
)
from densefield.runs.objects import NONE, Objects
from densefield.runs.run_folder import BEST, LAST, PREVIOUS, SETTINGS
from densefield.runs.settings import to_toml
from densefield.runs.splits import build_datasets, evenly_spread
from densefield.runs.stopping import Terminated, recording_sigterm
from densefield.training.first_scores import check_scores, naming_batch_statistics
from densefield.training.log import Display, RunLog
from densefield.training.optimizer import augmentation, build_optimizer, build_schedule, decay_to

DIVERGED = 10.0  # times the loss of guessing: training that loses so much does not recover


class Diverged(DensefieldError):
    """The loss is not finite, or far above that of guessing."""

    exit_status = 1


def run_training(
    config: Config, run: Path, *, resume: bool, objects: Objects = NONE, device: str = AUTO
) -> tuple[Segmenter, Validation]:
    """Trains a segmenter; returns it with its last parameters, and the metrics of its best checkpoint.

    `objects` are those that the settings do not describe; `device` is a name as in choose_device().
    """
    folder, training = run, config.training
    with deterministic(), naming_lost_processes(rank_and_world_size()[1]):
        # All errors of the settings are raised before anything is written.
        fabric = start_fabric(config, device)
        train_set, val_set = build_datasets(config, objects)
        measured = evenly_spread(train_set, config.data.train_iou_images)
        checkpoint = find_checkpoint(folder, config, resume)
        torch.manual_seed(training.seed)
        segmenter = build_segmenter(config, objects)
        if config.network.is_own:
            check_scores(segmenter, val_set[0], config.network)
        started = load_start(segmenter, config) if checkpoint is None else f"resuming after step {checkpoint['step']}"
        model, optimizer = fabric.setup(segmenter, build_optimizer(config.optimizer, segmenter))
        if segmenter.crf is not None:
            initial = build_crf(config.crf, config.network.num_classes)
            decay_to(segmenter.crf, initial, config.optimizer.weight_decay_crf, optimizer.optimizer)
        segmenter.train()  # the user's network may come in evaluation mode
        if config.network.frozen:
            segmenter.network.eval()
        torch.manual_seed(training.seed + fabric.global_rank)  # for dropout: each process has its own images
        at = TrainingState()
        if checkpoint is not None:
            at = restore(folder / LAST, checkpoint, segmenter, optimizer.optimizer, fabric.global_rank, fabric.device)
        schedule = build_schedule(config, optimizer.optimizer, at.step)
        batches = training_batches(
            train_set,
            augmentation(config.data, segmenter.network.normalization),  # type: ignore[arg-type]
            training.batch,
            seed=training.seed,
            workers=training.workers,
            start=at.position,
            shard=(fabric.global_rank, fabric.world_size),
        )
        fabric.barrier()  # until all processes have read the folder
        writes = fabric.is_global_zero
        if writes:
            write_atomically(folder / SETTINGS, to_toml(config).encode())
        with (
            closing(batches),  # which ends its workers
            RunLog(folder, training.stage, segmenter.crf, at.step, writes=writes) as log,
            Display(training.steps, at.step, shown=writes) as display,
            recording_sigterm() as signals,
        ):
            display.print(started)
            found, images, clock = None, 0, time.perf_counter()
            written = None if checkpoint is None else at.step  # the step of the last checkpoint
            while at.step < training.steps:
                batch = next(batches)
                step = _naming_the_step(folder, at.step + 1, at.step, written, config)
                with step, naming_batch_statistics(training):
                    loss = training_step(fabric, model, optimizer, batch, training.accumulate, training.label_smoothing)
                schedule.step()
                at.step, at.position, images = at.step + 1, batch.position or at.position, images + training.batch
                speed = images / (time.perf_counter() - clock)
                display.step(at.step, loss, found, speed)

                metrics: dict[str, float] = {}
                better, ends = False, at.step == training.steps
                if ends or at.step % training.validate_every == 0:
                    with _naming_the_step(folder, at.step, at.step, written, config):
                        found = validate(fabric, segmenter, val_set, config)
                        metrics = {"iou": found.iou, "nll": found.nll}
                        if len(measured):
                            on_train = validate(fabric, segmenter, measured, config)
                            metrics |= {"train_iou": on_train.iou, "train_nll": on_train.nll}
                    better = found.is_better(at.best, training.best_by)
                    at.best = found if better else at.best
                    display.validated(at.step, loss, found, speed)
                if metrics or at.step % training.log_every == 0:
                    log.write(at.step, segmenter.crf, loss=loss, images_per_second=speed, **metrics)
                stops = _any_process(fabric, bool(signals))
                if metrics or stops or at.step % training.checkpoint_every == 0:
                    rng, written = random_states(fabric.device), at.step
                    if writes:
                        keep_previous(folder)
                    for path in [BEST] * better + [LAST]:  # the best first, since the last one records its IoU
                        if writes:
                            write_checkpoint(folder / path, config, segmenter, optimizer.state_dict(), at, rng)
                if metrics or at.step % training.log_every == 0:
                    images, clock = 0, time.perf_counter()
                if stops and not ends:
                    raise Terminated(
                        f"stopped by SIGTERM after step {at.step} of {training.steps}; the checkpoint is "
                        f"{folder / LAST}. Continue with resume=True."
                    )
        assert at.best is not None  # the last step is always validated
        return segmenter, at.best


def _any_process(fabric: Fabric, flag: bool) -> bool:
    """Whether the flag is set in any process; the same answer in all."""
    if fabric.world_size == 1:
        return flag
    return bool(total(fabric, torch.tensor(int(flag), device=fabric.device)) > 0)


def training_step(
    fabric: Fabric, model: Any, optimizer: torch.optim.Optimizer, batch: Batch, parts: int, label_smoothing: float = 0.0
) -> float:
    """One step of the algorithm (paper, Fig. 3; Fig. 1 without a CRF); returns the loss, the mean over pixels.

    The batch is this process's share; gradients are accumulated over `parts` of it. Parameters are not updated if
    the loss or a gradient is not finite.
    """
    assert batch.labels is not None
    pixels = total(
        fabric, torch.stack([(label != VOID).sum() for label in batch.labels]).sum().to(fabric.device)
    ).clamp(min=1)
    mean = torch.zeros((), device=fabric.device)
    optimizer.zero_grad()
    for number, part in enumerate(_split(batch, parts, fabric.device), start=1):
        with fabric.no_backward_sync(model, enabled=number < parts):
            # 1. Forward pass: scores f. 2. Marginals by T mean-field iterations of filtering. See Segmenter.forward.
            # The CRF ignores padding, and measures positions in pixels of the original image.
            log_q = _marginals(model, part)
            # The mean over pixels of all parts and processes (Eq. 6); DDP will divide by the number of processes.
            with _naming_divergence():
                losses = [
                    log_likelihood_loss(q, label, reduction="sum", label_smoothing=label_smoothing)
                    for q, label in _pairs(log_q, part)
                ]
            loss = torch.stack(losses).sum() / pixels
            # 3. Back-tracking through the iterations, which gives ∂L/∂f and the CRF's own gradients (Eq. 7 and 8).
            # 4. Backward pass from ∂L/∂f down through the network, by the chain rule.
            fabric.backward(loss * fabric.world_size)
        mean += loss.detach()
    mean = total(fabric, mean)
    _check(float(mean), model, log_q[0].shape[-3])
    # 5. Parameter update.
    optimizer.step()
    return float(mean)


@torch.inference_mode()
def validate(fabric: Fabric, segmenter: Segmenter, dataset: Dataset, config: Config) -> Validation:
    """Mean IoU and NLL on whole images in evaluation mode; the images are divided among the processes."""
    learns_network, crf = segmenter.network.training, segmenter.crf
    segmenter.eval()
    set_iterations(crf, config.crf.test_iterations)
    if fabric.world_size > 1:  # running means of batch normalisation differ between processes until the next step
        for buffer in segmenter.buffers():
            torch.distributed.broadcast(buffer, 0)
    num_classes, share = len(dataset.classes), range(fabric.global_rank, len(dataset), fabric.world_size)
    counts = torch.zeros(num_classes, num_classes, dtype=torch.int64, device=fabric.device)
    wide = torch.float32 if fabric.device.type == "mps" else torch.float64  # which Apple's GPUs do not have
    loss = torch.zeros((), dtype=wide, device=fabric.device)
    for batch in evaluation_batches(Subset(dataset, share), workers=config.training.workers):
        for part in _split(batch, 1, fabric.device):
            with fabric.autocast():
                log_q = _marginals(segmenter, part)
            for q, label in _pairs(log_q, part):
                with _naming_divergence():
                    loss += log_likelihood_loss(q, label, reduction="sum")
                counts += confusion_matrix(q, label)
    set_iterations(crf, config.crf.iterations)
    segmenter.train()
    segmenter.network.train(learns_network)
    confusion = total(fabric, counts).cpu().numpy()
    return Validation(
        float(mean_iou(Counts.from_confusion(confusion))), float(total(fabric, loss)) / max(int(confusion.sum()), 1)
    )


def _split(batch: Batch, parts: int, device: torch.device) -> Iterator[Batch]:
    """The batch in equal parts, on the device."""
    assert batch.labels is not None
    size = len(batch.labels) // parts

    def on_device(values: Tensor | list[Tensor], here: slice) -> Tensor | list[Tensor]:
        chosen = values[here]
        return chosen.to(device) if isinstance(chosen, Tensor) else [each.to(device) for each in chosen]

    for start in range(0, parts * size, size):
        here = slice(start, start + size)
        yield replace(
            batch,
            image=on_device(batch.image, here),
            labels=on_device(batch.labels, here),
            ids=batch.ids[here],
            padding=None if batch.padding is None else batch.padding[here].to(device),
            spacing=None if batch.spacing is None else batch.spacing[here],
        )


def _marginals(model: Any, batch: Batch) -> Tensor | list[Tensor]:
    """Log marginals of the whole batch, or of each image of a list."""
    with _naming_divergence():
        log_q: Tensor | list[Tensor] = model(batch.image, batch.padding, batch.spacing)
    return log_q


@contextmanager
def _naming_divergence() -> Iterator[None]:
    """An InputError of the CRF or the loss, such as for scores that are not finite, means divergence."""
    try:
        yield
    except InputError as error:
        raise Diverged(str(error)) from error


def _pairs(log_q: Tensor | list[Tensor], batch: Batch) -> Iterator[tuple[Tensor, Tensor]]:
    """Log marginals (B, L, H, W) and labels (B, H, W): of the whole batch, or of each image of a list."""
    assert batch.labels is not None
    if isinstance(log_q, Tensor) and isinstance(batch.labels, Tensor):
        yield log_q, batch.labels
    else:
        yield from ((q[None], label[None]) for q, label in zip(log_q, batch.labels, strict=True))


def _check(loss: float, model: Any, num_classes: int) -> None:
    """Raises if the loss or a gradient is not usable; the same in all processes."""
    guessing = max(math.log(num_classes), 1.0)
    if not loss <= DIVERGED * guessing:
        raise Diverged(f"the loss is {loss:.4g}, while that of guessing is {guessing:.2f}.")
    gradients = [each.grad for each in model.parameters() if each.grad is not None]
    if not torch.stack([each.isfinite().all() for each in gradients]).all():
        raise Diverged(f"a gradient is not finite, though the loss is {loss:.4g}.")


@contextmanager
def _naming_the_step(run: Path, step: int, parameters: int, written: int | None, config: Config) -> Iterator[None]:
    """Adds the step, the last good checkpoint and the cure to the message of Diverged.

    `parameters` is the step whose parameters diverged; `written` is the step of the last checkpoint.
    """
    try:
        yield
    except Diverged as error:
        cure = _cure(run, parameters, written, config)
        raise Diverged(f"training stopped at step {step}: {error}\n{cure}") from error


def _cure(run: Path, parameters: int, written: int | None, config: Config) -> str:
    crf = "the CRF's widths and weights, " if config.uses_crf else ""
    mean = "the network's normalisation (network.mean and std), " if config.network.is_own else ""
    if parameters == 0:
        return f"Nothing was learnt yet: check {crf}{mean}the data, and the initial weights."
    # The last checkpoint may hold the parameters that failed; a later step has shown that the previous one is good.
    good = run / (PREVIOUS if written == parameters else LAST)
    cure = f"Lower the learning rates, optimizer.lr_top{', lr_rest or lr_crf' if crf else ' and lr_rest'}"
    if written is not None and good.exists():
        return f"The last good checkpoint is {good}. {cure}, and start a new run with training.start_from={good}."
    return f"There is no good checkpoint yet. {cure}, {'check ' + mean if mean else ''}and start again."
