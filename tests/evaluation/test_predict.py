"""Prediction of image files: written, kept and failed results."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="networks are torch modules")
pytest.importorskip("PIL", reason="images need Pillow")

import torch
from PIL import Image

from densefield.crf.kernels import Spatial
from densefield.errors import InputError
from densefield.evaluation.predict import Predictor, predict_files
from densefield.images.pairs import find_images
from densefield.images.palette import overlay, voc_palette
from densefield.nn.dense_crf import DenseCRF


def scores_by_brightness(image):
    """Label 1 for bright pixels, 0 elsewhere."""
    bright = (image / 255).mean(1, keepdim=True) - 0.5
    return torch.cat([-bright, bright], dim=1) * 8


PREDICTOR = Predictor(scores_by_brightness, crf=None)


def photo(seed: int, shape=(9, 12, 3)) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@pytest.fixture
def folder(tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    for name, seed in (("a", 11), ("b", 12)):
        Image.fromarray(photo(seed)).save(images / f"{name}.png")
    return images


def test_labels_are_indexed_pictures_with_the_colours_of_voc(folder, tmp_path):
    predicted = predict_files(PREDICTOR, [folder], tmp_path / "out")
    assert predicted.done == ["a", "b"] and not predicted.failures and not predicted.skipped
    with Image.open(tmp_path / "out" / "a.png") as picture:
        assert picture.mode == "P"
        np.testing.assert_array_equal(np.asarray(picture), photo(11).mean(2) > 127.5)
        assert picture.getpalette()[:6] == voc_palette()[:2].ravel().tolist()


def test_large_images_are_downscaled_and_their_labels_upscaled():
    halves = np.zeros((16, 24, 3), np.uint8)
    halves[:, 12:] = 255
    predictor = Predictor(scores_by_brightness, crf=None, longest_side=6)
    log_q = predictor(halves)
    assert log_q.shape == (2, 16, 24)
    np.testing.assert_array_equal(log_q.argmax(0), halves[..., 0] > 0)
    np.testing.assert_allclose(np.exp(log_q).sum(0), 1, rtol=1e-5)  # float32
    assert predictor(halves[:4, :5]).shape == (2, 4, 5)


def test_a_crf_gets_raw_colours_and_its_marginals_are_written(folder, tmp_path):
    crf = DenseCRF(2, [Spatial(2, weight=3)])
    predictor = Predictor(scores_by_brightness, crf)
    predict_files(predictor, [folder / "b.png"], tmp_path / "out", probabilities=True)
    colours = torch.from_numpy(photo(12)).movedim(-1, 0)[None]
    with torch.no_grad():
        q = crf(scores_by_brightness(colours), colours)[0].exp()
    with np.load(tmp_path / "out" / "probabilities" / "b.npz") as arrays:
        assert arrays["probabilities"].dtype == np.float16
        np.testing.assert_allclose(arrays["probabilities"], q.numpy(), atol=5e-4)  # half precision
    with Image.open(tmp_path / "out" / "b.png") as picture:
        np.testing.assert_array_equal(np.asarray(picture), q.argmax(0).numpy())


def test_an_overlay_shows_the_image_under_its_labels(folder, tmp_path):
    predict_files(PREDICTOR, [folder / "a.png"], tmp_path / "out", overlay=True)
    labels = (photo(11).mean(2) > 127.5).astype(int)
    with Image.open(tmp_path / "out" / "overlays" / "a.png") as picture:
        np.testing.assert_array_equal(np.asarray(picture), overlay(photo(11), labels, voc_palette()))


def test_grey_images_are_predicted_too(tmp_path):
    grey = photo(13, (5, 7))
    Image.fromarray(grey).save(tmp_path / "grey.png")
    predict_files(PREDICTOR, [tmp_path / "grey.png"], tmp_path / "out", overlay=True)
    with Image.open(tmp_path / "out" / "grey.png") as picture:
        np.testing.assert_array_equal(np.asarray(picture), grey > 127)


def test_complete_results_are_kept(folder, tmp_path):
    out = tmp_path / "out"
    predict_files(PREDICTOR, [folder / "a.png"], out)
    predicted = predict_files(PREDICTOR, [folder], out, skip_existing=True)
    assert predicted.skipped == ["a"] and predicted.done == ["b"]
    again = predict_files(PREDICTOR, [folder], out, skip_existing=True, overlay=True)
    assert again.done == ["a", "b"]


def test_an_unreadable_image_is_named_and_the_others_continue(folder, tmp_path):
    (folder / "broken.jpg").write_bytes(b"no image")
    predicted = predict_files(PREDICTOR, [folder], tmp_path / "out")
    assert predicted.done == ["a", "b"]
    (failure,) = predicted.failures
    assert failure.endswith(
        "broken.jpg is not an image: expected PNG, JPEG, TIFF, BMP, WebP, GIF or PPM."
    )  # the folder has no splits


@pytest.mark.parametrize("overlay", [False, True])
def test_images_are_not_overwritten_by_their_labels(folder, overlay):
    before = (folder / "a.png").read_bytes()
    if overlay:
        (folder / "overlays").mkdir()
        (folder / "a.png").rename(folder / "overlays" / "a.png")
    inputs = [folder / "overlays"] if overlay else [folder]
    with pytest.raises(InputError, match=r"a.png is an image to predict: choose another folder"):
        predict_files(PREDICTOR, inputs, folder, overlay=overlay)
    assert (inputs[0] / "a.png").read_bytes() == before


def test_images_of_16_bits_are_predicted_at_any_size(tmp_path):
    deep = np.linspace(0, 65535, 16 * 24).astype(np.uint16).reshape(16, 24)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    predictor = Predictor(scores_by_brightness, crf=None, longest_side=12)
    assert predict_files(predictor, [tmp_path / "deep.png"], tmp_path / "out").done == ["deep"]
    with Image.open(tmp_path / "out" / "deep.png") as picture:
        np.testing.assert_array_equal(np.asarray(picture)[[0, -1], 0], [0, 1])


def test_images_of_the_same_name_do_not_overwrite_each_other(folder, tmp_path):
    Image.fromarray(photo(14)).save(folder / "a.jpg")
    files, failures, _ = find_images([folder])
    assert set(files) == {"b"} and "have the same name" in failures[0]
    assert find_images([folder / "b.png", folder / "b.png"]).files == {"b": folder / "b.png"}  # the same file twice


def test_without_images_nothing_is_written(tmp_path):
    with pytest.raises(InputError, match="there is no file or folder"):
        find_images([tmp_path / "none"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no images in it"):
        find_images([tmp_path / "empty"])


def test_skipped_files_are_reported_with_the_reason(folder, tmp_path):
    (folder / "inner").mkdir()
    (folder / "notes.txt").write_text("hello")
    predicted = predict_files(PREDICTOR, [folder], tmp_path / "out")
    assert predicted.done == ["a", "b"] and not predicted.failures
    assert predicted.ignored == [
        f"{folder / 'inner'} is a subfolder, which is not searched.",
        f"{folder / 'notes.txt'} is not an image (PNG, JPEG, TIFF, BMP, WebP, GIF or PPM).",
    ]


def test_a_folder_of_folders_is_distinguished_from_an_empty_one(tmp_path):
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    with pytest.raises(InputError, match=r"outer has no images in it\.\n.*inner is a subfolder"):
        find_images([tmp_path / "outer"])


def test_processes_share_the_images(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    done = []
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        done.append(predict_files(PREDICTOR, [folder], tmp_path / "out").done)
    assert done == [["a"], ["b"]]
