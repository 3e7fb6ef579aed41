"""Tuning a CRF on fixed scores: search, learning, and evaluation on held-out images."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch", reason="tuning needs torch")

import torch

from densefield.crf.model import CRF
from densefield.datasets.sample import Subset
from densefield.errors import InputError
from densefield.evaluation.evaluation import evaluate_images
from densefield.nn.dense_crf import DenseCRF
from densefield.tuning.search import TuningOptions
from densefield.tuning.tune import halves, tune_crf
from tests.support.scored_scenes import ScoredScenes

QUICK = TuningOptions(trials=3, evaluations=4, shrink=2, seed=6)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuned")
    return tune_crf(ScoredScenes(12), folder, QUICK), folder


def test_the_halves_share_no_image_and_do_not_depend_on_the_order_of_images():
    source = ScoredScenes(9)
    learning, held_out = halves(source, QUICK)
    assert len(learning) == 5 and sorted([*learning.ids, *held_out.ids]) == sorted(source.ids)
    other, _ = halves(Subset(source, range(8, -1, -1)), QUICK)
    assert set(other.ids) == set(learning.ids)
    assert set(halves(source, TuningOptions(seed=7))[0].ids) != set(learning.ids)


def test_a_limit_on_images_holds_for_both_halves_together():
    learning, held_out = halves(ScoredScenes(9), TuningOptions(images=6))
    assert len(learning) == len(held_out) == 3


def test_fewer_than_four_images_cannot_be_halved():
    with pytest.raises(InputError, match="3 images, expected 4 or more"):
        halves(ScoredScenes(3), QUICK)


def test_the_crf_improves_noisy_scores_on_held_out_images(tuned):
    result, _ = tuned
    assert result["verdict"].startswith("The CRF helps in ")
    assert result["comparison"]["mean_iou"]["low"] > 0
    assert result["comparison"]["negative_log_likelihood"]["high"] < 0


def test_the_reported_result_equals_an_evaluation_of_the_written_crf(tuned):
    result, folder = tuned
    crf = DenseCRF.load(folder / "crf.toml", num_classes=2)
    _, held_out = halves(ScoredScenes(12), QUICK)
    assert list(held_out.ids) == result["held_out_images"]
    measured = evaluate_images(held_out, crf)
    # The file holds every parameter exactly.
    assert measured.negative_log_likelihood == result["methods"]["crf"]["negative_log_likelihood"]["value"]


def test_the_written_crf_gives_the_same_marginals_in_numpy(tuned):
    _, folder = tuned
    scored = ScoredScenes(12)[3]
    with torch.no_grad():
        crf = DenseCRF.load(folder / "crf.toml", num_classes=2)
        expected = crf(scored.scores[None], scored.image[None])[0].exp().numpy()
    q = CRF.load(folder / "crf.toml").marginals(scored.scores.numpy(), scored.image.movedim(0, -1).numpy())
    # Logarithms and exponentials round differently in float32.
    assert abs(q - expected).max() < 1e-5


def test_all_nine_parameters_are_learnt_from_the_best_of_the_search(tuned):
    result, folder = tuned
    lines = (folder / "learning.csv").read_text().splitlines()
    names, first, last = (line.split(",") for line in (lines[0], lines[1], lines[-1]))
    assert len(names) == 11 and names[:2] == ["shrink", "loss"]
    assert first[0] == "2" and last[0] == "1"
    assert all(float(a) != float(b) for a, b in zip(first[2:], last[2:], strict=True))
    assert result["chosen"] == "gradient"
    on_learning = result["on_learning_images"]
    assert on_learning["gradient"]["negative_log_likelihood"] < on_learning["search"]["negative_log_likelihood"]
    assert set(result["values"]) == set(names[2:])


def test_the_result_in_the_file_is_the_one_returned(tuned):
    result, folder = tuned
    assert json.loads((folder / "result.json").read_text()) == json.loads(json.dumps(result.content))


def test_with_perfect_scores_the_crf_is_reported_not_to_help(tmp_path):
    class Perfect(ScoredScenes):
        def __getitem__(self, index):
            scored = super().__getitem__(index)
            hints = torch.nn.functional.one_hot(scored.labels, 2).movedim(-1, 0).float()
            return type(scored)(30 * hints - 15, scored.image, scored.labels, scored.id)

    result = tune_crf(Perfect(4), tmp_path, TuningOptions(search="none", evaluations=0))
    assert result["verdict"].startswith("The CRF does not help")


def test_trials_on_other_images_are_not_resumed(tuned):
    _, folder = tuned
    with pytest.raises(InputError, match="holds trials on other images"):
        tune_crf(ScoredScenes(13), folder, QUICK)
    with pytest.raises(InputError, match="holds trials on other images or scores"):
        tune_crf(ScoredScenes(12), folder, QUICK, about={"scores": "another network"})


def triples(probabilities=False):
    images = (ScoredScenes(4)[number] for number in range(4))
    return [(each.scores.softmax(0) if probabilities else each.scores, each.image, each.labels) for each in images]


def test_probabilities_are_tuned_as_their_logits():
    options = TuningOptions(trials=2, evaluations=0, shrink=1, seed=6)
    found = tune_crf(triples(probabilities=True), options=options, probabilities=True)
    expected = tune_crf(triples(), options=options)
    assert found.crf.values()["spatial.weight"] == expected.crf.values()["spatial.weight"]  # the same trial
    for name, value in expected["comparison"]["negative_log_likelihood"].items():
        # Logarithms of probabilities in single precision; probabilities below 1e-5 are raised to it.
        assert found["comparison"]["negative_log_likelihood"][name] == pytest.approx(value, rel=1e-3), name
    with pytest.raises(InputError, match=r"image_00000\d holds probabilities: .*Pass probabilities=True"):
        tune_crf(triples(probabilities=True), options=options)


def test_classes_name_the_classes_of_triples(tmp_path):
    options = TuningOptions(search="none", evaluations=0)
    tuned = tune_crf(triples(), tmp_path, options, classes=["ground", "disc"])
    assert tuned["classes"] == ["ground", "disc"]
    assert json.loads((tmp_path / "result.json").read_text())["classes"] == ["ground", "disc"]
    with pytest.raises(InputError, match="classes has 3 names, but image_000000 has scores of 2 classes"):
        tune_crf(triples(), options=options, classes=["ground", "disc", "sky"])


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"search": "bayes"}, "search is 'bayes', expected one of random, grid, none"),
        ({"criterion": "loss"}, "the criterion is 'loss'"),
        ({"trials": 0}, "trials is 0, expected 1 or more"),
        ({"shrink": 0}, "shrink is 0"),
        ({"evaluations": -1}, "evaluations is -1"),
    ],
)
def test_invalid_options_are_rejected(wrong, message):
    with pytest.raises(InputError, match=message):
        TuningOptions(**wrong)


@pytest.mark.slow
def test_on_the_logits_of_a_real_network_it_does_no_worse_than_the_network(shared, tmp_path):
    from densefield.datasets.voc import VOC2012
    from densefield.runs.scored_images import SavedScores

    data = shared / "data"
    result = tune_crf(SavedScores(data / "logits", VOC2012(data, "val")), tmp_path)
    assert len(result["learning_images"]) == len(result["held_out_images"]) == 70
    gain = {name: numbers["difference"] for name, numbers in result["comparison"].items()}
    assert gain["negative_log_likelihood"] <= 0 and gain["pixel_accuracy"] >= 0 and gain["trimap_iou_3px"] >= 0
