"""The tables of the page: numbers, intervals, gains, and what they leave out."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

pytest.importorskip("torch", reason="what the page shows is computed with torch")
pytest.importorskip("jinja2", reason="reports need it")
pytest.importorskip("matplotlib", reason="reports need it")
pytest.importorskip("PIL", reason="reports need it")

from densefield.crf.kernels import Spatial
from densefield.evaluation.evaluation import evaluate
from densefield.nn.dense_crf import DenseCRF
from densefield.report.collecting import collect
from densefield.report.page import write_report
from densefield.report.tables import difference_table, effect_table, headline_table, iou_table, transposed
from densefield.runs.scored_images import ScoredImage
from tests.support.scored_scenes import ScoredScenes


class HalfScenes(ScoredScenes):
    """The same images at half the size."""

    def __getitem__(self, index):
        whole = super().__getitem__(index)
        return ScoredImage(whole.scores[:, ::2, ::2], whole.image[:, ::2, ::2], whole.labels[::2, ::2], whole.id)


class OneScene(ScoredScenes):
    """Identical images."""

    def __getitem__(self, index):
        return replace(super().__getitem__(0), id=self.ids[index])


def test_the_table_of_results_has_gains_over_the_first_row(runs):
    table = headline_table(collect([str(run) for run in runs]).methods)
    assert table.columns[0] == "mean IoU"
    titles = [title for title, _ in table.rows]
    assert titles == ["separate, network", "separate, CRF", "joint <b>, network", "joint <b>, CRF"]
    first, _, same, joint = (cells for _, cells in table.rows)
    assert first[0].gain == "" and same[0].gain == "0.00" and same[0].clear == ""
    assert joint[0].clear == "better" and joint[0].best and joint[0].gain.startswith("+")
    digits = [[len(text.split(".")[1]) for text in (cell.text, cell.gain)] for cell in joint]
    assert digits == [[1, 2], [1, 2], [1, 2], [3, 4], [3, 4]]
    assert not first[0].best and " … " in first[0].interval


def test_gains_of_all_tables_have_the_same_sign_and_mark(runs, tmp_path):
    evaluate(ScoredScenes(6), DenseCRF(2, [Spatial(1, weight=0.02)]), tmp_path / "weak")
    evaluate(ScoredScenes(6), DenseCRF(2, [Spatial(1, weight=1e-7)]), tmp_path / "nothing")
    for run in ("weak", "nothing"):
        methods = collect([str(tmp_path / run)]).methods
        (_, (_, cells)), ((_, effects),) = headline_table(methods).rows, effect_table(methods).rows
        assert [(cell.gain, cell.clear) for cell in cells] == [(cell.text, cell.clear) for cell in effects]
        assert all(not cell.clear and cell.gain[0] == "0" for cell in cells) == (run == "nothing")


def test_every_method_is_compared_with_those_before_it_on_the_same_images(runs, tmp_path):
    evaluate(ScoredScenes(4), None, tmp_path / "fewer", ["network"])
    methods = collect([*(str(run) for run in runs), str(tmp_path / "fewer")]).methods
    table = difference_table(methods)
    assert table.columns == [method.title for method in methods[:-1]]
    assert [title for title, _ in table.rows] == [method.title for method in methods[1:]]
    cells = dict(table.rows)["joint <b>, CRF"]
    expected = 100 * (methods[3].result.mean_iou - methods[1].result.mean_iou)
    assert cells[1].text == f"{expected:+.2f}" and cells[1].clear == "better" and " … +" in cells[1].interval
    assert cells[3].text == "" and all(cell.text == "" for cell in table.rows[-1][1])  # the method itself; fewer images


def test_methods_evaluated_at_other_sizes_are_shown_without_differences(runs, tmp_path):
    evaluate(HalfScenes(6), DenseCRF(2, [Spatial(1, weight=0.8)]), tmp_path / "half")
    given = [str(runs[0]), str(tmp_path / "half")]
    methods = collect(given).methods
    gains = {title: cells[0].gain for title, cells in headline_table(methods).rows}
    assert gains["separate, CRF"] and gains["half, network"] == gains["half, CRF"] == ""
    texts = {title: [cell.text for cell in cells] for title, cells in difference_table(methods).rows}
    assert texts["half, network"] == ["", "", ""] and texts["half, CRF"][:2] == ["", ""] and texts["half, CRF"][2]
    write_report(given, tmp_path / "page.html")
    assert "half, CRF" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_images_of_other_names_are_not_compared(tmp_path):
    for run in ("one", "two"):
        source = OneScene(2)
        source.ids = (f"{run}_0", f"{run}_1")
        evaluate(source, None, tmp_path / run, ["network"])
    _, (_, cells) = headline_table(collect([str(tmp_path)]).methods).rows
    assert cells[0].gain == ""


def test_methods_are_paired_by_image_names_in_any_order(runs, tmp_path):
    evaluate(ScoredScenes(6), None, tmp_path / "eval", ["network"])
    path = tmp_path / "eval" / "result.json"
    result = json.loads(path.read_text())
    path.write_text(json.dumps({**result, "images": result["images"][::-1]}))
    cells = headline_table(collect([str(runs[0]), str(tmp_path)]).methods).rows[-1][1]
    assert cells[0].gain == "0.00"


def test_a_network_of_stage_1_is_listed_first_and_the_baseline_stays_the_first_run(runs, tmp_path):
    evaluate(ScoredScenes(6), None, tmp_path / "network" / "eval", ["network"])
    (tmp_path / "network" / "log.csv").write_text("step,stage,loss,iou\n1,1,0.9,0.5\n")
    methods = collect([str(runs[1]), f"stage 1={tmp_path / 'network'}"]).methods
    first, second, _ = headline_table(methods).rows
    assert first[0] == "stage 1, network" and first[1][0].gain == "0.00"
    assert second[0] == "joint <b>, network" and second[1][0].gain == ""
    assert iou_table(methods, ("ground", "disc")).columns[0] == difference_table(methods).columns[0] == first[0]


def test_of_several_best_methods_none_is_marked(runs):
    table = headline_table(collect([str(runs[0]), f"again={runs[0]}"]).methods)
    assert not any(cell.best for _, cells in table.rows for cell in cells)


def test_the_effect_of_each_crf_is_that_of_the_evaluation(runs):
    rows = dict(effect_table(collect([str(run) for run in runs]).methods).rows)
    gain = json.loads((runs[1] / "eval" / "result.json").read_text())["comparison"]["mean_iou"]
    assert list(rows) == ["separate", "joint <b>"]
    cell = rows["joint <b>"][0]
    assert (
        cell.value == gain["difference"] and cell.text == f"{100 * gain['difference']:+.2f}" and cell.clear == "better"
    )
    assert cell.interval == f"{100 * gain['low']:+.2f} … {100 * gain['high']:+.2f}"


def test_the_table_of_labels_ends_with_their_mean(runs):
    found = collect([str(runs[1])])
    table = iou_table(found.methods, found.classes)
    assert [name for name, _ in table.rows] == ["ground", "disc", "mean"]
    result = found.methods[1].result
    assert table.rows[1][1][1].text == f"{100 * result.iou[1]:.1f}"
    assert table.rows[2][1][1].text == f"{100 * result.mean_iou:.1f}" and table.rows[2][1][1].best


def test_numbers_without_an_interval_are_explained(tmp_path):
    text = "A number without an interval is the same in every resample"
    for images, explained in ((6, False), (1, True)):
        evaluate(ScoredScenes(images), None, tmp_path / str(images), ["network"])
        write_report([str(tmp_path / str(images))], tmp_path / "page.html")
        assert (text in (tmp_path / "page.html").read_text(encoding="utf-8")) == explained


def test_many_methods_are_the_rows_of_the_table_of_classes(runs, tmp_path):
    named = [f"run {number}={runs[0]}" for number in range(4)]
    found = collect(named)
    table, rows = (
        iou_table(found.methods, found.classes),
        dict(transposed(iou_table(found.methods, found.classes)).rows),
    )
    assert transposed(table).columns == ["mean", "ground", "disc"] and list(rows) == table.columns
    assert [cell.text for cell in rows["run 0, CRF"]] == [table.rows[place][1][1].text for place in (2, 0, 1)]
    name = 'role="region" aria-label="IoU of each class"'
    for chosen, scrolled in ((named[:3], False), (named, True)):
        write_report(chosen, tmp_path / "page.html")
        assert (name in (tmp_path / "page.html").read_text(encoding="utf-8")) == scrolled
