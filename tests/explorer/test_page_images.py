"""The page in Chromium: going through images, the inspected pixel, actions, touch screens and tiny images."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import tomllib

Image = pytest.importorskip("PIL.Image", reason="the explorer needs Pillow")

from tests.explorer.conftest import serving  # noqa: E402
from tests.explorer.page_actions import after_solving, choose, show, stroke  # noqa: E402


def chosen(page: Any) -> tuple[str, str]:
    """Tool and preset."""
    preset = page.locator(".chip[aria-pressed=true]")
    return page.input_value("input[name=tool]:checked"), preset.inner_text() if preset.count() else ""


def test_every_press_of_an_arrow_key_counts(page):
    page.locator("h1").click()
    after_solving(page, lambda: page.keyboard.press("ArrowRight"))  # b is broken
    assert page.input_value("#images") == "2" and "b.png" in page.inner_text("#notice")
    after_solving(page, lambda: page.keyboard.press("ArrowLeft"))
    assert page.input_value("#images") == "0"
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")  # before c is loaded
    page.wait_for_function("() => document.querySelector('#images').value === '3'")
    assert not any(url.endswith("images/1") for url in asked)  # it is known that b cannot be read


def test_tool_and_preset_belong_to_images_with_a_mask_or_without(page):
    choose(page, "Dense CRF")
    assert chosen(page) == ("look", "Dense CRF")
    page.select_option("#images", index=3)  # it has no mask
    page.wait_for_selector("#hint:not([hidden])")
    assert chosen(page) == ("paint", "Scribbles")
    page.click(".chip:text-is('pydensecrf README')")
    after_solving(page, lambda: page.select_option("#images", index=2))
    assert chosen(page) == ("look", "Dense CRF")
    page.select_option("#images", index=3)
    page.wait_for_selector("#hint:not([hidden])")
    assert chosen(page) == ("paint", "pydensecrf README")


def test_the_pixel_is_read_under_the_picture(page):
    page.set_viewport_size({"width": 1400, "height": 900})
    choose(page, "Dense CRF")
    show(page, "listens")
    assert page.inner_text("#point-hint") == "Point at a pixel to see which pixels it listens to."
    box = page.locator("#picture").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.505, box["y"] + box["height"] * 0.505)
    page.wait_for_function("() => document.querySelector('#read-out').textContent.includes('→')")
    assert page.inner_text("#read-out").startswith("Column 54, row 36: label 1, 70.0 % → ")
    place = page.locator("#read-out").bounding_box()
    assert place["y"] + place["height"] < 900
    assert page.is_hidden("#point-hint") and "row 36" in page.inner_text("#pixel")
    show(page, "compare")
    assert page.locator("#picture").bounding_box() == box  # whether there is a legend or not
    after_solving(page, lambda: page.select_option("#images", index=2))
    assert page.inner_text("#read-out") == "Point at a pixel" and "row 36" not in page.inner_text("#pixel")


def test_findings_are_those_of_all_iterations_and_the_saved_step_is_named(page):
    choose(page, "Dense CRF")
    page.wait_for_selector("#chart circle")
    with page.expect_response(lambda response: response.url.endswith("/findings")) as answer:
        page.locator("#chart circle").first.click()
    assert answer.value.request.post_data_json["settings"]["iterations"] == 5
    assert page.inner_text("#export-step") == "The step shown is used: iteration 0 of 5."
    after_solving(page, lambda: page.locator("#chart circle").last.click())
    assert page.is_hidden("#export-step")


def test_actions_run_one_after_another(page):
    answers: list[tuple[str, int]] = []
    page.on(
        "response",
        lambda response: (
            response.request.method == "POST" and answers.append((response.url.rsplit("/", 1)[1], response.status))
        ),
    )
    page.evaluate("() => document.querySelectorAll('#save, [data-form=command]').forEach((each) => each.click())")
    page.wait_for_selector("#export-status:has-text('Saved:')")
    assert [each for each in answers if each[0] in ("export", "save")] == [("export", 200), ("save", 200)]
    wrapped = page.evaluate("() => getComputedStyle(document.querySelector('#snippet')).whiteSpace")
    assert page.input_value("#snippet").startswith("densefield refine ") and wrapped == "pre-wrap"


def test_paint_alone_is_said_to_spread(page):
    stroke(page, 1, [(0.45, 0.5), (0.65, 0.5)])
    stroke(page, 0, [(0.03, 0.06), (0.03, 0.94), (0.97, 0.94)])
    after_solving(page, lambda: page.click("label:has(> input[name=source][value=scribbles])"))
    page.wait_for_selector("#findings:has-text('Paint spread to')")
    assert "spread to" in page.inner_text("#numbers") and "changed" not in page.inner_text("#numbers")


def test_scores_are_not_called_a_mask(page):
    def other(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "mask": "logits"})

    page.route("**/images/0", other)
    page.reload()
    page.wait_for_selector("label:has(> input[name=source][value=mask])")
    assert page.locator("#sliders .segments span").all_inner_texts() == ["Scores", "Scores and paint", "Paint only"]


def test_large_photos_are_announced(page):
    def other(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "large": True})

    page.route("**/images/0", other)
    page.reload()
    page.wait_for_selector("#numbers:has-text('megapixels')")


def test_a_touch_scrolls_the_page_and_drags_the_boundary(browser, served):
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(served.address)
    page.wait_for_selector("#numbers .figure")
    assert page.inner_text("#read-out") == "Tap a pixel"
    devtools = context.new_cdp_session(page)
    handle, picture = page.locator("#frame").bounding_box(), page.locator("#picture").bounding_box()
    middle = handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2

    def drag(start: tuple[float, float], x: float, y: float) -> None:
        for share in range(11):
            place = {"x": start[0] + x * share / 10, "y": start[1] + y * share / 10}
            kind = "touchMove" if share else "touchStart"
            devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [place]})
        devtools.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    drag(middle, 80, 0)
    assert int(page.input_value("#swipe")) > 600
    drag((picture["x"] + 30, picture["y"] + picture["height"] - 20), 0, -120)
    page.wait_for_function("() => scrollY > 50")
    page.evaluate("() => scrollTo(0, 0)")
    page.click("label:has(> input[name=tool][value=paint])")
    page.evaluate("() => scrollTo(0, 0)")
    drag((picture["x"] + 30, picture["y"] + picture["height"] - 20), 0, -60)
    assert page.evaluate("() => scrollY") == 0 and page.is_enabled("#undo")
    context.close()


def test_a_tiny_image_without_a_mask_fills_the_page(browser, tmp_path):
    Image.fromarray(np.random.default_rng(50_417).integers(0, 256, (5, 5, 3), np.uint8)).save(tmp_path / "tiny.png")
    with serving(tmp_path / "out", tmp_path / "tiny.png") as served:
        context = browser.new_context(viewport={"width": 1400, "height": 900}, permissions=["clipboard-read"])
        page = context.new_page()
        page.goto(served.address)
        page.wait_for_selector("#hint:not([hidden])")
        assert page.locator("#picture").bounding_box()["width"] > 400
        assert page.locator("#theme").bounding_box()["x"] > 1300  # at the right, without a list of images too
        for selector in ("#save", "#download", "[data-form=python]", "[data-form=command]"):
            assert page.is_disabled(selector)
        page.click("#copy-toml")  # which needs no result
        page.wait_for_selector("#export-status:has-text('crf.toml')")
        assert tomllib.loads(page.input_value("#snippet"))["iterations"] == 20
        status, _, content = served.ask("crf", json.dumps({"client": "a", "number": 1, "settings": {}}).encode())
        assert status == 400 and "no crf.toml" in json.loads(content)["error"]
        page.set_viewport_size({"width": 1400, "height": 420})
        assert page.locator("#picture").bounding_box()["width"] > 200 and page.is_visible("#tag-before")
        context.close()
