"""A Segmenter in Lightning: loss, metrics, the stage without the CRF, checkpoints, and logged parameters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the module needs it")
pytest.importorskip("pydantic", reason="the names of logged values need the extra train")
pytest.importorskip("lightning", reason="the module is for it")

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader

from densefield import Bilateral, DenseCRF, Segmenter, Spatial
from densefield.errors import InputError, InputTypeError
from densefield.integrations import CRFLogger, SegmentationModule
from densefield.metrics import SegmentationMetrics
from densefield.nn import log_likelihood_loss

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),  # Lightning 2.6 with torch 2.13
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:You are trying to `self.log"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
]

CLASSES = 3


def crf() -> DenseCRF:
    return DenseCRF(CLASSES, [Spatial(2, weight=0.5), Bilateral(8, 20)], iterations=2)


def segmenter(seed: int = 90821) -> Segmenter:
    torch.manual_seed(seed)
    return Segmenter(torch.nn.Sequential(torch.nn.Conv2d(3, CLASSES, 1), torch.nn.Hardtanh(-3, 3)), crf())


def pairs(count: int = 4, seed: int = 3391) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (count, 3, 12, 16), generator=generator, dtype=torch.uint8)
    labels = torch.randint(CLASSES, (count, 12, 16), generator=generator)
    labels[:, 0] = 255
    return list(zip(images, labels, strict=True))


def trainer(folder: Path, epochs: int, **options: Any) -> Trainer:
    return Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        default_root_dir=folder,
        enable_model_summary=False,
        enable_progress_bar=False,
        logger=False,
        **{"enable_checkpointing": False, "num_sanity_val_steps": 0, **options},
    )


def fit(module: LightningModule, folder: Path, epochs: int, **options: Any) -> Trainer:
    made = trainer(folder, epochs, **options)
    made.fit(module, DataLoader(pairs(), batch_size=2), DataLoader(pairs(3, seed=77), batch_size=2))
    return made


def values(module: SegmentationModule) -> dict[str, torch.Tensor]:
    return {name: each.detach().clone() for name, each in module.segmenter.named_parameters()}


def test_the_loss_is_that_of_the_log_marginals():
    module, (image, labels) = SegmentationModule(segmenter()), pairs()[0]
    expected = log_likelihood_loss(segmenter()(image[None]), labels[None])
    assert torch.equal(module.training_step((image[None], labels[None]), 0), expected)


def test_the_metrics_of_validation_are_those_of_all_images_together(tmp_path):
    module = SegmentationModule(segmenter())
    logged = fit(module, tmp_path, 1).callback_metrics
    metrics = SegmentationMetrics(CLASSES)
    with torch.no_grad():
        for image, labels in pairs(3, seed=77):
            metrics.update(module(image[None]), labels[None])
    assert float(logged["val_mean_iou"]) == pytest.approx(metrics.compute().mean_iou, rel=1e-6)
    assert float(logged["val_pixel_accuracy"]) == pytest.approx(metrics.compute().pixel_accuracy, rel=1e-6)
    # Equal numbers of pixels in every image, so that the mean over images is that over pixels.
    assert float(logged["val_loss"]) == pytest.approx(metrics.compute().negative_log_likelihood, rel=1e-5)


def test_a_test_logs_what_the_validation_does(tmp_path):
    module, loader = SegmentationModule(segmenter()), DataLoader(pairs(3, seed=77), batch_size=2)
    (validated,) = trainer(tmp_path, 1).validate(module, loader, verbose=False)
    (tested,) = trainer(tmp_path, 1).test(module, loader, verbose=False)
    assert sorted(tested) == ["test_loss", "test_mean_iou", "test_pixel_accuracy"]
    assert tested == {name.replace("val", "test"): value for name, value in validated.items()}
    assert trainer(tmp_path, 1).test(module, loader, verbose=False) == [tested]  # earlier images are forgotten


def test_predictions_are_log_marginals_of_images_with_or_without_labels(tmp_path):
    module, (image, labels) = SegmentationModule(segmenter()), pairs()[0]
    items = [image, (image,), (image, labels), {"image": image}, {"image": image, "mask": labels}]
    with torch.no_grad():
        expected = segmenter()(image[None])
    for item in items:
        (found,) = trainer(tmp_path, 1).predict(module, DataLoader([item]))
        assert torch.equal(found, expected)


@pytest.mark.parametrize("key", ["mask", "label", "labels", "annotation"])
def test_batches_are_pairs_or_dicts_as_in_training_by_densefield(key):
    module, (image, labels) = SegmentationModule(segmenter()), pairs()[0]
    batch = {"image": image[None], key: labels[None], "name": ["a"]}
    assert torch.equal(module.training_step(batch, 0), module.training_step((image[None], labels[None]), 0))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"img": 0, "mask": 0}, "the batch is a dict with 'img', 'mask', expected a pair"),
        ({"image": 0, "mask": 0, "label": 0}, "the batch is a dict with 'image', 'mask', 'label', expected"),
        ([0, 0, 0], "the batch is a list of 3, expected a pair"),
        (None, "the batch is of type NoneType"),
    ],
)
def test_other_batches_are_named(batch, message):
    module = SegmentationModule(segmenter())
    if not isinstance(batch, dict) or "image" not in batch:
        with pytest.raises(InputTypeError, match=message):
            module.predict_step(batch, 0)
    for step in (module.training_step, module.validation_step, module.test_step):
        with pytest.raises(InputTypeError, match=message):
            step(batch, 0)


PROGRAM = """
import sys
import torch
from lightning.pytorch import Trainer
from torch.utils.data import DataLoader
from tests.integrations.test_lightning import SegmentationModule, pairs, segmenter
devices, path = int(sys.argv[1]), sys.argv[2]
module = SegmentationModule(segmenter(), crf_start_epoch=1)
options = {"strategy": "ddp_find_unused_parameters_true", "devices": 2} if devices == 2 else {"devices": 1}
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
trainer = Trainer(max_epochs=2, accelerator="cpu", num_sanity_val_steps=0, **quiet, **options)
trainer.fit(module, DataLoader(pairs(), batch_size=4 // devices), DataLoader(pairs(4, seed=77), batch_size=2))
if trainer.is_global_zero:
    torch.save({**module.segmenter.state_dict(), "iou": trainer.callback_metrics["val_mean_iou"]}, path)
"""


@pytest.mark.slow
def test_two_processes_train_both_stages_as_one_does(tmp_path):
    program, root = tmp_path / "program.py", Path(__file__).parents[2]
    program.write_text(PROGRAM)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(root)}
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    for devices, start in ((1, []), (2, torchrun)):
        command = [sys.executable, *start, str(program), str(devices), str(tmp_path / f"{devices}.pt")]
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
        assert answer.returncode == 0, answer.stderr
    one, two = (torch.load(tmp_path / f"{devices}.pt") for devices in (1, 2))
    before = segmenter().state_dict()
    for name, value in before.items():
        assert not torch.equal(one[name], value)  # both stages learn
        assert torch.allclose(one[name], two[name], rtol=1e-5, atol=1e-6), name  # sums in another order
    assert float(one["iou"]) == pytest.approx(float(two["iou"]), abs=1e-6)


def test_network_and_crf_are_trained_with_their_own_rates(tmp_path):
    module = SegmentationModule(segmenter(), learning_rate=1e-3, crf_learning_rate=0.05)
    before = values(module)
    fit(module, tmp_path, 1, limit_train_batches=1)
    for name, value in values(module).items():
        # The first step of Adam is as long as the rate; the decay of the network adds 1e-5 of its weights.
        step, rate = (value - before[name]).abs().max(), 0.05 if name.startswith("crf.") else 1e-3
        assert float(step) == pytest.approx(rate, rel=0.05), name


def test_the_crf_joins_at_its_first_epoch(tmp_path):
    module, (image, labels) = SegmentationModule(segmenter(), crf_start_epoch=2), pairs()[0]
    scores = segmenter().scores(image[None])
    expected = torch.nn.functional.cross_entropy(scores, labels[None], ignore_index=255)
    assert torch.allclose(module.training_step((image[None], labels[None]), 0), expected, atol=1e-6)
    before = values(module)
    fit(module, tmp_path, 2)
    after = values(module)
    assert not module.uses_crf
    assert all(torch.equal(before[name], after[name]) == name.startswith("crf.") for name in before)
    module = SegmentationModule(segmenter(), crf_start_epoch=1)
    fit(module, tmp_path, 2)
    assert module.uses_crf
    assert not any(torch.equal(before[name], value) for name, value in values(module).items())


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_checkpoint_keeps_parameters_and_stage(tmp_path, epochs):
    module = SegmentationModule(segmenter(), learning_rate=0.01, crf_start_epoch=1)
    fit(module, tmp_path, epochs).save_checkpoint(tmp_path / "last.ckpt")
    loaded = SegmentationModule.load_from_checkpoint(
        tmp_path / "last.ckpt", segmenter=segmenter(seed=1), weights_only=False
    )
    assert loaded.uses_crf == (epochs == 2) and loaded.hparams.learning_rate == 0.01
    image = pairs()[0][0][None]
    with torch.no_grad():
        assert torch.equal(loaded(image), module(image))


def test_training_resumes_as_if_it_had_not_stopped(tmp_path):
    whole, first = (SegmentationModule(segmenter(), crf_start_epoch=1) for _ in range(2))
    fit(whole, tmp_path, 3)
    fit(first, tmp_path, 1).save_checkpoint(tmp_path / "last.ckpt")
    resumed = SegmentationModule(segmenter(seed=2), crf_start_epoch=1)
    made = trainer(tmp_path, 3)
    loaders = DataLoader(pairs(), batch_size=2), DataLoader(pairs(3, seed=77), batch_size=2)
    made.fit(resumed, *loaders, ckpt_path=tmp_path / "last.ckpt", weights_only=False)
    for name, value in values(resumed).items():
        assert torch.allclose(value, values(whole)[name], atol=1e-6), name


def test_parameters_are_logged_after_an_epoch(tmp_path):
    module = SegmentationModule(segmenter())
    logged = fit(module, tmp_path, 1, callbacks=[CRFLogger()]).callback_metrics
    assert float(logged["crf/spatial.sigma.1"]) == pytest.approx(module.segmenter.crf.values()["spatial.sigma"][1])
    assert float(logged["crf/bilateral.weight"]) == pytest.approx(module.segmenter.crf.values()["bilateral.weight"])
    assert sum(name.startswith("crf/") for name in logged) == 9


def test_parameters_are_logged_after_steps_that_the_trainer_logs(tmp_path):
    seen: list[float] = []

    class Watching(SegmentationModule):
        def log_dict(self, numbers: Any, **options: Any) -> None:
            seen.append(numbers["crf/spatial.weight"])
            super().log_dict(numbers, **options)

    module = Watching(segmenter())
    fit(module, tmp_path, 3, callbacks=[CRFLogger(at="step")], log_every_n_steps=2)
    assert len(seen) == 3 and len(set(seen)) == 3  # of six steps
    assert seen[-1] == pytest.approx(module.segmenter.crf.values()["spatial.weight"])


def test_any_module_with_crfs_can_be_logged(tmp_path):
    class Own(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = crf(), crf()

        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            images, labels = batch
            scores = images.float() / 255
            return log_likelihood_loss(self.second(self.first(scores, images), images), labels)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    made = trainer(tmp_path, 1, callbacks=[CRFLogger()])
    made.fit(Own(), DataLoader(pairs(), batch_size=2))
    assert {"first/spatial.weight", "second/spatial.weight"} < set(made.callback_metrics)


def test_wrong_arguments_raise(tmp_path):
    with pytest.raises(InputTypeError, match="segmenter is of type DenseCRF, expected a Segmenter with a CRF"):
        SegmentationModule(crf())
    with pytest.raises(InputTypeError, match="segmenter is of type Segmenter, expected a Segmenter with a CRF"):
        SegmentationModule(Segmenter(torch.nn.Conv2d(3, 2, 1)))
    with pytest.raises(InputError, match="crf_start_epoch is -1, expected an integer, 0 or more"):
        SegmentationModule(segmenter(), crf_start_epoch=-1)
    with pytest.raises(InputError, match="at is 'batch', expected 'epoch' or 'step'"):
        CRFLogger("batch")

    class Own(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = torch.nn.Conv2d(3, CLASSES, 1)

        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            return self.network(batch[0].float()).mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    with pytest.raises(InputError, match="the module is of type Own, without a DenseCRF: remove CRFLogger"):
        trainer(tmp_path, 1, callbacks=[CRFLogger()]).fit(Own(), DataLoader(pairs(), batch_size=2))
