"""Decoded labels against all labelings of tiny problems, all thresholds, and truths drawn from the model."""

from __future__ import annotations

import doctest
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from densefield import InputError, InputTypeError
from densefield.metrics import apply_temperature, decode, expected_score
from densefield.metrics.decoding_rules import OverlapMetric

Array = npt.NDArray[Any]
METRICS: tuple[OverlapMetric, ...] = ("iou", "dice")


def random_marginals(classes: int, pixels: int, seed: int, spread: float = 2.0) -> Array:
    """Independent random marginals (L, 1, N)."""
    scores = np.random.default_rng(seed).normal(0, spread, (classes, 1, pixels))
    return apply_temperature(scores, 1.0)


def all_labelings(classes: int, pixels: int) -> Array:
    return np.array(list(itertools.product(range(classes), repeat=pixels)))  # (L^N, N)


def overlap_of(metric: OverlapMetric, y: Array, truth: Array) -> Array:
    """The IoU or Dice score of two boolean masks (…, N); 1 if both are empty."""
    both, sizes = (y & truth).sum(-1), y.sum(-1) + truth.sum(-1)
    top, bottom = (both, sizes - both) if metric == "iou" else (2 * both, sizes)
    return np.where(bottom > 0, top / np.maximum(bottom, 1), 1.0)


def exact_expected_overlap(metric: OverlapMetric, y: Array, p: Array) -> float:
    """The expected IoU or Dice score of a mask (N,), by summing over all truths of independent pixels."""
    truths = all_labelings(2, len(p)) == 1
    probability = np.where(truths, p, 1 - p).prod(axis=1)
    return float(probability @ overlap_of(metric, y[None], truths))


def mean_overlap(metric: OverlapMetric, y: Array, truth: Array, classes: int) -> float:
    """The mean over classes that are true or predicted."""
    there = [l for l in range(classes) if (y == l).any() or (truth == l).any()]
    return float(np.mean([overlap_of(metric, y == l, truth == l) for l in there]))


@pytest.mark.parametrize("all_present", [False, True])
@pytest.mark.parametrize("metric", METRICS)
def test_the_labels_are_close_to_the_best_of_all_labelings(metric: OverlapMetric, all_present: bool):
    labelings = all_labelings(3, 5)
    gaps = []
    for seed in range(15):
        p = random_marginals(3, 5, seed=7310 + seed)
        found = expected_score(p, decode(p, metric, all_present=all_present), metric, all_present=all_present)
        scores = [expected_score(p, y[None], metric, all_present=all_present) for y in labelings]
        gaps.append(max(scores) - found)
    # One of five pixels changes all coefficients: first-order steps find the maximum in most cases, but not in all.
    assert min(gaps) >= -1e-9
    assert np.median(gaps) < 1e-9
    assert np.mean(gaps) < (0.03 if all_present else 0.002)


@pytest.mark.parametrize("all_present", [False, True])
@pytest.mark.parametrize("metric", METRICS)
def test_two_classes_are_separated_by_the_best_of_all_thresholds(metric: OverlapMetric, all_present: bool):
    for seed in range(3):
        foreground = np.random.default_rng(911 + seed).beta(0.3, 1.2, 400)
        p = np.stack([1 - foreground, foreground])[:, None]

        def score(y: Array, p: Array = p) -> float:
            return expected_score(p, y, metric, all_present=all_present)

        ranks = np.argsort(np.argsort(-foreground))[None]
        best = max(score((ranks < count).astype(int)) for count in range(401))
        # The fixed point is within a pixel or two of the best threshold, and one of about 100 pixels changes little.
        assert score(decode(p, metric, all_present=all_present)) == pytest.approx(best, abs=2e-4)
        assert best > score(p.argmax(0)) + 1e-3


@pytest.mark.parametrize("metric", METRICS)
def test_the_ratio_of_expectations_approaches_the_exact_expectation_of_independent_pixels(metric: OverlapMetric):
    errors = {}
    for pixels in (4, 14):
        gaps = []
        for seed in range(6):
            p = np.random.default_rng(55 + seed).uniform(0.1, 0.9, pixels)
            y = p > 0.4
            both = np.stack([1 - p, p])[:, None]
            approximate = expected_score(both, y[None].astype(int), metric, all_present=True)
            exact = [exact_expected_overlap(metric, y == side, q) for side, q in ((True, p), (False, 1 - p))]
            gaps.append(abs(approximate - np.mean(exact)))
        errors[pixels] = np.mean(gaps)
    assert errors[14] < 0.02  # the error is of order 1/N
    assert errors[14] < 0.6 * errors[4]


