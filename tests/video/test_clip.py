"""`refine_clip`: windows against the whole clip, seams, memory, options and errors."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import InputError, InputTypeError, InputWarning, refine
from densefield.video import clip as clip_module
from densefield.video import refine_clip
from tests.support.moving_disc import error_share, flicker, moving_disc

LENGTH = 16
CLIP = moving_disc(LENGTH)
SHAPE = CLIP.truth.shape[1:]


def logits_of(labels: np.ndarray) -> np.ndarray:
    """Logits (T, 2, H, W) that prefer some labels."""
    return np.stack([1.0 - labels, labels], axis=1).astype(np.float32) * 3


def refined(window: int | None, length: int = LENGTH, **options) -> np.ndarray:
    return np.array(list(refine_clip(CLIP.frames[:length], labels=CLIP.rough[:length], window=window, **options)))


@pytest.fixture(scope="module")
def whole() -> np.ndarray:
    return refined(LENGTH)


def test_a_clip_has_fewer_errors_and_less_flicker_than_its_frames_one_by_one(whole):
    pairs = zip(CLIP.frames, CLIP.rough, strict=True)
    single = np.array([refine(frame, labels=mask).argmax(axis=0) for frame, mask in pairs])
    labels = whole.argmax(axis=1)
    assert whole.shape == (LENGTH, 2, *SHAPE) and np.allclose(whole.sum(axis=1), 1, atol=1e-5)
    assert error_share(labels, CLIP.truth) < 0.5 * error_share(CLIP.rough, CLIP.truth)
    assert error_share(labels, CLIP.truth) <= error_share(single, CLIP.truth)
    assert flicker(labels, CLIP.truth) <= flicker(single, CLIP.truth)


@pytest.mark.parametrize("window", [8, 12])
def test_windows_are_nearly_the_whole_clip(whole, window):
    # The estimates are the same; the rest is the reach of the kernels beyond the overlap, and the lattice's own origin.
    parts = refined(window)
    assert np.abs(parts - whole).mean() < 2e-3
    assert error_share(parts.argmax(axis=1), whole.argmax(axis=1)) < 1e-3


def test_there_is_no_seam_between_windows(whole):
    parts = refined(8)  # of which 4 are kept
    changes = np.abs(np.diff(parts, axis=0)).mean(axis=(1, 2, 3))
    of_whole = np.abs(np.diff(whole, axis=0)).mean(axis=(1, 2, 3))
    at_seams = np.arange(3, LENGTH - 1, 4)
    extra = changes - of_whole
    assert extra[at_seams].mean() < np.delete(extra, at_seams).mean() + 2e-3


def test_a_window_of_the_whole_clip_or_more_is_the_same(whole):
    assert np.array_equal(refined(None), whole)  # 32 frames


def test_scores_are_refined_in_windows_too():
    scores = logits_of(CLIP.rough)
    parts = np.array(list(refine_clip(CLIP.frames, logits=scores, window=12)))
    at_once = np.array(list(refine_clip(CLIP.frames, logits=scores, window=LENGTH)))
    assert error_share(at_once.argmax(axis=1), CLIP.truth) < 0.6 * error_share(CLIP.rough, CLIP.truth)
    assert np.abs(parts - at_once).mean() < 5e-3
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    soft = np.array(list(refine_clip(CLIP.frames, probabilities=shares, window=LENGTH)))
    assert np.allclose(soft, at_once, atol=1e-3)  # the logarithm of float32 probabilities
    single = np.array(list(refine_clip(CLIP.frames, probabilities=shares[:, 1], window=LENGTH)))
    assert np.allclose(soft, single, atol=1e-3)


class Counted:
    """A sequence that counts what is read, and how many of its elements exist at a time."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.read = values, 0

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> np.ndarray:
        self.read += 1
        return self.values[index].copy()


