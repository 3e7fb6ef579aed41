"""A network with a CRF as a module of Lightning, and a callback that logs the parameters of CRFs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from densefield.datasets.adapter import IMAGE_KEY, LABEL_KEYS
from densefield.errors import InputError, InputTypeError
from densefield.metrics.segmentation_metrics import SegmentationMetrics
from densefield.nn.dense_crf import DenseCRF
from densefield.nn.losses import log_likelihood_loss
from densefield.nn.segmenter import Segmenter, log_marginals
from densefield.training.log import crf_values

LogAt = Literal["epoch", "step"]

_STAGE = "densefield_uses_crf"  # in checkpoints


class SegmentationModule(LightningModule):  # type: ignore[misc]
    """A Segmenter for Lightning's Trainer: loss, metrics of validation, optimiser, and a first stage without the CRF.

    A batch is (images, labels): colours 0…255 (B, 3, H, W), and integers (B, H, W) with 255 for void; or a dict of them
    with the keys of `densefield.train`. It logs ``train_loss``, and of the validation ``val_loss``, ``val_mean_iou``
    and ``val_pixel_accuracy`` over all its images. ``Trainer.test`` logs the same as ``test_loss`` and so on;
    ``Trainer.predict`` returns log marginals.

    Parameters
    ----------
    segmenter
        The network and its CRF.
    learning_rate, weight_decay
        Those of the network, for AdamW. Override `configure_optimizers` for another optimiser.
    crf_learning_rate
        That of the CRF's logarithms of widths and weights, which do not decay.
    crf_start_epoch
        The first epoch with the CRF. In epochs before, the loss is the cross-entropy of the scores alone. Checkpoints
        keep whether the CRF is used.

    >>> from densefield.networks import small_network
    >>> module = SegmentationModule(Segmenter(small_network(num_classes=3), DenseCRF(num_classes=3)))
    >>> module(torch.zeros(1, 3, 32, 48, dtype=torch.uint8)).shape
    torch.Size([1, 3, 32, 48])
    """

    def __init__(
        self,
        segmenter: Segmenter,
        *,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.01,
        crf_learning_rate: float = 0.01,
        crf_start_epoch: int = 0,
    ) -> None:
        super().__init__()
        if not isinstance(segmenter, Segmenter) or segmenter.crf is None:
            raise InputTypeError(
                f"segmenter is of type {type(segmenter).__name__}, expected a Segmenter with a CRF: "
                "Segmenter(network, DenseCRF(num_classes))."
            )
        if isinstance(crf_start_epoch, bool) or not isinstance(crf_start_epoch, int) or crf_start_epoch < 0:
            raise InputError(f"crf_start_epoch is {crf_start_epoch!r}, expected an integer, 0 or more.")
        self.save_hyperparameters(ignore=["segmenter"])
        self.segmenter = segmenter
        self.uses_crf = crf_start_epoch == 0
        self._metrics = SegmentationMetrics(segmenter.crf.num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Log marginals (B, L, H, W); before the first epoch with the CRF the log-softmax of the scores.

        Parameters
        ----------
        images
            (B, 3, H, W), colours 0…255.
        """
        if self.uses_crf:
            result: Tensor = self.segmenter(images)
            return result
        return log_marginals(self.segmenter.scores(images), images, None)

    def on_train_epoch_start(self) -> None:
        """Uses the CRF from its first epoch on."""
        self.uses_crf = self.current_epoch >= self.hparams.crf_start_epoch

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """The loss of a batch.

        Parameters
        ----------
        batch
            Images and labels.
        batch_idx
            The number of the batch.
        """
        images, labels = _pair(batch)
        loss = log_likelihood_loss(self(images), labels)
        self.log("train_loss", loss, prog_bar=True, batch_size=len(images))
        return loss

    def on_validation_epoch_start(self) -> None:
        """Forgets the images of the last validation."""
        self._metrics.reset()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        """Counts a batch of the validation.

        Parameters
        ----------
        batch
            Images and labels.
        batch_idx
            The number of the batch.
        """
        self._count("val", batch)

    def on_validation_epoch_end(self) -> None:
        """Logs the metrics of all images together, of all processes."""
        self._log_metrics("val")

    on_test_epoch_start = on_validation_epoch_start

    def test_step(self, batch: Any, batch_idx: int) -> None:
        """Counts a batch of the test.

        Parameters
        ----------
        batch
            Images and labels.
        batch_idx
            The number of the batch.
        """
        self._count("test", batch)

    def on_test_epoch_end(self) -> None:
        """Logs the metrics of all images together, of all processes."""
        self._log_metrics("test")

    def predict_step(self, batch: Any, batch_idx: int) -> Tensor:
        """The log marginals of a batch.

        Parameters
        ----------
        batch
            Images, or images and labels, which are not used.
        batch_idx
            The number of the batch.
        """
        if isinstance(batch, Tensor):
            images = batch
        elif isinstance(batch, Mapping) and IMAGE_KEY in batch:
            images = batch[IMAGE_KEY]
        elif isinstance(batch, list | tuple) and len(batch) == 1:
            (images,) = batch  # of a TensorDataset
        else:
            images, _ = _pair(batch)
        result: Tensor = self(images)
        return result

    def _count(self, stage: str, batch: Any) -> None:
        """Logs the loss of a batch, and counts it for the metrics."""
        images, labels = _pair(batch)
        log_q = self(images)
        self.log(f"{stage}_loss", log_likelihood_loss(log_q, labels), batch_size=len(images), sync_dist=True)
        self._metrics.update(log_q, labels)

    def _log_metrics(self, stage: str) -> None:
        result = self._metrics.compute()
        self.log(f"{stage}_mean_iou", result.mean_iou, prog_bar=True)
        self.log(f"{stage}_pixel_accuracy", result.pixel_accuracy)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW with two groups of parameters, ``network`` and ``crf``."""
        network = {
            "name": "network",
            "params": list(self.segmenter.network.parameters()),
            "lr": self.hparams.learning_rate,
            "weight_decay": self.hparams.weight_decay,
        }
        crf = {
            "name": "crf",
            "params": [] if self.segmenter.crf is None else list(self.segmenter.crf.parameters()),
            "lr": self.hparams.crf_learning_rate,
            "weight_decay": 0.0,
        }
        return torch.optim.AdamW([network, crf])

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Adds whether the CRF is used.

        Parameters
        ----------
        checkpoint
            The checkpoint, which is changed.
        """
        checkpoint[_STAGE] = self.uses_crf

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restores whether the CRF is used.

        Parameters
        ----------
        checkpoint
            The checkpoint.
        """
        self.uses_crf = checkpoint.get(_STAGE, True)


class CRFLogger(Callback):  # type: ignore[misc]
    """Logs widths and weights of every DenseCRF in a LightningModule, such as ``crf/bilateral.sigma.0``.

    Names are those of the CRF's values, with a number for each axis and channel; of a matrix, the means of its
    diagonal and of the rest are logged. With several CRFs, the names begin with those of the modules.

    Parameters
    ----------
    at
        "epoch" logs at the end of every epoch of training, "step" every `Trainer(log_every_n_steps=…)` steps.

    >>> CRFLogger(at="step").at
    'step'
    """

    def __init__(self, at: LogAt = "epoch") -> None:
        if at not in get_args(LogAt):
            raise InputError(f"at is {at!r}, expected 'epoch' or 'step'.")
        self.at = at

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Raises if there is nothing to log.

        Parameters
        ----------
        trainer, pl_module
            The Trainer and its module.
        """
        if not _crfs(pl_module):
            raise InputError(f"the module is of type {type(pl_module).__name__}, without a DenseCRF: remove CRFLogger.")

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Logs after steps that Trainer logs.

        Parameters
        ----------
        trainer, pl_module
            The Trainer and its module.
        outputs, batch, batch_idx
            Not used.
        """
        if self.at == "step" and trainer.global_step % trainer.log_every_n_steps == 0:
            pl_module.log_dict(_numbers(pl_module), on_step=True, on_epoch=False)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Logs after an epoch.

        Parameters
        ----------
        trainer, pl_module
            The Trainer and its module.
        """
        if self.at == "epoch":
            pl_module.log_dict(_numbers(pl_module))