@pytest.mark.parametrize("metric", METRICS)
def test_labels_of_independent_pixels_are_nearly_the_best_by_the_exact_expectation(metric: OverlapMetric):
    found = []
    for seed in range(12):
        p = np.random.default_rng(400 + seed).beta(0.7, 1.6, 10)
        both = np.stack([1 - p, p])[:, None]
        ranks = np.argsort(np.argsort(-p))

        def exact(y: Array, p: Array = p) -> float:
            return float(np.mean([exact_expected_overlap(metric, y == side, q) for side, q in ((1, p), (0, 1 - p))]))

        best = max(exact(ranks < count) for count in range(11))  # the best labels are the most probable pixels
        found.append((best, exact(decode(both, metric, all_present=True)[0]), exact(both.argmax(0)[0])))
    best, decoded, argmax = np.mean(found, axis=0)
    assert best - decoded < 0.3 * (best - argmax)  # of ten pixels; the ratio of expectations has errors of order 1/N


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("presence", [0.25, 0.7, 0.97])
def test_the_expected_score_is_the_mean_over_truths_of_the_model(metric: OverlapMetric, presence: float):
    """Truths in which an object is missing altogether, or has independent pixels."""
    random = np.random.default_rng(6173)
    given_presence = np.zeros(900)
    given_presence[300:400], given_presence[400:500] = 1.0, np.linspace(1, 0, 100)
    foreground = presence * given_presence
    p = np.stack([1 - foreground, foreground])[:, None]
    labels = {"decoded": decode(p, metric)[0], "arg max": p.argmax(0)[0], "empty": np.zeros(900, int)}
    drawn = {name: [] for name in labels}
    for _ in range(600):
        truth = (random.random(900) < given_presence) & (random.random() < presence)
        for name, y in labels.items():
            drawn[name].append(mean_overlap(metric, y, truth.astype(int), 2))
    means = {name: float(np.mean(values)) for name, values in drawn.items()}
    for name, y in labels.items():
        error = float(np.std(drawn[name]) / np.sqrt(600))
        # Scores and the number of counted classes are averaged separately, E[a] / E[b] for E[a/b]: a bias of 0.1.
        assert expected_score(p, y[None], metric) == pytest.approx(means[name], abs=4 * error + 0.1), name
    assert means["decoded"] >= max(means.values()) - 0.01


def test_the_expected_score_is_never_below_that_of_the_arg_max():
    for seed in range(40):
        p = random_marginals(6, 300, seed=80 + seed, spread=0.3 + 0.1 * seed)
        for metric in METRICS:
            assert expected_score(p, decode(p, metric), metric) >= expected_score(p, p.argmax(0), metric) - 1e-6


def test_certain_marginals_keep_their_labels():
    truth = np.random.default_rng(3).integers(4, size=(9, 11))
    p = np.eye(4, dtype=np.float32)[truth].transpose(2, 0, 1)
    for metric in METRICS:
        np.testing.assert_array_equal(decode(p, metric), truth)
        assert expected_score(p, truth, metric) == pytest.approx(1.0, abs=1e-6)  # float32 sums


def test_a_few_pixels_of_a_doubtful_class_are_removed_and_a_probable_object_grows():
    p = np.full((3, 20, 30), 0.01)
    p[1, 4:12, 5:15], p[1, 6:10, 7:13] = 0.4, 0.97
    p[2, 15:17, 20:22] = 0.5
    p[0] = 1 - p[1] - p[2]
    labels = decode(p)
    assert not (labels == 2).any()
    assert (labels[4:12, 5:15] == 1).all()
    assert (p.argmax(0)[4:12, 5:15] == 1).sum() == 24


def test_accuracy_is_the_arg_max():
    p = random_marginals(5, 60, seed=19)
    np.testing.assert_array_equal(decode(p, "accuracy"), p.argmax(0))


def test_ignored_pixels_do_not_count_and_may_hold_anything():
    p = random_marginals(3, 80, seed=23, spread=1.0).reshape(3, 8, 10)
    ignore = np.zeros((8, 10), bool)
    ignore[:, 6:] = True
    broken = p.copy()
    broken[:, ignore] = np.nan
    labels = decode(broken, ignore=ignore)
    np.testing.assert_array_equal(labels[:, :6], decode(np.ascontiguousarray(p[:, :, :6])))
    y = p.argmax(0)
    inside = expected_score(np.ascontiguousarray(p[:, :, :6]), y[:, :6])
    assert expected_score(broken, np.where(ignore, 255, y), ignore=ignore) == pytest.approx(inside, abs=1e-12)
    assert decode(p, ignore=np.ones((8, 10), bool)).shape == (8, 10)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_precisions_give_nearly_the_same_labels(dtype: type):
    p = random_marginals(4, 3000, seed=37)
    assert (decode(p.astype(dtype)) == decode(p)).mean() > 0.995  # pixels at a threshold may change sides


