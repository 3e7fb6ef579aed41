"""Evaluation of a network alone and with a CRF, also resumed and in several processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="scores are tensors")
pytest.importorskip("PIL", reason="pictures need Pillow")

from PIL import Image

from densefield.crf.kernels import Bilateral, Spatial
from densefield.errors import InputError
from densefield.evaluation.evaluation import evaluate, read_evaluation
from densefield.evaluation.temperatures import fit_temperatures
from densefield.metrics import SegmentationMetrics
from densefield.nn.dense_crf import DenseCRF
from tests.support.scored_scenes import SIZE, ScoredScenes

ENLARGED = 9  # the factor by which pictures of small images are enlarged to 240 pixels or more
KERNELS = (Spatial(2, weight=1), Bilateral(12, 20, weight=2))


def crf() -> DenseCRF:
    return DenseCRF(2, KERNELS)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluated")
    return evaluate(ScoredScenes(5), crf(), folder, cases=2), folder


class Counting(ScoredScenes):
    asked: list[int]

    def __getitem__(self, index):
        self.asked.append(index)
        return super().__getitem__(index)


def test_the_metrics_equal_segmentation_metrics(evaluated):
    result, folder = evaluated
    _, results = read_evaluation(folder)
    for method, model in (("network", None), ("crf", crf())):
        metrics = SegmentationMetrics(num_classes=2)
        source = ScoredScenes(5)
        for index in range(5):
            scored = source[index]
            metrics.update(scored.log_marginals(model)[None], scored.labels[None], [scored.id])
        expected = metrics.compute()
        assert results[method].mean_iou == expected.mean_iou == result["methods"][method]["mean_iou"]["value"]
        assert results[method].negative_log_likelihood == expected.negative_log_likelihood
        np.testing.assert_array_equal(results[method].confusion, expected.confusion)
        assert results[method].names == expected.names
        np.testing.assert_array_equal(results[method].trimap_iou, expected.trimap_iou)


def test_the_file_holds_the_returned_result(evaluated):
    result, folder = evaluated
    assert json.loads((folder / "result.json").read_text()) == json.loads(json.dumps(result.content))
    assert result["comparison"]["mean_iou"]["difference"] > 0 and result["verdict"].startswith("The CRF helps")


def test_images_that_were_counted_are_not_counted_again(tmp_path):
    source = Counting(5)
    source.asked = []

    def stop(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(source, crf(), tmp_path, cases=0, progress=stop)
    assert source.asked == [0, 1, 2]
    result = evaluate(source, crf(), tmp_path, cases=0)
    assert source.asked == [0, 1, 2, 3, 4]
    again = evaluate(ScoredScenes(5), crf(), tmp_path / "other", cases=0)
    assert result["methods"] == again["methods"]


def test_a_folder_of_another_crf_is_not_resumed(evaluated):
    _, folder = evaluated
    with pytest.raises(InputError, match="holds results of other crf"):
        evaluate(ScoredScenes(5), DenseCRF(2), folder)
    with pytest.raises(InputError, match="holds results of other scores"):
        evaluate(ScoredScenes(5), crf(), folder, about={"scores": "elsewhere"})


def test_the_cases_have_the_largest_gains_and_losses(evaluated):
    result, folder = evaluated
    source = ScoredScenes(5)
    gains = {}
    for index in range(5):
        scored = source[index]
        right = [(scored.log_marginals(model).argmax(0) == scored.labels).float().mean() for model in (None, crf())]
        gains[scored.id] = float(right[1] - right[0])
    best = [case for case in result["cases"] if case["kind"] == "improved"]
    assert [case["id"] for case in best] == sorted(gains, key=lambda name: -gains[name])[:2]
    for case in best:
        gain = case["pixel_accuracy"]["crf"] - case["pixel_accuracy"]["network"]
        assert gain == pytest.approx(gains[case["id"]], abs=1e-6)  # the mean above is in float32
        with Image.open(folder / "cases" / f"{case['id']}.png") as picture:
            assert picture.size == (4 * ENLARGED * SIZE + 6, ENLARGED * SIZE)
    assert not [case for case in result["cases"] if case["kind"] == "worsened"]  # the CRF improves all of these


def test_the_cases_have_the_best_and_the_worst_results(evaluated):
    result, folder = evaluated
    source = ScoredScenes(5)
    quality = {}
    for index in range(5):
        scored = source[index]
        found, true = scored.log_marginals(crf()).argmax(0), scored.labels
        pairs = [(found == label, (true == label)) for label in (0, 1)]
        quality[scored.id] = np.mean([float((a & b).sum() / (a | b).sum()) for a, b in pairs])
    order = sorted(quality, key=lambda name: -quality[name])
    for kind, expected in (("good", order[:2]), ("failure", order[:-3:-1])):
        cases = [case for case in result["cases"] if case["kind"] == kind]
        assert [case["id"] for case in cases] == expected
        for case in cases:
            assert case["mean_iou"]["crf"] == pytest.approx(quality[case["id"]], abs=1e-6)
            assert (folder / "cases" / f"{case['id']}.png").exists()


def test_no_image_is_both_a_good_result_and_a_failure(tmp_path):
    cases = evaluate(ScoredScenes(3), crf(), tmp_path, cases=2)["cases"]
    assert [sum(case["kind"] == kind for case in cases) for kind in ("good", "failure")] == [2, 1]
    assert len({case["id"] for case in cases if case["kind"] in ("good", "failure")}) == 3


def test_a_network_alone_needs_no_crf(tmp_path):
    result = evaluate(ScoredScenes(3), None, tmp_path, ["network"])
    assert list(result["methods"]) == ["network"] and "comparison" not in result
    assert {case["kind"] for case in result["cases"]} == {"good"} and len(result["cases"]) == 3
    with Image.open(tmp_path / "cases" / f"{result['cases'][0]['id']}.png") as picture:
        assert picture.size == (3 * ENLARGED * SIZE + 4, ENLARGED * SIZE)  # image, truth, network


def test_one_image_has_metrics_but_no_interval(tmp_path):
    result = evaluate(ScoredScenes(1), crf(), tmp_path)
    iou = result["methods"]["crf"]["mean_iou"]
    assert iou["low"] == iou["value"] == iou["high"] and "comparison" not in result


@pytest.mark.parametrize("methods", [(), ("network", "network"), ("both",)])
def test_methods_are_network_and_crf(tmp_path, methods):
    with pytest.raises(InputError, match="expected network, crf, or both"):
        evaluate(ScoredScenes(2), crf(), tmp_path, methods)


def test_without_a_crf_the_crf_method_is_rejected(tmp_path):
    with pytest.raises(InputError, match=r'there is no CRF to evaluate: pass crf=, or methods=\("network",\)'):
        evaluate(ScoredScenes(2), None, tmp_path, ("network", "crf"))


def test_an_invalid_state_file_is_named(tmp_path):
    evaluate(ScoredScenes(2), None, tmp_path, ["network"])
    (tmp_path / "evaluation.json").write_text("{")
    with pytest.raises(InputError, match=r"evaluation\.json cannot be read"):
        evaluate(ScoredScenes(2), None, tmp_path, ["network"])


def test_an_invalid_counts_file_is_named(tmp_path):
    evaluate(ScoredScenes(2), None, tmp_path, ["network"])
    (tmp_path / "images" / "disc_0.npz").write_bytes(b"half")
    with pytest.raises(InputError, match=r"disc_0\.npz cannot be read"):
        read_evaluation(tmp_path)
    (tmp_path / "images" / "disc_0.npz").unlink()
    with pytest.raises(InputError, match="lacks the counts of disc_0"):
        read_evaluation(tmp_path)


def test_two_processes_give_the_result_of_one(evaluated, tmp_path):
    result, _ = evaluated
    code = """
