"""Temperatures in evaluation and prediction."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="evaluation needs torch")

from densefield import Spatial  # noqa: E402
from densefield.errors import InputError  # noqa: E402
from densefield.evaluation import Predictor, evaluate, fit_temperatures  # noqa: E402
from densefield.nn.dense_crf import DenseCRF  # noqa: E402
from densefield.runs.scored_arrays import as_score_source  # noqa: E402

KERNELS = [Spatial(2, weight=4)]


def triples(first=0, count=4):
    """Scores that are three times as confident as they should be."""
    found = []
    for seed in range(first, first + count):
        random = np.random.default_rng(seed)
        scores = random.normal(0, 2, (3, 60, 72))
        labels = (scores + random.gumbel(size=scores.shape)).argmax(axis=0)
        found.append((3 * scores, np.zeros((60, 72, 3), np.uint8), labels))
    return found


def test_a_fitted_temperature_mends_the_likelihood_and_keeps_labels():
    crf = DenseCRF(3, KERNELS)
    fitted = fit_temperatures(as_score_source(triples(50)), crf, ["network", "crf"])
    assert abs(fitted["network"] - 3) < 0.2 and fitted["crf"] > fitted["network"]
    plain, tempered = (evaluate(triples(), crf, temperature=each) for each in (1.0, fitted))
    assert tempered["temperatures"] == fitted and plain["temperatures"] == {"network": 1.0, "crf": 1.0}
    for method in ("network", "crf"):
        one, other = plain.methods[method], tempered.methods[method]
        assert one.mean_iou == other.mean_iou
        assert other.negative_log_likelihood < one.negative_log_likelihood - 0.1


def test_counts_of_another_temperature_are_not_taken_for_the_same(tmp_path):
    evaluate(triples(), None, tmp_path, about={"split": "a"})
    with pytest.raises(InputError, match="holds results of other temperature"):
        evaluate(triples(), None, tmp_path, about={"split": "a"}, temperature=2.0)
    result = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert result["temperatures"] == {"network": 1.0}


@pytest.mark.parametrize(
    ("temperature", "says"),
    [
        (0, "temperature is 0, expected a finite number above 0"),
        (float("nan"), "temperature is nan"),
        ([1.0, 2.0], "temperature is \\[1.0, 2.0\\]"),
        ({"crf": 1.0}, "temperature is for crf, expected network"),
    ],
)
def test_impossible_temperatures_are_errors(temperature, says):
    with pytest.raises(InputError, match=says):
        evaluate(triples(), None, temperature=temperature)


def test_predicted_probabilities_are_tempered():
    network = torch.nn.Conv2d(3, 4, 1)
    image = np.random.default_rng(3).integers(0, 256, (7, 9, 3)).astype(np.uint8)
    plain, tempered = (
        Predictor(lambda image: network(image.float()).detach(), None, temperature=each)(image) for each in (1.0, 2.5)
    )
    assert np.allclose(tempered, torch.log_softmax(torch.tensor(plain) / 2.5, 0).numpy(), atol=1e-5)
    assert np.allclose(np.exp(tempered).sum(axis=0), 1, atol=1e-5)
    with pytest.raises(InputError, match="expected a finite number above 0"):
        Predictor(network, None, temperature=-1)


def test_an_image_that_cannot_be_read_is_named():
    source = as_score_source(triples(50))

    class Broken:
        classes, ids = source.classes, source.ids

        def __len__(self):
            return len(source)

        def __getitem__(self, index):
            if index == 2:
                raise OSError("disk error")
            return source[index]

    with pytest.raises(InputError, match=rf"{source.ids[2]}.*disk error.* A temperature is fitted on all images"):
        fit_temperatures(Broken(), None, ["network"])
