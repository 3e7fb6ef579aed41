"""The page in Chromium: sliders, paint, copied text, broken files, keyboard, narrow screens."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="the explorer needs Pillow")

from tests.explorer.page_actions import (  # noqa: E402
    after_drawing,
    after_solving,
    choose,
    pixels,
    share_of_label_1,
    show,
    stroke,
)
from tests.support.explored_photos import SIZE, object_of  # noqa: E402

NAMES = ["text", "soft", "accent", "accent-text", "problem", "problem-soft"]
NAMES += ["good", "page", "card", "field", "accent-soft"]
UNNAMED = """() => [...document.querySelectorAll("button, input, select, textarea, canvas")]
    .filter((each) => !each.getAttribute("aria-label") && !each.labels?.length && !each.textContent.trim())
    .map((each) => each.outerHTML)"""
COLOURS = """(names) => names.map((name) =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim())"""


# Counts the requests for results that run at the same time, where they are made.
COUNT_SOLVES = """() => {
    const solves = (window.solves = { now: 0, most: 0, bodies: [] });
    const plain = window.fetch;
    window.fetch = (path, options) => {
        if (!path.endsWith("/solve")) return plain(path, options);
        solves.bodies.push(options.body);
        solves.most = Math.max(solves.most, ++solves.now);
        const counted = plain(path, options);
        const done = () => { solves.now -= 1; };
        counted.then(done, done);
        return counted;
    };
}"""


def test_a_dragged_slider_changes_the_picture_and_the_last_value_wins(page):
    choose(page, "Dense CRF")
    show(page, "after")
    before = pixels(page)
    page.evaluate(COUNT_SOLVES)
    slider = page.get_by_role("slider", name="Confidence of the mask")
    box = slider.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.33, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, middle, steps=40)
    page.mouse.up()
    shown = float(page.get_by_role("spinbutton", name="Confidence of the mask").input_value())
    assert shown > 0.999
    unchanged = "() => [...document.querySelectorAll('.figure')].some((each) => each.innerText === '0.0 %\\nchanged')"
    page.wait_for_function(unchanged)  # only the last value keeps the mask as it is
    after_drawing(page)
    page.wait_for_function("() => window.solves.now === 0")
    solves = page.evaluate("() => window.solves")
    assert json.loads(solves["bodies"][-1])["settings"]["confidence"] == shown
    assert solves["most"] == 1 and len(solves["bodies"]) <= 41
    assert pixels(page) != before


def test_sliders_stay_in_their_place_when_numbers_come(page):
    page.route("**/numbers", lambda route: (page.wait_for_timeout(300), route.continue_()))
    after_solving(page, lambda: page.select_option("#images", index=2))  # its true mask is compared later
    choose(page, "Dense CRF")
    slider = page.get_by_role("slider", name="Confidence of the mask")
    with page.expect_response(lambda response: response.url.endswith("/numbers")):
        before = slider.bounding_box()
        assert "–" in page.inner_text("#numbers")
    page.wait_for_selector("#numbers .up, #numbers .down")
    assert slider.bounding_box() == before


def test_a_slow_result_is_announced(page):
    page.route("**/solve", lambda route: (page.wait_for_timeout(1200), route.continue_()))
    page.click("button.chip:text-is('Dense CRF')")
    page.wait_for_selector("#frame[aria-busy=true]")
    page.wait_for_selector("#frame:not([aria-busy])")


def test_paint_spreads_to_the_object_and_can_be_taken_back(page):
    after_solving(page, lambda: page.select_option("#images", label="3 / 4  c.png"))
    page.select_option("#images", index=3)  # it has no mask
    page.wait_for_selector("#hint:not([hidden])")
    assert "Paint a stroke" in page.inner_text("#hint")
    stroke(page, 1, [(0.45, 0.5), (0.65, 0.5)])
    assert "another label" in page.inner_text("#hint")
    after_solving(page, lambda: stroke(page, 0, [(0.03, 0.06), (0.03, 0.94), (0.97, 0.94), (0.97, 0.06)]))
    page.wait_for_selector("#hint", state="hidden")
    truth = float(object_of(2).mean())
    assert truth > 0.2 and abs(share_of_label_1(page) - truth) < 0.05
    page.click("#clear")
    page.wait_for_selector("#hint:not([hidden])")
    after_solving(page, lambda: page.click("#undo"))  # of clearing
    assert abs(share_of_label_1(page) - truth) < 0.05
    after_solving(page, lambda: page.select_option("#images", index=2))
    after_solving(page, lambda: page.select_option("#images", index=3))  # paint is kept
    page.click("#undo")
    page.wait_for_selector("#hint:not([hidden])")
    page.keyboard.press("Control+z")
    assert page.is_disabled("#undo") and page.is_disabled("#clear")


def test_paint_corrects_a_mask(page):
    choose(page, "Dense CRF")
    before = share_of_label_1(page)
    after_solving(page, lambda: stroke(page, 1, [(0.85, 0.1), (0.95, 0.1), (0.95, 0.3)]))
    assert page.is_checked("input[name=source][value=both]")
    page.wait_for_function(f"() => !document.querySelector('#numbers').textContent.includes('{100 * before:.1f} %')")
    assert share_of_label_1(page) > before


def test_the_copied_python_reproduces_the_saved_mask(page, served):
    choose(page, "pydensecrf README")
    after_solving(
        page,
        lambda: (
            page.get_by_role("spinbutton", name="Width in colour, levels").fill("21.5") or page.keyboard.press("Enter")
        ),
    )
    page.click("button[data-form=python]")
    page.wait_for_selector("#export-status:has-text('Python copied')")
    text = page.evaluate("() => navigator.clipboard.readText()")
    assert text == page.input_value("#snippet") and "sigma_rgb=21.5" in text
    names: dict[str, Any] = {}
    exec(text, names)
    page.click("#save")
    page.wait_for_selector("#export-status:has-text('Saved')")
    with Image.open(served.out / "a.png") as picture:
        assert np.array_equal(np.asarray(picture), names["labels"]) and picture.size == SIZE[::-1]
    with page.expect_download() as download:
        page.click("#download")
    with Image.open(download.value.path()) as picture:
        assert np.array_equal(np.asarray(picture), names["labels"])


def test_a_broken_file_is_skipped_with_a_message(page):
    page.locator("h1").click()
    after_solving(page, lambda: page.keyboard.press("ArrowRight"))
    assert page.input_value("#images") == "2"
    assert "b.png is not an image" in page.inner_text("#notice")
    page.select_option("#images", index=1)
    page.wait_for_function("() => document.querySelector('#notice').textContent.startsWith('/')")
    assert page.input_value("#images") == "2"  # the last image that could be read


def test_a_wrong_value_is_refused_in_words(page):
    choose(page, "Dense CRF")
    page.get_by_role("spinbutton", name="Confidence of the mask").fill("0.2")
    page.keyboard.press("Enter")
    page.wait_for_selector("input[aria-invalid=true]")
    assert page.evaluate("() => document.activeElement.validationMessage").startswith("Expected a number from 0.501 to")
    page.get_by_role("spinbutton", name="Weight").first.fill("-3")
    page.keyboard.press("Enter")
    page.click("summary:text-is('Inference')")
    page.check("label:has-text('Convergent') input")
    page.wait_for_selector("#refused:not([hidden])")
    assert "or untick “Convergent”" in page.inner_text("#refused")


def test_iterations_are_shown_one_by_one(page):
    choose(page, "Dense CRF")
    page.wait_for_selector("#chart circle")
    assert page.locator("#chart circle").count() == 6
    show(page, "before")
    before = pixels(page)
    show(page, "after")
    after = pixels(page)
    asked = after_solving(page, lambda: page.locator("#chart circle").first.click())
    assert asked["settings"]["iterations"] == 0 and page.inner_text("#step-text") == "0 of 5"
    assert pixels(page) == before != after
    page.click("#play")
    page.wait_for_function("() => document.querySelector('#step-text').textContent === '5 of 5'")
    page.wait_for_function("() => document.querySelector('#play').textContent === '▶'")


def test_a_pixel_shows_its_marginals_and_whom_it_listens_to(page, served):
    choose(page, "Dense CRF")
    page.click("label:has(> input[name=view][value=listens])")
    box = page.locator("#picture").bounding_box()
    with page.expect_response(lambda response: response.url.endswith("/row")) as answer:
        page.mouse.click(box["x"] + box["width"] * 0.505, box["y"] + box["height"] * 0.505)
    body = {**answer.value.request.post_data_json, "client": "reader"}
    heat = np.frombuffer(served.ask("images/0/row", json.dumps(body).encode())[2], np.uint8).reshape(SIZE)
    inside = object_of(0).astype(bool)
    assert heat[inside].mean() > 3 * heat[~inside].mean()  # it listens to its own object
    page.wait_for_function("() => document.querySelector('#pixel').textContent.includes(', kept')")
    assert "Column 54, row 36, kept" in page.inner_text("#pixel") and "bilateral" in page.inner_text("#pixel thead")
    page.focus("#picture")
    page.keyboard.press("Shift+ArrowLeft")
    page.wait_for_function("() => document.querySelector('#pixel').textContent.includes('Column 44')")
    assert page.input_value("#images") == "0"  # arrows on the picture are the pixel's


def test_the_focus_stays_when_controls_are_drawn_again(page):
    focused = """() => {
        const {ariaLabel, labels, textContent} = document.activeElement;
        return (ariaLabel || labels?.[0]?.textContent || textContent).trim();
    }"""
    for selector, key, expected in (
        ("button.chip:text-is('Dense CRF')", "Enter", "Dense CRF"),
        ("button:text-is('Add spatial kernel')", "Enter", "Add spatial kernel"),
        ("button[aria-label='Remove the spatial kernel'] >> nth=1", "Enter", "Remove the spatial kernel"),
        ("input[name=source][value=mask]", "ArrowRight", "Mask and paint"),
        ("input[name=label][value='1']", "ArrowLeft", "Label 0"),
        ("button.chip:text-is('Learnt')", "Enter", "Learnt"),
        ("label:has-text('Estimate') input", "Space", "Estimate how rough the mask is"),
    ):
        page.focus(selector)
        page.keyboard.press(key)
        assert page.evaluate(focused) == expected


def test_keys_work_while_a_slider_has_the_focus(page):
    page.focus("#brush")
    size = page.input_value("#brush")
    page.keyboard.press("ArrowRight")  # the slider's
    assert page.input_value("#images") == "0" and page.input_value("#brush") == str(int(size) + 1)
    page.keyboard.press("b")
    assert page.is_checked("input[name=tool][value=paint]")
    stroke(page, 1, [(0.85, 0.1), (0.95, 0.1)])
    page.focus("#brush")
    page.keyboard.press("Control+z")
    assert page.is_disabled("#undo")


def test_labels_of_the_mask_can_be_painted(page):
    def other(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "numbers": [0, 7]})

    page.route("**/images/0", other)
    page.reload()
    labels = page.locator("#swatches input")
    labels.nth(1).wait_for(state="attached")
    page.wait_for_function("() => document.querySelector('#swatches input:checked').value === '7'")
    page.click("#more-labels")
    assert labels.evaluate_all("all => all.map((each) => each.value)") == ["0", "1", "7"]


def test_every_control_has_a_name_and_numbers_are_announced(page):
    choose(page, "Dense CRF")
    assert page.evaluate(UNNAMED) == []
    assert page.get_attribute("#numbers", "aria-live") == "polite" and page.get_attribute("#refused", "role") == "alert"


def test_the_page_fits_narrow_screens_and_has_contrast(page):
    for width, scheme in ((390, "light"), (390, "dark"), (800, "dark"), (1400, "light")):
        page.set_viewport_size({"width": width, "height": 844})
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(f"() => document.documentElement.dataset.theme === '{scheme}'")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        light = dict(zip(NAMES, map(luminance, page.evaluate(COLOURS, NAMES)), strict=True))
        for text, ground in (
            *(("text", each) for each in ("page", "card", "field", "accent-soft")),
            *(("soft", each) for each in ("page", "card", "field")),
            *(("accent-text", "accent"), ("problem", "problem-soft"), ("problem", "card"), ("good", "card")),
        ):
            high, low = max(light[text], light[ground]), min(light[text], light[ground])
            assert (high + 0.05) / (low + 0.05) >= 4.5, (scheme, text, ground)


def luminance(colour: str) -> float:
    """The relative luminance of a colour #rrggbb (WCAG 2)."""
    values = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
