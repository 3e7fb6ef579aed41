"""The first sentence of the page says what is known, and no more."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="what it says is computed with torch")

from densefield.crf.crf_file import crf_to_toml
from densefield.crf.kernels import Spatial
from densefield.evaluation.evaluation import evaluate
from densefield.metrics.bootstrap import Comparison
from densefield.nn.dense_crf import DenseCRF
from densefield.report.collecting import Training, collect
from densefield.report.headline import headline, learnt_together, sentence
from tests.support.scored_scenes import ScoredScenes

UNCLEAR = "A does not clearly change mean IoU:"


def text_of(told) -> str:
    return told.start + told.amount + told.end


@pytest.mark.parametrize(
    "difference, low, high, expected, effect",
    [
        (0.038, 0.031, 0.045, "A raises mean IoU by 3.8 points (3.1 … 4.5) over B.", "better"),
        (-0.012, -0.02, -0.004, "A lowers mean IoU by 1.2 points (0.4 … 2.0) over B.", "worse"),
        (0.01, -0.001, 0.02, f"{UNCLEAR} +1.0 points (−0.1 … 2.0) over B; the interval contains 0.", ""),
        (0.0004, 0.0001, 0.0006, f"{UNCLEAR} 0.0 points (0.0 … 0.1) over B.", ""),
        (-0.0003, -0.006, 0.004, f"{UNCLEAR} 0.0 points (−0.6 … 0.4) over B; the interval contains 0.", ""),
    ],
)
def test_a_gain_is_stated_only_if_its_interval_does_not_contain_0(difference, low, high, expected, effect):
    told = sentence("A", "B", Comparison(0.5, 0.5, difference, low, high, 0.5))
    assert text_of(told) == expected and told.effect == effect


def test_the_last_crf_is_compared_with_the_first_method(tmp_path):
    evaluate(ScoredScenes(6), None, tmp_path / "alone", ["network"])
    evaluate(ScoredScenes(6), DenseCRF(2, [Spatial(2, weight=1)]), tmp_path / "joint")
    found = collect([str(tmp_path / "alone"), str(tmp_path / "joint")])
    told = headline(found)
    gain = 100 * (found.methods[2].result.mean_iou - found.methods[0].result.mean_iou)
    assert text_of(told).startswith(f"joint, CRF raises mean IoU by {gain:.1f} points (")
    assert text_of(told).endswith(") over alone, network.") and "on 6 images" in told.note
    alone = text_of(headline(collect([str(tmp_path / "joint")])))
    assert alone.startswith("The CRF raises mean IoU by ") and alone.endswith(" over its network alone.")


def test_a_crf_that_was_trained_with_its_network_goes_before_later_ones(tmp_path):
    evaluate(ScoredScenes(6), DenseCRF(2, [Spatial(2, weight=1)]), tmp_path / "joint")
    (tmp_path / "joint" / "config.toml").write_text("[network]\nfrozen = false\n")
    log = "step,stage,loss,iou,nll,spatial.sigma.0,spatial.sigma.1,spatial.weight\n1,2,1,,,2,2,0.5\n2,2,1,,,2,2,1\n"
    (tmp_path / "joint" / "log.csv").write_text(log)
    evaluate(ScoredScenes(6), DenseCRF(2, [Spatial(2, weight=0.1)]), tmp_path / "later")
    told = text_of(headline(collect([str(tmp_path / "joint"), str(tmp_path / "later")])))
    assert told.startswith("The CRF raises mean IoU by ") and told.endswith(" over its network alone.")


def test_methods_on_other_images_are_not_compared(tmp_path):
    evaluate(ScoredScenes(6), None, tmp_path / "a", ["network"])
    evaluate(ScoredScenes(4), None, tmp_path / "b", ["network"])
    told = headline(collect([str(tmp_path / "a"), str(tmp_path / "b")]))
    assert text_of(told).startswith("b, network reaches a mean IoU of ") and text_of(told).endswith(" on 4 images.")
    assert told.note == "Nothing else was evaluated on the same images."


def test_network_and_crf_are_together_if_the_log_shows_it(tmp_path):
    crf = DenseCRF(2, [Spatial(2, weight=0.75)])
    columns = {"step": [1.0, 2.0], "spatial.weight": [1.0, 0.75], "spatial.sigma.0": [2.0, 2.0]}
    text = crf_to_toml(crf.to_numpy())
    (tmp_path / "config.toml").write_text("[network]\nfrozen = false\n")
    joint = Training("joint", 2, columns, "", tmp_path)
    assert learnt_together(joint, text)
    assert not learnt_together(joint, crf_to_toml(DenseCRF(2, [Spatial(2, weight=0.5)]).to_numpy()))  # another CRF
    assert not learnt_together(Training("one", 1, columns, "", tmp_path), text)
    constant = {**columns, "spatial.weight": [0.75, 0.75]}
    assert not learnt_together(Training("fixed", 2, constant, "", tmp_path), text)
    (tmp_path / "config.toml").write_text("[network]\nfrozen = true\n")
    assert not learnt_together(joint, text) and not learnt_together(None, text)


def test_without_an_evaluation_the_best_validation_is_named(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "log.csv").write_text("step,stage,loss,iou\n1,1,0.9,0.5\n2,1,0.8,0.62\n3,1,0.8,0.6\n")
    assert text_of(headline(collect([str(tmp_path / "run")]))) == "run reaches a validation mean IoU of 62.0%."
