"""`refine_stream`: marginals that are carried from frame to frame, against the definition; laziness and errors."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import CRF, Custom, InputError, InputTypeError, refine
from densefield.video import refine_stream
from densefield.video.held import with_held_marginals
from tests.support.moving_disc import error_share, flicker, moving_disc

CLIP = moving_disc(12)
SHAPE = CLIP.truth.shape[1:]


def streamed(masks: np.ndarray, kind: str = "labels", **options) -> np.ndarray:
    return np.array(list(refine_stream(zip(CLIP.frames, masks, strict=True), kind, **options)))


def test_held_marginals_are_those_of_a_mean_field_that_never_updates_them():
    rng = np.random.default_rng(40387)
    x, scores = rng.normal(size=(30, 3)).astype(np.float32), rng.normal(size=(3, 30)).astype(np.float32)
    held = rng.random(30) < 0.4
    fixed = rng.dirichlet(np.ones(3), held.sum()).T.astype(np.float32)
    weight = 2.0
    kernel = np.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(axis=-1).astype(np.float64))
    scale = kernel.sum(axis=1) ** -0.5
    kernel = scale[:, None] * kernel * scale
    crf = CRF([Custom("x", sigma=1.0, weight=weight)], iterations=60, method="exact")
    problem = with_held_marginals(crf.problem(scores, features={"x": x}), held, fixed)
    found = crf.marginals_of(problem)
    q = np.full(scores.shape, 1 / 3)
    for _ in range(60):
        q[:, held] = fixed
        z = scores + weight * q @ kernel
        q = np.exp(z - z.max(axis=0))
        q /= q.sum(axis=0)
    assert np.allclose(found[:, ~held], q[:, ~held], atol=1e-5)  # both are at the fixed point, in float32


def test_native_and_exact_inference_hold_the_same_marginals():
    rng = np.random.default_rng(40388)
    x, scores = rng.normal(size=(400, 2)).astype(np.float32), rng.normal(size=(2, 400)).astype(np.float32)
    held = np.arange(400) < 200
    fixed = rng.dirichlet(np.ones(2), 200).T.astype(np.float32)
    found = []
    for method in ("exact", "lattice"):
        crf = CRF([Custom("x", sigma=1.0, weight=3.0)], method=method)
        problem = crf.problem(scores, features={"x": x})
        found.append(crf.marginals_of(with_held_marginals(problem, held, fixed))[:, 200:])
    assert np.abs(found[0] - found[1]).mean() < 0.02  # the accuracy of the lattice


def test_a_stream_has_less_flicker_than_frames_one_by_one():
    single = np.array(
        [refine(frame, labels=mask).argmax(axis=0) for frame, mask in zip(CLIP.frames, CLIP.rough, strict=True)]
    )
    labels = streamed(CLIP.rough).argmax(axis=1)
    assert flicker(labels, CLIP.truth) <= flicker(single, CLIP.truth)
    assert error_share(labels, CLIP.truth) < 0.5 * error_share(CLIP.rough, CLIP.truth)


def test_a_part_that_one_mask_misses_is_carried_over():
    masks = CLIP.truth.copy()
    masks[6, 11:21, 17:27] = 0  # inside the disc
    labels = streamed(masks).argmax(axis=1)
    alone = refine(CLIP.frames[6], labels=masks[6]).argmax(axis=0)
    assert error_share(labels[6], CLIP.truth[6]) < 0.5 * error_share(alone, CLIP.truth[6])


def test_scores_are_carried_too():
    rng = np.random.default_rng(5003)
    scores = np.stack([1.0 - CLIP.truth, CLIP.truth], axis=1) * 1.5 + rng.normal(0, 1.5, (12, 2, *SHAPE))
    scores = scores.astype(np.float32)
    q = streamed(scores, "logits")
    assert q.shape == (12, 2, *SHAPE) and np.allclose(q.sum(axis=1), 1, atol=1e-5)
    single = np.array([refine(f, logits=s).argmax(axis=0) for f, s in zip(CLIP.frames, scores, strict=True)])
    assert flicker(q.argmax(axis=1), CLIP.truth) <= flicker(single, CLIP.truth)
    cooler = streamed(scores, "logits", temperature=3.0)
    assert not np.allclose(q, cooler)


def test_each_frame_is_refined_before_the_next_is_read():
    read = []

    def camera():
        for t in range(12):
            read.append(t)
            yield CLIP.frames[t], CLIP.rough[t]

    results = refine_stream(camera())
    assert not read
    for t in range(3):
        next(results)
        assert read == list(range(t + 1))


def test_frames_to_come_do_not_matter():
    assert np.array_equal(streamed(CLIP.rough)[:5], streamed(np.concatenate([CLIP.rough[:5], CLIP.truth[5:]]))[:5])


def test_labels_may_come_and_go():
    masks = np.zeros((4, *SHAPE), np.uint8)
    masks[1, 5:20, 5:20], masks[2, 5:20, 5:20], masks[3, 15:30, 25:40] = 4, 4, 2
    frames = np.full((4, *SHAPE, 3), 40, np.uint8)
    frames[masks == 4], frames[masks == 2] = (200, 40, 40), (40, 200, 40)
    results = list(refine_stream(zip(frames, masks, strict=True)))
    assert [len(q) for q in results] == [2, 5, 5, 5]
    assert all(error_share(q.argmax(axis=0), mask) < 0.01 for q, mask in zip(results, masks, strict=True))
    fixed = list(refine_stream(zip(frames, masks, strict=True), num_classes=7))
    assert {len(q) for q in fixed} == {7}


@pytest.mark.parametrize(
    "pairs, options, message",
    [
        ([CLIP.frames[0]], {}, "element 0 of the stream is of type ndarray"),
        ([(CLIP.frames[0], CLIP.rough[0]), (CLIP.frames[1, 1:], CLIP.rough[1, 1:])], {}, "frame 1 .from 0. has shape"),
        ([(CLIP.frames[0], CLIP.rough[0, 1:])], {}, "frame 0 .from 0.: labels have shape"),
        ([(CLIP.frames[0], CLIP.rough[0] / 2)], {}, "labels have dtype float64"),
        ([(CLIP.frames[0], CLIP.rough[0])], {"masks": "scores"}, "masks is 'scores', expected one of"),
        ([(CLIP.frames[0], CLIP.rough[0])], {"masks": "logits", "roughness": 2.0}, "it is for masks of labels"),
    ],
)
def test_wrong_input_is_an_error(pairs, options, message):
    with pytest.raises((InputError, TypeError), match=message):
        list(refine_stream(pairs, **options))


def test_a_camera_may_use_one_array_for_all_frames():
    def camera():
        frame = np.empty_like(CLIP.frames[0])
        for t in range(4):
            frame[:] = CLIP.frames[t]
            yield frame, CLIP.rough[t]

    expected = list(refine_stream(zip(CLIP.frames[:4], CLIP.rough[:4], strict=True)))
    assert np.array_equal(list(refine_stream(camera())), expected)


@pytest.mark.parametrize("labels", [(1, 0), (10, 3)])  # the object has the lowest label
def test_a_first_frame_without_a_mask_has_no_labels_to_carry_on(labels):
    masks = np.array(labels, np.uint8)[CLIP.rough[1:6]]
    unknown = (CLIP.frames[0], np.full_like(CLIP.rough[0], 255))
    pairs = list(zip(CLIP.frames[1:6], masks, strict=True))
    assert np.array_equal(list(refine_stream([unknown, *pairs], void=255))[1:], list(refine_stream(pairs, void=255)))


@pytest.mark.parametrize("given", [None, 3])
def test_something_else_than_pairs_is_named(given):
    with pytest.raises(InputTypeError, match="expected an iterable of pairs"):
        next(refine_stream(given))
    with pytest.raises(InputTypeError, match=r"masks is of type list, expected .*zip\(frames, masks\)"):
        refine_stream(CLIP.frames, [CLIP.rough[0]])
