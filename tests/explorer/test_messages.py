"""What the page gets about images, labels and results, and its words."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the explorer needs starlette")
Image = pytest.importorskip("PIL.Image", reason="the explorer needs Pillow")

import densefield.crf.convergent  # noqa: E402
import densefield.crf.options  # noqa: E402
import densefield.diagnose.inputs  # noqa: E402
import densefield.diagnose.kernels  # noqa: E402
import densefield.diagnose.masks  # noqa: E402
import densefield.diagnose.result  # noqa: E402
from densefield.explorer.details import findings, summary  # noqa: E402
from densefield.explorer.gallery import Entry, Picture, Reading, open_gallery, read_picture  # noqa: E402
from densefield.explorer.inference import Inference  # noqa: E402
from densefield.explorer.inputs import given_input  # noqa: E402
from densefield.explorer.messages import describe, labels_message  # noqa: E402
from densefield.explorer.saving import input_file, save_result  # noqa: E402
from densefield.explorer.settings import settings_from_json  # noqa: E402
from densefield.explorer.snippets import snippet  # noqa: E402
from densefield.explorer.wording import WORDS, in_page  # noqa: E402
from densefield.images.masks import Mask  # noqa: E402
from tests.explorer.test_inference import LAYER, PHOTO, TABLES  # noqa: E402
from tests.explorer.test_settings import packed  # noqa: E402
from tests.support.explored_photos import photo_of, rough_of, write_mask  # noqa: E402

MODULES = ("inputs", "kernels", "masks", "result")


def unpacked(content: bytes) -> tuple[list[int], np.ndarray]:
    length = int.from_bytes(content[:4], "little")
    return json.loads(content[4 : 4 + length])["numbers"], np.frombuffer(content[4 + length :], np.uint8)


def test_255_is_a_label_unless_it_means_unknown():
    mask = Mask("labels", np.array([[0, 255], [7, 255]]), void=7)
    numbers, places = unpacked(labels_message(mask.labels()).body)
    assert numbers == [0, 255] and places.tolist() == [0, 1, 255, 1]
    assert describe(Picture(Entry(Path("a.png")), np.zeros((2, 2), np.uint8), mask))["numbers"] == [0, 255]


def test_images_of_one_stem_are_saved_apart(tmp_path):
    (tmp_path / "photos").mkdir()
    for seed, name in enumerate(("x.jpg", "x.png", "y.png")):
        Image.fromarray(photo_of(seed)).save(tmp_path / "photos" / name)
    gallery = open_gallery(tmp_path / "photos")
    assert [entry.name for entry in gallery.entries] == ["x.jpg", "x.png", "y"]
    given = {"model": "kernels", "source": "scribbles", "scribbles": packed(LAYER), "crf": TABLES}
    settings, saved = settings_from_json(given), []
    for index in range(3):
        picture = gallery.picture(index)
        result = Inference().result(index, picture, settings, "", lambda: None)
        saved += [save_result(picture, result, tmp_path / "out"), input_file(picture, result, tmp_path / "out").path]
        copied = snippet("command", picture, settings, result, gallery.reading, tmp_path / "out")
        assert str(saved[-2]) in copied.text
        saved += copied.files[1:]  # crf.toml
        assert describe(picture)["saved_as"] == saved[-3].name
    assert [path.name for path in saved] == [
        f"{name}{ending}" for name in ("x.jpg", "x.png", "y") for ending in (".png", "-painted.png", "-crf.toml")
    ]


def test_paint_alone_spreads(tmp_path):
    given = {"model": "kernels", "source": "scribbles", "scribbles": packed(LAYER), "crf": TABLES}
    picture = Picture(Entry.__new__(Entry), PHOTO, Mask("binary", rough_of(1)))
    settings = settings_from_json(given)
    result = Inference().result(0, picture, settings, "", lambda: None)
    painted = (LAYER != 255).mean()
    assert 0.9 < summary(result)["spread"] <= 1 - painted
    found = findings(picture, settings, result)
    assert found[-1]["what"].startswith("Paint spread to ") and "follows the image" not in str(found)
    still = settings_from_json({**given, "iterations": 0})
    assert summary(Inference().result(0, picture, still, "", lambda: None))["spread"] == 0
    over = settings_from_json({**given, "source": "both"})
    assert not given_input(picture, over).only_paint
    assert "spread" not in summary(Inference().result(0, picture, over, "", lambda: None))


def test_messages_that_the_page_words_anew_exist():
    sources = [inspect.getsource(getattr(densefield.diagnose, name)) for name in MODULES]
    texts = "".join([*sources, *map(inspect.getsource, (densefield.crf.convergent, densefield.crf.options))])
    joined = "".join(line.strip().removeprefix('f"').strip('"') for line in texts.splitlines())
    for words in WORDS:
        assert words in joined, words


def test_findings_name_controls_of_the_page(tmp_path):
    write_mask(tmp_path / "mask.png", rough_of(1))
    Image.fromarray(photo_of(1)).save(tmp_path / "photo.png")
    picture = read_picture(Entry(tmp_path / "photo.png", tmp_path / "mask.png"), Reading())
    settings = settings_from_json({})
    result = Inference().result(0, picture, settings, "", lambda: None)
    texts = str(findings(picture, settings, result))
    assert "untick “Estimate how rough the mask is”" in texts and "roughness=" not in texts


def test_numbers_of_cells_have_three_digits():
    assert (
        in_page("20240512133045.jpg: 12345678901.500000 lattice cells") == "20240512133045.jpg: 1.23e+10 lattice cells"
    )
    assert in_page("sigma_xy is so large") == "The bilateral width is so large"


def test_integers_of_many_digits_are_refused(served):
    body = b'{"client": "a", "number": 1, "settings": {"model": "kernels", "iterations": 1' + b"0" * 400 + b"}}"
    status, _, content = served.ask("images/0/solve", body)
    assert status == 400 and b"a number has 401 digits" in content
