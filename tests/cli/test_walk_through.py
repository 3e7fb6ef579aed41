"""The session in the documentation runs and prints the shown output."""

from __future__ import annotations

import inspect
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("rich", reason="the command line needs rich")
Image = pytest.importorskip("PIL.Image", reason="the command line needs Pillow")

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
SESSION = PAGE.partition("## A session")[2].partition("## Masks")[0]


def run(line: str) -> str:
    """The output of a command on stdout and stderr."""
    command, *arguments = shlex.split(line)
    assert command == "densefield"
    answer = subprocess.run(
        [sys.executable, "-m", "densefield", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
    )
    return answer.stdout


def without_numbers(text: str) -> str:
    """JPEG decoders round differently, so last digits may differ; typer may put arguments in braces."""
    return re.sub(r"\d[\d.]*", "#", re.sub(r"[{}]", "", text))


def test_the_session_in_the_documentation_prints_the_shown_output(tmp_path, monkeypatch):
    pytest.importorskip("skimage", reason="the session uses its photos")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed, commands = "", 0
    for kind, block in re.findall(r"```(\w+)\n(.*?)```", SESSION, re.DOTALL):
        if kind != "text":
            assert printed == "", f"the page does not show {printed}"
        if kind == "python":
            exec(block, names)
        elif kind == "console":
            printed = run(block)
            commands += 1
        else:
            assert without_numbers(printed) == without_numbers(block)
            printed = ""
    assert printed == "" and commands == 8
    assert sorted(path.name for path in Path("previews").iterdir()) == ["coffee.png", "rocket.png"]
    with Image.open("refined/coffee.png") as after, Image.open("masks/coffee.png") as before:
        assert after.getpalette() == before.getpalette()
        assert 0.005 < (np.asarray(after) != np.asarray(before)).mean() < 0.2
    assert np.load("coffee.npy").shape == (2, 400, 600)
    assert Path("failures.log").read_text(encoding="utf-8").count("\n") == 1


def test_the_documentation_lists_every_option_with_its_default():
    from densefield.cli.refine import refine_verb

    rows = [line for line in PAGE.partition("## Options")[2].splitlines() if line.startswith("| `--")]
    for name, parameter in inspect.signature(refine_verb).parameters.items():
        if name in ("context", "image", "mask"):
            continue
        (row,) = (row for row in rows if f"`--{name.replace('_', '-')}`" in row.split("|")[1])
        if isinstance(parameter.default, float):
            assert f"{parameter.default:g}" in row.split("|")[2]


def test_the_documentation_lists_every_command():
    from densefield.cli.app import app

    verbs = [command.name for command in app.registered_commands] + [group.name for group in app.registered_groups]
    assert len(verbs) == 10 and all(f"| `densefield {verb}` |" in PAGE for verb in verbs)
