"""Scores from files and from networks, with images and labels."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="scores are tensors")

import torch

from densefield.datasets.sample import Subset
from densefield.errors import InputError
from densefield.nn.segmenter import Segmenter
from densefield.runs.scored_images import Cached, NetworkScores, SavedScores, Shrunk
from densefield.scenes.scene import SceneDataset
from tests.support.scored_scenes import ScoredScenes

SCENES = SceneDataset(3, size=(96, 104), object_classes=2, seed=19)


def save(folder, name, logits, key="logits"):
    np.savez(folder / f"{name}.npz", **{key: logits})


def test_saved_logits_are_resized_to_the_image_like_torch(tmp_path):
    logits = np.random.default_rng(3).normal(size=(3, 12, 13)).astype(np.float16)
    save(tmp_path, "scene_000001", logits)
    save(tmp_path, "not_an_image", logits)
    source = SavedScores(tmp_path, SCENES)
    assert source.ids == ("scene_000001",) and len(source) == 1
    scored = source[0]
    stretched = torch.nn.functional.interpolate(torch.from_numpy(logits)[None].float(), (96, 104), mode="bilinear")
    torch.testing.assert_close(scored.scores, stretched[0], rtol=0, atol=0)
    assert torch.equal(scored.labels, torch.from_numpy(SCENES[1].labels.astype(np.int64)))
    assert torch.equal(scored.image, torch.from_numpy(SCENES[1].image).movedim(-1, 0))


@pytest.mark.parametrize(
    "logits, message",
    [
        (np.zeros((2, 4, 4), np.float32), r"shape \(2, 4, 4\), expected \(3, rows, columns\)"),
        (np.zeros((4, 5, 3), np.float32), r"The classes are its last axis: use numpy\.moveaxis\(scores, -1, 0\)"),
        (np.zeros((1, 3, 4, 5), np.float32), r"shape \(1, 3, 4, 5\), expected .* Use scores\[0\]"),
        (np.zeros((3, 0, 4), np.float32), r"shape \(3, 0, 4\)"),
        (np.zeros((3, 4, 4), np.int64), "holds int64, expected scores in floating point numbers"),
        (np.full((3, 4, 4), np.nan), "NaN or infinity"),
    ],
)
def test_files_without_logits_of_these_classes_are_rejected(tmp_path, logits, message):
    save(tmp_path, "scene_000000", logits)
    with pytest.raises(InputError, match=message):
        SavedScores(tmp_path, SCENES)


@pytest.mark.parametrize("suffix", ["npz", "npy"])
@pytest.mark.parametrize("content", [b"PK no more", b"", b"\x93NUMPY\x01\x00v\x00{'descr'", b"PK\x03\x04" + bytes(40)])
def test_a_damaged_file_is_named(tmp_path, suffix, content):
    (tmp_path / f"scene_000000.{suffix}").write_bytes(content)
    with pytest.raises(InputError, match=rf"scene_000000\.{suffix} cannot be read as an array: it is damaged"):
        SavedScores(tmp_path, SCENES)


def softmax(logits):
    powers = np.exp(logits - logits.max(0))
    return powers / powers.sum(0)


LOGITS = np.random.default_rng(8).normal(size=(3, 12, 13), scale=4)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_probabilities_are_not_accepted_as_logits(tmp_path, dtype):
    np.save(tmp_path / "scene_000000.npy", softmax(LOGITS).astype(dtype))
    with pytest.raises(InputError, match=r"scene_000000\.npy holds probabilities.*Pass probabilities=True\."):
        SavedScores(tmp_path, SCENES)
    assert len(SavedScores(tmp_path, SCENES, probabilities=True)) == 1


def test_logits_are_not_accepted_as_probabilities(tmp_path):
    save(tmp_path, "scene_000000", LOGITS)
    with pytest.raises(InputError, match=r"expected probabilities, .* For logits leave out probabilities=True"):
        SavedScores(tmp_path, SCENES, probabilities=True)


def test_energies_are_not_accepted_as_logits(tmp_path):
    save(tmp_path, "scene_000000", -np.log(softmax(LOGITS)))
    with pytest.raises(InputError, match="holds energies, -log p"):
        SavedScores(tmp_path, SCENES)


def test_a_later_file_of_another_kind_is_rejected_on_reading(tmp_path):
    save(tmp_path, "scene_000000", LOGITS)
    save(tmp_path, "scene_000001", softmax(LOGITS))
    source = SavedScores(tmp_path, SCENES)
    with pytest.raises(InputError, match=r"scene_000001\.npz holds probabilities"):
        source[1]


@pytest.mark.parametrize("named", [False, True])
def test_probabilities_are_resized_before_their_logarithm(tmp_path, named):
    p = softmax(LOGITS).astype(np.float32)
    save(tmp_path, "scene_000000", p, "probabilities" if named else "arr_0")
    scores = SavedScores(tmp_path, SCENES, probabilities=not named)[0].scores
    resized = torch.nn.functional.interpolate(torch.from_numpy(p)[None], (96, 104), mode="bilinear")[0]
    torch.testing.assert_close(scores, resized.clamp(min=1e-5).log(), rtol=0, atol=0)


@pytest.mark.parametrize("probabilities", [False, True])
def test_the_named_array_of_several_is_read(tmp_path, probabilities):
    np.savez(tmp_path / "scene_000000.npz", image=np.zeros(3), logits=LOGITS, probabilities=softmax(LOGITS) ** 1)
    scores = SavedScores(tmp_path, SCENES, probabilities=probabilities)[0].scores
    assert (float(scores.max()) <= 0) == probabilities


def test_ambiguous_arrays_are_rejected(tmp_path):
    np.savez(tmp_path / "scene_000000.npz", one=LOGITS, two=LOGITS)
    with pytest.raises(InputError, match="holds the arrays one, two, expected one, or one named logits"):
        SavedScores(tmp_path, SCENES)


def test_npy_and_npz_files_give_the_same_scores(tmp_path):
    np.save(tmp_path / "scene_000000.npy", LOGITS)
    save(tmp_path, "scene_000001", LOGITS, "scores")
    source = SavedScores(tmp_path, SCENES)
    assert torch.equal(source[0].scores, source[1].scores) and source.ids == ("scene_000000", "scene_000001")


def test_two_files_for_one_image_are_rejected(tmp_path):
    np.save(tmp_path / "scene_000000.npy", LOGITS)
    save(tmp_path, "scene_000000", LOGITS)
    with pytest.raises(InputError, match=r"scene_000000\.np. and .*scene_000000\.np. are scores of the same image"):
        SavedScores(tmp_path, SCENES)


def test_skipped_files_are_noted(tmp_path):
    save(tmp_path, "scene_000001", LOGITS)
    save(tmp_path, "another", LOGITS)
    (tmp_path / "more").mkdir()
    (tmp_path / "readme.txt").write_text("hello")
    assert [note.replace(str(tmp_path), "FOLDER") for note in SavedScores(tmp_path, SCENES).notes] == [
        "2 of 3 images have no scores in FOLDER: scene_000000, scene_000002.",
        "1 files of FOLDER have the name of no image: another.npz.",
        "FOLDER/more is a subfolder, which is not searched.",
        "FOLDER/readme.txt is not a file of scores (.npz, .npy).",
    ]


def test_a_folder_without_scores_for_these_images_is_rejected(tmp_path):
    with pytest.raises(InputError, match="there is no folder"):
        SavedScores(tmp_path / "none", SCENES)
    with pytest.raises(InputError, match=r"none of the 0 files .* expected names such as scene_000000\.npz"):
        SavedScores(tmp_path, SCENES)


def test_a_network_gets_colours_without_gradients():
    network = torch.nn.Conv2d(3, 3, 1)
    source = NetworkScores(lambda image: network(image / 255), SCENES)
    scored = source[2]
    with torch.no_grad():
        expected = network(torch.from_numpy(SCENES[2].image).movedim(-1, 0)[None] / 255)[0]
    torch.testing.assert_close(scored.scores, expected)
    assert not scored.scores.requires_grad and not scored.scores.is_inference()


def test_a_network_of_another_number_of_classes_is_rejected():
    with pytest.raises(InputError, match="scores 4 classes, but the dataset has 3"):
        NetworkScores(Segmenter(torch.nn.Conv2d(3, 4, 1)).scores, SCENES)[0]


def test_shrinking_averages_scores_and_colours():
    whole, half = ScoredScenes(1)[0], Shrunk(ScoredScenes(1), 2)[0]
    assert half.scores.shape == (2, 14, 14) and half.image.shape == (3, 14, 14) and half.labels.shape == (14, 14)
    assert float(half.scores[1, 3, 4]) == pytest.approx(float(whole.scores[1, 6:8, 8:10].mean()), rel=1e-6)
    assert abs(float(half.image[0, 3, 4]) - float(whole.image[0, 6:8, 8:10].float().mean())) <= 0.5
    assert torch.equal(half.labels, whole.labels[1::2, 1::2])
    assert Shrunk(ScoredScenes(1), 1)[0].scores.shape == (2, 28, 28)


def test_images_are_cached_up_to_the_limit():
    class Counting(ScoredScenes):
        asked: list[int]

        def __getitem__(self, index):
            self.asked.append(index)
            return super().__getitem__(index)

    source = Counting(3)
    source.asked = []
    one = sum(part.nbytes for part in (source[0].scores, source[0].image, source[0].labels))
    source.asked = []
    kept = Cached(source, max_bytes=2 * one)
    for _ in range(2):
        for index in range(3):
            assert kept[index].id == f"disc_{index}"
    assert source.asked == [0, 1, 2, 2]


def test_a_subset_has_the_named_images():
    part = Subset(ScoredScenes(5), [4, 1])
    assert part.ids == ("disc_4", "disc_1") and part[0].id == "disc_4" and len(part) == 2
