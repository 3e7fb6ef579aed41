"""Copied text runs, and computes the shown result again."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("rich", reason="the command line needs rich")
Image = pytest.importorskip("PIL.Image", reason="the explorer needs Pillow")

from typer.testing import CliRunner  # noqa: E402

from densefield import CRF, InputError  # noqa: E402
from densefield.cli.app import app  # noqa: E402
from densefield.explorer.gallery import Entry, Picture, Reading, read_picture  # noqa: E402
from densefield.explorer.inference import Inference, Result  # noqa: E402
from densefield.explorer.saving import result_png, save_result  # noqa: E402
from densefield.explorer.settings import Settings, settings_from_json  # noqa: E402
from densefield.explorer.snippets import crf_text, snippet  # noqa: E402
from tests.explorer.test_inference import LAYER, LOGITS, PROBABILITIES, TABLES  # noqa: E402
from tests.explorer.test_settings import packed  # noqa: E402
from tests.support.explored_photos import photo_of, rough_of, write_mask  # noqa: E402

PLAIN = {
    "kernels": [
        {"kind": "spatial", "sigma": 2.5, "weight": 2.0},
        {"kind": "bilateral", "sigma_xy": 31.7, "sigma_rgb": 11.3, "weight": 4.1},
    ]
}
MATRIX = {"kernels": [{**TABLES["kernels"][1], "weight": [[2.0, -0.5], [-0.5, 1.5]]}], "inference": "convergent"}
MATRIX["kernels"][0]["normalization"] = "symmetric"
PAINT = {"scribbles": packed(np.where(LAYER == 3, 1, LAYER)), "scribble_confidence": 0.99}
CASES: dict[str, tuple[str, Reading, dict[str, Any]]] = {
    "learnt": ("indexed.png", Reading(), {"model": "learnt"}),
    "roughness": ("indexed.png", Reading(), {"model": "learnt", "roughness": 4.2, "iterations": 3}),
    "kernels": ("indexed.png", Reading(), {"model": "kernels", "crf": PLAIN, "confidence": 0.83, "iterations": 9}),
    "binary": ("binary.png", Reading(), {"model": "kernels", "crf": TABLES}),
    "matrix": ("indexed.png", Reading(), {"model": "kernels", "crf": MATRIX}),
    "no kernels": ("indexed.png", Reading(), {"model": "kernels", "crf": {"kernels": []}}),
    "classes": ("indexed.png", Reading(num_classes=4), {"model": "kernels", "crf": PLAIN}),
    "void": ("indexed.png", Reading(void=0), {"model": "learnt"}),
    "logits": ("logits.npy", Reading(logits=True), {"model": "kernels", "crf": PLAIN, "temperature": 2.0}),
    "probabilities": ("probabilities.npz", Reading(), {"model": "learnt", "temperature": 1.5}),
    "small logits": ("small.npy", Reading(logits=True), {"model": "kernels", "crf": PLAIN}),
    "soft": ("soft.png", Reading(soft=True), {"model": "kernels", "crf": PLAIN}),
    "paint": ("", Reading(), {"model": "kernels", "crf": PLAIN, "source": "scribbles", **PAINT}),
    "learnt paint": ("indexed.png", Reading(), {"model": "learnt", "source": "both", **PAINT}),
    "paint over labels": ("indexed.png", Reading(), {"model": "kernels", "crf": PLAIN, "source": "both", **PAINT}),
    "paint over gaps": ("sparse.png", Reading(), {"model": "kernels", "crf": PLAIN, "source": "both", **PAINT}),
    "paint over logits": ("logits.npy", Reading(logits=True), {"model": "learnt", "source": "both", **PAINT}),
}


@dataclass(frozen=True)
class Shown:
    """A result, and what it was computed from."""

    picture: Picture
    settings: Settings
    result: Result
    reading: Reading
    out: Path

    def text(self, form: Any) -> str:
        return snippet(form, self.picture, self.settings, self.result, self.reading, self.out).text


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A photo, whose name needs quotes, and masks of several forms."""
    Image.fromarray(photo_of(1)).save(tmp_path / "a photo's.png")
    write_mask(tmp_path / "indexed.png", rough_of(1))
    write_mask(tmp_path / "sparse.png", 17 * rough_of(1))
    Image.fromarray(rough_of(1) * np.uint8(255)).save(tmp_path / "binary.png")
    Image.fromarray((200 * rough_of(1) + 20).astype(np.uint8)).save(tmp_path / "soft.png")
    np.save(tmp_path / "logits.npy", LOGITS)
    np.save(tmp_path / "small.npy", LOGITS[:, ::6, ::6])
    np.savez(tmp_path / "probabilities.npz", PROBABILITIES)
    return tmp_path


def shown(files: Path, case: str) -> Shown:
    name, reading, given = CASES[case]
    entry = Entry(files / "a photo's.png", files / name if name else None)
    picture, settings = read_picture(entry, reading), settings_from_json(given)
    result = Inference().result(0, picture, settings, case, lambda: None)
    return Shown(picture, settings, result, reading, files / "out")


@pytest.mark.parametrize("case", CASES)
def test_the_copied_python_gives_the_same_marginals(files, case):
    here = shown(files, case)
    names: dict[str, Any] = {}
    exec(here.text("python"), names)
    found = names["probabilities"]
    rows = slice(None) if len(found) == len(here.result.marginals) else here.result.numbers
    assert np.array_equal(found[rows], here.result.marginals)
    assert np.array_equal(names["labels"], here.result.numbers[here.result.marginals.argmax(0)])


@pytest.mark.parametrize("case", CASES)
def test_the_copied_command_gives_the_same_labels(files, case):
    here = shown(files, case)
    words = shlex.split(here.text("command"))
    assert words[:2] == ["densefield", "refine"]
    out = Path(words[words.index("-o") + 1])
    words[words.index("-o") + 1] = str(out.with_suffix(".npy"))
    answer = CliRunner().invoke(app, words[1:])
    assert answer.exit_code == 0, answer.output
    found = np.load(out.with_suffix(".npy"))
    numbers = here.result.numbers
    rows = slice(None) if len(found) == len(numbers) else numbers
    assert np.array_equal(found[rows], here.result.marginals)


@pytest.mark.parametrize("case", ["kernels", "matrix", "no kernels"])
def test_the_copied_file_has_the_same_crf(files, case):
    here = shown(files, case)
    (files / "crf.toml").write_text(crf_text(here.settings), encoding="utf-8")
    loaded = CRF.load(files / "crf.toml", data_range=255.0)
    assert here.settings.crf is not None and repr(loaded) == repr(here.settings.crf)


def test_the_learnt_model_has_no_crf_file(files):
    with pytest.raises(InputError, match=r"no crf\.toml"):
        crf_text(shown(files, "learnt").settings)


@pytest.mark.parametrize("case", CASES)
def test_the_saved_mask_has_the_shown_labels(files, case):
    here = shown(files, case)
    path = save_result(here.picture, here.result, here.out)
    labels = here.result.numbers[here.result.marginals.argmax(0)]
    with Image.open(path) as picture:
        assert np.array_equal(np.asarray(picture), labels * (255 if case == "binary" else 1))
    (files / "download.png").write_bytes(result_png(here.result))
    with Image.open(files / "download.png") as picture:
        assert np.array_equal(np.asarray(picture), labels)
