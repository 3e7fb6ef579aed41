"""The page shows what `densefield.refine` computes, bit for bit, whatever was computed before."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL", reason="the explorer needs Pillow")

from densefield import CRF, Bilateral, InputError, Spatial, explain, refine
from densefield.explorer.details import energies, entropy, findings, scores_against_truth, summary
from densefield.explorer.gallery import Entry, Picture
from densefield.explorer.inference import Inference, Result
from densefield.explorer.inputs import unary_of
from densefield.explorer.settings import Settings, settings_from_json
from densefield.images.masks import Mask
from densefield.refinement.mask_input import mask_input, mask_roughness
from tests.explorer.test_settings import packed
from tests.support.explored_photos import SIZE, object_of, photo_of, rough_of

PHOTO = photo_of(1)
TABLES = {
    "kernels": [
        {"kind": "spatial", "sigma": 2.5, "weight": 2.0},
        {
            "kind": "bilateral",
            "sigma_xy": 30.0,
            "sigma_rgb": [12.0, 10.0, 14.0],
            "weight": 4.0,
            "normalization": "after",
        },
    ]
}
ROUGH = np.where(np.indices(SIZE)[0] < 3, 255, 3 * rough_of(1))  # labels 0 and 3, and unknown rows
LOGITS = np.random.default_rng(11_083).normal(size=(3, *SIZE)).astype(np.float32)
PROBABILITIES = (np.exp(LOGITS) / np.exp(LOGITS).sum(0)).astype(np.float32)
MASKS = {
    "labels": Mask("labels", ROUGH, void=255),
    "binary": Mask("binary", rough_of(1)),
    "logits": Mask("logits", LOGITS),
    "probabilities": Mask("probabilities", PROBABILITIES),
}
LAYER = np.full(SIZE, 255, np.uint8)
LAYER[30:40, 40:70], LAYER[60:64, 5:90] = 3, 0


def solved(mask: Mask | None, inference: Inference | None = None, **given: Any) -> Result:
    picture = Picture(Entry.__new__(Entry), PHOTO, mask)
    return (inference or Inference()).result(0, picture, settings_from_json(given), repr(given), lambda: None)


def arguments_of(mask: Mask) -> dict[str, Any]:
    return {**mask.unary(), "data_range": 255, **({"num_classes": 2} if mask.form == "binary" else {})}


def rows_of(refined: np.ndarray, result: Result) -> np.ndarray:
    return refined[result.numbers]


@pytest.mark.parametrize("form", MASKS)
def test_the_learnt_model_is_refine(form):
    result = solved(MASKS[form], model="learnt", iterations=4)
    expected = refine(PHOTO, **arguments_of(MASKS[form]), iterations=4)
    assert np.array_equal(result.marginals, rows_of(expected, result))


@pytest.mark.parametrize("form", MASKS)
def test_kernels_are_refine_with_a_crf(form):
    crf = CRF([Spatial(2.5, weight=2), Bilateral(30, [12, 10, 14], weight=4, normalization="after")], iterations=6)
    confident = {"confidence": 0.8} if "labels" in MASKS[form].unary() else {"temperature": 1.5}
    result = solved(MASKS[form], model="kernels", iterations=6, crf=TABLES, **confident)
    expected = refine(PHOTO, **arguments_of(MASKS[form]), crf=crf, **confident)
    assert np.array_equal(result.marginals, rows_of(expected, result))


def test_lattices_in_memory_do_not_change_results():
    inference = Inference()
    for change in (
        {"weight": 5.0},
        {"sigma_rgb": 20.0},
        {"weight": 1.0},
        {"normalization": "none"},
        {"weight": [0.0, 0.0, 0.0, 2.0]},
    ):
        tables = {"kernels": [TABLES["kernels"][0], {**TABLES["kernels"][1], **change}], "exclude_self": True}
        for confidence in (0.6, 0.9):
            given = {"model": "kernels", "crf": tables, "confidence": confidence}
            kept = solved(MASKS["labels"], inference, **given)
            assert np.array_equal(kept.marginals, solved(MASKS["labels"], **given).marginals)


def test_roughness_is_passed_on():
    result = solved(MASKS["labels"], model="learnt", roughness=6.5)
    expected = refine(PHOTO, **arguments_of(MASKS["labels"]), roughness=6.5)
    assert np.array_equal(result.marginals, rows_of(expected, result))


@pytest.mark.parametrize("model", ["learnt", "kernels"])
def test_scribbles_alone_are_a_mask_that_is_unknown_elsewhere(model):
    given = {"source": "scribbles", "scribbles": packed(LAYER), "crf": TABLES, "scribble_confidence": 0.97}
    for mask in (None, MASKS["logits"]):
        result = solved(mask, model=model, **given)
        crf = (
            {} if model == "learnt" else {"crf": settings_from_json({"model": model, **given}).crf, "confidence": 0.97}
        )
        assert np.array_equal(result.marginals, refine(PHOTO, labels=LAYER, **crf)[result.numbers])


@pytest.mark.parametrize("form", MASKS)
def test_scribbles_over_a_mask_replace_its_scores(form):
    given = {
        "model": "kernels",
        "crf": TABLES,
        "source": "both",
        "scribbles": packed(LAYER),
        "scribble_confidence": 0.99,
    }
    result = solved(MASKS[form], **given, confidence=0.6)
    assert result.given.kind == "scores" and set(result.numbers) >= {0, 3}
    alone = solved(MASKS[form], model="kernels", crf=TABLES, confidence=0.6)
    before = unary_of(Picture(Entry.__new__(Entry), PHOTO, None), alone.given)
    free, numbers = LAYER == 255, result.numbers.tolist()
    for row, number in enumerate(alone.numbers):
        assert np.array_equal(result.unary[numbers.index(number)][free], before.scores[row][free])
    for label in (0, 3):
        there = result.unary[numbers.index(label)][label == LAYER]
        assert there == pytest.approx(np.log(0.99), rel=1e-6)  # float32
    crf = settings_from_json(given).crf
    assert np.array_equal(result.marginals, refine(PHOTO, logits=result.given.arguments["logits"], crf=crf))


def test_scribbles_over_a_mask_are_labels_for_the_learnt_model():
    result = solved(MASKS["labels"], source="both", scribbles=packed(LAYER))
    labels = np.where(LAYER != 255, LAYER, ROUGH).astype(np.uint8)
    roughness = result.given.arguments["roughness"]
    assert np.array_equal(result.marginals, refine(PHOTO, labels=labels, roughness=roughness)[result.numbers])


def test_scribbles_leave_the_roughness_of_the_mask_as_it_is():
    blocks = rough_of(1)[::12, ::12].repeat(12, axis=0).repeat(12, axis=1)[: SIZE[0], : SIZE[1]]
    mask = Mask("labels", blocks)
    layer = np.full(SIZE, 255, np.uint8)
    layer[2:12, 2:30] = 2
    alone = solved(mask)
    painted = solved(mask, source="both", scribbles=packed(layer))
    assert alone.facts["roughness"] == painted.facts["roughness"] == 6
    assert refined_roughness(np.where(layer == 255, blocks, layer)) != 6  # what the painted mask alone would give
    given = solved(mask, source="both", scribbles=packed(layer), roughness=2.5)
    assert given.given.arguments["roughness"] == 2.5


def refined_roughness(labels: np.ndarray) -> float | None:
    photo, mask = mask_input(PHOTO, labels, None, "auto", None)
    return mask_roughness(photo, mask, 255, 1)


def test_scribbles_over_a_mask_with_gaps_in_its_labels_have_a_row_for_every_label():
    mask = Mask("labels", 17 * rough_of(1))
    given = {"model": "kernels", "crf": TABLES, "source": "both", "scribbles": packed(np.where(LAYER == 3, 5, LAYER))}
    result = solved(mask, **given)
    assert result.numbers.tolist() == list(range(18))
    assert set(np.unique(result.rows)) <= {0, 5, 17}
    per_label = {**TABLES["kernels"][0], "weight": np.linspace(1, 2, 18).tolist()}
    assert set(np.unique(solved(mask, **{**given, "crf": {"kernels": [per_label]}}).rows)) <= {0, 5, 17}


def test_scores_that_would_not_fit_into_memory_are_refused(monkeypatch):
    monkeypatch.setattr("densefield.explorer.inputs.MOST_SCORES", 100_000)
    mask = Mask("labels", 17 * rough_of(1))
    with pytest.raises(InputError, match=r"scores of 18 labels .* without gaps"):
        solved(mask, model="kernels", crf=TABLES, source="both", scribbles=packed(LAYER))


def test_too_few_scribbles_are_refused():
    one = np.where(LAYER == 3, 3, 255).astype(np.uint8)
    for given in ({}, {"source": "scribbles"}, {"source": "scribbles", "scribbles": packed(one)}):
        with pytest.raises(InputError, match="two labels or more"):
            solved(None, **given)


def test_a_request_that_is_no_longer_wanted_stops():
    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        Inference().result(0, Picture(Entry.__new__(Entry), PHOTO, MASKS["labels"]), Settings(), "", stop)


def test_energies_are_those_of_solve():
    result = solved(MASKS["logits"], model="kernels", crf={"kernels": TABLES["kernels"][:1]}, iterations=3)
    crf = CRF([Spatial(2.5, weight=2)], iterations=3)
    expected = crf.solve(LOGITS, PHOTO, energies=True)
    found = energies(result, lambda: None)
    assert found["energies"] == pytest.approx(expected.energies, rel=1e-7)
    assert found["changes"] == pytest.approx(expected.residuals, rel=1e-5)
    steps = [step.marginals for step in islice(crf.steps(LOGITS, PHOTO), 4)]
    assert np.abs(steps[-1] - result.marginals).max() < 2e-6  # the readable twin, rounded differently


def test_metrics_are_those_of_hand_counts():
    truth = np.where(object_of(1), 3, 0)
    truth[:2] = 255
    picture = Picture(Entry.__new__(Entry), PHOTO, MASKS["labels"], truth)
    result = solved(MASKS["labels"], model="learnt")
    found = scores_against_truth(picture, result)
    known = truth != 255
    after = result.numbers[result.marginals.argmax(0)]
    for name, labels in (("before", ROUGH), ("after", after)):
        each = [((labels == n) & (truth == n)).sum() / (known & ((labels == n) | (truth == n))).sum() for n in (0, 3)]
        assert found[name]["mean_iou"] == pytest.approx(np.mean(each), rel=1e-12)
    assert found["after"]["mean_iou"] > found["before"]["mean_iou"] + 0.1
    assert found["after"]["edge_accuracy"] > found["before"]["edge_accuracy"] + 0.1
    assert scores_against_truth(replace(picture, truth=None), result) is None


def test_the_summary_counts_known_pixels_that_changed():
    result = solved(MASKS["labels"], model="learnt")
    after = result.numbers[result.marginals.argmax(0)]
    known = ROUGH != 255
    assert summary(result)["changed"] == pytest.approx((after != ROUGH)[known].mean())
    assert summary(result)["pixels"] == [(after == 0).sum(), (after == 3).sum()]


def test_findings_are_those_of_explain():
    crf = CRF([Spatial(2.5, weight=2)], data_range=255)
    given = {"model": "kernels", "crf": {"kernels": TABLES["kernels"][:1]}, "confidence": 0.999}
    result = solved(MASKS["labels"], **given)
    found = findings(Picture(Entry.__new__(Entry), PHOTO, MASKS["labels"]), settings_from_json(given), result)
    expected = explain(PHOTO, **arguments_of(MASKS["labels"]), crf=crf, confidence=0.999)
    assert [(each["severity"], each["what"], each["numbers"]) for each in found] == [
        (each.severity, each.what, each.numbers) for each in expected
    ]


def test_entropy_is_that_of_the_marginals():
    result = solved(MASKS["probabilities"], model="kernels", crf=TABLES, iterations=0)
    expected = -(PROBABILITIES * np.log(PROBABILITIES)).sum(0) / np.log(3) * 255
    assert np.abs(entropy(result) - expected).max() <= 0.51  # rounded to bytes
