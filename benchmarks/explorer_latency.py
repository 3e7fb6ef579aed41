"""Measures the explorer in Chromium: milliseconds from the movement of a slider to the drawn picture.

Needs the extra `dev` and Chromium. Give a photo and its mask:

    python benchmarks/explorer_latency.py photo.jpg mask.png --chromium /usr/bin/chromium

Each slider is moved 30 times with pauses, and then dragged across without a pause.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import signal
import subprocess
import sys
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

SLIDERS = (
    ("Dense CRF", "Weight"),
    ("Dense CRF", "Confidence of the mask"),
    ("Dense CRF", "Width in colour levels"),  # a new lattice each time
    ("Learnt", "Iterations"),
)
MOVES, PAUSE = 30, 150  # milliseconds between two moves
DURATIONS = "performance.getEntriesByName('slider to picture').map((each) => each.duration)"


def measured(page: Any, preset: str, name: str) -> tuple[list[float], list[float]]:
    """The durations of single moves, and those while dragging."""
    page.click(f"button.chip:text-is('{preset}')")
    page.wait_for_timeout(1500)
    slider = page.get_by_role("slider", name=name).first
    slider.scroll_into_view_if_needed()
    found = []
    for steps, pause in ((MOVES, PAUSE), (120, 0)):
        page.evaluate("performance.clearMeasures()")
        box = slider.bounding_box()
        y = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + 0.3 * box["width"], y)
        page.mouse.down()
        for step in range(steps):
            page.mouse.move(box["x"] + box["width"] * (0.3 + 0.5 * (step + 1) / steps), y)
            if pause:
                page.wait_for_timeout(pause)
        page.mouse.up()
        page.wait_for_timeout(800)
        found.append(page.evaluate(DURATIONS))
    return found[0], found[1]


def in_short(durations: list[float]) -> str:
    """Median, 95th percentile and number of durations."""
    if not durations:
        return f"{'no picture':>20s}"
    median, high = np.percentile(durations, [50, 95])
    return f"{median:7.0f} {high:7.0f} {len(durations):4d}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("image")
    parser.add_argument("mask")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    options = parser.parse_args()
    command = [sys.executable, "-m", "densefield", "explore", options.image, options.mask, "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None
        with sync_playwright() as playwright:
            arguments = ["--no-sandbox", "--disable-gpu"]
            browser = playwright.chromium.launch(executable_path=options.chromium, args=arguments)
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.goto(found[0])
            page.wait_for_selector("#numbers .figure")
            print(
                f"Chromium {browser.version}, {platform.machine()}, {os.cpu_count()} processors, load", os.getloadavg()
            )
            print(f"{'milliseconds':42s}  median     95%    n   dragging: median     95%    n")
            for preset, name in SLIDERS:
                single, dragged = measured(page, preset, name)
                print(f"{preset + ': ' + name:42s} {in_short(single)}            {in_short(dragged)}", flush=True)
            browser.close()
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()


if __name__ == "__main__":
    main()
