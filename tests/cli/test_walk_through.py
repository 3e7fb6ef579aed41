"""The walk through in the documentation runs, and prints what it shows."""

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


def blocks(kind: str, text: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def test_the_walk_through_runs(tmp_path, monkeypatch):
    pytest.importorskip("skimage", reason="the walk through uses its photos")
    monkeypatch.chdir(tmp_path)
    walk = PAGE.partition("## A walk through")[2].partition("## Masks")[0]
    exec(blocks("python", walk)[0], {})
    for block in blocks("console", walk):
        command, *arguments = shlex.split(block)
        assert command == "densefield"
        answer = subprocess.run(
            [sys.executable, "-m", "densefield", *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
        )
        assert answer.returncode == 0, answer.stderr
    # Decoders of JPEG round differently, so numbers may differ in their last digits.
    assert re.sub(r"[\d.]+", "#", answer.stdout) == re.sub(r"[\d.]+", "#", blocks("text", walk)[0])
    assert {path.name for path in Path().rglob("*.p*") if path.is_file()} == {
        "coffee.png",
        "rocket.png",
        "preview.png",
    }
    with Image.open("refined/coffee.png") as after, Image.open("masks/coffee.png") as before:
        assert after.getpalette() == before.getpalette()
        assert 0.005 < (np.asarray(after) != np.asarray(before)).mean() < 0.2
    assert np.load("coffee.npy").shape == (2, 400, 600)


def test_the_page_names_every_option_with_its_default():
    from densefield.cli.refine import refine_verb

    rows = [line for line in PAGE.partition("## Options")[2].splitlines() if line.startswith("| `--")]
    for name, parameter in inspect.signature(refine_verb).parameters.items():
        if parameter.default is inspect.Parameter.empty:
            continue  # arguments and --out
        (row,) = (row for row in rows if f"`--{name.replace('_', '-')}`" in row)
        if isinstance(parameter.default, float):
            assert f"{parameter.default:g}" in row.split("|")[2]
