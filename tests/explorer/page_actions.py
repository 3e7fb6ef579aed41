"""What tests do in the page of the explorer."""

from __future__ import annotations

from typing import Any


def pixels(page: Any) -> str:
    """The picture as a PNG, to compare."""
    return page.evaluate("() => document.getElementById('picture').toDataURL()")


def after_drawing(page: Any) -> None:
    """Waits until the changes so far are drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def show(page: Any, view: str) -> None:
    page.click(f"label:has(> input[name=view][value={view}])")
    after_drawing(page)


def after_solving(page: Any, action: Any) -> dict[str, Any]:
    """Acts, waits until the result of the last request is drawn, and returns that request."""
    with page.expect_response(lambda response: response.url.endswith("/solve") and response.ok) as answer:
        action()
    answer.value.finished()
    after_drawing(page)
    return answer.value.request.post_data_json


def choose(page: Any, preset: str) -> None:
    after_solving(page, lambda: page.click(f"button.chip:text-is('{preset}')"))


def stroke(page: Any, label: int, points: list[tuple[float, float]]) -> None:
    """Paints a line through points given as shares of width and height."""
    page.click(f"#swatches label:has(input[value='{label}'])")
    box = page.locator("#picture").bounding_box()
    at = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in points]
    page.mouse.move(*at[0])
    page.mouse.down()
    for point in at[1:]:
        page.mouse.move(*point, steps=4)
    page.mouse.up()


def share_of_label_1(page: Any) -> float:
    texts = page.locator("#numbers .figure").all_inner_texts()
    return next(float(text.split()[0]) / 100 for text in texts if "label 1" in text)
