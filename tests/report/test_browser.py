"""The page in Chromium: tables are sorted, images filtered and compared, nothing overflows, nothing fails."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("torch", reason="what the page shows is computed with torch")
pytest.importorskip("jinja2", reason="reports need it")
pytest.importorskip("matplotlib", reason="reports need it")
pytest.importorskip("PIL", reason="reports need it")

from tests.support.scored_scenes import ScoredScenes

IMAGES = 12
# Pixels of the right canvas that are in the colours of errors.
ORANGE = """() => {
  const canvas = document.getElementById("right-canvas");
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const near = (i, colour) => colour.every((value, channel) => Math.abs(data[i + channel] - value) < 30);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) count += near(i, [255, 112, 0]);
  return count;
}"""


def test_tables_are_sorted_by_their_columns(opened):
    page = opened(1400)
    header = page.locator("#results table.sortable").first.locator("thead th").nth(1)
    cells = (
        "[...document.querySelector('#results table').tBodies[0].rows].map((row) => Number(row.cells[1].dataset.value))"
    )
    before = page.evaluate(cells)
    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "descending"
    assert page.evaluate(cells) == sorted(before, reverse=True) != before
    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "ascending" and page.evaluate(cells) == sorted(before)


def test_images_are_filtered_sorted_and_chosen_by_arrow_keys(opened):
    page = opened(1400)
    names = "[...document.querySelectorAll('#list .id')].map((each) => each.textContent)"
    numbers = "[...document.querySelectorAll('#list .numbers')].map((each) => each.textContent)"
    gains = [float(text.split("(")[1].rstrip(")").replace("−", "-")) for text in page.evaluate(numbers)]
    assert gains == sorted(gains, reverse=True) and len(gains) == IMAGES
    page.select_option("#order", "name")
    assert page.evaluate(names) == [f"disc_{number}" for number in range(IMAGES)]
    page.fill("#name-filter", "DISC_1")
    assert page.evaluate(names) == ["disc_1", "disc_10", "disc_11"]
    assert page.inner_text("#count") == f"3 of {IMAGES} images"
    page.click("#list button >> nth=0")
    page.wait_for_function("() => document.getElementById('about').textContent.startsWith('disc_1 ')")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.getElementById('about').textContent.startsWith('disc_10 (2 of 3)')")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("() => document.getElementById('about').textContent.startsWith('disc_1 (1 of 3)')")
    page.fill("#name-filter", "nothing")
    assert page.evaluate(names) == [] and page.locator("#about").is_hidden()
    page.fill("#name-filter", "")
    page.select_option("#class-filter", "1")
    assert len(page.evaluate(names)) == IMAGES  # every scene has a disc
    assert page.locator("#about").is_visible()


def test_keys_are_for_the_viewer_while_its_picture_is_in_view_or_it_has_the_focus(opened):
    page = opened(1400)
    chosen = "document.querySelector('#list [aria-current] .id').textContent"
    first = page.evaluate(chosen)
    for section in ("header", "#boundaries"):
        page.evaluate("selector => document.querySelector(selector).scrollIntoView({behavior: 'instant'})", section)
        page.keyboard.press("ArrowRight")
        page.keyboard.press("f")
        assert page.evaluate(chosen) == first and page.get_attribute("#flip", "aria-pressed") == "false"
    page.evaluate("document.querySelector('.swipe').scrollIntoView({behavior: 'instant', block: 'center'})")
    page.keyboard.press("ArrowRight")
    second = page.evaluate(chosen)
    assert second != first
    page.locator("#list [aria-current] button").focus()
    page.evaluate("document.querySelector('#boundaries').scrollIntoView({behavior: 'instant'})")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(chosen) == first


def test_numbers_say_their_class_and_what_a_gain_refers_to(opened):
    page = opened(1400)
    numbers = "[...document.querySelectorAll('#list .numbers')].map((each) => each.textContent)"
    long = "second, with a rather long name"
    assert page.inner_text("#gain-over") == f"gain over {long}, network"
    page.select_option("#class-filter", "1")
    assert all(text.startswith("disc IoU ") for text in page.evaluate(numbers))
    page.wait_for_function("() => document.getElementById('about').textContent.includes('% disc IoU, ')")
    page.select_option("#left", "truth")
    assert page.inner_text("#gain-over") == f"gain over {long}, network"
    page.select_option("#left", label="first, CRF")
    assert page.inner_text("#gain-over") == "gain over first, CRF"
    page.select_option("#right", label="first, CRF")
    assert page.inner_text("#gain-over") == "" and not any("(" in text for text in page.evaluate(numbers))
    assert not any("−0.0" in text for text in page.evaluate(numbers))


def test_a_gain_that_rounds_to_zero_has_no_sign(browser, address, tmp_path):
    text = Path(unquote(urlsplit(address).path)).read_text(encoding="utf-8")
    start = text.index('id="gallery">') + len('id="gallery">')
    index, end = json.JSONDecoder().raw_decode(text[start:])
    for image in index["images"]:
        image["results"] = {number: {**each, "mean": 0.5} for number, each in image["results"].items()}
    index["images"][0]["results"][str(index["after"])]["mean"] = 0.4997
    (tmp_path / "page.html").write_text(text[:start] + json.dumps(index) + text[start + end :], encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_function("() => document.getElementById('about').textContent !== ''")
    numbers = "[...document.querySelectorAll('#list .numbers')].map((each) => each.textContent)"
    assert set(page.evaluate(numbers)) == {"mean IoU 50.0 (0.0)"}
    page.close()


def test_without_a_match_the_page_says_so(opened):
    page = opened(1400)
    assert page.locator("#no-match").is_hidden()
    page.fill("#name-filter", "nothing")
    assert page.inner_text("#no-match") == "No image has this name."
    assert page.locator(".browser").bounding_box()["height"] < 250
    page.select_option("#class-filter", "1")
    assert page.inner_text("#no-match") == "No image with disc has this name."
    page.fill("#name-filter", "")
    assert page.locator("#no-match").is_hidden() and page.locator(".swipe").bounding_box()["height"] > 300


def test_the_handle_of_the_divider_stays_within_the_picture(opened):
    page = opened(800)
    handle = "parseFloat(getComputedStyle(document.querySelector('.divider'), '::after').left)"
    page.locator(".swipe").scroll_into_view_if_needed()
    assert page.evaluate(handle) == pytest.approx(page.locator(".swipe").bounding_box()["width"] / 2, abs=1)
    page.keyboard.press("f")
    assert page.evaluate(handle) == 18  # half of it, and a margin
    page.keyboard.press("f")
    assert page.evaluate(handle) == pytest.approx(page.locator(".swipe").bounding_box()["width"] - 18, abs=1)


def test_the_list_is_one_stop_of_the_tab_key_and_the_focus_follows_the_arrows(opened):
    page = opened(1400)
    page.select_option("#order", "name")
    page.focus("#name-filter")
    page.keyboard.press("Tab")
    focused = "document.activeElement.textContent"
    assert page.evaluate(focused).startswith("disc_0")
    for key, name in (("ArrowDown", "disc_1"), ("ArrowRight", "disc_2"), ("ArrowUp", "disc_1")):
        page.keyboard.press(key)
        assert page.evaluate(focused).startswith(name)
        assert page.text_content("#list [aria-current] .id") == name
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "view"
    page.keyboard.press("f")  # also while a choice has the focus
    assert page.get_attribute("#flip", "aria-pressed") == "true"
    page.keyboard.press("ArrowRight")
    assert page.is_checked("input[value=errors]") and page.text_content("#list [aria-current] .id") == "disc_1"


def test_a_finger_shows_values_and_labels(opened):
    page = opened(390, touch=True)
    for selector, shown in (("#training .plot", "#training .values-at"), (".swipe", "#readout")):
        area = page.locator(selector).first
        area.scroll_into_view_if_needed()
        box = area.bounding_box()
        assert page.inner_text(shown) == ""
        page.touchscreen.tap(box["x"] + box["width"] * 0.6, box["y"] + 40)
        page.locator(shown).first.wait_for()
    assert "step 20" in page.inner_text("#training .values-at") and "truth: " in page.inner_text("#readout")


def test_the_map_of_confidence_has_no_blocks_of_two_pixels(opened):
    page = opened(1400)
    page.locator("#opacity").evaluate("each => { each.value = 100; each.dispatchEvent(new Event('input')); }")
    page.click("label:has(> input[value=confidence])")
    equal = """() => { // the fraction of the pairs of columns that would be equal in such blocks
      const {width, height} = document.getElementById("right-canvas");
      const {data} = document.getElementById("right-canvas").getContext("2d").getImageData(0, 0, width, height);
      let same = 0, mixed = 0;
      for (let y = 0; y < height; y += 1) for (let x = 0; x + 3 < width; x += 2) {
        const red = (column) => data[4 * (y * width + column)];
        if (red(x) === red(x + 3)) continue; // a uniform part
        mixed += 1;
        same += red(x) === red(x + 1) && red(x + 2) === red(x + 3);
      }
      return [same, mixed];
    }"""
    same, mixed = page.evaluate(equal)
    assert mixed > 50 and same < mixed / 10


def test_two_results_are_swiped(opened):
    page = opened(800)
    box = page.locator(".swipe").bounding_box()
    page.locator("#swipe").scroll_into_view_if_needed()
    box = page.locator(".swipe").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    share = "parseFloat(getComputedStyle(document.querySelector('.swipe')).getPropertyValue('--at'))"
    assert page.evaluate(share) == pytest.approx(25, abs=3)
    assert "truth: " in page.inner_text("#readout") and "%" in page.inner_text("#readout")
    page.locator("#swipe").evaluate("each => each.blur()")
    page.keyboard.press("f")
    assert page.evaluate(share) == 0 and page.get_attribute("#flip", "aria-pressed") == "true"


def test_the_map_of_errors_has_the_wrong_pixels(opened):
    page = opened(1400)
    assert page.evaluate(ORANGE) == 0
    page.fill("#name-filter", "disc_3")
    page.locator("#opacity").evaluate("each => { each.value = 100; each.dispatchEvent(new Event('input')); }")
    page.select_option("#right", label="first, network")
    page.wait_for_function("() => document.getElementById('about').textContent.startsWith('disc_3 ')")
    page.click("label:has(> input[value=errors])")
    scored = ScoredScenes(IMAGES, 1.5)[3]
    wrong = int((scored.log_marginals(None).argmax(0) != scored.labels).sum())
    assert page.evaluate(ORANGE) == wrong > 0
    assert page.inner_text("#right-tag") == "first, network: errors"
    page.click("label:has(> input[value=confidence])")
    assert "confidence" in page.inner_text("#key")


def test_curves_show_their_values_at_the_pointer_and_by_keys(opened):
    page = opened(390)
    plot = page.locator("#training .plot").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + 2 * box["width"] / 3, box["y"] + 20)
    lines = page.locator("#training .values-at").first.inner_text()
    assert "step 20" in lines and "56" in lines and "50" in lines
    plot.focus()
    page.keyboard.press("ArrowRight")
    assert "step 30" in page.locator("#training .values-at").first.inner_text()
