"""Transforms change image and labels together, and depend only on seed, epoch and index."""

from __future__ import annotations

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="scaling needs Pillow")

from densefield.datasets.sample import Sample  # noqa: E402
from densefield.datasets.transforms import (  # noqa: E402
    Augmentation,
    Window,
    augment,
    jitter_colours,
    scaled_crop,
)
from densefield.errors import InputError, InputTypeError  # noqa: E402
from densefield.labels import VOID  # noqa: E402

FILL = (7, 130, 250)
rng = np.random.default_rng(63211)
PHOTO = rng.integers(0, 256, (47, 61, 3)).astype(np.uint8)


def colour_coded_sample(rows: int = 60, columns: int = 84) -> Sample:
    """Blocks of labels 0…5, each in a colour that encodes its label: (40·label, 200, 0)."""
    label = ((np.arange(rows)[:, None] // 20 + np.arange(columns) // 14 * 2) % 6).astype(np.uint8)
    image = np.zeros((rows, columns, 3), np.uint8)
    image[..., 0], image[..., 1] = 40 * label, 200
    return Sample(image, label, "blocks")


class TestScaledCrop:
    @pytest.mark.parametrize("index", range(8))
    def test_without_scaling_colours_and_labels_stay_together(self, index):
        seen = augment(colour_coded_sample(), Augmentation((50, 90), (1, 1), jitter=0, fill=FILL), 17, 2, index)
        inside = seen.labels != VOID
        assert np.array_equal(seen.image[inside][:, 0], 40 * seen.labels[inside])
        assert (seen.image[~inside] == FILL).all() and (seen.image[inside][:, 1] == 200).all()

    @pytest.mark.parametrize("index", range(12))
    def test_scaled_colours_and_labels_stay_together_away_from_borders(self, index):
        seen = augment(colour_coded_sample(), Augmentation((64, 64), (0.5, 2.0), jitter=0, fill=FILL), 17, 0, index)
        inside = seen.labels != VOID
        assert inside.any()
        code = seen.image[..., 0].astype(int)
        # A pixel whose neighbours have its own label lies within a block of at least 7 × 10 pixels.
        core = inside.copy()
        for axis, step in ((0, 1), (0, -1), (1, 1), (1, -1), (0, 2), (0, -2), (1, 2), (1, -2)):
            core &= np.roll(seen.labels, step, axis) == seen.labels
        core[:2], core[-2:], core[:, :2], core[:, -2:] = False, False, False, False
        assert core.sum() > 0.2 * inside.sum()
        assert np.array_equal(code[core], 40 * seen.labels[core].astype(int))

    def test_a_scaled_crop_equals_a_crop_of_the_scaled_image(self):
        """Reference: scale the complete image, then crop."""
        label = rng.integers(0, 9, PHOTO.shape[:2]).astype(np.uint8)
        for scaled, top, left, size in [
            ((30, 50), 5, 8, (20, 30)),
            ((90, 101), 33, 0, (57, 101)),
            ((47, 61), 3, 4, (9, 8)),
            ((33, 40), -10, -6, (50, 50)),
        ]:
            image, labels = scaled_crop(PHOTO, label, Window(scaled, top, left, size), FILL)
            full = np.asarray(Image.fromarray(PHOTO).resize(scaled[::-1], Image.Resampling.BILINEAR)).astype(int)
            full_labels = np.asarray(Image.fromarray(label).resize(scaled[::-1], Image.Resampling.NEAREST))
            first, second = max(-top, 0), max(-left, 0)
            part = full[max(top, 0) : top + size[0], max(left, 0) : left + size[1]]
            here = (slice(first, first + part.shape[0]), slice(second, second + part.shape[1]))
            assert np.abs(image[here] - part).max() <= 1  # Pillow's weights are rounded to 22 bits, and so are sums
            part_label = full_labels[max(top, 0) : top + size[0], max(left, 0) : left + size[1]]
            assert np.array_equal(labels[here], part_label)
            outside = np.ones(size, bool)
            outside[here] = False
            assert (labels[outside] == VOID).all() and (image[outside] == FILL).all()

    @pytest.mark.parametrize("index", range(24))
    def test_inside_is_the_rectangle_without_padding(self, index):
        """No label of the sample is void, so void labels mark padding; some crops are mirrored, some not padded."""
        seen = augment(colour_coded_sample(), Augmentation((50, 60), (0.5, 1.5), jitter=0, fill=FILL), 17, 0, index)
        expected = np.full((50, 60), False)
        top, bottom, left, right = seen.inside or (0, 50, 0, 60)
        expected[top:bottom, left:right] = True
        assert np.array_equal(seen.labels != VOID, expected)
        assert (seen.inside is None) == (seen.labels != VOID).all()

    def test_a_window_beyond_the_image_is_void(self):
        image, label = scaled_crop(PHOTO, PHOTO[..., 0], Window((47, 61), 60, 0, (4, 5)), FILL)
        assert (image == FILL).all() and (label == VOID).all()

    def test_an_image_of_one_pixel_can_be_augmented(self):
        sample = Sample(np.full((1, 1, 3), 9, np.uint8), np.full((1, 1), 3, np.uint8), "dot")
        seen = augment(sample, Augmentation((5, 6), (0.5, 2.0), jitter=0), 1, 0, 0)
        assert seen.labels.shape == (5, 6) and set(np.unique(seen.labels)) == {3, VOID}


class TestRandomness:
    def test_results_depend_only_on_seed_epoch_and_index(self):
        sample, augmentation = Sample(PHOTO, PHOTO[..., 0], "a"), Augmentation((32, 32))
        one, two = augment(sample, augmentation, 5, 1, 9), augment(sample, augmentation, 5, 1, 9)
        assert np.array_equal(one.image, two.image) and np.array_equal(one.labels, two.labels) and one.id == "a"
        for other in ((6, 1, 9), (5, 2, 9), (5, 1, 8)):
            assert not np.array_equal(one.image, augment(sample, augmentation, *other).image)

    def test_about_half_are_mirrored(self):
        sample = colour_coded_sample(20, 28)
        sample.labels[...] = np.arange(28)
        augmentation = Augmentation((20, 28), (1, 1), jitter=0)
        swapped = [augment(sample, augmentation, 3, 0, index).labels[0, 0] == 27 for index in range(200)]
        assert 65 < sum(swapped) < 135  # within five standard deviations
        assert not any(
            augment(sample, Augmentation((20, 28), (1, 1), mirror=False), 3, 0, index).labels[0, 0] == 27
            for index in range(20)
        )

    def test_crops_and_padding_cover_all_positions(self):
        label = np.arange(12, dtype=np.uint8)[None] + np.zeros((4, 1), np.uint8)
        sample = Sample(np.zeros((4, 12, 3), np.uint8), label, "strip")
        augmentation = Augmentation((6, 5), (1, 1), mirror=False, jitter=0)
        seen = [augment(sample, augmentation, 8, 0, index) for index in range(200)]
        tops = {int(np.flatnonzero((one.labels != VOID).any(1))[0]) for one in seen}
        lefts = {int(one.labels[one.labels != VOID].min()) for one in seen}
        assert tops == {0, 1, 2} and lefts == set(range(8))

    def test_scales_fill_their_range(self):
        sample = Sample(np.zeros((100, 100, 3), np.uint8), np.zeros((100, 100), np.uint8), "square")
        augmentation = Augmentation((200, 200), (0.5, 1.5))
        sides = [(augment(sample, augmentation, 4, 0, index).labels == 0).sum() ** 0.5 for index in range(100)]
        assert 50 <= min(sides) < 55 and 145 < max(sides) <= 150


class TestColours:
    def test_jitter_does_not_change_labels_and_padding(self):
        sample = colour_coded_sample()
        plain = augment(sample, Augmentation((70, 70), (1, 1), jitter=0, fill=FILL), 2, 0, 3)
        strong = augment(sample, Augmentation((70, 70), (1, 1), jitter=0.5, fill=FILL), 2, 0, 3)
        assert np.array_equal(plain.labels, strong.labels)
        assert (strong.image[strong.labels == VOID] == FILL).all()
        assert not np.array_equal(plain.image, strong.image)

    @pytest.mark.parametrize("factors", [(1.2, 1.0, 1.0), (1.0, 0.6, 1.0), (1.0, 1.0, 1.4), (0.8, 1.3, 0.7)])
    def test_jitter_equals_a_stepwise_reference_in_double_precision(self, factors):
        brightness, saturation, contrast = factors
        colours = PHOTO.astype(float)
        grey = np.rint(colours @ (77 / 256, 150 / 256, 29 / 256))[..., None]
        colours, grey = brightness * colours, brightness * grey
        colours = grey + saturation * (colours - grey)
        colours = grey.mean() + contrast * (colours - grey.mean())
        error = jitter_colours(PHOTO, *factors) - np.clip(colours, 0, 255)
        # Rounding to integers gives ½; ties of the grey, which rint rounds to even, at most one step more.
        assert np.abs(error).max() <= 1.5 and np.mean(np.abs(error) <= 0.51) > 0.97

    def test_factors_of_one_change_nothing(self):
        assert jitter_colours(PHOTO, 1.0, 1.0, 1.0) is PHOTO


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"crop": (0, 5)}, r"crop is \(0, 5\), expected rows and columns"),
        ({"crop": (5, 5, 3)}, "crop is"),
        ({"crop": (5.5, 5)}, "crop is"),
        ({"scales": (0, 1)}, "scales are"),
        ({"scales": (2, 1)}, "the smaller first"),
        ({"scales": (1, float("inf"))}, "scales are"),
        ({"scales": (float("nan"), 1)}, "scales are"),
        ({"jitter": 1.0}, "jitter is 1.0"),
        ({"jitter": -0.1}, "jitter is -0.1"),
        ({"fill": (0, 0, 256)}, r"fill is \(0, 0, 256\)"),
    ],
)
def test_invalid_settings_raise(settings, message):
    with pytest.raises(InputError, match=message):
        Augmentation(**{"crop": (5, 5), **settings})


