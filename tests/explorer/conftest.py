"""A folder of small photos with masks, and an explorer of it in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

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


@pytest.fixture(scope="session")
def served(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The command, which Ctrl-C ends with status 0."""
    for name in ("starlette", "uvicorn", "typer", "rich"):
        pytest.importorskip(name, reason=f"the command needs {name}")
    out = tmp_path_factory.mktemp("out")
    words = [folder / "photos", folder / "masks", "--truth", folder / "truth", "--out", out, "--no-browser"]
    process = subprocess.Popen(
        [sys.executable, "-m", "densefield", "explore", *map(str, words)],
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
