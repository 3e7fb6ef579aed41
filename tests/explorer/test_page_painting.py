"""Painting in Chromium: undo, two fingers, the keyboard, and the boundary between input and result."""

from __future__ import annotations

import pytest

pytest.importorskip("PIL.Image", reason="the explorer needs Pillow")

from tests.explorer.page_actions import after_drawing, after_solving, choose, pixels, show, stroke

POINTER = """([kind, id, x, y]) => {
    const canvas = document.getElementById("picture");
    canvas.setPointerCapture = () => {};  // there is no such pointer
    const box = canvas.getBoundingClientRect();
    const clientX = box.left + x * box.width;
    const clientY = box.top + y * box.height;
    canvas.dispatchEvent(new PointerEvent(kind, { pointerId: id, button: 0, clientX, clientY, bubbles: true }));
}"""


def test_a_second_finger_neither_paints_nor_ends_the_stroke(page):
    page.click("label:has(> input[name=tool][value=paint])")
    before = pixels(page)
    for event in (
        ["pointerdown", 71, 0.2, 0.2],
        ["pointerdown", 72, 0.8, 0.8],
        ["pointermove", 72, 0.8, 0.3],
        ["pointerup", 72, 0.8, 0.3],
        ["pointermove", 71, 0.3, 0.2],
    ):
        page.evaluate(POINTER, event)
    after_solving(page, lambda: page.evaluate(POINTER, ["pointerup", 71, 0.3, 0.2]))
    assert pixels(page) != before
    page.click("#undo")
    assert page.is_disabled("#undo") and page.is_disabled("#clear")  # nothing is painted


def test_undo_during_a_stroke_reverts_all_of_it(page):
    page.click("label:has(> input[name=tool][value=paint])")
    box = page.locator("#picture").bounding_box()
    page.mouse.move(box["x"] + 30, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 80, box["y"] + 30, steps=4)
    page.keyboard.press("Control+z")
    page.mouse.move(box["x"] + 80, box["y"] + 90, steps=4)
    page.mouse.up()
    assert page.is_disabled("#undo") and page.is_disabled("#clear")


def test_enter_paints_at_the_inspected_pixel(page):
    page.click("label:has(> input[name=tool][value=paint])")
    page.focus("#picture")
    page.keyboard.press("ArrowRight")
    after_solving(page, lambda: page.keyboard.press("Enter"))
    assert page.is_enabled("#undo")
    page.keyboard.press("Control+z")
    assert page.is_disabled("#undo") and page.is_disabled("#clear")


def test_a_stroke_may_begin_at_the_boundary(page):
    show(page, "compare")
    box = page.locator("#picture").bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    at = "([x, y]) => document.elementFromPoint(x, y).id"
    assert page.evaluate(at, middle) == "swipe"
    page.click("label:has(> input[name=tool][value=paint])")
    after_drawing(page)
    assert page.evaluate(at, middle) == "picture"
    after_solving(page, lambda: stroke(page, 1, [(0.5, 0.5), (0.6, 0.5)]))
    assert page.is_enabled("#undo") and page.input_value("#swipe") == "500"


def test_every_confidence_of_the_slider_has_a_result(page):
    choose(page, "Dense CRF")
    slider = page.get_by_role("slider", name="Confidence of the mask")
    slider.focus()
    after_solving(page, lambda: page.keyboard.press("Home"))
    page.wait_for_function("() => document.getElementById('refused').hidden")
    assert 0.5 < float(page.get_by_role("spinbutton", name="Confidence of the mask").input_value()) < 0.52


def test_numbers_of_the_result_before_are_pale(page):
    page.wait_for_selector("#numbers .up, #numbers .down")
    page.route("**/numbers", lambda route: (page.wait_for_timeout(400), route.continue_()))
    choose(page, "Dense CRF")
    assert page.locator("#numbers .outdated").count() == 2
    page.wait_for_selector("#numbers .figure:not(.outdated) .up, #numbers .figure:not(.outdated) .down")
    assert page.locator("#numbers .outdated").count() == 0


def test_the_free_energy_of_the_first_iterations_is_called_so(page):
    choose(page, "Dense CRF")
    page.get_by_role("spinbutton", name="Iterations").fill("90")
    after_solving(page, lambda: page.keyboard.press("Enter"))
    page.wait_for_selector("#chart text:text-is('Free energy, first 60 iterations')")
    assert page.locator("#chart .point.now").count() == 0  # the 90th iteration is not shown


def test_reloading_keeps_the_chosen_theme_and_controls_in_focus_are_seen(page):
    page.click("#theme")
    page.reload()
    page.wait_for_selector("#numbers .figure")
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    page.set_viewport_size({"width": 390, "height": 844})
    choose(page, "Dense CRF")
    hidden = page.evaluate(
        """() => [...document.querySelectorAll(".panel input, .panel button")].reverse().filter((each) => {
            each.focus();
            const box = each.getBoundingClientRect();
            const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
            return box.width && document.elementFromPoint(x, y)?.closest(".frame");
        }).length"""
    )
    assert hidden == 0
