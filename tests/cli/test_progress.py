"""Progress bars show a count, a rate and the remaining time on a terminal, and nothing elsewhere."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("rich", reason="bars need rich")

CODE = """
import time
from densefield.cli.progress import Bar
with Bar("refine", unit="images") as bar:
    for done in range(1, 41):
        bar.advance(done, 40)
        time.sleep(0.02)
"""


def on_a_terminal(code: str, columns: int) -> str:
    """The output of the code on a terminal of this width, without colours."""
    pty = pytest.importorskip("pty", reason="only Unix has pseudo-terminals")
    master, slave = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    process = subprocess.Popen([sys.executable, "-c", code], stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    parts = []
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(master)
    assert process.wait() == 0
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", io.BytesIO(b"".join(parts)).getvalue().decode())


def test_the_bar_has_count_rate_and_remaining_time_in_80_columns():
    lines = re.split(r"[\r\n]+", on_a_terminal(CODE, 80))
    shown = [line.rstrip() for line in lines if re.search(r"\d+/40 +[\d.]+ images/s \d:\d\d:\d\d left$", line.rstrip())]
    assert shown and all(len(line) <= 80 and line.startswith("refine ") for line in shown)


def test_the_bar_is_shown_on_a_terminal_only():
    answer = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert answer.returncode == 0 and answer.stdout == answer.stderr == ""
