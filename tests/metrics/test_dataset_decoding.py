"""Rules for a dataset against all labelings of tiny ones, truths drawn from the marginals, and unsampled pixels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from densefield import InputError
from densefield.metrics import DatasetDecoder, DecodingRule, apply_temperature, decode
from densefield.metrics.decoding_rules import OverlapMetric, decide

Array = npt.NDArray[Any]
METRICS: tuple[OverlapMetric, ...] = ("iou", "dice")


def random_images(count: int, classes: int, size: tuple[int, int], seed: int) -> list[Array]:
    """Marginals (L, H, W) in which the last classes are rare."""
    random = np.random.default_rng(seed)
    bias = -1.2 * np.arange(classes)[:, None, None]
    return [apply_temperature(random.normal(0, 1.3, (classes, *size)) + bias, 1.0) for _ in range(count)]


def fitted(images: list[Array], metric: OverlapMetric, **options: Any) -> DecodingRule:
    decoder = DatasetDecoder(len(images[0]), metric, **options)
    for marginals in images:
        decoder.update(marginals)
    return decoder.fit()


def pooled(metric: OverlapMetric, images: list[Array], labels: list[Array]) -> float:
    """The sum over classes of expected intersection over expected union of all images together."""
    p = np.concatenate([image.reshape(len(image), -1) for image in images], axis=1).astype(np.float64)
    y = np.eye(len(p))[np.concatenate([each.ravel() for each in labels])].T
    overlap, pixels, area = (p * y).sum(1), y.sum(1), p.sum(1)
    return float((overlap / (pixels + area - overlap) if metric == "iou" else 2 * overlap / (pixels + area)).sum())


@pytest.mark.parametrize("metric", METRICS)
def test_the_rule_has_most_of_the_gain_of_the_best_of_all_labelings(metric: OverlapMetric):
    gaps, gains = [], []
    for seed in range(12):
        images = random_images(2, 3, (1, 3), seed=620 + seed)
        rule = fitted(images, metric, all_present=True)
        found = pooled(metric, images, [rule.decode(image) for image in images])
        labelings = np.array(list(itertools.product(range(3), repeat=6))).reshape(-1, 2, 1, 3)
        best = max(pooled(metric, images, list(each)) for each in labelings)
        gaps.append(best - found)
        gains.append(found - pooled(metric, images, [image.argmax(0) for image in images]))
    # One of six pixels changes all coefficients: first-order steps do not always find the maximum.
    assert min(gaps) >= -1e-6
    assert min(gains) >= -1e-6
    assert np.mean(gaps) < np.mean(gains)
    assert np.mean(np.array(gaps) < 1e-6) >= 0.4


@pytest.mark.parametrize("metric", METRICS)
def test_no_change_of_scale_and_offset_is_better_with_many_pixels(metric: OverlapMetric):
    images = random_images(3, 3, (40, 50), seed=97)
    rule = fitted(images, metric, all_present=True)
    found = pooled(metric, images, [rule.decode(image) for image in images])
    assert found > pooled(metric, images, [image.argmax(0) for image in images]) + 0.05
    random = np.random.default_rng(12)
    for _ in range(30):
        scale, offset = rule.scale * np.exp(random.normal(0, 0.1, 3)), rule.offset * np.exp(random.normal(0, 0.1, 3))
        other = DecodingRule(scale, offset, metric, all_present=True)
        # Pixels at the thresholds: each of the 6,000 changes the sum by less than 1e-3.
        assert pooled(metric, images, [other.decode(image) for image in images]) < found + 1e-3


def test_the_rule_raises_the_iou_of_truths_drawn_from_the_marginals():
    images = random_images(4, 4, (50, 60), seed=1009)
    rule = fitted(images, "iou", all_present=True)
    random = np.random.default_rng(2)
    truths = [(np.log(image) + random.gumbel(size=image.shape)).argmax(0) for image in images]
    certain = [np.eye(4)[truth].transpose(2, 0, 1) for truth in truths]
    decoded = pooled("iou", certain, [rule.decode(image) for image in images]) / 4
    argmax = pooled("iou", certain, [image.argmax(0) for image in images]) / 4
    assert decoded > argmax + 0.03
    expected = pooled("iou", images, [rule.decode(image) for image in images]) / 4
    assert decoded == pytest.approx(expected, abs=0.01)  # the rarest class has about 100 of 12,000 pixels


def test_a_sample_of_the_pixels_gives_nearly_the_rule_of_all():
    images = random_images(3, 3, (60, 80), seed=433)
    every, few = (fitted(images, "iou", samples=samples) for samples in (10**6, 1200))
    scores = [pooled("iou", images, [rule.decode(image) for image in images]) for rule in (every, few)]
    assert scores[1] == pytest.approx(scores[0], abs=0.01)  # 3,600 of 14,400 pixels: errors of a few percent in sums
    assert abs(scores[1] - scores[0]) > 0 or not np.array_equal(every.scale, few.scale)


def test_an_image_uses_only_labels_that_it_uses_alone():
    images = random_images(6, 5, (20, 20), seed=71)
    images[0][4] = images[0][4] * 1e-3
    images[0] /= images[0].sum(0)
    rule = fitted(images, "iou")
    for image in images:
        assert set(np.unique(rule.decode(image))) <= set(np.unique(decode(image)))
    assert 4 not in rule.decode(images[0])


def test_an_image_whose_arg_max_is_best_uses_only_the_labels_of_its_arg_max():
    certain = np.zeros((4, 12, 12), np.float32)
    certain[0], certain[1, 3:9, 3:9] = 0.97, 0.97
    certain[0, 3:9, 3:9] = 0.01
    certain[1:] = np.where(certain[1:] > 0, certain[1:], 0.01)
    assert decide(certain.reshape(4, -1), "iou", all_present=False).classes.tolist() == [0, 1]
    rule = DecodingRule(np.array([1e-6, 1e-6, 1.0, 1.0]), np.zeros(4))  # labels 2 and 3 win wherever they take part
    np.testing.assert_array_equal(rule.decode(certain), certain.argmax(0))


def test_a_label_that_no_image_uses_has_a_usual_threshold():
    images = [image[:2] / image[:2].sum(0) for image in random_images(3, 3, (20, 20), seed=5)]
    images = [np.concatenate([image, np.full_like(image[:1], 1e-6)]) for image in images]
    rule = fitted(images, "iou")
    other = np.stack([np.full((10, 10), 0.88), np.full((10, 10), 0.02), np.full((10, 10), 0.1)])
    other[:, 4:6] = np.array([0.05, 0.0, 0.95])[:, None, None]
    assert (rule.decode(other)[4:6] == 2).all()
    assert (rule.decode(other)[6:] == 0).all()


def test_a_rule_is_its_two_arrays():
    images = random_images(2, 3, (12, 15), seed=29)
    rule = fitted(images, "dice")
    again = DecodingRule(rule.scale.tolist(), rule.offset.tolist(), "dice")  # type: ignore[arg-type]
    np.testing.assert_array_equal(again.decode(images[0]), rule.decode(images[0]))


def test_ignored_pixels_do_not_count():
    images = random_images(3, 3, (20, 20), seed=311)
    ignore = np.zeros((20, 20), bool)
    ignore[:, 13:] = True
    one, other = DatasetDecoder(3), DatasetDecoder(3)
    for image in images:
        broken = image.copy()
        broken[:, ignore] = np.nan
        one.update(broken, ignore=ignore)
        other.update(image[:, :, :13])
    one.update(images[0], ignore=np.ones((20, 20), bool))  # nothing to count
    np.testing.assert_array_equal(one.fit().scale, other.fit().scale)


def test_invalid_input_is_refused():
    images = random_images(1, 3, (4, 5), seed=1)
    with pytest.raises(InputError, match="no image was added"):
        DatasetDecoder(3).fit()
    with pytest.raises(InputError, match="3 classes, expected 4"):
        DatasetDecoder(4).update(images[0])
    with pytest.raises(InputError, match="num_classes is 0"):
        DatasetDecoder(0)
    with pytest.raises(InputError, match="samples is True"):
        DatasetDecoder(3, samples=True)
    with pytest.raises(InputError, match="expected one of iou, dice"):
        DatasetDecoder(3, "accuracy")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"offset has shape \(2,\)"):
        DecodingRule(np.ones(3), np.ones(2))
    with pytest.raises(InputError, match="3 classes, expected 2"):
        DecodingRule(np.ones(2), np.ones(2)).decode(images[0])