def test_frames_are_read_when_their_window_comes(monkeypatch):
    frames, masks = Counted(CLIP.frames), Counted(CLIP.rough)
    monkeypatch.setattr("densefield.video.label_clip.SAMPLE", 3)
    results = refine_clip(frames, labels=masks, window=8)
    assert frames.read == masks.read == 0  # a generator
    next(results)
    sampled = frames.read - 6  # the first window: 4 frames and those after it that overlap
    assert 3 <= sampled <= 5 and masks.read == LENGTH + sampled + 6
    next(results)
    assert frames.read == sampled + 6  # of the same window
    assert len(list(results)) == LENGTH - 2
    assert frames.read == sampled + LENGTH  # frames that overlap are read once


def test_a_window_holds_no_more_than_its_frames(monkeypatch):
    sizes = []
    original = clip_module.LabelClip.window

    def window(self, frames, kept):
        sizes.append(len(frames))
        return original(self, frames, kept)

    monkeypatch.setattr(clip_module.LabelClip, "window", window)
    assert len(refined(8)) == LENGTH
    assert max(sizes) == 8 and len(sizes) == 4


def test_masks_of_unknown_pixels_take_the_labels_of_frames_around_them():
    masks = CLIP.rough.copy()
    masks[[5, 6]] = 255
    q = np.array(list(refine_clip(CLIP.frames, labels=masks)))
    labels = q.argmax(axis=1)
    assert error_share(labels[5:7], CLIP.truth[5:7]) < 0.03


def test_labels_mean_the_same_in_all_frames():
    frames = np.repeat(np.arange(0, 240, 6, np.uint8)[None, None, :], 20, 1).repeat(4, 0)
    masks = np.zeros((4, 20, 40), np.uint8)
    masks[1:3, :, 20:], masks[3, :, 20:] = 255, 3  # 255 alone would be the foreground of a binary mask
    q = np.array(list(refine_clip(frames, labels=masks)))
    assert q.shape == (4, 4, 20, 40) and not q[:, 1:3].any()
    binary = np.array(list(refine_clip(frames[:3], labels=masks[:3])))
    assert binary.shape == (3, 2, 20, 40) and set(np.unique(binary.argmax(axis=1))) == {0, 1}
    alike = np.array(list(refine_clip(frames, labels=np.zeros_like(masks), num_classes=5)))
    assert alike.shape[1] == 5 and (alike[:, 0] == 1).all()
    masks = np.full((12, 20, 40), 255, np.uint8)
    masks[0] = np.arange(40) > 20
    with pytest.warns(InputWarning, match="[34] frames in a row have no mask"):
        unknown = np.array(list(refine_clip(frames.repeat(3, 0), labels=masks, void=255, num_classes=2, window=4)))
    assert np.allclose(unknown[6:], 0.5)


def test_a_reader_may_use_one_array_for_all_frames(whole):
    class Reader:
        def __init__(self):
            self.buffer = np.empty_like(CLIP.frames[0])

        def __len__(self):
            return LENGTH

        def __getitem__(self, index):
            self.buffer[:] = CLIP.frames[index]
            return self.buffer

    assert np.array_equal(np.array(list(refine_clip(Reader(), labels=CLIP.rough[:LENGTH]))), whole)


