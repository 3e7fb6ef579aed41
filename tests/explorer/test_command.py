"""`densefield explore`: what it refuses at the start."""

from __future__ import annotations

import socket
import sys

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("rich", reason="the command line needs rich")
pytest.importorskip("PIL", reason="the explorer needs Pillow")
pytest.importorskip("uvicorn", reason="the explorer needs uvicorn")

from typer.testing import CliRunner

from densefield.cli.app import app
from densefield.explorer.gallery import open_gallery, resized_scores


def command(*arguments: object):
    return CliRunner().invoke(app, ["explore", "--no-browser", *map(str, arguments)])


def test_wrong_files_are_named(folder, tmp_path):
    photo, mask = folder / "photos" / "a.png", folder / "masks" / "a.png"
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    for name in "pqrstuv":
        (tmp_path / "broken" / f"{name}.png").write_bytes(b"not an image")
    np.save(tmp_path / "large.npy", np.zeros((2, 200, 200), np.float32))
    scores = np.zeros((2, 4, 5), np.float32)
    scores[1, 2, 3] = np.nan
    np.save(tmp_path / "nan.npy", scores)
    np.save(tmp_path / "raw.npy", np.stack([np.full((4, 5), -7.0), np.full((4, 5), 7.0)]))
    for arguments, message in (
        ((folder / "photos" / "b.png",), "b.png is not an image"),
        ((tmp_path / "none.png",), "does not exist"),
        ((folder / "photos", mask), "is a folder, but"),
        ((tmp_path / "empty",), "has no images in it"),
        ((tmp_path / "broken",), "p.png is not an image"),
        ((tmp_path / "broken",), "and 2 more"),
        ((folder / "photos", tmp_path / "empty"), "no image in"),
        ((photo, tmp_path / "large.npy", "--logits"), "expected the same size"),
        ((photo, tmp_path / "nan.npy", "--logits"), "NaN or infinity at 1 of 40 places, first at (1, 2, 3)"),
        ((photo, tmp_path / "raw.npy"), "holds numbers from -7 to 7, expected probabilities from 0 to 1"),
        ((photo, tmp_path / "raw.npy"), "start with --logits"),
        ((photo, mask, "--out", folder / "masks"), "pass --out"),
        ((photo, mask, "--out", mask), "is a file, expected a folder for results"),
        ((photo, mask, "--crf", mask), "is not TOML"),
    ):
        answer = command(*arguments)
        assert answer.exit_code == 2 and message in " ".join(answer.output.split()), answer.output


def test_a_port_in_use_is_named(folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = command(folder / "photos", "--port", port)
    assert answer.exit_code == 2 and f"port {port} cannot be used" in answer.output


def test_a_missing_library_names_the_extra(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    answer = command(folder / "photos")
    assert answer.exit_code == 2 and "pip install 'densefield[explore]'" in answer.output


def test_a_folder_pairs_masks_by_name_and_skips_other_files(folder, tmp_path):
    gallery = open_gallery(folder / "photos", folder / "masks", folder / "truth")
    assert [entry.image.stem for entry in gallery.entries] == ["a", "b", "c", "d"]
    assert [entry.mask is not None for entry in gallery.entries] == [True, False, True, False]
    assert [entry.truth is not None for entry in gallery.entries] == [True, False, True, True]
    first = gallery.picture(0)
    assert first.truth is not None and first.mask is not None and first.size == first.mask.size


def test_scores_are_resized_as_torch_does():
    torch = pytest.importorskip("torch")
    scores = np.random.default_rng(60_411).normal(size=(3, 9, 14)).astype(np.float32)
    expected = torch.nn.functional.interpolate(torch.tensor(scores)[None], size=(72, 108), mode="bilinear")[0].numpy()
    # Pillow's weights have the precision of the positions of pixels in float64, torch's in float32.
    assert np.abs(resized_scores(scores, (72, 108)) - expected).max() < 1e-5