@pytest.mark.parametrize(
    "image, label, error, message",
    [
        (PHOTO, None, InputError, "night has no labels, and cannot be trained on"),
        (PHOTO, PHOTO[:5, :, 0], InputError, r"night: labels are uint8 \(5, 61\), expected uint8 \(47, 61\)"),
        (PHOTO, PHOTO[..., 0].astype(int), InputError, "night: labels are int64"),
        (PHOTO[..., 0], PHOTO[..., 0], InputTypeError, r"night: the image is uint8 \(47, 61\)"),
        (PHOTO.astype(float), PHOTO[..., 0], InputTypeError, "night: the image is float64"),
        (PHOTO[:0], PHOTO[:0, :, 0], InputError, "night is empty"),
    ],
)
def test_errors_name_the_invalid_sample(image, label, error, message):
    with pytest.raises(error, match=message):
        augment(Sample(image, label, "night"), Augmentation((4, 4)), 0, 0, 0)


class TestWholeImages:
    @pytest.mark.parametrize("index", range(6))
    def test_whole_images_are_only_mirrored_and_coloured(self, index):
        sample = colour_coded_sample(40, 56)
        seen = augment(sample, Augmentation(None, jitter=0), 17, 0, index)
        mirrored = not np.array_equal(seen.labels, sample.labels)
        step = -1 if mirrored else 1
        assert np.array_equal(seen.labels, sample.labels[:, ::step])
        assert np.array_equal(seen.image, sample.image[:, ::step])
        assert seen.inside is None and seen.spacing == (1.0, 1.0)

    def test_about_half_are_mirrored_and_colours_change(self):
        sample = colour_coded_sample(40, 56)
        seen = [augment(sample, Augmentation(None, jitter=0.3), 17, 0, index) for index in range(40)]
        mirrored = sum(not np.array_equal(each.labels, sample.labels) for each in seen)
        assert 10 <= mirrored <= 30
        assert len({each.image.tobytes() for each in seen}) == 40

    def test_whole_images_have_no_scales(self):
        with pytest.raises(InputError, match="crop is None: whole images are not scaled"):
            Augmentation(None, (0.5, 1.0))


@pytest.mark.parametrize("index", range(8))
def test_the_spacing_is_the_size_of_a_pixel_in_the_original_image(index):
    """A ramp of colours tells how many original pixels lie between two pixels of the crop."""
    rows, columns = 160, 200
    image = np.zeros((rows, columns, 3), np.uint8)
    image[..., 0], image[..., 1] = np.arange(columns), np.arange(rows)[:, None]
    sample = Sample(image, np.zeros((rows, columns), np.uint8), "ramp")
    seen = augment(sample, Augmentation((60, 60), (0.5, 1.5), mirror=False, jitter=0), 29, 0, index)
    top, bottom, left, right = seen.inside or (0, 60, 0, 60)
    steps = [
        (int(seen.image[top + 5, right - 3, 0]) - int(seen.image[top + 5, left + 2, 0])) / (right - left - 5),
        (int(seen.image[bottom - 3, left + 5, 1]) - int(seen.image[top + 2, left + 5, 1])) / (bottom - top - 5),
    ]
    assert seen.spacing == pytest.approx(steps, abs=0.04)  # colours are integers: two levels over 55 pixels or more