def test_options_are_passed_on(whole):
    assert not np.array_equal(refined(LENGTH, iterations=1), whole)
    assert not np.array_equal(refined(LENGTH, roughness=1.0), whole)
    loose, tight = (refined(LENGTH, frame_step=step) for step in (1e5, 0.5))
    assert np.abs(np.diff(tight, axis=0)).mean() < np.abs(np.diff(loose, axis=0)).mean()
    scaled = np.array(list(refine_clip(CLIP.frames / 255, labels=CLIP.rough, data_range=1.0)))
    assert np.abs(scaled - whole).mean() < 2e-3  # float32 colours instead of bytes
    assert np.array_equal(refined(LENGTH, threads=2), whole)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"window": 3}, "window is 3, expected the number of frames"),
        ({"frame_step": 0.0}, "frame_step is 0.0, expected a number of pixels above 0"),
        ({"roughness": -1.0}, "roughness is -1.0"),
        ({"temperature": 2.0}, "it is for probabilities and logits"),
        ({"logits": [np.zeros((2, 4, 4), np.float32)]}, "got labels and logits, expected exactly one"),
        ({"labels": CLIP.rough[:3]}, "got 4 frames and 3 labels"),
        ({"labels": CLIP.rough[:4, :, :40]}, "frame 0 .from 0.: labels have shape"),
        ({"labels": [*CLIP.rough[:3], CLIP.rough[3, 1:]]}, "the mask of frame 3 .from 0. has shape .33, 46."),
        ({"labels": CLIP.rough[:4, None]}, "has shape .1, 34, 46., expected .rows, columns."),
        ({"frames": [*CLIP.frames[:3], CLIP.frames[3, :, :30]]}, "frame 3 .from 0. has shape .34, 30, 3., but"),
        ({"frames": [], "labels": []}, "got no frames"),
        (
            {"frames": np.zeros((4, *SHAPE, 5), np.uint8)},
            "shape .34, 46, 5., expected 1 to 3 channels on the last axis",
        ),
    ],
)
def test_wrong_input_is_an_error_before_a_result(change, message):
    given = {"frames": CLIP.frames[:4], "labels": CLIP.rough[:4], **change}
    with pytest.raises(InputError, match=message):
        next(refine_clip(given.pop("frames"), **given))


def test_a_generator_is_for_streams():
    with pytest.raises(InputTypeError, match="use refine_stream"):
        refine_clip((frame for frame in CLIP.frames), labels=CLIP.rough)


def test_scores_of_another_size_or_number_are_errors():
    scores = list(logits_of(CLIP.rough[:3]))
    with pytest.raises(InputError, match="those before have"):
        next(refine_clip(CLIP.frames[:3], logits=[*scores[:2], scores[2][:, 1:]]))
    with pytest.raises(InputError, match=r"expected .classes, rows, columns. with the rows and columns"):
        next(refine_clip(CLIP.frames[:3, :-1], logits=scores))
    with pytest.raises(InputError, match=r"frame 1 .from 0.: the scores hold NaN"):
        next(refine_clip(CLIP.frames[:3], logits=[scores[0], scores[1] * np.nan, scores[2]]))
    with pytest.raises(InputError, match="num_classes=3"):
        next(refine_clip(CLIP.frames[:3], logits=scores, num_classes=3))


def test_frames_with_nan_are_named():
    frames = CLIP.frames.astype(np.float32)
    frames[3, 5, 6] = np.nan
    for given in ({"labels": CLIP.rough}, {"probabilities": CLIP.rough.astype(np.float32)}):
        with pytest.raises(
            InputError, match=r"frame 3 \(from 0\) holds NaN or infinity at 1 of 1564 pixels.*nan_to_num\(frame\)"
        ):
            list(refine_clip(frames, data_range=255, **given))
    scores = CLIP.rough.astype(np.float32)
    scores[4, 2, 2] = np.nan
    with pytest.raises(
        InputError, match=r"frame 4 \(from 0\): probabilities hold NaN at 1 .* Replace them in the array\.$"
    ):
        list(refine_clip(CLIP.frames, probabilities=scores))


@pytest.mark.parametrize("void", ["auto", 255])
def test_masks_without_a_label_are_an_error(void):
    with pytest.raises(InputError, match="all pixels of all masks are 255, which means unknown"):
        list(refine_clip(CLIP.frames, labels=np.full_like(CLIP.rough, 255), void=void))
    (first, *_) = refine_clip(CLIP.frames[:2], labels=np.full_like(CLIP.rough[:2], 255), void=None)
    assert (first[1] == 1).all()  # an object everywhere
