"""Evaluation, tuning and reports of arrays and tensors, without files."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="evaluation needs torch")

import torch
from torch.nn.functional import interpolate

from densefield import CRF, Bilateral, DenseCRF, Spatial
from densefield.datasets.sample import Subset
from densefield.errors import InputError, InputTypeError
from densefield.evaluation import evaluate, evaluate_images, read_evaluation
from densefield.runs.scored_arrays import as_score_source
from densefield.runs.scored_images import ScoredImage
from densefield.tuning import TuningOptions, tune_crf
from tests.support.scored_scenes import ScoredScenes

KERNELS = [Spatial(2, weight=1), Bilateral(12, 20, weight=2)]
SCENES = ScoredScenes(6)


def arrays(number):
    scored = SCENES[number]
    return scored.scores.numpy(), scored.image.movedim(0, -1).numpy(), scored.labels.numpy().astype(np.uint8)


def tensors(number):
    scored = SCENES[number]
    return scored.scores.double(), scored.image, scored.labels


def dicts(number):
    return dict(zip(("scores", "image", "labels"), arrays(number), strict=True))


FORMS = {"arrays": arrays, "tensors": tensors, "dicts": dicts, "scored images": SCENES.__getitem__}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("crf", [DenseCRF(2, KERNELS), CRF(KERNELS), KERNELS], ids=["DenseCRF", "CRF", "kernels"])
def test_the_metrics_are_those_of_scored_images(form, crf):
    result = evaluate([form(number) for number in range(6)], crf)
    for method, model in (("network", None), ("crf", DenseCRF(2, KERNELS))):
        expected = evaluate_images(SCENES, model)
        found = result.methods[method]
        assert found.mean_iou == expected.mean_iou and np.array_equal(found.confusion, expected.confusion)
        assert found.negative_log_likelihood == expected.negative_log_likelihood
        assert result["methods"][method]["mean_iou"]["value"] == expected.mean_iou


def test_a_generator_is_read_once_one_image_at_a_time():
    alive = []

    def generate():
        for number in range(6):
            alive.append(number)
            yield arrays(number)

    seen = []
    result = evaluate(generate(), KERNELS, progress=lambda done, total: seen.append((done, total, len(alive))))
    assert seen == [(count, 0, count) for count in range(1, 7)]
    assert dict(result["methods"]) == dict(evaluate([arrays(number) for number in range(6)], KERNELS)["methods"])


def test_scores_of_any_resolution_are_resized_to_the_image():
    f = torch.randn(2, 4, 7, generator=torch.Generator().manual_seed(611))
    _, image, labels = tensors(0)
    source = as_score_source([(f.half(), image, labels)])
    expected = interpolate(f.half().float()[None], (28, 28), mode="bilinear", align_corners=False)[0]
    assert torch.equal(source[0].scores, expected)
    p = f.softmax(0)
    scores = as_score_source([(p, image, labels)], probabilities=True)[0].scores
    expected = interpolate(p[None], (28, 28), mode="bilinear", align_corners=False)[0].log()
    assert torch.equal(scores, expected)


def test_the_result_is_a_table_and_names_the_verdict():
    result = evaluate([arrays(number) for number in range(6)], KERNELS, classes=["ground", "disc"])
    lines = repr(result).splitlines()
    assert lines[0] == "6 images" and lines[1].split() == ["network", "crf", "gain", "of", "crf", "95%", "interval"]
    value = f"{100 * result.methods['crf'].mean_iou:.2f}"
    assert lines[2].startswith("mean IoU") and value in lines[2] and lines[-1] == result.verdict
    assert result["classes"] == ["ground", "disc"] and result["cases"] == []
    assert list(evaluate([arrays(0)])["methods"]) == ["network"]


def test_with_a_folder_the_files_are_those_of_the_command_line(tmp_path):
    result = evaluate((arrays(number) for number in range(6)), KERNELS, tmp_path, cases=1)
    content, methods = read_evaluation(tmp_path)
    assert content == result.content and methods["crf"].mean_iou == result.methods["crf"].mean_iou
    assert len(list((tmp_path / "cases").glob("*.png"))) >= 2


def test_a_crf_is_tuned_without_files_as_with_them(tmp_path):
    options = TuningOptions(trials=2, evaluations=2, shrink=1)
    tuned = tune_crf((arrays(number) for number in range(6)), options=options)
    filed = tune_crf([tensors(number) for number in range(6)], tmp_path, options)
    same = [name for name in tuned if name not in ("seconds", "date", "machine")]
    assert {name: tuned[name] for name in same} == {name: filed[name] for name in same}
    loaded = DenseCRF.load(tmp_path / "crf.toml", num_classes=2)
    for name, value in tuned.crf.state_dict().items():
        assert torch.equal(value, loaded.state_dict()[name])
    held_out = Subset(SCENES, [int(name[-6:]) for name in tuned["held_out_images"]])
    assert tuned.methods["crf"].mean_iou == evaluate_images(held_out, tuned.crf).mean_iou
    assert "Bilateral(" in repr(tuned) and repr(tuned).startswith("3 held-out images")


def as_probabilities(number):
    scores, image, labels = tensors(number)
    return scores.softmax(0), image, labels


@pytest.mark.parametrize("read", [list, iter], ids=["list", "generator"])
def test_probabilities_are_evaluated_as_their_logits(read):
    found = evaluate(read([as_probabilities(number) for number in range(6)]), KERNELS, probabilities=True)
    expected = evaluate([tensors(number) for number in range(6)], KERNELS)
    for method in ("network", "crf"):
        one, other = found.methods[method], expected.methods[method]
        assert np.array_equal(one.confusion, other.confusion)
        # Logarithms of probabilities in single precision; probabilities below 1e-5 are raised to it.
        assert one.negative_log_likelihood == pytest.approx(other.negative_log_likelihood, rel=1e-4)
    with pytest.raises(InputError, match=r"holds probabilities: .*Pass probabilities=True"):
        evaluate([as_probabilities(0)])
    with pytest.raises(InputError, match="For logits leave out probabilities=True"):
        evaluate([tensors(0)], probabilities=True)


IMAGE, LABELS = np.zeros((8, 9, 3), np.uint8), np.zeros((8, 9), int)
SCORES = np.random.default_rng(5).normal(size=(3, 4, 5))


@pytest.mark.parametrize(
    ("triples", "message"),
    [
        ([], "there are no scored images, expected one or more"),
        (iter([]), "there are no scored images"),
        (3, "the scored images are of type int, expected an iterable of a triple"),
        ([(SCORES, IMAGE)], "image_000000 is 2 values, expected a triple"),
        (
            [(SCORES, IMAGE, LABELS), (SCORES[:2], IMAGE, LABELS)],
            r"image_000001 holds scores of shape \(2, 4, 5\), exp",
        ),
        (
            [(SCORES, IMAGE, LABELS), (np.moveaxis(SCORES, 0, -1), IMAGE, LABELS)],
            r"use numpy\.moveaxis\(scores, -1, 0\)",
        ),
        (
            [(np.zeros((8, 9, 3)), IMAGE, LABELS)],
            r"shape \(8, 9, 3\) for an image of 8×9 pixels, .*use numpy\.moveaxis\(scores, -1, 0\)",
        ),
        ([(SCORES[None], IMAGE, LABELS)], r"expected \(classes, rows, columns\)\. Use scores\[0\]"),
        ([(SCORES * np.nan, IMAGE, LABELS)], "image_000000 holds NaN or infinity"),
        ([(SCORES.astype(int), IMAGE, LABELS)], "image_000000 holds int64, expected scores in floating point"),
        ([(np.full((3, 4, 5), 1 / 3), IMAGE, LABELS)], r"image_000000 holds probabilities: .*Pass probabilities=True"),
        ([(SCORES, IMAGE / 255, LABELS)], "image_000000: the image is float64"),
        ([(SCORES, IMAGE, LABELS[:3])], r"image_000000: the labels are int64 \(3, 9\)"),
        ([(SCORES, IMAGE, LABELS + 3)], "image_000000 has the label 3"),
        ([("scores", IMAGE, LABELS)], "the scores are of type str, expected an array or a tensor"),
    ],
)
@pytest.mark.parametrize("read", [list, iter], ids=["list", "generator"])
def test_wrong_triples_are_named(triples, message, read):
    given = triples if isinstance(triples, int) else read(triples)
    with pytest.raises((InputError, InputTypeError), match=message):
        evaluate(given)


def test_the_number_of_names_is_the_number_of_scores():
    with pytest.raises(InputError, match="classes has 2 names, but image_000000 has scores of 3 classes"):
        evaluate([(SCORES, IMAGE, LABELS)], classes=["a", "b"])


def test_a_scored_image_keeps_its_name_and_features():
    scored = ScoredImage(torch.zeros(2, 4, 5), torch.zeros(3, 4, 5).byte(), torch.zeros(4, 5).long(), "cat")
    assert as_score_source([scored])[0] is scored
