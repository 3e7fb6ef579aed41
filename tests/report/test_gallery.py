"""The images of the page: packed with the results of all methods, small enough, and exact."""

from __future__ import annotations

import base64
import json
import zlib

import numpy as np
import pytest

pytest.importorskip("torch", reason="what the page shows is computed with torch")
pytest.importorskip("PIL", reason="reports need it")

import densefield.report.gallery as gallery
from densefield.crf.kernels import Spatial
from densefield.evaluation.evaluation import evaluate
from densefield.nn.dense_crf import DenseCRF
from densefield.report.class_colours import class_colours
from densefield.report.collecting import collect
from densefield.report.gallery import make_gallery
from tests.support.scored_scenes import SIZE, ScoredScenes

COUNT = 5


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    evaluate(ScoredScenes(COUNT), DenseCRF(2, [Spatial(2, weight=1)]), folder / "a")
    evaluate(ScoredScenes(COUNT, noise=0.5), None, folder / "b", ["network"])
    evaluate(ScoredScenes(2, seed=99), None, folder / "others", ["network"])  # other images of the same names
    return folder


def labels_in(text: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8)


def test_images_of_several_evaluations_have_the_results_of_all(folders):
    made = make_gallery(collect([str(folders / "a"), str(folders / "b")]))
    assert len(made.pictures) == COUNT and made.notes == []
    assert [method["title"] for method in made.index["methods"]] == ["a, network", "a, CRF", "b, network"]
    assert (made.index["before"], made.index["after"]) == (0, 1)
    picture = json.loads(made.pictures[3])
    source, other, crf = ScoredScenes(COUNT), ScoredScenes(COUNT, noise=0.5), DenseCRF(2, [Spatial(2, weight=1)])
    expected = {
        "0": source[3].log_marginals(None),
        "1": source[3].log_marginals(crf),
        "2": other[3].log_marginals(None),
    }
    assert list(picture["labels"]) == ["0", "1", "2"] and (picture["width"], picture["height"]) == (SIZE, SIZE)
    for number, log_q in expected.items():
        np.testing.assert_array_equal(labels_in(picture["labels"][number]), log_q.argmax(0).numpy().ravel())
    np.testing.assert_array_equal(labels_in(picture["truth"]), source[3].labels.numpy().ravel())


def test_the_numbers_are_those_of_the_image_at_full_size(folders):
    found = collect([str(folders / "a")])
    made = make_gallery(found)
    (image,) = [each for each in made.index["images"] if each["id"] == "disc_2"]
    scored = ScoredScenes(COUNT)[2]
    z, y = scored.log_marginals(None).argmax(0).numpy(), scored.labels.numpy()
    ious = [((z == label) & (y == label)).sum() / ((z == label) | (y == label)).sum() for label in (0, 1)]
    numbers = image["results"][0]
    assert image["labels"] == [0, 1]
    assert [numbers["iou"][str(label)] for label in (0, 1)] == pytest.approx(ious, abs=5e-5)  # four digits
    assert numbers["mean"] == pytest.approx(np.mean(ious), abs=5e-5)
    assert numbers["accuracy"] == pytest.approx((y == z).mean(), abs=5e-5)


def test_other_images_of_the_same_name_are_not_mixed(folders):
    made = make_gallery(collect([str(folders / "b"), str(folders / "others")]))
    assert len(made.pictures) == COUNT + 2
    assert all(len(image["results"]) == 1 for image in made.index["images"])


def test_pictures_become_smaller_until_the_page_is_within_the_limit(folders, monkeypatch):
    found = collect([str(folders / "a")])
    monkeypatch.setattr(gallery, "SIDES", (SIZE, 14, 7))
    whole = sum(map(len, make_gallery(found).pictures))
    monkeypatch.setattr(gallery, "MAX_BYTES", whole - 1)
    made = make_gallery(found)
    picture = json.loads(made.pictures[0])
    assert made.side == picture["width"] == 14 and sum(map(len, made.pictures)) < whole
    truth = ScoredScenes(COUNT)[0].labels.numpy()
    np.testing.assert_array_equal(labels_in(picture["truth"]).reshape(14, 14), truth[1::2, 1::2])


def test_of_too_many_images_a_part_is_shown_with_a_note(folders, monkeypatch):
    found = collect([str(folders / "a")])
    monkeypatch.setattr(gallery, "SIDES", (SIZE, 7))
    monkeypatch.setattr(gallery, "MAX_BYTES", 2500)
    made = make_gallery(found)
    assert 0 < len(made.pictures) == len(made.index["images"]) < COUNT
    assert made.notes == [f"The page has {len(made.pictures)} of {COUNT} images, evenly chosen, to stay small."]


class Numbered(ScoredScenes):
    """Scenes whose classes have no names."""

    classes = ("0", "1")


def test_classes_without_names_are_labels_of_which_0_is_the_background(folders, tmp_path):
    evaluate(Numbered(2), None, tmp_path / "run", ["network"])
    index = make_gallery(collect([str(tmp_path / "run")])).index
    assert index["classes"] == ["label 0", "label 1"] and index["background"] == [0]
    named = make_gallery(collect([str(folders / "a")])).index
    assert named["classes"] == ["ground", "disc"] and named["background"] == [0]


def test_images_without_views_are_counted(folders, tmp_path):
    evaluate(ScoredScenes(3), None, tmp_path / "old", ["network"])
    (tmp_path / "old" / "cases" / "disc_1.npz").unlink()
    made = make_gallery(collect([str(tmp_path / "old")]))
    assert len(made.pictures) == 2 and made.notes[0].startswith("old: 1 images have no pictures.")


def test_colours_of_classes_differ_and_are_light_enough_for_dark_pages():
    colours = np.array(class_colours(21)) / 255
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    dark = 0.0091  # of #15181b
    assert ((luminance + 0.05) / (dark + 0.05)).min() > 3  # WCAG's contrast of graphical objects
    distances = np.linalg.norm(colours[:, None] - colours[None], axis=2) + 9 * np.eye(21)
    assert distances.min() > 0.06
