"""The page fits its window, and paper."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("torch", reason="what the page shows is computed with torch")
pytest.importorskip("jinja2", reason="reports need it")
pytest.importorskip("matplotlib", reason="reports need it")
pytest.importorskip("PIL", reason="reports need it")

from densefield.evaluation.evaluation import evaluate
from densefield.report.page import write_report
from tests.support.scored_scenes import ScoredScenes


@pytest.mark.parametrize("width, scheme", [(1400, "light"), (800, "light"), (390, "dark")])
def test_nothing_is_wider_than_the_page(opened, width, scheme):
    page = opened(width, scheme)
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.wait_for_timeout(100)  # for the tables that became visible
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = """[...document.querySelectorAll('.table, .swipe, .chart, .intervals, h1, .controls')]
        .filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.outerHTML.slice(0, 80))"""
    assert page.evaluate(wide) == []
    widths = "[...document.querySelectorAll('#classes .bar')].map((each) => each.getBoundingClientRect().width)"
    assert len(set(page.evaluate(widths))) == 1  # bars have one scale
    places = """[...document.querySelectorAll('#classes table.cards tbody tr')].map((row) =>
        new Set([...row.querySelectorAll('.bar')].map((each) => Math.round(each.getBoundingClientRect().left))).size)"""
    assert set(page.evaluate(places)) <= {1}  # bars of a card start at the same place
    assert width > 390 or page.evaluate(places)


def test_a_table_of_many_methods_is_scrolled_beside_its_first_column(browser, address, tmp_path):
    folder = Path(unquote(urlsplit(address).path)).parent / "first"
    write_report([f"run {number} with a long name={folder}" for number in range(4)], tmp_path / "page.html")
    page = browser.new_page(viewport={"width": 300, "height": 800})
    page.goto((tmp_path / "page.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 300
    box = "document.querySelector('#classes .scrolled')"
    assert page.evaluate(f"{box}.scrollWidth > {box}.clientWidth && !{box}.querySelector('.cards')")
    left = f"{box}.querySelector('tbody th').getBoundingClientRect().left - {box}.getBoundingClientRect().left"
    page.evaluate(f"{box}.scrollLeft = 1000")
    assert page.evaluate(left) == 0 < page.evaluate(f"{box}.scrollLeft")
    page.close()


def test_a_picture_is_seen_with_its_buttons_numbers_and_colours(opened):
    page = opened(1400)
    page.evaluate("document.querySelector('#viewer').scrollIntoView({behavior: 'instant'})")
    for selector in (".stage .controls", ".swipe", ".steps", "#about", "#key"):
        box = page.locator(selector).bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 800
    assert page.locator(".swipe").bounding_box()["height"] > 400


def test_a_long_name_takes_two_lines_of_the_list(browser, tmp_path):
    name = 180 * "x"
    source = ScoredScenes(2)
    source.ids = ("short", name)
    evaluate(source, None, tmp_path / "run", ["network"])
    write_report([str(tmp_path / "run")], tmp_path / "page.html")
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    entry = page.locator("#list button", has_text=name)
    assert entry.bounding_box()["height"] < 90 and entry.get_attribute("title") == name
    assert page.locator("#list .id", has_text=name).bounding_box()["height"] < 40
    page.close()


def test_paper_is_light_and_has_what_is_folded_on_the_screen(opened):
    page = opened(800, "dark")
    better = "getComputedStyle(document.documentElement).getPropertyValue('--good')"
    folded = "document.querySelectorAll('details:not([open])').length"
    dark, before = page.evaluate(better), page.evaluate(folded)
    assert before > 0
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(folded) == 0 and page.locator(".command").first.is_visible()
    assert page.locator(".keys").is_hidden()
    on_paper = page.evaluate(better)
    page.emulate_media(media="screen", color_scheme="light")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert on_paper == page.evaluate(better) != dark and page.evaluate(folded) == before
