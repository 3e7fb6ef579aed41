"""The report page shows the collected results, is self-contained, and names missing parts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from dataclasses import replace
from html import escape
from html.parser import HTMLParser

import pytest

pytest.importorskip("torch", reason="what the page shows is computed with torch")
pytest.importorskip("jinja2", reason="reports need it")
pytest.importorskip("matplotlib", reason="reports need it")
pytest.importorskip("PIL", reason="reports need it")

from densefield.crf.kernels import Bilateral, Spatial
from densefield.errors import InputError
from densefield.evaluation.evaluation import evaluate
from densefield.nn.dense_crf import DenseCRF
from densefield.report.collecting import collect
from densefield.report.page import write_report
from densefield.report.provenance import steps
from densefield.report.tables import difference_table, effect_table, headline_table, iou_table, transposed
from densefield.runs.scored_images import ScoredImage
from densefield.tuning.search import TuningOptions
from densefield.tuning.tune import tune_crf
from tests.support.scored_scenes import ScoredScenes

LOG = """\
step,stage,loss,iou,train_iou,images_per_second,spatial.sigma.0,spatial.sigma.1,spatial.weight,bilateral.sigma.2
1,2,0.9,,,10,3,3,1,10
2,2,0.7,0.4,0.45,10,3.1,3.2,0.9,9
3,2,0.6,,,10,3.2,3.3,0.8,8.5
4,2,0.5,0.6,0.65,10,3.3,3.4,0.7,8
"""


class HalfScenes(ScoredScenes):
    """The same images at half the size."""

    def __getitem__(self, index):
        whole = super().__getitem__(index)
        return ScoredImage(whole.scores[:, ::2, ::2], whole.image[:, ::2, ::2], whole.labels[::2, ::2], whole.id)


class OneScene(ScoredScenes):
    """Identical images."""

    def __getitem__(self, index):
        return replace(super().__getitem__(0), id=self.ids[index])


class Page(HTMLParser):
    """Headings, external resources, and the content of scripts by type."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.sources: list[str] = []
        self.scripts: list[tuple[str | None, str]] = []
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self._open = tag
        found = dict(attributes)
        self.sources += [found[name] for name in ("src", "href") if found.get(name)]
        if tag == "script":
            self.scripts.append((found.get("type"), ""))
        if tag in ("h1", "h2"):
            self.headings.append("")

    def handle_endtag(self, tag):
        if tag != "em":
            self._open = ""

    def handle_data(self, data):
        if self._open in ("h1", "h2", "em"):
            self.headings[-1] += data
        if self._open == "script":
            self.scripts[-1] = (self.scripts[-1][0], data)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run with a log, a tuning and an evaluation, and a run with only an evaluation."""
    folder = tmp_path_factory.mktemp("runs")
    first, second = folder / "separate", folder / "joint <b>"
    source = ScoredScenes(6)
    tune_crf(source, first / "tune", TuningOptions(trials=2, evaluations=2, shrink=1))
    evaluate(source, DenseCRF(2, [Spatial(1.5, weight=0.8)]), first / "eval")
    evaluate(source, DenseCRF(2, [Spatial(2, weight=1), Bilateral(12, 20, weight=2)]), second / "eval")
    (first / "log.csv").write_text(LOG)
    (first / "config.toml").write_text('[data]\nroot = "<data>"\n')
    return first, second


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    out = tmp_path_factory.mktemp("page") / "report.html"
    return out, write_report([str(run) for run in runs], out)


def test_every_part_is_on_the_page(page):
    out, _ = page
    title, *headings = Page(out.read_text(encoding="utf-8")).headings
    methods = r"for the CRF of joint <b> than for the network alone \(separate\)"
    assert re.fullmatch(rf"Mean IoU is \d+\.\d points higher \(\d+\.\d\s…\s\d+\.\d\) {methods}\.", title)
    assert headings == [
        "Results",
        "Images",
        "IoU of each class",
        "Training",
        "CRF parameters over time: separate",
        "Boundaries and calibration",
        "Separately tuned CRF",
        "How it was made",
    ]


def test_every_section_has_a_link_at_the_top(page):
    text = page[0].read_text(encoding="utf-8")
    navigation = text[text.index("<nav") : text.index("</nav>")]
    links = re.findall(r'href="#([\w-]+)"', navigation)
    assert links == [*re.findall(r'<section id="([\w-]+)"', text)] and "parameters-0" in links
    assert text[: text.index("<nav")].count("6 images") == 1


def test_the_page_is_self_contained(page):
    out, _ = page
    text = out.read_text(encoding="utf-8")
    assert all(source.startswith("#") for source in Page(text).sources)
    assert not re.search(r"url\(|@import|https?:", text)


def test_no_script_but_that_of_the_page_may_run(page):
    text = page[0].read_text(encoding="utf-8")
    scripts = Page(text).scripts
    (script,) = [content for kind, content in scripts if kind is None]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text
    assert len(scripts) > 1 and all(kind in (None, "application/json") for kind, _ in scripts)
    for kind, content in scripts:
        if kind is not None:
            json.loads(content)


def test_the_figures_are_also_saved_as_png(page):
    _, written = page
    names = {path.name for path in written[1:]}
    assert names == {"training.png", "trimap.png", "reliability.png", "crf-0.png"}
    assert all(
        path.read_bytes().startswith(b"\x89PNG") and path.parent.name == "report-figures" for path in written[1:]
    )


def test_names_and_settings_are_escaped(page):
    text = page[0].read_text(encoding="utf-8")
    assert "joint &lt;b&gt;, CRF" in text and "joint <b>" not in text and "&lt;data&gt;" in text


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


@pytest.mark.parametrize("counts, lead", [([2, 2], "2 images, "), ([4, 1], "1 to 4 images, "), ([1], "1 image, ")])
def test_the_page_starts_with_the_number_of_images(tmp_path, counts, lead):
    runs = [tmp_path / f"run{number}" for number in range(len(counts))]
    for run, images in zip(runs, counts, strict=True):
        evaluate(ScoredScenes(images), None, run, ["network"])
    write_report([str(run) for run in runs], tmp_path / "page.html")
    assert f'<p class="lead">{lead}2 classes.' in (tmp_path / "page.html").read_text(encoding="utf-8")


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


def test_the_page_names_command_date_and_seconds_of_an_evaluation(page, runs):
    text = page[0].read_text(encoding="utf-8")
    result = json.loads((runs[1] / "eval" / "result.json").read_text())
    assert escape(result["command"]) in text
    minute = result["date"][:16].replace("T", "\xa0")
    assert result["date"].endswith("+00:00") and f"<dt>date</dt><dd>{minute}\xa0UTC</dd>" in text
    assert re.search(r"<dt>seconds in the CRF</dt><dd>\d+\.\d for 6 images, \d+ ms for each</dd>", text)


def test_an_evaluation_of_an_earlier_version_is_shown_with_its_cases(runs, tmp_path):
    shutil.copytree(runs[1] / "eval", tmp_path / "eval")
    for path in (tmp_path / "eval" / "cases").glob("*.npz"):
        path.unlink()
    result = json.loads((tmp_path / "eval" / "result.json").read_text())
    old = {name: value for name, value in result.items() if name not in ("command", "date")}
    (tmp_path / "eval" / "result.json").write_text(json.dumps(old))
    write_report([str(tmp_path / "eval")], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "It stored no pictures of the others" in text and "The command was not stored." in text
    assert text.count('src="data:image/jpeg;base64,') == len(result["cases"])
    assert "seconds in the CRF" not in text


def test_the_table_of_labels_ends_with_their_mean(runs):
    found = collect([str(runs[1])])
    table = iou_table(found.methods, found.classes)
    assert [name for name, _ in table.rows] == ["ground", "disc", "mean"]
    result = found.methods[1].result
    assert table.rows[1][1][1].text == f"{100 * result.iou[1]:.1f}"
    assert table.rows[2][1][1].text == f"{100 * result.mean_iou:.1f}" and table.rows[2][1][1].best


def test_fingerprints_are_named(tmp_path):
    about = {"split": "val", "weights": "00aa11bb22cc33dd"}
    evaluate(ScoredScenes(2), None, tmp_path / "eval", ["network"], about=about)
    (step,) = steps(collect([str(tmp_path / "eval")]))
    assert step.facts["split"] == "val" and step.facts["fingerprint of weights"] == "00aa11bb22cc33dd"


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


def test_a_run_may_be_given_a_name(runs, tmp_path):
    found = collect([f"together={runs[1]}"])
    assert found.methods[0].title == "together, network"


def test_a_page_needs_only_a_log(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "log.csv").write_text(LOG)
    write_report([str(tmp_path / "run")], tmp_path / "log.html")
    headings = Page((tmp_path / "log.html").read_text(encoding="utf-8")).headings
    parts = ["Training", "CRF parameters over time: run", "How it was made"]
    assert headings == ["The best validation mean IoU is 60.0%, of run.", *parts]


def test_logs_below_the_folder_have_their_curves_on_the_page(tmp_path):
    for name in ("net", "joint"):
        (tmp_path / "all" / name).mkdir(parents=True)
        (tmp_path / "all" / name / "log.csv").write_text(LOG)
    write_report([str(tmp_path / "all")], tmp_path / "logs.html")
    headings = Page((tmp_path / "logs.html").read_text(encoding="utf-8")).headings
    over_time = [f"CRF parameters over time: all/{name}" for name in ("joint", "net")]
    assert headings[1:] == ["Training", *over_time, "How it was made"]


def test_blank_cells_of_the_log_are_not_plotted(runs):
    (training,) = collect([str(runs[0])]).trainings
    assert training.stage == 2 and training.curve("iou") == ([2.0, 4.0], [0.4, 0.6])
    assert training.curve("spatial.weight")[1] == [1.0, 0.9, 0.8, 0.7] and training.curve("nothing") == ([], [])


@pytest.mark.parametrize(
    "arguments, out, message",
    [
        ([], "a.html", "there are no runs"),
        (["none"], "a.html", "there is no folder none"),
        (["empty"], "a.html", "has neither log.csv nor result.json"),
        (["empty"], "a.pdf", "expected .html"),
    ],
)
def test_invalid_results_are_reported(tmp_path, monkeypatch, arguments, out, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=re.escape(message)):
        write_report(arguments, tmp_path / out)


def test_evaluations_of_other_labels_do_not_go_into_one_table(runs, tmp_path):
    other = ScoredScenes(2)
    other.classes = ("ground", "square")
    evaluate(other, None, tmp_path / "eval", ["network"])
    with pytest.raises(InputError, match="make separate reports"):
        collect([str(runs[0]), str(tmp_path)])
