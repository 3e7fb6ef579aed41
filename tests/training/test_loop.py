"""The training loop: steps, files of a run, and divergence."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning_fabric", reason="training needs it")
pytest.importorskip("pydantic", reason="training needs it")
pytest.importorskip("tensorboard", reason="training needs it")
pytest.importorskip("PIL", reason="training needs it")

import torch
from lightning_fabric import Fabric

from densefield.cli.messages import FLAGS, as_flags
from densefield.datasets.loading import Batch
from densefield.errors import InputError
from densefield.evaluation.evaluation import evaluate_images
from densefield.nn.losses import log_likelihood_loss
from densefield.runs.build import build_segmenter
from densefield.runs.checkpoint import Validation, load_segmenter, read_checkpoint
from densefield.runs.config import Config
from densefield.runs.scored_images import NetworkScores, open_scores
from densefield.runs.settings import read_config
from densefield.runs.splits import build_datasets, evenly_spread
from densefield.training import loop
from densefield.training.entry import train_config
from densefield.training.log import COLUMNS
from densefield.training.loop import Diverged, training_step
from densefield.training.optimizer import build_optimizer, build_schedule


def rows(run):
    with (run / "log.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def a_batch(size: int = 4, labels: int = 4) -> Batch:
    """Random pixels, with different void regions in each image."""
    generator = torch.Generator().manual_seed(5519)
    image = torch.randint(256, (size, 3, 16, 24), dtype=torch.uint8, generator=generator)
    label = torch.randint(labels, (size, 16, 24), generator=generator)
    for number in range(size):
        label[number, : 3 * number] = 255
    return Batch(image, label, tuple("abcdefgh"[:size]))


def step_on(config: Config, batch: Batch, parts: int = 1):
    """The loss of one step, and the segmenter after it with its gradients."""
    fabric = Fabric(accelerator="cpu", devices=1)
    torch.manual_seed(41)
    segmenter = build_segmenter(config).double()  # float64, so that summation order does not matter
    model, optimizer = fabric.setup(segmenter, build_optimizer(config.optimizer, segmenter))
    return training_step(fabric, model, optimizer, batch, parts, config.training.label_smoothing), segmenter


class TestStep:
    def test_a_step_has_the_loss_of_the_paper_and_the_update_of_the_optimiser(self, tiny):
        config, batch = read_config(tiny, ["training.stage=2"]), a_batch()
        loss, segmenter = step_on(config, batch)
        torch.manual_seed(41)
        twin = build_segmenter(config).double()
        optimizer = build_optimizer(config.optimizer, twin)
        expected = log_likelihood_loss(twin(batch.image), batch.labels)
        expected.backward()
        optimizer.step()
        assert loss == pytest.approx(float(expected.detach()), rel=1e-6)  # the loop sums losses in float32
        for (name, one), two in zip(segmenter.named_parameters(), twin.parameters(), strict=True):
            assert torch.allclose(one, two, rtol=1e-11, atol=1e-13), name

    def test_accumulated_parts_give_the_gradient_of_the_batch(self, tiny):
        config, batch = read_config(tiny, ["training.stage=2"]), a_batch()
        (one, whole), (two, parts) = (step_on(config, batch, parts) for parts in (1, 4))
        assert one == pytest.approx(two, rel=1e-6)
        for (name, a), b in zip(whole.named_parameters(), parts.parameters(), strict=True):
            assert (a.grad - b.grad).norm() <= 1e-10 * a.grad.norm(), name

    @pytest.mark.parametrize("parts", [1, 2])
    def test_padding_is_ignored_by_the_crf(self, tiny, parts):
        """The step equals that of marginals with ignored padding, and not without."""
        config, batch = read_config(tiny, ["training.stage=2"]), a_batch()
        padding = torch.zeros(4, 16, 24, dtype=torch.bool)
        padding[1, :, 15:], padding[2, :6] = True, True
        batch = replace(batch, padding=padding, labels=batch.labels.where(~padding, 255))
        loss, segmenter = step_on(config, batch, parts)
        torch.manual_seed(41)
        twin = build_segmenter(config).double()
        scores = twin.scores(batch.image)
        for ignore, agrees in ((padding, True), (None, False)):
            twin.zero_grad()
            expected = log_likelihood_loss(twin.crf(scores, batch.image, ignore=ignore), batch.labels)
            expected.backward(retain_graph=True)
            assert (loss == pytest.approx(float(expected.detach()), rel=1e-6)) is agrees
            close = [
                bool((one.grad - two.grad).norm() <= 1e-10 * two.grad.norm())
                for one, two in zip(segmenter.parameters(), twin.parameters(), strict=True)
            ]
            assert all(close) if agrees else not any(close)

    def test_in_stage_2_all_nine_parameters_of_the_crf_change(self, tiny):
        config = read_config(tiny, ["training.stage=2"])
        before = build_segmenter(config).crf
        _, segmenter = step_on(config, a_batch())
        moved = [b - a for a, b in zip(before.parameters(), segmenter.crf.parameters(), strict=True)]
        assert sum(each.numel() for each in moved) == 9 and all((each != 0).all() for each in moved)

    def test_a_void_batch_changes_parameters_by_weight_decay_only(self, tiny):
        batch = a_batch()
        batch.labels.fill_(255)
        loss, segmenter = step_on(read_config(tiny), batch)
        assert loss == 0.0 and all(not each.grad.any() for each in segmenter.parameters())

    @pytest.mark.parametrize("stage", [1, 2])
    def test_scores_that_are_not_finite_leave_the_parameters_unchanged(self, tiny, stage, monkeypatch):
        broken = build_segmenter(read_config(tiny, [f"training.stage={stage}"])).double()
        with torch.no_grad():
            broken.network.top.bias.fill_(math.nan)
        before = {name: value.clone() for name, value in broken.state_dict().items()}
        monkeypatch.setitem(globals(), "build_segmenter", lambda config: broken)
        with pytest.raises(Diverged, match=r"NaN|finite"):
            step_on(read_config(tiny, [f"training.stage={stage}"]), a_batch())
        after = broken.state_dict()
        assert all(
            torch.equal(
                before[name],
                after[name],
            )
            or "top.bias" in name
            for name in before
        )


class TestRates:
    def test_the_poly_schedule_falls_to_zero(self, tiny):
        config = read_config(tiny, ["training.steps=10"])
        optimizer = build_optimizer(config.optimizer, build_segmenter(config))
        rates = []
        for step in (0, 5, 9):
            build_schedule(config, optimizer, step)
            rates.append(optimizer.param_groups[0]["lr"])
        assert rates == pytest.approx([0.02, 0.02 * 0.5**0.9, 0.02 * 0.1**0.9])

    def test_the_constant_schedule_is_constant(self, tiny):
        config = read_config(tiny, ["optimizer.schedule=constant"])
        optimizer = build_optimizer(config.optimizer, build_segmenter(config))
        build_schedule(config, optimizer, 5)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.02)


# Tests that replace training_step() never call the optimiser, and torch's scheduler warns.
no_optimizer = pytest.mark.filterwarnings("ignore:Detected call of .lr_scheduler")


@no_optimizer
class TestRun:
    def test_two_stages_write_settings_logs_and_checkpoints(self, tiny, tmp_path):
        one, two = tmp_path / "one", tmp_path / "two"
        best = train_config(read_config(tiny), one)
        train_config(read_config(tiny, ["training.stage=2", f"training.start_from={one}"]), two)

        table = rows(one)
        assert [row["step"] for row in table] == list("123456")
        assert [bool(row["iou"]) for row in table] == [False, False, True, False, False, True]
        assert [bool(row["train_iou"]) for row in table] == [bool(row["iou"]) for row in table]
        assert [bool(row["nll"]) for row in table] == [bool(row["iou"]) for row in table]
        assert max(float(row["iou"]) for row in table if row["iou"]) == pytest.approx(best.iou)
        assert all(0 < float(row["loss"]) < 5 and float(row["images_per_second"]) > 0 for row in table)
        assert set(table[0]) == set(COLUMNS)

        joint = rows(two)
        names = ["spatial.weight", "bilateral.weight", *(f"spatial.sigma.{n}" for n in range(2))]
        names += [f"bilateral.sigma.{n}" for n in range(5)]
        assert len(names) == 9 and set(names) == set(joint[0]) - set(table[0])
        assert all(len({row[name] for row in joint}) == 4 for name in names)  # they change in each of the four steps
        assert list((two / "tensorboard").glob("events*"))

        assert read_config(two / "config.toml") == read_config(tiny, ["training.stage=2", f"training.start_from={one}"])
        segmenter, config = load_segmenter(two)
        assert segmenter.crf is not None and not segmenter.training and config.training.stage == 2
        last = read_checkpoint(two / "checkpoints" / "last.pt")
        assert last["step"] == 4 and last["stage"] == 2
        values = segmenter.crf.values() if last["step"] == read_checkpoint(two)["step"] else None
        assert values is None or values["spatial.weight"] == pytest.approx(float(joint[-1]["spatial.weight"]))

    def test_the_best_checkpoint_is_that_of_the_best_validation(self, tiny, tmp_path, monkeypatch):
        for by, step, best in (("iou", 4, (0.7, 0.6)), ("nll", 6, (0.6, 0.3))):
            found = iter([Validation(0.5, 0.4), Validation(0.7, 0.6), Validation(0.6, 0.3)])
            monkeypatch.setattr(loop, "validate", lambda *_, found=found: next(found))
            settings = ["training.steps=6", "training.validate_every=2", "data.train_iou_images=0"]
            assert train_config(read_config(tiny, [*settings, f"training.best_by={by}"]), tmp_path / by) == best
            assert read_checkpoint(tmp_path / by)["step"] == step
            assert read_checkpoint(tmp_path / by)["best"] == list(best)

    def test_the_training_metrics_are_those_of_a_fixed_part_of_the_training_images(self, tiny, tmp_path):
        """In evaluation mode and without augmentation: they can be computed from the checkpoint afterwards."""
        settings = ["training.steps=2", "training.validate_every=2", "data.train_iou_images=4"]
        config = read_config(tiny, settings)
        train_config(config, tmp_path / "run")
        segmenter, _ = load_segmenter(tmp_path / "run" / "checkpoints" / "last.pt")
        fixed = evenly_spread(build_datasets(config)[0], 4)
        assert fixed.ids == tuple(f"scene_{number:06d}" for number in (0, 2, 5, 7))
        result = evaluate_images(NetworkScores(segmenter.scores, fixed), None)
        row = rows(tmp_path / "run")[-1]
        assert float(row["train_iou"]) == pytest.approx(result.mean_iou, abs=1e-7)  # nine digits are logged
        assert float(row["train_nll"]) == pytest.approx(result.negative_log_likelihood, rel=1e-5)

    def test_without_training_images_to_measure_there_are_no_training_metrics(self, tiny, tmp_path):
        train_config(read_config(tiny, ["training.steps=1", "data.train_iou_images=0"]), tmp_path / "run")
        (row,) = rows(tmp_path / "run")
        assert row["iou"] and row["nll"] and not row["train_iou"] and not row["train_nll"]

    def test_the_validation_metrics_are_those_of_the_evaluation(self, tiny, tmp_path):
        train_config(read_config(tiny, ["training.steps=1"]), tmp_path / "one")
        changes = ["training.stage=2", f"training.start_from={tmp_path / 'one'}", "crf.test_iterations=9"]
        best = train_config(read_config(tiny, changes), tmp_path / "two")
        opened = open_scores(tmp_path / "two")
        assert opened.crf.options.iterations == 9
        result = evaluate_images(opened.source, opened.crf)
        assert best.iou == pytest.approx(result.mean_iou, abs=1e-6)
        assert best.nll == pytest.approx(result.negative_log_likelihood, rel=1e-5)  # float32 sums of log marginals
        opened.crf.options = replace(opened.crf.options, iterations=5)
        assert evaluate_images(opened.source, opened.crf).negative_log_likelihood != pytest.approx(best.nll, rel=1e-4)

    def test_stage_2_starts_from_the_best_weights_of_stage_1(self, tiny, tmp_path, monkeypatch):
        one = tmp_path / "one"
        train_config(read_config(tiny, ["training.steps=2"]), one)
        seen = []
        monkeypatch.setattr(loop, "training_step", lambda f, model, *_: seen.append(model.state_dict()) or 1.0)
        train_config(
            read_config(tiny, ["training.stage=2", f"training.start_from={one}", "training.steps=1"]), tmp_path / "two"
        )
        stage1 = read_checkpoint(one)["model"]
        assert all(torch.equal(seen[0][name], value) for name, value in stage1.items())

    def test_a_crf_is_loaded_from_a_run_that_has_one(self, tiny, tmp_path, monkeypatch):
        one, two, three = (tmp_path / name for name in ("one", "two", "three"))
        train_config(read_config(tiny, ["training.steps=1"]), one)
        train_config(read_config(tiny, ["training.stage=2", f"training.start_from={one}"]), two)
        seen = []
        monkeypatch.setattr(loop, "training_step", lambda f, model, *_: seen.append(model.state_dict()) or 1.0)
        train_config(read_config(tiny, ["training.stage=2", f"training.start_from={two}"]), three)
        assert torch.equal(seen[0]["crf.bilateral.log_sigma"], read_checkpoint(two)["model"]["crf.bilateral.log_sigma"])

    def test_the_loss_falls(self, tiny, tmp_path):
        train_config(
            read_config(tiny, ["training.steps=40", "training.validate_every=40", "training.seed=77"]), tmp_path / "run"
        )
        losses = [float(row["loss"]) for row in rows(tmp_path / "run")]
        assert sum(losses[-8:]) < 0.8 * sum(losses[:8])


@no_optimizer
class TestErrors:
    @pytest.mark.parametrize("rate", ["lr_top=1e6", "lr_top=1e30", "lr_crf=1e6"])
    @pytest.mark.parametrize("stage", [1, 2])
    def test_divergence_stops_the_run_and_names_the_last_valid_checkpoint(self, tiny, tmp_path, stage, rate):
        """A valid checkpoint is one from which training can continue with lower rates."""
        if stage == 1 and "crf" in rate:
            pytest.skip("there is no CRF in stage 1")
        one, run = tmp_path / "one", tmp_path / "run"
        train_config(read_config(tiny, ["training.steps=1"]), one)
        settings = [f"training.stage={stage}", f"training.start_from={one}", "training.steps=9"]
        settings += [f"optimizer.{rate}", "training.checkpoint_every=1", "training.validate_every=9"]
        with pytest.raises(Diverged, match=r"training stopped at step \d") as caught:
            train_config(read_config(tiny, settings), run)
        assert "lr_top" in str(caught.value)
        named = re.search(r"last good checkpoint is (\S+\.pt)", str(caught.value))
        start = named[1] if named else one  # the first update may have diverged
        low = [f"optimizer.{name}=1e-6" for name in ("lr_top", "lr_rest", "lr_crf")]
        low += [f"training.stage={stage}", f"training.start_from={start}", "training.steps=1"]
        train_config(read_config(tiny, low), run / "low")
        assert float(rows(run / "low")[-1]["loss"]) < 10 * math.log(4)

    def test_a_diverged_checkpoint_is_not_the_last_valid_one(self, tiny, tmp_path, monkeypatch):
        steps = iter([1.0, 1.0, 1.0])

        def step(*_):
            try:
                return next(steps)
            except StopIteration:
                raise Diverged("the loss is nan.") from None

        monkeypatch.setattr(loop, "training_step", step)
        for number, (every, good) in enumerate([(1, "previous.pt"), (2, "last.pt")]):
            steps = iter([1.0, 1.0, 1.0])
            run = tmp_path / str(number)
            settings = [f"training.checkpoint_every={every}", "training.validate_every=9", "training.steps=9"]
            with pytest.raises(Diverged, match=rf"at step 4.*\nThe last good checkpoint is \S+{good}") as caught:
                train_config(read_config(tiny, settings), run)
            said = str(caught.value)  # the library names its setting, the command line its option
            assert said.endswith(f"start a new run with training.start_from={run / 'checkpoints' / good}.")
            assert as_flags(said, FLAGS).endswith(f"start a new run with --from={run / 'checkpoints' / good}.")
            assert read_checkpoint(run / "checkpoints" / good)["step"] == 2

    def test_a_failure_before_the_first_step_is_not_attributed_to_learning_rates(self, tiny, tmp_path):
        train_config(read_config(tiny, ["training.steps=1"]), tmp_path / "one")
        kernels = "crf.kernels=[{kind = 'bilateral', sigma_rgb = 1e-12}]"
        settings = ["training.stage=2", f"training.start_from={tmp_path / 'one'}", kernels]
        with pytest.raises(Diverged, match="Nothing was learnt yet: check the CRF's widths"):
            train_config(read_config(tiny, settings), tmp_path / "two")

    def test_a_network_that_diverged_is_found_in_validation(self, tiny, tmp_path, monkeypatch):
        def diverge(fabric, model, *_):
            model.module.network.top.bias.data.fill_(math.nan)
            return 1.0

        monkeypatch.setattr(loop, "training_step", diverge)
        with pytest.raises(Diverged, match=r"training stopped at step 3: the log marginals hold NaN.*\nThe last good"):
            train_config(read_config(tiny), tmp_path / "run")

    def test_a_crf_that_fails_in_validation_stops_the_run_as_in_a_step(self, tiny, tmp_path, monkeypatch):
        train_config(read_config(tiny, ["training.steps=1"]), tmp_path / "one")

        def collapse(fabric, model, *_):
            model.module.crf.bilateral.log_sigma.data[2:] = -40
            return 1.0

        monkeypatch.setattr(loop, "training_step", collapse)
        settings = ["training.stage=2", f"training.start_from={tmp_path / 'one'}", "training.validate_every=1"]
        with pytest.raises(Diverged, match=r"training stopped at step 1: .*Use larger widths.*\nThere is no good"):
            train_config(read_config(tiny, settings), tmp_path / "two")

    def test_stage_2_needs_the_weights_of_stage_1(self, tiny, tmp_path):
        with pytest.raises(InputError, match=r"starts from the weights of stage 1: .*start_from"):
            train_config(read_config(tiny, ["training.stage=2"]), tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_weights_of_another_network_are_rejected_before_writing(self, tiny, tmp_path):
        train_config(read_config(tiny, ["training.steps=1"]), tmp_path / "one")
        settings = ["training.stage=2", f"training.start_from={tmp_path / 'one'}", "network.options.width=64"]
        with pytest.raises(InputError, match="do not fit"):
            train_config(read_config(tiny, settings), tmp_path / "two")
        assert not (tmp_path / "two").exists()

    def test_an_existing_run_is_not_overwritten(self, tiny, tmp_path):
        config = read_config(tiny, ["training.steps=1"])
        train_config(config, tmp_path / "run")
        with pytest.raises(InputError, match="holds a run already"):
            train_config(config, tmp_path / "run")

    def test_missing_data_are_named_before_writing(self, tiny, tmp_path):
        with pytest.raises(InputError, match="nowhere"):
            train_config(read_config(tiny, ["data.kind=folder", f"data.root={tmp_path / 'nowhere'}"]), tmp_path / "run")
        assert not (tmp_path / "run").exists()
