"""The report page shows the collected results, is self-contained, and names missing parts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from html import escape
from html.parser import HTMLParser

import pytest

pytest.importorskip("torch", reason="what the page shows is computed with torch")
pytest.importorskip("jinja2", reason="reports need it")
pytest.importorskip("matplotlib", reason="reports need it")
pytest.importorskip("PIL", reason="reports need it")

from densefield.errors import InputError, InputTypeError
from densefield.evaluation.evaluation import evaluate
from densefield.report.collecting import collect
from densefield.report.page import write_report
from tests.support.report_log import LOG
from tests.support.scored_scenes import ScoredScenes


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


@pytest.mark.parametrize("counts, lead", [([2, 2], "2 images, "), ([4, 1], "1 to 4 images, "), ([1], "1 image, ")])
def test_the_page_starts_with_the_number_of_images(tmp_path, counts, lead):
    runs = [tmp_path / f"run{number}" for number in range(len(counts))]
    for run, images in zip(runs, counts, strict=True):
        evaluate(ScoredScenes(images), None, run, ["network"])
    write_report([str(run) for run in runs], tmp_path / "page.html")
    assert f'<p class="lead">{lead}2 classes.' in (tmp_path / "page.html").read_text(encoding="utf-8")


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


def test_tuned_widths_have_units(page):
    text = page[0].read_text(encoding="utf-8")
    found = re.findall(r"<dt>([^<]*)</dt><dd>[\d.e+-]+(?: <small>(\w+)</small>)?</dd>", text)
    units = {name.partition(" ")[2]: unit for name, unit in found if name.startswith(("spatial", "bilateral"))}
    assert units == dict.fromkeys("xy", "pixels") | dict.fromkeys(("red", "green", "blue"), "levels") | {"weight": ""}


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
        (["empty"], "a.pdf", "ends in .pdf, expected .html"),
        (["empty"], "a", "a has no ending, expected .html"),
        (["=empty"], "a.html", "=empty has no name, expected NAME=FOLDER"),
        (["run="], "a.html", "run= has no folder, expected NAME=FOLDER"),
    ],
)
def test_invalid_results_are_reported(tmp_path, monkeypatch, arguments, out, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=re.escape(message)):
        write_report(arguments, tmp_path / out)


@pytest.mark.parametrize("make", [lambda result: [result], lambda result: {"a": 5}, lambda result: [5]])
def test_runs_of_another_type_are_errors(tmp_path, make):
    result = evaluate(ScoredScenes(2), None, methods=["network"])
    with pytest.raises(InputTypeError, match=r"a run is of type (EvaluationResult|int), expected folders in a list"):
        write_report(make(result), tmp_path / "a.html")
    with pytest.raises(InputTypeError, match="runs is of type EvaluationResult, expected"):
        write_report(result, tmp_path / "a.html")
    with pytest.raises(InputTypeError, match="runs is 'runs/joint', expected"):
        write_report("runs/joint", tmp_path / "a.html")


def test_the_page_may_be_named_by_text(tmp_path):
    result = evaluate(ScoredScenes(2), None, methods=["network"])
    written = write_report({"a": result}, str(tmp_path / "a.html"))
    assert written[0] == tmp_path / "a.html" and all(each.exists() for each in written)


def test_evaluations_of_other_labels_do_not_go_into_one_table(runs, tmp_path):
    other = ScoredScenes(2)
    other.classes = ("ground", "square")
    evaluate(other, None, tmp_path / "eval", ["network"])
    with pytest.raises(InputError, match="make separate reports"):
        collect([str(runs[0]), str(tmp_path)])
