"""Chromium, in which tests look at pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# Under root, as in containers, Chromium's sandbox is not available. Chromium's own services are not asked for anything.
OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]


def launched_chromium() -> Iterator[Any]:
    """A headless browser of playwright; the test is skipped without playwright or Chromium.

    For fixtures of a module: while it is open, its event loop runs in the process, which allows no second one.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="pages are tested by playwright")
    found = (shutil.which(name) for name in PROGRAMS)
    program = os.environ.get("DENSEFIELD_CHROMIUM") or next(filter(None, found), None)
    if program is None:
        pytest.skip("no Chromium: install it, or set DENSEFIELD_CHROMIUM")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=OPTIONS)
        yield browser
        browser.close()
