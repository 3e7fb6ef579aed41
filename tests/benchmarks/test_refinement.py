"""The refinement benchmark: tools, measures and tables."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("skimage")
pytest.importorskip("scipy")
pytest.importorskip("PIL")

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("the source distribution has no benchmarks", allow_module_level=True)
NAMES = ("clock", "rough_masks", "refinement_peers", "refinement")


@pytest.fixture(scope="module")
def modules() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        import refinement
        import refinement_peers
        import rough_masks

        yield Namespace(table=refinement, peers=refinement_peers, rough=rough_masks)
        for name in NAMES:
            sys.modules.pop(name)


@pytest.fixture
def scene() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Image, truth and a rough mask in which the square of label 5 has moved by 2 pixels."""
    image = np.random.default_rng(5501).integers(0, 12, (150, 200, 3)).astype(np.uint8)
    truth, rough = np.zeros((2, 150, 200), np.uint8)
    truth[40:100, 60:120] = 5
    rough[40:100, 62:122] = 5
    image[truth == 5] += np.array([200, 120, 40], np.uint8)
    return image, truth, rough


TOOLS = [
    *("nothing", "densefield", "pydensecrf", "GrabCut", "GrabCut without seeds"),
    *("guided filter", "domain transform", "bilateral solver", "random walker"),
]


def test_the_tools_are_all_listed_here(modules: Any) -> None:
    assert list(modules.peers.TOOLS) == TOOLS


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("form", ["labels", "probabilities", "logits"])
def test_a_tool_moves_the_mask_to_the_edge(modules: Any, scene: Any, name: str, form: str) -> None:
    if reason := modules.peers.unavailable(name):
        pytest.skip(reason)
    image, truth, rough = scene
    one_hot = np.eye(6, dtype=np.float32)[rough].transpose(2, 0, 1)
    probabilities = 0.7 * one_hot + 0.05
    forms = {"labels": rough, "probabilities": probabilities, "logits": np.log(probabilities)}
    result = modules.peers.TOOLS[name](image, {form: forms[form]})
    assert result.shape == truth.shape and set(np.unique(result)) == {0, 5}
    if name != "nothing":
        assert (result != truth).sum() < (rough != truth).sum() / 2


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_leaves_a_mask_of_one_label(modules: Any, scene: Any, name: str) -> None:
    if reason := modules.peers.unavailable(name):
        pytest.skip(reason)
    for label in (0, 9):
        mask = np.full(scene[1].shape, label, np.uint8)
        assert np.array_equal(modules.peers.TOOLS[name](scene[0], {"labels": mask}), mask)


