"""Runs, and their page in a browser."""

from __future__ import annotations

import pytest

from tests.support.chromium import launched_chromium
from tests.support.report_log import LOG

CURVES = (
    "step,stage,loss,iou,train_iou,spatial.weight\n10,2,0.9,0.4,0.45,1\n20,2,0.8,0.5,0.56,0.8\n30,2,0.7,0.6,0.66,0.7\n"
)
IMAGES = 12
LOCAL = ("file:", "data:")  # requests that need no network


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A run with a log, a tuning and an evaluation, and a run with only an evaluation."""
    from densefield.crf.kernels import Bilateral, Spatial
    from densefield.evaluation.evaluation import evaluate
    from densefield.nn.dense_crf import DenseCRF
    from densefield.tuning.search import TuningOptions
    from densefield.tuning.tune import tune_crf
    from tests.support.scored_scenes import ScoredScenes

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
def browser():
    """A headless browser."""
    yield from launched_chromium()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of the page of two runs, of which one has a long name and the other a log."""
    from densefield.crf.kernels import Bilateral, Spatial
    from densefield.evaluation.evaluation import evaluate
    from densefield.nn.dense_crf import DenseCRF
    from densefield.report.page import write_report
    from tests.support.scored_scenes import ScoredScenes

    folder = tmp_path_factory.mktemp("browser")
    for run, noise, weight in (("first", 1.5, 0.8), ("second, with a rather long name", 1.2, 2)):
        crf = DenseCRF(2, [Spatial(2, weight=weight), Bilateral(12, 20, weight=weight)])
        evaluate(ScoredScenes(IMAGES, noise), crf, folder / run)
    (folder / "first" / "log.csv").write_text(CURVES)
    runs = [str(path) for path in sorted(folder.iterdir())]
    write_report(runs, folder / "report.html")
    return (folder / "report.html").as_uri()


@pytest.fixture
def opened(browser, address):
    """Opens the page at a width; at the end, nothing may have failed in it or been requested by it."""
    messages, pages = [], []

    def open_page(width: int, scheme: str = "light", touch: bool = False):
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme, has_touch=touch)
        page.on("console", lambda message: message.type == "error" and messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: request.url.startswith(LOCAL) or messages.append(request.url))
        page.goto(address)
        page.wait_for_function("() => document.getElementById('about').textContent !== ''")
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert messages == []
