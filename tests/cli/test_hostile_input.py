"""Damaged files and hostile names are reported in one line each, the rest continues, and the exit status is 1."""

from __future__ import annotations

import base64
import json
import re
import shutil

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

from PIL import Image
from typer.testing import CliRunner

from densefield.cli.app import app
from densefield.cli.messages import print_message, print_result
from tests.support.tiny_run import write_tiny_run

NAMES = ("[/red]x", "<script>alert(1)</script>", "$\\frac$ \x1b[31mred")
SCRIPT = r'<script(?: type="application/json"(?: class="picture"| id="gallery")?)?>'
LINE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def command(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def scored(tmp_path):
    """Eight images with masks, and scores of three labels for them."""
    random = np.random.default_rng(48812)
    for folder in ("data/images", "data/masks", "scores"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "data" / "classes.txt").write_text("\n".join(["ground", "disc", "rest"]), encoding="utf-8")
    rows, columns = np.indices((24, 28))
    for number in range(8):
        row, column = random.uniform(8, 16, 2)
        truth = ((rows - row) ** 2 + (columns - column) ** 2 < 30).astype(np.uint8)
        photo = (60 + 100 * truth[..., None] + random.integers(0, 40, (24, 28, 3))).astype(np.uint8)
        Image.fromarray(photo).save(tmp_path / "data" / "images" / f"i{number}.png")
        Image.fromarray(truth).save(tmp_path / "data" / "masks" / f"i{number}.png")
        scores = 2 * np.eye(3)[truth].transpose(2, 0, 1) + random.normal(0, 1, (3, 24, 28))
        np.savez_compressed(tmp_path / "scores" / f"i{number}.npz", logits=scores.astype(np.float32))
    return tmp_path


def damage(path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content[: 3 * len(content) // 4])


def lines_of(answer) -> list[str]:
    assert answer.exception is None or isinstance(answer.exception, SystemExit), answer.exception
    assert "Traceback" not in answer.output and not LINE.search(answer.output)
    return answer.stderr.splitlines()


@pytest.mark.parametrize("bad", ["scores/i0.npz", "scores/i5.npz", "data/images/i3.png", "data/masks/i6.png"])
def test_eval_skips_a_damaged_file_and_reports_it(scored, bad):
    damage(scored / bad)
    answer = command("eval", scored / "scores", scored / "data", "-o", scored / "out")
    lines = lines_of(answer)
    assert answer.exit_code == 1 and "7 images" in answer.stdout
    assert next(line for line in lines if line.startswith("densefield: left out: ")).count(str(scored / bad)) == 1
    assert lines[-1] == "densefield: images left out: 1"
    result = json.loads((scored / "out" / "result.json").read_text())
    name = (scored / bad).stem
    assert list(result["left_out"]) == [name] and name not in result["images"] and len(result["images"]) == 7


def test_eval_stops_if_no_image_is_left(scored):
    for path in (scored / "data" / "images").iterdir():
        damage(path)
    answer = command("eval", scored / "scores", scored / "data", "-o", scored / "out")
    assert answer.exit_code == 2 and "none of 8 images could be evaluated: " in lines_of(answer)[-1]


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # numpy.load leaves a damaged archive open
def test_eval_recomputes_damaged_counts(scored):
    arguments = ("eval", scored / "scores", scored / "data", "-o", scored / "out")
    before = command(*arguments).stdout
    (scored / "out" / "images" / "i2.npz").write_bytes(b"PK\x03\x04 damaged")
    np.savez(scored / "out" / "images" / "i4.npz", **{"network.cells": np.array([10**9])})
    answer = command(*arguments)
    assert answer.exit_code == 0 and answer.stdout == before


def test_tune_skips_damaged_files_and_stops_if_too_few_are_left(scored):
    options = ("--search", "none", "--evaluations", 0, "--shrink", 1)
    for bad in ("scores/i0.npz", "data/images/i3.png", "data/masks/i6.png"):
        damage(scored / bad)
    answer = command("tune", scored / "scores", scored / "data", "-o", scored / "out", *options)
    assert answer.exit_code == 1 and lines_of(answer)[-1] == "densefield: images left out: 3"
    result = json.loads((scored / "out" / "result.json").read_text())
    assert sorted(result["left_out"]) == ["i0", "i3", "i6"]
    assert sorted(result["learning_images"] + result["held_out_images"]) == ["i1", "i2", "i4", "i5", "i7"]
    for name in ("i1", "i2"):
        damage(scored / "data" / "images" / f"{name}.png")
    few = command("tune", scored / "scores", scored / "data", "-o", scored / "few", *options)
    assert few.exit_code == 2 and "there are 3 images, expected 4 or more" in lines_of(few)[-1]


def test_predict_reports_any_error_of_an_image_and_predicts_the_rest(scored, monkeypatch):
    run = write_tiny_run(scored / "run", stage=1)
    damage(scored / "data" / "images" / "i1.png")
    from densefield.evaluation import predict

    true_colours = predict.read_rgb

    def starving(path, *rest):
        if path.stem == "i2":
            raise RuntimeError("[enforce fail at alloc_cpu.cpp:117]\nDefaultCPUAllocator: can't allocate memory")
        return true_colours(path, *rest)

    monkeypatch.setattr(predict, "read_rgb", starving)
    answer = command("predict", run, scored / "data" / "images", "-o", scored / "out")
    failed = [line for line in lines_of(answer) if line.startswith("densefield: failed: ")]
    assert answer.exit_code == 1 and len(failed) == 2 and "i2.png: out of memory" in failed[1]
    assert len(list((scored / "out").glob("*.png"))) == 6


def test_refine_reports_damaged_arrays_and_refines_the_rest(scored):
    masks = scored / "masks"
    masks.mkdir()
    for number in range(8):
        np.savez_compressed(
            masks / f"i{number}.npz", np.asarray(Image.open(scored / "data" / "masks" / f"i{number}.png"))
        )
    damage(masks / "i0.npz")
    np.save(masks / "i1.npy", np.full((24, 28), 10**6))
    np.save(masks / "i2.npy", np.full((24, 28), 2**62))
    for name in ("i1.npz", "i2.npz"):
        (masks / name).unlink()
    for form in ("png", "npy"):
        out = scored / form
        answer = command("refine", scored / "data" / "images", masks, "-o", out, "--format", form)
        assert answer.exit_code == 1 and lines_of(answer)[-1] == "densefield: refined: 5; failed: 3"
        assert len(list(out.iterdir())) == 5


@pytest.mark.filterwarnings("default")
def test_sigmoid_scores_give_a_warning(scored):
    for path in (scored / "scores").iterdir():
        with np.load(path) as arrays:
            logits = arrays["logits"]
        np.savez(path, logits=1 / (1 + np.exp(-logits)))
    answer = command("eval", scored / "scores", scored / "data", "-o", scored / "out")
    told = [line for line in lines_of(answer) if "warning: " in line]
    assert answer.exit_code == 0 and len(told) == 1
    assert "used as logits" in told[0] and "sigmoid" in told[0] and "--probabilities" in told[0]


def test_names_of_classes_and_runs_are_escaped(scored):
    (scored / "data" / "classes.txt").write_text("\n".join(NAMES), encoding="utf-8")
    (scored / "crf.toml").write_text("iterations = 2\n", encoding="utf-8")
    out = scored / "$\\frac$ <b>run[red]"
    answer = command("eval", scored / "scores", scored / "data", "-o", out, "--crf", scored / "crf.toml")
    lines_of(answer)
    assert answer.exit_code == 0 and "[/red]x" in answer.stdout and "\\x1b[31mred" in answer.stdout
    answer = command("report", out, "-o", scored / "page.html")
    lines_of(answer)
    page = (scored / "page.html").read_text(encoding="utf-8")
    assert answer.exit_code == 0 and "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script>alert" not in page and "<b>run" not in page and "&lt;b&gt;run[red]" in page
    assert page.count("</script>") == page.count("<script") == len(re.findall(SCRIPT, page))


def test_a_case_from_outside_the_folder_is_not_embedded(scored):
    (scored / "crf.toml").write_text("iterations = 2\n", encoding="utf-8")
    out = scored / "out"
    command("eval", scored / "scores", scored / "data", "-o", out, "--crf", scored / "crf.toml")
    result = json.loads((out / "result.json").read_text())
    Image.new("RGB", (64, 64), (255, 0, 255)).save(scored / "secret.png")
    shutil.copy(scored / "secret.png", out / "cases" / "copy.png")
    (out / "cases" / "link.png").symlink_to(scored / "secret.png")
    (out / "cases" / "link.npz").symlink_to(scored / "secret.npz")
    for path in out.glob("cases/i*.npz"):  # without them the pictures of cases are shown
        path.unlink()
    for name in ("../../secret", str(scored / "secret"), "link", "a\0b"):
        case = {"id": name, "kind": "good", "labels": [1]}
        case |= {metric: {"network": 0.1, "crf": 0.2} for metric in ("mean_iou", "pixel_accuracy")}
        (out / "result.json").write_text(json.dumps(result | {"cases": [case]}))
        answer = command("report", out, "-o", scored / "page.html")
        lines_of(answer)
        assert answer.exit_code == 2 and "result.json: cases: the name" in answer.stderr
        assert not (scored / "page.html").exists()
        (out / "result.json").write_text(json.dumps(result | {"images": [name]}))
        answer = command("report", out, "-o", scored / "page.html")
        lines_of(answer)
        assert answer.exit_code == 2 and ("leads out of" in answer.stderr or name == "link")
    case["id"] = "copy"
    (out / "result.json").write_text(json.dumps(result | {"cases": [case]}))
    assert command("report", out, "-o", scored / "page.html").exit_code == 0
    assert base64.b64encode(b"\xff\xd8\xff")[:4].decode() in (scored / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("field", ["classes", "images", "methods", "machine", "about", "seconds", "verdict", "cases"])
@pytest.mark.parametrize("value", [None, 5, "text", [5], {"x": [5]}, [[]], True])
def test_a_wrong_field_of_a_result_is_reported_in_one_line(scored, field, value):
    out = scored / "out"
    command("eval", scored / "scores", scored / "data", "-o", out)
    result = json.loads((out / "result.json").read_text())
    (out / "result.json").write_text(json.dumps(result | {field: value}))
    answer = command("report", out, "-o", scored / "page.html")
    assert len(lines_of(answer)) <= 1
    assert answer.exit_code == 0 or str(out) in answer.stderr


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "", "[]", "\x00", "{"])
def test_a_result_that_is_not_a_json_object_is_reported_in_one_line(scored, text):
    out = scored / "out"
    out.mkdir()
    (out / "result.json").write_text(text)
    answer = command("report", out, "-o", scored / "page.html")
    assert answer.exit_code == 2 and len(lines_of(answer)) == 1 and str(out / "result.json") in answer.stderr


def test_deeply_nested_toml_is_reported_in_one_line(scored):
    deep = scored / "deep.toml"
    run = write_tiny_run(scored / "run", stage=1)
    image, mask = scored / "data" / "images" / "i0.png", scored / "data" / "masks" / "i0.png"
    for text in (f"x = {'[' * 20_000}", f"[{'.'.join('a' * 3000)}]\nx = 1"):
        deep.write_text(text, encoding="utf-8")
        for arguments in (
            ("train", deep, "--run", scored / "new"),
            ("refine", image, mask, "-o", scored / "o.png", "--crf", deep),
            ("predict", run, image, "-o", scored / "p", "--crf", deep),
            ("eval", scored / "scores", scored / "data", "-o", scored / "e", "--crf", deep),
        ):
            answer = command(*arguments)
            assert answer.exit_code == 2 and str(deep) in lines_of(answer)[-1], arguments
    (scored / "fine.toml").write_text("", encoding="utf-8")
    answer = command("train", scored / "fine.toml", "--run", scored / "new", "--set", f"a={'[' * 20_000}")
    assert answer.exit_code == 2
    lines_of(answer)


def test_escape_sequences_in_file_names_do_not_reach_the_terminal(scored):
    for name in ("a\x1b[2J", "b\x07\u202e", "c\nforged: line"):
        (scored / "data" / "images" / f"{name}.png").write_bytes(b"nothing")
        Image.new("L", (4, 4)).save(scored / "data" / "masks" / f"{name}.png")
    arguments = ("refine", scored / "data" / "images", scored / "data" / "masks", "-o", scored / "out")
    answer = command(*arguments, "--log", scored / "log.txt")
    lines = lines_of(answer)
    assert answer.exit_code == 1 and len(lines) == 5 and "\u202e" not in answer.output
    assert any("\\x1b[2J" in line for line in lines) and not any(line.startswith("forged") for line in lines)
    log = (scored / "log.txt").read_text(encoding="utf-8")
    assert log.count("\n") == 3 and not LINE.search(log) and "\u202e" not in log
    assert not LINE.search(command("data", "check", scored / "data").output)


def test_messages_have_no_control_characters_or_broken_characters(capsys):
    print_message("a\x1b]0;title\x07\nb\udcff")
    print_result("one\ntwo\r\x9b31m")
    told = capsys.readouterr()
    assert told.err == "densefield: a\\x1b]0;title\\x07\\nb\\udcff\n" and told.out == "one\ntwo\\r\\x9b31m\n"