def test_a_missing_package_is_named_with_its_extra(modules: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    reason = modules.peers.unavailable("GrabCut")
    assert reason.startswith("GrabCut is skipped") and "densefield[peers]" in reason and "\n" not in reason


def test_only_the_random_walker_refuses_large_photos(modules: Any) -> None:
    large = np.zeros((750, 1000, 3), np.uint8)
    assert [name for name in TOOLS if modules.peers.too_large(name, large)] == ["random walker"]


def test_measures_of_a_shifted_square_are_counted_by_hand(modules: Any, scene: Any) -> None:
    _, truth, rough = scene
    numbers = modules.table.Judge(truth)(rough)
    wrong, square, area = 2 * 2 * 60, 60 * 60, 150 * 200
    ious = [(square - wrong / 2) / (square + wrong / 2), (area - square - wrong / 2) / (area - square + wrong / 2)]
    assert numbers["iou"] == pytest.approx(np.mean(ious))
    assert numbers["edge"] == pytest.approx(1 - wrong / (68 * 68 - 52 * 52))
    assert numbers["length"] == numbers["true_length"] == 4 * 60


def test_void_pixels_do_not_count_and_the_edge_runs_through_their_middle(modules: Any, scene: Any) -> None:
    _, truth, _ = scene
    with_void = truth.copy()
    with_void[40:100, 118:122] = 255
    result = truth.copy()
    result[40:100, 118:122] = 11
    numbers = modules.table.Judge(with_void)(result)
    assert (numbers["iou"], numbers["edge"], numbers["trimap"]) == (1, 1, 1)
    assert numbers["true_length"] == 4 * 60


def test_edges_have_no_accuracy_if_there_are_none(modules: Any) -> None:
    empty = np.zeros((8, 8), np.uint8)
    numbers = modules.table.Judge(empty)(empty)
    assert numbers["iou"] == 1 and np.isnan(numbers["edge"])


def test_distances_agree_with_the_metrics_up_to_their_limit(modules: Any, scene: Any) -> None:
    from densefield.metrics import boundary_distance

    assert np.array_equal(np.minimum(modules.table.edge_distance(scene[1]), 21), boundary_distance(scene[1]))


def fake_results(modules: Any) -> Any:
    """Two kinds, three photos, one of them without an edge; the tool gains 0.1 IoU everywhere."""
    results: Any = {}
    for kind in ("blocks 8", "blocks 16"):
        results[kind] = {"nothing": modules.table.Scores(), "tool": modules.table.Scores()}
        for number, edge in enumerate((0.5, 0.7, float("nan"))):
            numbers = {"iou": 0.6 + number / 10, "edge": edge, "trimap": edge, "length": 30, "true_length": 20}
            results[kind]["nothing"].add(str(number), numbers, 0.0)
            results[kind]["tool"].add(str(number), {**numbers, "iou": numbers["iou"] + 0.1}, 0.25)
    return results


def test_the_main_table_has_the_best_in_bold_and_means_of_groups(modules: Any) -> None:
    lines = modules.table.main_table(modules.table.with_groups(fake_results(modules))).splitlines()
    assert lines[0] == "| IoU / edge, % | as it came | tool |"
    assert lines[2] == "| blocks 8 | 70.0 / **60.0** | **80.0** / **60.0** |"
    assert lines[4] == "| mean of rough | 70.0 / **60.0** | **80.0** / **60.0** |"


def test_the_detailed_table_has_intervals_and_leaves_out_tools_without_results(modules: Any) -> None:
    results = fake_results(modules)
    results["blocks 16"]["tool"] = modules.table.Scores()
    lines = modules.table.detailed_table(results).splitlines()
    assert len(lines) == 2 + 3
    assert "| 80.0 (70.0 … 90.0) | 10.0 (10.0 … 10.0) |" in lines[3] and lines[3].endswith("| 1.50 | 0.250 |")


def test_the_json_file_has_null_instead_of_nan(modules: Any) -> None:
    records = json.loads(modules.table.as_json({"masks": fake_results(modules)}), parse_constant=pytest.fail)
    assert [(each["kind"], each["tool"]) for each in records[:2]] == [("blocks 8", "nothing"), ("blocks 8", "tool")]
    assert records[1]["iou gain"][0] == pytest.approx(0.1) and records[1]["photos"]["edge"] == [0.5, 0.7, None]


def test_every_section_runs_on_real_photos(modules: Any, shared: Path, tmp_path: Path, capsys: Any) -> None:
    if not (shared / "data/logits").is_dir():
        pytest.skip("no logits")
    kinds = ["--kinds", "blocks 16", "network argmax"]
    files = ["--output", str(tmp_path / "table.md"), "--json", str(tmp_path / "numbers.json")]
    modules.table.main(["--photos", "1", "--tools", "densefield", "--sizes", "100", *kinds, *files])
    text = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("##")] == [
        *("## Masks", "## Network", "## Two labels", "## Sizes")
    ]
    assert "| blocks 16, 100 px |" in text and text in capsys.readouterr().out
    assert {each["tool"] for each in json.loads((tmp_path / "numbers.json").read_text())} == {"nothing", "densefield"}
