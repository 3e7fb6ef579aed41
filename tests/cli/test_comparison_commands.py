"""`densefield tune`, `eval`, `predict` and `report` on a small run, with their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="the verbs need it")
pytest.importorskip("rich", reason="the verbs need it")
pytest.importorskip("PIL", reason="the verbs need it")
pytest.importorskip("torch", reason="the verbs need it")
pytest.importorskip("lightning_fabric", reason="the verbs need it")
pytest.importorskip("pydantic", reason="the verbs need it")
pytest.importorskip("jinja2", reason="the verbs need it")
pytest.importorskip("matplotlib", reason="the verbs need it")

import torch
from PIL import Image
from typer.testing import CliRunner

from densefield.cli.app import app
from densefield.scenes.scene import draw_scene
from tests.support.pretend_device import DEVICE, PretendDevice
from tests.support.tiny_run import write_tiny_run


def command(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_tiny_run(tmp_path_factory.mktemp("run"), stage=1)


@pytest.fixture(scope="module")
def tuned(run):
    answer = command(
        "tune", run, "-o", run / "tune", "--trials", 2, "--evaluations", 2, "--shrink", 4, "--criterion", "mean-iou"
    )
    assert answer.exit_code == 0, answer.output
    return answer


def test_tune_prints_the_gain_and_where_the_crf_is(run, tuned):
    assert "2 held-out images" in tuned.stdout and "mean IoU" in tuned.stdout
    assert "The CRF" in tuned.stdout and str(run / "tune" / "crf.toml").split("/")[-1] in tuned.stdout
    result = json.loads((run / "tune" / "result.json").read_text())
    assert result["command"] and result["date"].endswith("+00:00")  # here the command line is that of pytest
    settings = result["settings"]
    assert settings["criterion"] == "mean_iou" and settings["trials"] == 2 and settings["shrink"] == 4


def test_eval_evaluates_the_network_alone_without_a_crf(run, tmp_path):
    answer = command("eval", run, "-o", tmp_path)
    assert answer.exit_code == 0 and "4 images" in answer.stdout and "background" in answer.stdout
    assert list(json.loads((tmp_path / "result.json").read_text())["methods"]) == ["network"]


def test_eval_fits_a_temperature_on_another_split(run, tmp_path):
    answer = command("eval", run, "-o", tmp_path / "fitted", "--fit-temperature", "train")
    assert answer.exit_code == 0, answer.output
    fitted = json.loads((tmp_path / "fitted" / "result.json").read_text())
    temperature = fitted["temperatures"]["network"]
    assert f"temperature: network {temperature:g} (fitted on train)" in answer.stdout and temperature != 1
    again = command("eval", run, "-o", tmp_path / "given", "--temperature", temperature)
    assert again.exit_code == 0 and "fitted" not in again.stdout
    given = json.loads((tmp_path / "given" / "result.json").read_text())
    assert given["methods"] == fitted["methods"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--fit-temperature", "val"), "the split val to fit the temperature on shares 4 images with the split val"),
        (("--fit-temperature", "train", "--temperature", "2"), "--temperature and --fit-temperature are both given"),
        (("--temperature", "0"), "temperature is 0.0, expected a finite number above 0"),
    ],
)
def test_impossible_temperatures_of_eval_are_errors(run, tmp_path, arguments, says):
    answer = command("eval", run, "-o", tmp_path / "out", *arguments)
    assert answer.exit_code == 2 and says in " ".join(answer.stderr.split()), answer.output
    assert not (tmp_path / "out" / "result.json").exists()


def test_predict_divides_by_a_temperature(run, tmp_path):
    Image.fromarray(np.random.default_rng(5).integers(0, 256, (40, 50, 3)).astype(np.uint8)).save(tmp_path / "a.png")
    refused = command("predict", run, tmp_path / "a.png", "-o", tmp_path / "out", "--temperature", 3)
    assert refused.exit_code == 2 and "add --probabilities" in refused.stderr
    found = []
    for temperature in (1, 3):
        out = tmp_path / str(temperature)
        arguments = ("--probabilities", "--temperature", temperature)
        assert command("predict", run, tmp_path / "a.png", "-o", out, *arguments).exit_code == 0
        with np.load(out / "probabilities" / "a.npz") as file:
            found.append(next(iter(file.values())).astype(np.float64))
    expected = found[0] ** (1 / 3)
    assert np.allclose(found[1], expected / expected.sum(axis=0), atol=5e-3)  # half precision
    assert not np.allclose(*found, atol=0.02)


def test_eval_takes_the_crf_that_tune_wrote_and_report_shows_it(run, tuned, tmp_path):
    answer = command("eval", run, "-o", run / "eval", "--crf", run / "tune" / "crf.toml", "--cases", 1)
    assert answer.exit_code == 0, answer.output
    result = json.loads((run / "eval" / "result.json").read_text())
    assert list(result["methods"]) == ["network", "crf"] and result["verdict"] in answer.stdout
    shown = command("report", f"tiny={run}", "-o", tmp_path / "page.html")
    assert shown.exit_code == 0 and shown.stdout.strip() == str(tmp_path / "page.html")
    assert "tiny, CRF" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_eval_of_two_splits_gives_both_rows_of_table_1(tmp_path):
    run = write_tiny_run(tmp_path / "joint", stage=2)
    answer = command("eval", run, "-o", tmp_path / "out", "--split", "train,val", "--cases", 1)
    assert answer.exit_code == 0, answer.output
    assert "2 images, train" in answer.stdout and "4 images, val" in answer.stdout
    table = answer.stdout[answer.stdout.index(" IoU ", answer.stdout.rindex("images, val")) :]
    for split, count in (("train", 2), ("val", 4)):
        result = json.loads((tmp_path / "out" / split / "result.json").read_text())
        assert len(result["images"]) == count and result["about"]["split"] == split
        iou = result["methods"]["crf"]
        for value in (*iou["iou"]["value"], iou["mean_iou"]["value"]):
            assert f" {100 * value:.1f} " in table
    page = tmp_path / "page.html"
    assert command("report", f"joint={tmp_path / 'out'}", "-o", page).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "joint/train, CRF" in text and "joint/val, CRF" in text


@pytest.mark.parametrize("splits", ["train,train", "train,,val", ",", "", "train,../val", "train,nothing"])
def test_lists_of_splits_that_cannot_be_evaluated_are_rejected(tmp_path, splits):
    run = write_tiny_run(tmp_path / "joint", stage=2)
    answer = command("eval", run, "-o", tmp_path / "out", "--split", splits)
    assert answer.exit_code == 2 and "split" in answer.stderr and answer.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_eval_takes_the_crf_of_a_joint_run(tmp_path):
    run = write_tiny_run(tmp_path / "joint", stage=2)
    assert command("eval", run, "-o", tmp_path / "out", "--method", "crf").exit_code == 0
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert list(result["methods"]) == ["crf"] and 'kind = "bilateral"' in result["crf"]


def test_tune_and_eval_take_logits_in_files(tmp_path):
    from densefield.scenes.files import write_scenes

    write_scenes(tmp_path / "data", 5, (96, 96), 2, 3, val_share=0.8)
    (tmp_path / "logits").mkdir()
    random = np.random.default_rng(97)
    for number in range(5):
        name = f"scene_{number:06d}"
        np.savez(tmp_path / "logits" / f"{name}.npz", logits=random.normal(size=(3, 12, 12)).astype(np.float16))
    options = ["--search", "none", "--evaluations", 0, "--split", "val"]
    answer = command("tune", tmp_path / "logits", tmp_path / "data", "-o", tmp_path / "tune", *options)
    assert answer.exit_code == 0, answer.output
    answer = command(
        "eval", tmp_path / "logits", tmp_path / "data", "-o", tmp_path / "eval", "--crf", tmp_path / "tune" / "crf.toml"
    )
    assert answer.exit_code == 0, answer.output


def test_probabilities_of_a_folder_without_split_lists_are_evaluated_as_their_logits(tmp_path):
    random = np.random.default_rng(7741)
    for folder in ("data/images", "data/masks", "data/images/more", "logits", "softmax"):
        (tmp_path / folder).mkdir(parents=True)
    for name in "abcd":
        scene = draw_scene(5, ord(name), (96, 96), 2)
        Image.fromarray(scene.image).save(tmp_path / "data" / "images" / f"{name}.png")
        Image.fromarray(scene.labels).save(tmp_path / "data" / "masks" / f"{name}.png")
        logits = random.normal(size=(3, 96, 96))
        np.save(tmp_path / "logits" / f"{name}.npy", logits)
        np.save(tmp_path / "softmax" / f"{name}.npy", np.exp(logits) / np.exp(logits).sum(0))
    (tmp_path / "data" / "classes.txt").write_text("background\na\nb\n")
    losses = {}
    for scores, options in (("logits", []), ("softmax", ["--probabilities"])):
        out = tmp_path / f"eval-{scores}"
        answer = command("eval", tmp_path / scores, tmp_path / "data", "-o", out, *options)
        assert answer.exit_code == 0, answer.output
        assert "skipped:" in answer.stderr and "more is a subfolder" in answer.stderr
        result = json.loads((out / "result.json").read_text())
        losses[scores] = result["methods"]["network"]["negative_log_likelihood"]["value"]
        assert result["images"] == list("abcd") and result["about"]["split"] == "all"
    # No probability is below 1e-5 here, so the difference is rounding in float32.
    assert losses["softmax"] == pytest.approx(losses["logits"], rel=1e-5)


def test_predict_labels_images_and_reports_unreadable_ones(run, tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    Image.fromarray(draw_scene(5, 1, (96, 96), 2).image).save(images / "scene.jpg")
    answer = command("predict", run, images, "-o", tmp_path / "out", "--overlay", "--probabilities")
    assert answer.exit_code == 0 and "images predicted: 1" in answer.stderr
    with Image.open(tmp_path / "out" / "scene.png") as picture:
        assert picture.mode == "P" and picture.size == (96, 96)
    (images / "bad.png").write_bytes(b"bad")
    again = command("predict", run, images, "-o", tmp_path / "out", "--skip-existing")
    assert again.exit_code == 1 and "bad.png is not an image" in again.stderr and "kept: 1" in again.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["tune", "{run}", "-o", "{out}", "--spatial-sigma", "1,two"], "'1,two' is not a list of numbers"),
        (["tune", "{out}/none", "-o", "{out}"], "there is no"),
        (["tune", "{out}", "-o", "{out}"], "neither a run with a checkpoint nor a folder of scores (ID.npz or ID.npy)"),
        (
            ["eval", "{run}", "-o", "{out}", "--method", "crf"],
            "there is no CRF to evaluate: pass --crf, or --method network",
        ),
        (["eval", "{run}", "-o", "{out}", "--crf", "{out}/no.toml"], "there is no file"),
        (["predict", "{run}", "{photo}", "-o", "{out}/p", "--method", "crf"], "has no CRF: pass --crf."),
        (["predict", "{run}", "{out}", "-o", "{out}/p"], "has no images in it"),
        (["report", "{out}", "-o", "{out}/a.html"], "has neither log.csv"),
        (["report", "{logged}", "-o", "{file}/a.html"], "file: "),
        (["eval", "{run}", "-o", "{file}"], "file is a file, expected a folder for the results"),
        (["eval", "{run}", "-o", "{out}", "--split", "test"], "the split is 'test', but scenes"),
        (["eval", "{file}", "-o", "{out}"], "file is damaged, cut short, or not a file of torch.save()"),
        (["tune", "{run}", "-o", "{file}/a", "--trials", "1"], "file is a file, expected a folder for the results"),
        (
            ["train", "{settings}", "--run", "{file}", "--set", "data.kind=scenes"],
            "file is a file, expected a folder for",
        ),
    ],
)
def test_invalid_arguments_end_with_2(run, tmp_path, arguments, message):
    (tmp_path / "file").write_text("a file where a folder is expected")
    settings = Path(__file__).parents[2] / "configs" / "scenes.toml"
    names = {"run": run, "settings": settings, **{name: tmp_path / name for name in ("out", "file", "logged")}}
    names["photo"] = tmp_path / "photo.png"
    Image.fromarray(draw_scene(5, 1, (96, 96), 2).image).save(names["photo"])
    (tmp_path / "logged").mkdir()
    (tmp_path / "logged" / "log.csv").write_text("step,stage,loss,iou,train_iou\n1,1,0.5,0.5,0.5\n")
    (tmp_path / "out").mkdir()
    answer = command(*(argument.format(**names) for argument in arguments))
    assert answer.exit_code == 2 and message in " ".join(answer.stderr.split())
    assert "Traceback" not in answer.stderr


def test_a_moved_or_renamed_run_is_resumed(run, tmp_path):
    assert command("eval", run, "-o", tmp_path).exit_code == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "images").iterdir()}
    again = command("eval", run / "checkpoints" / "best.pt", "-o", tmp_path)
    assert again.exit_code == 0, again.stderr
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "images").iterdir()} == before
    other = command("eval", write_tiny_run(tmp_path / "other", stage=2), "-o", tmp_path)
    assert other.exit_code == 2 and "holds results of other weights, crf" in other.stderr


def test_tuning_runs_in_one_process(run, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    answer = command("tune", run, "-o", tmp_path / "tune")
    assert answer.exit_code == 2 and "tuning runs on one process" in answer.stderr
    assert not (tmp_path / "tune").exists()


@pytest.mark.skipif(torch.cuda.device_count() > 7, reason="cuda:7 is there")
@pytest.mark.parametrize("verb", ["eval", "tune", "predict"])
def test_a_device_that_is_not_there_is_an_error_before_anything_starts(run, verb, tmp_path, monkeypatch):
    def never(*_):
        raise AssertionError("a checkpoint was read")

    monkeypatch.setattr("densefield.runs.checkpoint.read_checkpoint", never)
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "photo.png")
    images = [tmp_path / "photo.png"] if verb == "predict" else []
    answer = command(verb, run, *images, "-o", tmp_path / "out", "--device", "cuda:7")
    assert answer.exit_code == 2 and not (tmp_path / "out").exists()
    assert "device is cuda:7, but torch" in answer.stderr and "finds cpu" in answer.stderr
    assert "as --device" in " ".join(answer.stderr.split())


def test_the_network_runs_on_the_device_and_results_are_the_same(run, tmp_path, monkeypatch):
    """The pretended device refuses to mix its tensors with those of the CPU."""
    scene = np.random.default_rng(5).integers(0, 256, (40, 56, 3), dtype=np.uint8)
    Image.fromarray(scene).save(tmp_path / "scene.png")
    expected, found = tmp_path / "cpu", tmp_path / "device"
    assert command("predict", run, tmp_path / "scene.png", "-o", expected, "--device", "cpu").exit_code == 0
    used = []

    def chosen(name):
        used.append(name)
        return DEVICE

    monkeypatch.setattr("densefield.runs.devices.choose_device", chosen)
    with PretendDevice():
        answer = command("predict", run, tmp_path / "scene.png", "-o", found)
    assert answer.exit_code == 0 and used == ["auto"], answer.output
    with Image.open(expected / "scene.png") as one, Image.open(found / "scene.png") as other:
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
