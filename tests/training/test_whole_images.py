"""Training on whole images of different sizes, which the network sees at another size."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning_fabric", reason="training needs it")
pytest.importorskip("pydantic", reason="training needs it")
pytest.importorskip("tensorboard", reason="training needs it")
pytest.importorskip("PIL", reason="training needs it")

import numpy as np
import torch
from PIL import Image

from densefield.datasets.loading import Batch, training_batches
from densefield.errors import InputError
from densefield.evaluation.predict import Predictor
from densefield.nn.losses import log_likelihood_loss
from densefield.runs.build import build_segmenter
from densefield.runs.checkpoint import load_segmenter, read_checkpoint
from densefield.runs.scored_images import open_scores
from densefield.runs.settings import read_config
from densefield.runs.splits import build_datasets
from densefield.training.entry import train_config
from densefield.training.log import read_log
from densefield.training.optimizer import augmentation
from tests.support.mixed_sizes import SIZES, write_mixed_sizes
from tests.training.test_loop import step_on
from tests.training.test_resuming import last, same, stopping_at
from tests.training.test_several_processes import momenta, train_on_two


@pytest.fixture(params=["48", "[40, 56]"])
def mixed(request, tmp_path):
    return write_mixed_sizes(tmp_path / "data", request.param)


def a_batch(settings) -> Batch:
    """The first training batch, which has images of different sizes."""
    config = read_config(settings)
    segmenter = build_segmenter(config)
    dataset = build_datasets(config)[0]
    batch = next(training_batches(dataset, augmentation(config.data, segmenter.network.normalization), 4, seed=11))
    assert isinstance(batch.image, list) and batch.padding is None and batch.spacing is None
    batch.labels[1][:9] = 255  # images have different numbers of void pixels
    return batch


def test_the_gradient_of_a_batch_is_that_of_the_sum_over_its_images(mixed):
    config, batch = read_config(mixed, ["training.stage=2"]), a_batch(mixed)
    loss, segmenter = step_on(config, batch)
    torch.manual_seed(41)
    twin = build_segmenter(config).double()
    pixels = sum(int((label != 255).sum()) for label in batch.labels)
    total = 0.0
    for image, label in zip(batch.image, batch.labels, strict=True):
        one = log_likelihood_loss(twin(image[None]), label[None], reduction="sum") / pixels
        one.backward()
        total += float(one.detach())
    assert loss == pytest.approx(total, rel=1e-6)  # the loop sums losses in float32
    for (name, a), b in zip(segmenter.named_parameters(), twin.parameters(), strict=True):
        assert (a.grad - b.grad).norm() <= 1e-10 * b.grad.norm(), name


@pytest.mark.parametrize("parts", [2, 4])
def test_accumulated_parts_give_the_gradient_of_the_batch(mixed, parts):
    config, batch = read_config(mixed, ["training.stage=2"]), a_batch(mixed)
    (one, whole), (two, split) = (step_on(config, batch, number) for number in (1, parts))
    assert one == pytest.approx(two, rel=1e-6)
    for (name, a), b in zip(whole.named_parameters(), split.named_parameters(), strict=True):
        assert (a.grad - b[1].grad).norm() <= 1e-10 * b[1].grad.norm(), name


def test_labels_and_colours_of_the_crf_have_the_size_of_the_photos(mixed):
    batch = a_batch(mixed)
    sizes = {tuple(label.shape) for label in batch.labels}
    assert sizes <= set(SIZES) and len(sizes) > 1
    assert [tuple(image.shape[1:]) for image in batch.image] == [tuple(label.shape) for label in batch.labels]


def test_batches_do_not_depend_on_workers_or_on_the_start(mixed):
    config = read_config(mixed)
    dataset, changes = (
        build_datasets(config)[0],
        augmentation(config.data, build_segmenter(config).network.normalization),
    )
    whole = training_batches(dataset, changes, 4, seed=11)
    batches = [next(whole) for _ in range(3)]
    for workers in (0, 1):
        stream = training_batches(dataset, changes, 4, seed=11, start=batches[1].position, workers=workers)
        again = next(stream)
        stream.close()
        assert again.ids == batches[2].ids
        assert all(torch.equal(a, b) for a, b in zip(again.image, batches[2].image, strict=True))
        assert all(torch.equal(a, b) for a, b in zip(again.labels, batches[2].labels, strict=True))


def test_a_stopped_run_resumes_to_the_same_result(mixed, tmp_path, monkeypatch):
    train_config(read_config(mixed, ["training.steps=2"]), tmp_path / "one")
    config = read_config(mixed, ["training.stage=2", f"training.start_from={tmp_path / 'one'}"])
    train_config(config, tmp_path / "whole")
    with stopping_at(monkeypatch, 4):
        train_config(config, tmp_path / "stopped")
    train_config(config, tmp_path / "stopped", resume=True)
    assert same(last(tmp_path / "stopped"), last(tmp_path / "whole"))


@pytest.mark.slow  # test_several_processes.py has the quick tests of several processes
def test_two_processes_compute_what_one_computes(tmp_path):
    settings = write_mixed_sizes(tmp_path / "data")
    train_config(read_config(settings, ["training.steps=1"]), tmp_path / "stage1")
    changes = ["training.stage=2", f"training.start_from={tmp_path / 'stage1'}", "training.steps=2"]
    changes += ["training.validate_every=1", "training.accumulate=2"]
    train_config(read_config(settings, changes), tmp_path / "one")
    train_on_two(settings, tmp_path / "two", *changes)
    one, two = (read_checkpoint(tmp_path / name / "checkpoints" / "last.pt") for name in ("one", "two"))
    for a, b in zip(momenta(one), momenta(two), strict=True):  # float32 sums in another order
        assert (a - b).norm() <= 1e-4 * a.norm() + 1e-9
    for a, b in zip(read_log(tmp_path / "one"), read_log(tmp_path / "two"), strict=True):
        assert float(a["loss"]) == pytest.approx(float(b["loss"]), rel=1e-5)
        assert float(a["iou"]) == pytest.approx(float(b["iou"]), abs=2e-3)  # a few pixels are nearly undecided


def test_evaluation_and_prediction_take_the_same_path(mixed, tmp_path):
    train_config(read_config(mixed, ["training.steps=1"]), tmp_path / "one")
    train_config(read_config(mixed, ["training.stage=2", f"training.start_from={tmp_path / 'one'}"]), tmp_path / "two")
    segmenter, config = load_segmenter(tmp_path / "two")
    assert segmenter.network.input_size == config.data.network_size is not None
    opened = open_scores(tmp_path / "two")
    assert opened.about["network size"] == str(config.data.network_size)
    predict = Predictor(segmenter.scores, segmenter.crf)
    for number in range(len(opened.source)):
        scored = opened.source[number]
        image = np.asarray(Image.open(mixed.parent / "images" / f"{scored.id}.png"))
        assert scored.scores.shape == (4, *image.shape[:2]) and tuple(scored.labels.shape) == image.shape[:2]
        with torch.no_grad():
            expected = segmenter(scored.image[None])[0]
        assert torch.equal(scored.log_marginals(opened.crf), expected)
        assert np.array_equal(predict(image), expected.numpy())


@pytest.mark.parametrize(
    "setting, message",
    [
        ("data.crop=[32,32]", "data: crop and network_size are both set"),
        ("data.scales=[0.5,1.0]", "data: scales and network_size are both set"),
        ("data.longest_side=64", "data: longest_side and network_size are both set"),
        (
            "data.network_size=31",
            "is 31, expected rows and columns such as .306, 306.*each from 32 to 4096",
        ),
        (
            "data.network_size=5000",
            "is 5000, expected rows and columns such as .306, 306.*from 32 to 4096",
        ),
        ("data.network_size=[306,16]", "is .306, 16., expected"),
        ("data.network_size=true", "network_size=true: is true, expected"),
        ("data.network_size=[306,306,3]", "is .306, 306, 3., expected"),
    ],
)
def test_wrong_sizes_and_combinations_are_rejected(mixed, setting, message):
    with pytest.raises(InputError, match=message):
        read_config(mixed, [setting])


def test_a_crop_that_is_scaled_has_the_widths_of_the_original_image(tiny):
    """The step equals that of marginals whose positions are in pixels of the original image, and not of the crop."""
    config = read_config(tiny, ["training.stage=2"])
    segmenter = build_segmenter(config)
    changes = augmentation(config.data, segmenter.network.normalization)
    batch = next(training_batches(build_datasets(config)[0], changes, 4, seed=11))
    assert batch.spacing is not None and len(set(batch.spacing)) == 4
    loss, stepped = step_on(config, batch)
    for spacing, agrees in ((batch.spacing, True), ([(1.0, 1.0)] * 4, False)):
        torch.manual_seed(41)
        twin = build_segmenter(config).double()
        scores = twin.scores(batch.image)
        padding = torch.zeros_like(batch.labels, dtype=torch.bool) if batch.padding is None else batch.padding
        log_q = [
            twin.crf(scores[n : n + 1], batch.image[n : n + 1], spacing=spacing[n], ignore=padding[n : n + 1])
            for n in range(4)
        ]
        expected = log_likelihood_loss(torch.cat(log_q), batch.labels)
        expected.backward()
        assert (loss == pytest.approx(float(expected.detach()), rel=1e-6)) is agrees
        close = [
            bool((one.grad - two.grad).norm() <= 1e-10 * two.grad.norm())
            for one, two in zip(stepped.parameters(), twin.parameters(), strict=True)
        ]
        assert all(close) if agrees else not any(close)
