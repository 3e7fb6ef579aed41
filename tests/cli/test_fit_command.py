"""`densefield fit` on small folders and in VOC's layout, and `predict` with its model."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("typer", reason="the verbs need it")
pytest.importorskip("rich", reason="the verbs need it")
pytest.importorskip("PIL", reason="the verbs need it")
pytest.importorskip("torch", reason="the verbs need it")

from PIL import Image
from typer.testing import CliRunner

from densefield.cli.app import app
from densefield.tuning import LogLinearModel
from tests.support.tiny_voc import write_voc

QUICK = ("--evaluations", 3, "--l2", 0.01)


def command(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path):
    """Eight images in two colours, with masks, and without split lists."""
    random = np.random.default_rng(8087)
    for name in ("images", "masks"):
        (tmp_path / "data" / name).mkdir(parents=True)
    (tmp_path / "data" / "classes.txt").write_text("ground\nobject\nother\n", encoding="utf-8")
    for number in range(8):
        labels = np.zeros((20, 26), np.uint8)
        labels[5:14, number : number + 12] = 1
        labels[15:, 20:] = 2
        image = np.array([[60, 80, 90], [180, 150, 90], [20, 20, 200]])[labels] + random.normal(0, 30, (20, 26, 3))
        Image.fromarray(np.clip(image, 0, 255).astype(np.uint8)).save(tmp_path / "data" / "images" / f"{number}.png")
        Image.fromarray(labels).save(tmp_path / "data" / "masks" / f"{number}.png")
    return tmp_path / "data"


def test_fit_learns_from_every_second_image_and_compares_on_the_others(folder, tmp_path):
    answer = command("fit", folder, "-o", tmp_path / "out", "--evaluations", 4)
    assert answer.exit_code == 0, answer.output
    assert "joint and logistic regression, 4 test images" in answer.stdout and "unary.json" in answer.stdout
    result = json.loads((tmp_path / "out" / "result.json").read_text(encoding="utf-8"))
    assert result["learning_images"] == ["0", "2", "4", "6"] and result["test_images"] == ["1", "3", "5", "7"]
    assert list(result["methods"]) == ["logistic regression", "hand-set CRF", "CRF learnt alone", "joint"]
    assert set(result["comparisons"]) == {"logistic regression", "hand-set CRF", "CRF learnt alone"}
    for name in ("logistic regression", "joint"):
        losses = result["held_out_losses"][name]
        assert len(losses) == 5 and str(result["l2"][name]) in losses
    assert result["methods"]["joint"]["mean_iou"]["value"] > 0.5


def test_predict_uses_the_model(folder, tmp_path):
    assert command("fit", folder, "-o", tmp_path / "out", *QUICK).exit_code == 0
    model = LogLinearModel.load(tmp_path / "out")
    image = folder / "images" / "3.png"
    answer = command("predict", tmp_path / "out", image, "-o", tmp_path / "labels")
    assert answer.exit_code == 0, answer.output
    found = np.asarray(Image.open(tmp_path / "labels" / "3.png"))
    assert (found == model.predict(np.asarray(Image.open(image)))).all()
    alone = command("predict", tmp_path / "out", image, "-o", tmp_path / "alone", "--method", "network")
    assert alone.exit_code == 0, alone.output


def test_arrays_are_features_and_predict_says_what_to_do(folder, tmp_path):
    (tmp_path / "arrays").mkdir()
    for number in range(8):
        labels = np.asarray(Image.open(folder / "masks" / f"{number}.png"))
        np.save(tmp_path / "arrays" / f"{number}.npy", np.eye(3, dtype=np.float32)[labels].transpose(2, 0, 1))
    arguments = ("--arrays", tmp_path / "arrays", "--features", "none", *QUICK)
    answer = command("fit", folder, "-o", tmp_path / "out", *arguments)
    assert answer.exit_code == 0, answer.output
    result = json.loads((tmp_path / "out" / "result.json").read_text(encoding="utf-8"))
    assert result["methods"]["joint"]["mean_iou"]["value"] > 0.9
    refused = command("predict", tmp_path / "out", folder / "images", "-o", tmp_path / "labels")
    assert refused.exit_code == 2 and "needs an array for each image" in refused.stderr
    assert not (tmp_path / "labels").exists()
    (tmp_path / "arrays" / "5.npy").unlink()
    missing = command("fit", folder, "-o", tmp_path / "again", *arguments)
    assert missing.exit_code == 2 and "has no 5.npy or 5.npz for the image 5" in missing.stderr


def test_a_model_is_never_overwritten(folder, tmp_path):
    assert command("fit", folder, "-o", tmp_path / "out", *QUICK).exit_code == 0
    before = (tmp_path / "out" / "unary.json").read_bytes()
    again = command("fit", folder, "-o", tmp_path / "out", "--features", "colour", *QUICK)
    assert again.exit_code == 2 and "out holds a model, which would be lost" in " ".join(again.stderr.split())
    assert (tmp_path / "out" / "unary.json").read_bytes() == before


def test_fit_reads_vocs_layout_with_a_foreground(tmp_path):
    write_voc(tmp_path)
    answer = command("fit", tmp_path, "-o", tmp_path / "out", "--foreground", "cat,dog,cow", *QUICK)
    assert answer.exit_code == 0, answer.output
    result = json.loads((tmp_path / "out" / "result.json").read_text(encoding="utf-8"))
    assert result["classes"] == ["background", "cat+dog+cow"]
    assert len(result["learning_images"]) == 3 and len(result["test_images"]) == 2


def test_images_that_cannot_be_read_are_left_out(folder, tmp_path):
    (folder / "images" / "2.png").write_bytes(b"not a picture")
    answer = command("fit", folder, "-o", tmp_path / "out", *QUICK)
    assert answer.exit_code == 1 and "2.png" in answer.stderr
    result = json.loads((tmp_path / "out" / "result.json").read_text(encoding="utf-8"))
    assert result["learning_images"] == ["0", "4", "6"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--foreground", "unicorn"), "--foreground has 'unicorn', but there is no such class; expected one or more"),
        (("--foreground", "ground,object,other"), "--foreground has every class; expected one or more, but not all"),
        (("--foreground", "ground,ground"), "--foreground has 'ground' twice"),
        (("--foreground", "ground,"), "--foreground is 'ground,', expected names with a comma between each two"),
        (
            ("--features", "smell"),
            "--features has unknown 'smell'; expected different ones of colour, texture",
        ),
        (("--features", "colour,colour,foo"), "--features has unknown 'foo' and 'colour' twice"),
        (("--longest-side", 1), "--longest-side is 1, expected 32 or more, or 0 for no limit"),
        (("--features", "none"), "there are no features"),
        (("--split", "train"), "has no split lists"),
        (("--arrays", "nowhere"), "there is no folder nowhere"),
    ],
)
def test_wrong_arguments_end_with_status_2_and_write_nothing(folder, tmp_path, arguments, says):
    answer = command("fit", folder, "-o", tmp_path / "out", *QUICK, *arguments)
    assert answer.exit_code == 2 and says in " ".join(answer.stderr.split()), answer.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("splits", "says"),
    [
        (("--split", "val"), "the splits val to learn from and val to compare on share 2 images"),
        (
            ("--split", "train", "--test-split", "train"),
            "train to learn from and train to compare on share 3",
        ),
        (("--split", "trainval"), "the splits trainval to learn from and val to compare on share 2 images"),
    ],
)
def test_splits_that_share_images_are_refused(tmp_path, splits, says):
    write_voc(tmp_path)
    answer = command("fit", tmp_path, "-o", tmp_path / "out", *QUICK, *splits)
    assert answer.exit_code == 2 and says in " ".join(answer.stderr.split()), answer.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments", [("--features", "smell"), ("--features", "none")])
def test_features_are_checked_before_images_are_read(folder, tmp_path, arguments):
    answer = command("fit", folder, "-o", tmp_path / "out", *QUICK, *arguments)
    assert answer.exit_code == 2 and "images" not in answer.stderr


def test_too_few_images_to_choose_l2_are_an_error(folder, tmp_path):
    answer = command("fit", folder, "-o", tmp_path / "out", "--images", 3)
    assert answer.exit_code == 2 and "expected 4 or more to choose l2, or a value of l2" in answer.stderr
