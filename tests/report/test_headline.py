"""The first sentence of the page says what is known, and no more."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

pytest.importorskip("torch", reason="what it says is computed with torch")

from densefield.crf.crf_file import crf_to_toml
from densefield.crf.kernels import Spatial
from densefield.evaluation.evaluation import evaluate
from densefield.labels import VOID
from densefield.metrics.bootstrap import Comparison
from densefield.nn.dense_crf import DenseCRF
from densefield.report.collecting import Training, collect
from densefield.report.headline import headline, learnt_together, sentence
from densefield.report.training_steps import steps_of
from tests.support.scored_scenes import ScoredScenes

UNCLEAR = "No clear change in mean IoU:"


class Unlabelled(ScoredScenes):
    """Images of which no pixel has a true label."""

    def __getitem__(self, index):
        scored = super().__getitem__(index)
        return replace(scored, labels=scored.labels.new_full(scored.labels.shape, VOID))


def text_of(told) -> str:
    return told.start + told.amount + told.end


@pytest.mark.parametrize(
    "numbers, cause, comparison, effect",
    [
        (
            (0.038, 0.031, 0.045),
            "A raises mean IoU by 3.8 points (3.1 … 4.5) over B.",
            "Mean IoU is 3.8 points higher (3.1 … 4.5) for A than for B.",
            "better",
        ),
        (
            (-0.012, -0.02, -0.004),
            "A lowers mean IoU by 1.2 points (0.4 … 2.0) compared with B.",
            "Mean IoU is 1.2 points lower (0.4 … 2.0) for A than for B.",
            "worse",
        ),
        (
            (0.01, -0.001, 0.02),
            f"{UNCLEAR} +1.0 points (−0.1 … 2.0), a against B.",
            f"{UNCLEAR} +1.0 points (−0.1 … 2.0), A against B.",
            "",
        ),
        (
            (-0.0005, -0.0009, -0.0002),
            "A lowers mean IoU by 0.05 points (0.02 … 0.09) compared with B.",
            "Mean IoU is 0.05 points lower (0.02 … 0.09) for A than for B.",
            "worse",
        ),
        (
            (0.003, 0.0004, 0.006),
            "A raises mean IoU by 0.30 points (0.04 … 0.60) over B.",
            "Mean IoU is 0.30 points higher (0.04 … 0.60) for A than for B.",
            "better",
        ),
        (
            (0.0004, 0.00001, 0.0006),  # clear only in digits that are not shown
            f"{UNCLEAR} +0.04 points (0.00 … 0.06), a against B.",
            f"{UNCLEAR} +0.04 points (0.00 … 0.06), A against B.",
            "",
        ),
        (
            (-0.00001, -0.0004, 0.004),
            f"{UNCLEAR} 0.00 points (−0.04 … 0.40), a against B.",
            f"{UNCLEAR} 0.00 points (−0.04 … 0.40), A against B.",
            "",
        ),
    ],
)
def test_a_gain_is_stated_only_if_its_interval_does_not_contain_0(numbers, cause, comparison, effect):
    for causes, expected in ((True, cause), (False, comparison)):
        told = sentence(Comparison(0.5, 0.5, *numbers, 0.5), "A", "B", causes=causes)
        assert text_of(told) == expected and told.effect == effect


def test_the_last_crf_is_compared_with_the_first_method(tmp_path):
    evaluate(ScoredScenes(6), None, tmp_path / "alone", ["network"])
    evaluate(ScoredScenes(6), DenseCRF(2, [Spatial(2, weight=1)]), tmp_path / "joint")
    found = collect([f"first={tmp_path / 'alone'}", str(tmp_path / "joint")])
    told = headline(found)
    gain = 100 * (found.methods[2].result.mean_iou - found.methods[0].result.mean_iou)
    assert text_of(told).startswith(f"Mean IoU is {gain:.1f} points higher (")
    assert text_of(told).endswith(") for the CRF of joint than for the network alone (first).")
    alone = text_of(headline(collect([str(tmp_path / "joint")])))
    assert alone.startswith("The CRF raises mean IoU by ") and alone.endswith(" over its network alone.")


def trained(folder, stage, steps, start=None, crf=""):
    """A folder with the log and the settings of a training."""
    folder.mkdir(exist_ok=True)
    begin = f'start_from = "{start}"\n' if start else ""
    (folder / "config.toml").write_text(f"[network]\nfrozen = false\n\n[training]\nstage = {stage}\n{begin}")
    rows = [f"1,{stage},1,{crf and '2,2,0.5'}", f"{steps},{stage},1,{crf}"]
    columns = "step,stage,loss" + (crf and ",spatial.sigma.0,spatial.sigma.1,spatial.weight")
    (folder / "log.csv").write_text("\n".join([columns, *(row.rstrip(",") for row in rows)]) + "\n")


def test_the_note_says_what_the_crf_adds_to_its_network_and_the_steps_of_each_run(tmp_path):
    evaluate(ScoredScenes(6, noise=2), None, tmp_path / "network", ["network"])
    evaluate(ScoredScenes(6), DenseCRF(2, [Spatial(2, weight=1)]), tmp_path / "joint")
    trained(tmp_path / "network", 1, 60)
    trained(tmp_path / "joint", 2, 20, tmp_path / "network" / "checkpoints" / "best.pt", "2,2,1")
    told = headline(collect([str(tmp_path / "network"), str(tmp_path / "joint")]))
    assert text_of(told).startswith("Mean IoU is ")  # the steps differ too
    comparison = json.loads((tmp_path / "joint" / "result.json").read_text())["comparison"]["mean_iou"]
    gain, low, high = (f"{100 * comparison[part]:.1f}" for part in ("difference", "low", "high"))
    assert f"the CRF of joint changes mean IoU by +{gain} points ({low} … {high})." in told.note
    assert "Steps of training: 60 for network, 60 + 20 for joint." in told.note
    assert "network alone" not in told.note.replace("its own network alone", "")  # the sentence says it


def test_training_together_is_credited_with_a_gain_after_the_same_steps(tmp_path):
    evaluate(ScoredScenes(6), DenseCRF(2, [Spatial(1, weight=0.1)]), tmp_path / "separate")
    evaluate(ScoredScenes(6), DenseCRF(2, [Spatial(2, weight=1)]), tmp_path / "joint")
    evaluate(ScoredScenes(6, noise=2), None, tmp_path / "start", ["network"])
    trained(tmp_path / "start", 1, 60)
    trained(tmp_path / "separate", 2, 20, tmp_path / "start")
    trained(tmp_path / "joint", 2, 20, tmp_path / "start", "2,2,1")
    runs = [str(tmp_path / name) for name in ("separate", "joint", "start")]
    told = headline(collect(runs))
    assert text_of(told).startswith("Training network and CRF together raises mean IoU by ")
    assert text_of(told).endswith(" over the network alone (separate).") and "Steps" not in told.note
    assert told.note.startswith("Against the CRF of separate: +")
    found = collect(runs[:2])
    assert [steps_of(each, found.trainings) for each in found.trainings] == ["20 in stage 2"] * 2


def test_the_note_does_not_repeat_the_sentence(tmp_path):
    evaluate(ScoredScenes(6), DenseCRF(2, [Spatial(1, weight=0.1)]), tmp_path / "a")
    evaluate(ScoredScenes(6), DenseCRF(2, [Spatial(2, weight=1)]), tmp_path / "b")
    told = headline(collect([str(tmp_path / "a"), str(tmp_path / "b")]))  # two CRFs for one network
    assert told.amount.split()[0] not in told.note and "own network" not in told.note
    assert told.note.startswith("Against the CRF of a: +")


def test_a_crf_without_a_clear_gain_is_not_credited(tmp_path):
    evaluate(ScoredScenes(6, noise=2), None, tmp_path / "network", ["network"])
    evaluate(ScoredScenes(6), DenseCRF(2, [Spatial(1, weight=1e-6)]), tmp_path / "joint")
    trained(tmp_path / "joint", 2, 20, crf="1,1,1e-6")
    told = headline(collect([str(tmp_path / "network"), str(tmp_path / "joint")]))
    assert text_of(told).startswith("Mean IoU is ") and told.effect == "better"
    assert "changes mean IoU by 0.00 points (0.00 … 0.00)." in told.note


def test_a_crf_that_was_trained_with_its_network_goes_before_later_ones(tmp_path):
    evaluate(ScoredScenes(6), DenseCRF(2, [Spatial(2, weight=1)]), tmp_path / "joint")
    (tmp_path / "joint" / "config.toml").write_text("[network]\nfrozen = false\n")
    log = "step,stage,loss,iou,nll,spatial.sigma.0,spatial.sigma.1,spatial.weight\n1,2,1,,,2,2,0.5\n2,2,1,,,2,2,1\n"
    (tmp_path / "joint" / "log.csv").write_text(log)
    evaluate(ScoredScenes(6), DenseCRF(2, [Spatial(2, weight=0.1)]), tmp_path / "later")
    told = text_of(headline(collect([str(tmp_path / "joint"), str(tmp_path / "later")])))
    assert told.startswith("The CRF of joint raises mean IoU by ") and told.endswith(" over its network alone.")


def test_methods_on_other_images_are_not_compared(tmp_path):
    evaluate(ScoredScenes(6), None, tmp_path / "a", ["network"])
    evaluate(ScoredScenes(4), None, tmp_path / "b", ["network"])
    told = headline(collect([str(tmp_path / "a"), str(tmp_path / "b")]))
    assert text_of(told).startswith("Mean IoU is ") and text_of(told).endswith(" on 4 images, the network alone (b).")
    assert told.note == "Nothing else was evaluated on the same images."


def test_images_without_true_labels_have_no_gain(tmp_path):
    evaluate(Unlabelled(2), DenseCRF(2, [Spatial(2, weight=1)]), tmp_path / "a")
    assert text_of(headline(collect([str(tmp_path / "a")]))) == "Mean IoU is – on 2 images, the CRF of a."


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
    assert text_of(headline(collect([str(tmp_path / "run")]))) == "The best validation mean IoU is 62.0%, of run."
