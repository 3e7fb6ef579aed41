"""Views: small copies of evaluated images, with all their results."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest

pytest.importorskip("torch", reason="scores are tensors")
pytest.importorskip("PIL", reason="pictures need Pillow")

import torch
from PIL import Image

from densefield.crf.kernels import Spatial
from densefield.errors import InputError
from densefield.evaluation.evaluation import evaluate
from densefield.evaluation.views import LEVELS, SIDE, make_view, read_crf_seconds, read_view, write_view
from densefield.nn.dense_crf import DenseCRF
from densefield.runs.scored_images import ScoredImage
from tests.support.scored_scenes import SIZE, ScoredScenes

METHODS = ("network", "crf")


def crf() -> DenseCRF:
    return DenseCRF(2, [Spatial(2, weight=1)])


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluated")
    evaluate(ScoredScenes(3), crf(), folder, cases=0)
    return folder


@pytest.fixture
def arrays(evaluated):
    with np.load(evaluated / "cases" / "disc_1.npz") as content:
        return dict(content)


def test_every_evaluated_image_has_a_view_with_its_labels(evaluated):
    source = ScoredScenes(3)
    for scored in (source[number] for number in range(3)):
        view = read_view(evaluated / "cases" / f"{scored.id}.npz", METHODS, 2)
        np.testing.assert_array_equal(view.truth, scored.labels)
        for method, model in (("network", None), ("crf", crf())):
            log_q = scored.log_marginals(model)
            np.testing.assert_array_equal(view.labels[method], log_q.argmax(0))
            mean = log_q.exp().amax(0).reshape(SIZE // 2, 2, SIZE // 2, 2).mean((1, 3))
            level = np.minimum(mean.numpy() * LEVELS, LEVELS - 1)
            np.testing.assert_allclose(view.confidence[method] + 0.5, level, atol=0.5 + 1e-4)  # float32 means
        with Image.open(BytesIO(view.photo)) as photo:
            colours = np.asarray(photo).astype(float)
        # JPEG smears the noise of the image and halves the resolution of its colours.
        assert np.abs(colours - scored.image.movedim(0, -1).numpy()).mean() < 12
        assert 0 <= view.seconds < 60 and view.seconds == read_crf_seconds(evaluated / "cases" / f"{scored.id}.npz")


def test_large_images_are_shrunk_with_their_labels():
    rows, columns = np.indices((700, 1000))
    truth = torch.from_numpy((columns >= 500).astype(np.int64))
    image = torch.zeros(3, 700, 1000, dtype=torch.uint8)
    scores = torch.zeros(2, 700, 1000)
    scores[1] = torch.from_numpy(np.where(rows < 350, 9.0, -9.0))
    scored = ScoredImage(scores, image, truth, "large")
    view = make_view(scored, {"network": scored.log_marginals(None)}, None)
    assert view.size == (SIDE, 336) and view.confidence["network"].shape == (168, 240)
    assert (view.truth == (np.arange(480) >= 240)).all()
    assert (view.labels["network"] == (np.arange(336) < 168)[:, None]).all()
    assert (view.confidence["network"] == LEVELS - 1).all()


def test_odd_sizes_and_void_are_kept(tmp_path):
    labels = torch.full((3, 5), 255)
    scored = ScoredImage(torch.zeros(2, 3, 5), torch.zeros(3, 3, 5, dtype=torch.uint8), labels, "a")
    write_view(tmp_path / "a.npz", make_view(scored, {"network": scored.log_marginals(None)}, None))
    view = read_view(tmp_path / "a.npz", ["network"], 2)
    assert view.size == (5, 3) and view.confidence["network"].shape == (2, 3) and (view.truth == 255).all()
    assert view.seconds is None and read_crf_seconds(tmp_path / "a.npz") is None


def test_an_image_without_a_view_has_none(tmp_path):
    assert read_view(tmp_path / "none.npz", METHODS, 2) is None and read_crf_seconds(tmp_path / "none.npz") is None


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("photo", np.frombuffer(b"<script>alert(1)</script>", np.uint8), "not a JPEG"),
        ("truth", np.zeros((4, 4), np.uint8), "the photo has 28×28 pixels"),
        ("truth", np.full((28, 28), 7, np.uint8), "truth has the value 7, expected less than 2"),
        ("truth", np.zeros((28, 28), np.float32), "expected uint8"),
        ("crf.labels", np.full((28, 28), 255, np.uint8), "labels has the value 255"),
        ("crf.labels", np.zeros((27, 28), np.uint8), "expected uint8 of"),
        ("crf.confidence", np.full((14, 14), 16, np.uint8), "confidence has the value 16"),
        ("network.confidence", None, "has no array network.confidence"),
        ("network.labels", np.array([{}], dtype=object), "Python objects"),
    ],
)
def test_a_wrong_view_is_reported(tmp_path, arrays, name, value, message):
    changed = {key: each for key, each in (arrays | {name: value}).items() if each is not None}
    np.savez(tmp_path / "a.npz", **changed)
    with pytest.raises(InputError, match=message):
        read_view(tmp_path / "a.npz", METHODS, 2)


def test_a_damaged_view_is_reported(tmp_path, evaluated):
    content = (evaluated / "cases" / "disc_1.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"a\.npz cannot be read"):
        read_view(tmp_path / "a.npz", METHODS, 2)
