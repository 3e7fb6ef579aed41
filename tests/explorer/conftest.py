"""A folder of small photos with masks, and an explorer of it in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.chromium import launched_chromium
from tests.support.explored_photos import object_of, photo_of, rough_of, write_mask


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """photos/, masks/ and truth/ of a, c and d; b is broken, and d has no mask."""
    image = pytest.importorskip("PIL.Image", reason="the explorer needs Pillow")
    folder = tmp_path_factory.mktemp("explored")
    for name in ("photos", "masks", "truth"):
        (folder / name).mkdir()
    for seed, name in enumerate("acd"):
        image.fromarray(photo_of(seed)).save(folder / "photos" / f"{name}.png")
        write_mask(folder / "truth" / f"{name}.png", object_of(seed))
        if name != "d":
            write_mask(folder / "masks" / f"{name}.png", rough_of(seed))
    (folder / "photos" / "b.png").write_bytes(b"not an image")
    return folder


@dataclass(frozen=True)
class Served:
    """A running explorer."""

    address: str
    process: subprocess.Popen[str]
    out: Path

    def ask(
        self, path: str, body: bytes | None = None, method: str | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content of a request to a path below the token; headers replace those of the page."""
        parts = urlsplit(self.address)
        connection = HTTPConnection(parts.netloc, timeout=30)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            given = {"Content-Type": "application/json", **given}
        full = path if path.startswith("/") else f"{parts.path}{path}"
        connection.request(method or ("GET" if body is None else "POST"), full, body, given)
        answer = connection.getresponse()
        found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        connection.close()
        return found


@contextmanager
def serving(out: Path, *words: object) -> Iterator[Served]:
    """The command with these arguments, which Ctrl-C ends with status 0."""
    for name in ("starlette", "uvicorn", "typer", "rich"):
        pytest.importorskip(name, reason=f"the command needs {name}")
    process = subprocess.Popen(
        [sys.executable, "-m", "densefield", "explore", *map(str, words), "--out", str(out), "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://127\.0\.0\.1:\d+/[\w-]{40,}/", line)
    assert found, line + (process.stderr.read() if process.stderr else "")
    yield Served(found[0], process, out)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "densefield: the explorer has stopped.\n")


@pytest.fixture(scope="session")
def served(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The explorer of the folder."""
    out = tmp_path_factory.mktemp("out")
    with serving(out, folder / "photos", folder / "masks", "--truth", folder / "truth") as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from launched_chromium()


@pytest.fixture(scope="module")
def context(browser: Any) -> Any:
    permissions = ["clipboard-read", "clipboard-write"]
    return browser.new_context(viewport={"width": 1100, "height": 700}, permissions=permissions)


@pytest.fixture
def page(context: Any, served: Any) -> Iterator[Any]:
    """The page with the first image and its result; it may not ask another site, nor raise errors."""
    page = context.new_page()
    page.set_default_timeout(30_000)
    asked: list[str] = []
    failures: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.goto(served.address)
    page.wait_for_selector("#numbers .figure")
    yield page
    assert [url for url in asked if not url.startswith((served.address, "blob:"))] == []
    assert failures == []
    page.close()