def _pair(batch: Any) -> tuple[Tensor, Tensor]:
    """The images and labels of a batch."""
    if isinstance(batch, Mapping):
        keys = [key for key in LABEL_KEYS if key in batch]
        if IMAGE_KEY in batch and len(keys) == 1:
            return batch[IMAGE_KEY], batch[keys[0]]
        came = f"a dict with {', '.join(map(repr, batch)) or 'nothing in it'}"
    elif isinstance(batch, list | tuple):
        if len(batch) == 2:
            return batch[0], batch[1]
        came = f"a list of {len(batch)}"
    else:
        came = f"of type {type(batch).__name__}"
    raise InputTypeError(
        f"the batch is {came}, expected a pair (images, labels), or a dict with {IMAGE_KEY!r} and one of "
        f"{', '.join(map(repr, LABEL_KEYS))}."
    )


def _crfs(module: LightningModule) -> dict[str, DenseCRF]:
    """The CRFs of a module by the beginning of the names of their values."""
    found = [(name, each) for name, each in module.named_modules() if isinstance(each, DenseCRF)]
    return {"crf": found[0][1]} if len(found) == 1 else dict(found)


def _numbers(module: LightningModule) -> dict[str, float]:
    crfs = _crfs(module).items()
    return {f"{name}/{key}": value for name, crf in crfs for key, value in crf_values(crf).items()}