def test_volumes_and_lists_are_accepted():
    p = random_marginals(3, 24, seed=41)
    flat = decode(p)
    np.testing.assert_array_equal(decode(p.reshape(3, 2, 3, 4)).ravel(), flat.ravel())
    np.testing.assert_array_equal(decode(p.tolist()), decode(p.astype(np.float64)))


def test_the_input_is_not_changed():
    p = random_marginals(3, 50, seed=43)
    before = p.copy()
    decode(p)
    np.testing.assert_array_equal(p, before)


@pytest.mark.parametrize(
    "marginals, message",
    [
        (np.full((4, 5), 0.5), r"shape \(4, 5\).*numpy.stack"),
        (np.zeros((0, 2, 2)), r"shape \(0, 2, 2\)"),
        (np.full((2, 3, 3), np.nan), "NaN.*ignore="),
        (np.log(np.full((2, 3, 3), 0.5)), r"-0.6931.*numpy.exp"),
        (np.full((2, 3, 3), 3.0), "3 to 3.*softmax"),
        (np.full((3, 4, 2), 0.5), r"sum to 1.5.*moveaxis"),
    ],
)
def test_marginals_that_are_none_are_refused(marginals: Array, message: str):
    with pytest.raises(InputError, match=message):
        decode(marginals)


def test_other_invalid_arguments_are_refused():
    p = random_marginals(3, 6, seed=47)
    with pytest.raises(InputTypeError, match="masked array"):
        decode(np.ma.masked_less(p, 0.1))
    with pytest.raises(InputTypeError, match="int64"):
        decode(np.ones((2, 3, 3), int))
    with pytest.raises(InputError, match="'f1', expected one of iou, dice, accuracy"):
        decode(p, "f1")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="expected one of iou, dice"):
        expected_score(p, p.argmax(0), "accuracy")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"ignore is int64 \(1, 6\)"):
        decode(p, ignore=np.zeros((1, 6), int))
    with pytest.raises(InputError, match=r"ignore is bool \(6,\)"):
        decode(p, ignore=np.zeros(6, bool))
    with pytest.raises(InputError, match=r"labels are int64 \(6,\), expected integers \(1, 6\)"):
        expected_score(p, np.zeros(6, int))
    with pytest.raises(InputError, match=r"0 to 255.*ignore="):
        expected_score(p, np.array([[0, 0, 0, 0, 0, 255]]))


def test_the_examples_of_the_documentation_run():
    page = Path(__file__).parents[2] / "docs" / "decoding.md"
    text = "\n".join("" if line.startswith("```") else line for line in page.read_text(encoding="utf-8").splitlines())
    examples = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    assert len(examples.examples) >= 15
    report: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(examples, out=report.append)
    assert failed == 0, "".join(report)


def test_decoding_raises_the_mean_iou_of_photos(shared: Path):
    images = pytest.importorskip("PIL.Image")
    found: dict[str, list[float]] = {"arg max": [], "decoded": [], "expected": []}
    for path in sorted((shared / "data" / "logits").glob("*.npz"))[::8]:
        with np.load(path) as file:
            p = apply_temperature(file["logits"].astype(np.float32), 1.0)  # an eighth of the size
        mask = shared / "data" / "VOCdevkit" / "VOC2012" / "SegmentationClass" / f"{path.stem}.png"
        rows, columns = p.shape[1:]
        truth = np.asarray(images.open(mask).resize((columns, rows), images.Resampling.NEAREST))
        y, counted = decode(p), truth != 255
        found["arg max"].append(mean_overlap("iou", p.argmax(0)[counted], truth[counted], 21))
        found["decoded"].append(mean_overlap("iou", y[counted], truth[counted], 21))
        found["expected"].append(expected_score(p, y))
    means = {name: float(np.mean(values)) for name, values in found.items()}
    assert means["decoded"] > means["arg max"] + 0.01
    # The scores of 18 images have a standard deviation of 0.2, their mean one of 0.05.
    assert means["expected"] == pytest.approx(means["decoded"], abs=0.1)