import sys
from pathlib import Path
from densefield.evaluation.evaluation import evaluate
from densefield.evaluation.temperatures import fit_temperatures
from densefield.runs.distributed import exit_together
from tests.evaluation.test_evaluation import ScoredScenes, crf
counted = []
evaluate(ScoredScenes(5), crf(), Path(sys.argv[1]), cases=2, progress=lambda done, total: counted.append(total))
fitted = fit_temperatures(ScoredScenes(5), crf(), ["network", "crf"])
print(len(counted), fitted["network"], fitted["crf"], flush=True)
exit_together()
"""
    root = Path(__file__).parents[2]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "PYTHONPATH": str(root)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)],
            env={**os.environ, **shared, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
        )
        for rank in range(2)
    ]
    counts = [process.communicate(timeout=120)[0].split() for process in started]
    assert [process.returncode for process in started] == [0, 0] and [each[0] for each in counts] == ["3", "2"]
    alone = fit_temperatures(ScoredScenes(5), crf(), ["network", "crf"])
    assert [[float(each) for each in printed[1:]] for printed in counts] == 2 * [list(alone.values())]
    merged = json.loads((tmp_path / "result.json").read_text())
    assert merged["methods"] == json.loads(json.dumps(result["methods"])) and merged["cases"] == result["cases"]


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
