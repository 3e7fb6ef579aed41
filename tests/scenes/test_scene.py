"""Scenes are reproducible, show every class, and cannot be segmented by colour alone."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from densefield.datasets.sampling import random_generator
from densefield.errors import InputError, InputTypeError
from densefield.scenes.geometry import Plane, join
from densefield.scenes.objects import REACH, SCENE_CLASSES
from densefield.scenes.scene import SceneDataset, draw_scene, nearly_normal, scene_classes

SEED = 48271


def digest(*samples) -> str:
    content = b"".join(sample.image.tobytes() + sample.labels.tobytes() for sample in samples)
    return hashlib.sha256(content).hexdigest()


def borders(label: np.ndarray) -> np.ndarray:
    """Pixels with a neighbour of another label."""
    edge = np.zeros(label.shape, bool)
    down, across = label[1:] != label[:-1], label[:, 1:] != label[:, :-1]
    edge[1:] |= down
    edge[:-1] |= down
    edge[:, 1:] |= across
    edge[:, :-1] |= across
    return edge


class TestReproducibility:
    def test_a_scene_drawn_alone_equals_the_one_drawn_in_sequence(self):
        sequence = [draw_scene(SEED, index, (96, 112), 6) for index in range(8)]
        assert digest(draw_scene(SEED, 7, (96, 112), 6)) == digest(sequence[7])

    def test_scenes_are_the_same_in_another_process(self):
        code = f"""
import hashlib
from densefield.scenes.scene import draw_scene
samples = [draw_scene({SEED}, index, (96, 96), 20) for index in range(12)]
print(hashlib.sha256(b"".join(s.image.tobytes() + s.labels.tobytes() for s in samples)).hexdigest())
"""
        there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        here = digest(*(draw_scene(SEED, index, (96, 96), 20) for index in range(12)))
        assert there.stdout.strip() == here

    def test_scenes_are_the_same_on_every_platform(self):
        """Recorded checksums. An intended change also increases VERSION in scenes/files.py."""
        drawn = digest(*(draw_scene(SEED, index, (96, 128), 20) for index in range(40)))
        assert drawn == "fc77521e3756f5fd318983ad5c5649e829d734f27c636dbb5fcb6eea4f7cfb55"

    def test_scenes_depend_on_seed_index_size_and_classes(self):
        settings = [(SEED, 0, (96, 96), 5), (SEED + 1, 0, (96, 96), 5), (SEED, 6, (96, 96), 5), (SEED, 0, (96, 96), 12)]
        # Six scenes each, since one scene may have the same objects by chance.
        drawn = {digest(*(draw_scene(seed, first + k, *rest) for k in range(6))) for seed, first, *rest in settings}
        assert len(drawn) == 4

    def test_nothing_but_numpy_is_needed(self):
        code = "import sys; from densefield.scenes.scene import draw_scene; draw_scene(1, 2); print(*sys.modules)"
        loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        assert "numpy" in loaded and not {"torch", "PIL", "scipy"} & set(loaded)


@pytest.mark.parametrize("shape", [(200, 301), (3, 1, 5), (1,)])
def test_noise_has_the_requested_shape(shape):
    assert nearly_normal(random_generator(3), shape).shape == shape


def test_noise_is_nearly_normal():
    noise = nearly_normal(random_generator(90533), (300, 301)).astype(np.float64)
    n = noise.size
    assert abs(noise).max() < 3.5
    assert abs(noise.mean()) < 5 / n**0.5  # five standard errors of the mean
    assert abs(noise.std() - 1) < 5 / (2 * n) ** 0.5  # and of the standard deviation
    # The sum of four uniform numbers has the excess kurtosis -6/5/4; that of a normal distribution is 0.
    assert np.mean(noise**4) - 3 == pytest.approx(-0.3, abs=5 * (24 / n) ** 0.5)
    neighbours = np.mean(noise[:, 1:] * noise[:, :-1])
    assert abs(neighbours) < 5 / n**0.5


class TestContent:
    @pytest.mark.parametrize("size", [(96, 96), (96, 211), (512, 130)])
    def test_image_and_labels_have_the_size_and_types_of_a_sample(self, size):
        sample = draw_scene(SEED, 0, size, 3)
        assert sample.image.shape == (*size, 3) and sample.image.dtype == np.uint8 and sample.image.flags.c_contiguous
        assert sample.labels.shape == size and sample.labels.dtype == np.uint8
        assert sample.id == "scene_000000"

    def test_every_class_appears_and_no_pixel_is_void(self):
        seen = np.zeros(256, int)
        for index in range(120):
            seen += np.bincount(draw_scene(SEED, index, (96, 96), 20).labels.reshape(-1), minlength=256)
        assert (seen[:21] > 0).all() and (seen[21:] == 0).all()
        assert 0.6 < seen[0] / seen.sum() < 0.9  # most of a scene is background

    def test_with_few_classes_only_these_appear(self):
        labels = np.concatenate([draw_scene(SEED, index, (96, 96), 2).labels for index in range(20)])
        assert set(np.unique(labels)) == {0, 1, 2}

    def test_every_scene_has_an_object_and_a_wide_range_of_colours(self):
        for index in range(30):
            sample = draw_scene(SEED, index, (96, 96), 8)
            assert (sample.labels > 0).mean() > 0.01
            assert np.ptp(sample.image.astype(int)) > 60

    @pytest.mark.parametrize("kind", SCENE_CLASSES, ids=lambda kind: kind.name)
    def test_a_shape_stays_within_its_radius_and_has_thin_parts(self, kind):
        y, x = np.meshgrid(*[np.linspace(-1.6, 1.6, 161, dtype=np.float32)] * 2, indexing="ij")
        far = x * x + y * y > REACH * REACH
        for draw in range(12):
            parts = kind.shape(Plane(x, y, 0.03), random_generator(draw, 977))
            inside = join(*(part.distance for part in parts)) < 0
            assert inside.any() and not inside[far].any()
            assert any(part.textured for part in parts)
            deep = join(*(part.distance for part in parts)) < -0.1
            assert deep.sum() < 0.75 * inside.sum()  # much of it is within a tenth of the radius of its border

    @pytest.mark.parametrize("kind", SCENE_CLASSES, ids=lambda kind: kind.name)
    def test_a_texture_is_bounded_and_varies(self, kind):
        y, x = np.meshgrid(*[np.linspace(-1.1, 1.1, 97, dtype=np.float32)] * 2, indexing="ij")
        pattern = kind.texture(x, y, random_generator(5, 31))
        assert pattern.dtype == np.float32 and pattern.shape == x.shape
        assert np.abs(pattern).max() <= 2 and pattern.std() > 0.1

    def test_each_class_has_its_own_shape_and_texture(self):
        assert len({kind.name for kind in SCENE_CLASSES}) == 20
        assert len({kind.shape for kind in SCENE_CLASSES}) == 20
        assert len({kind.texture for kind in SCENE_CLASSES}) == 20


@pytest.fixture(scope="module")
def scenes():
    return [draw_scene(SEED, index, (96, 96), 5) for index in range(160)]


class TestDifficulty:
    def test_colour_alone_does_not_reveal_the_class(self, scenes):
        """The best label for each colour, learnt from three quarters of the scenes, finds almost no object."""
        count = np.zeros((16**3, 6))
        for sample in scenes[:120]:
            np.add.at(count, (_bins(sample.image), sample.labels.reshape(-1)), 1)
        best = count.argmax(axis=1)
        both, either = np.zeros(6), np.zeros(6)
        for sample in scenes[120:]:
            found, true = best[_bins(sample.image)], sample.labels.reshape(-1)
            for label in range(6):
                both[label] += ((found == label) & (true == label)).sum()
                either[label] += ((found == label) | (true == label)).sum()
        assert (both[1:] / either[1:]).mean() < 0.2

    def test_label_boundaries_are_image_edges(self, scenes):
        """The step across a border is larger than within an object or the background, in the median."""
        across, within = [], []
        for sample in scenes[:40]:
            colours = sample.image.astype(float)
            step = np.sqrt(((colours[:, 2:] - colours[:, :-2]) ** 2).sum(-1))
            other = sample.labels[:, 2:] != sample.labels[:, :-2]
            across.append(step[other])
            within.append(step[~other])
        assert np.median(np.concatenate(across)) > 2.5 * np.median(np.concatenate(within))

    def test_a_crf_recovers_borders_that_a_coarse_mask_has_lost(self, scenes):
        """Masks at an eighth of the resolution, like those of a network, become more accurate at borders."""
        from densefield import Bilateral, Spatial, refine

        kernels = [Spatial(1.5, weight=1), Bilateral(15, 12, weight=8)]
        before, after = [], []
        for sample in scenes[:12]:
            shares = np.eye(6, dtype=np.float32)[sample.labels].reshape(12, 8, 12, 8, 6).mean((1, 3))
            rough = np.maximum(_enlarged(_enlarged(shares, 0), 1).transpose(2, 0, 1), 1e-3)
            rough /= rough.sum(0)
            edge = borders(sample.labels)
            before.append((rough.argmax(0) == sample.labels)[edge])
            after.append((refine(sample.image, probabilities=rough, kernels=kernels).argmax(0) == sample.labels)[edge])
        gain = np.concatenate(after).mean() - np.concatenate(before).mean()
        assert gain > 0.04


def _bins(image: np.ndarray) -> np.ndarray:
    """The bin of each pixel's colour among 16 × 16 × 16."""
    coarse = (image >> 4).reshape(-1, 3).astype(np.intp)
    return coarse @ np.array([256, 16, 1])


def _enlarged(values: np.ndarray, axis: int) -> np.ndarray:
    """Linear interpolation to eight times as many values along an axis."""
    count = values.shape[axis]
    at = np.clip((np.arange(8 * count) + 0.5) / 8 - 0.5, 0, count - 1)
    low = np.minimum(at.astype(int), count - 2)
    share = (at - low).reshape([-1 if k == axis else 1 for k in range(values.ndim)])
    return values.take(low, axis) * (1 - share) + values.take(low + 1, axis) * share


class TestDataset:
    def test_it_starts_at_its_first_scene(self):
        scenes = SceneDataset(3, size=(96, 100), object_classes=4, seed=SEED, first=10)
        assert len(scenes) == 3 and scenes.ids == ("scene_000010", "scene_000011", "scene_000012")
        assert scenes.classes == scene_classes(4) == ("background", "mushroom", "fish", "tree", "beetle")
        assert digest(*scenes) == digest(*(draw_scene(SEED, index, (96, 100), 4) for index in (10, 11, 12)))
        assert scenes[-1].id == scenes.ids[-1]

    @pytest.mark.parametrize("index", [3, -4])
    def test_an_index_out_of_range_raises(self, index):
        with pytest.raises(IndexError, match=f"no image {index}"):
            SceneDataset(3)[index]


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"size": (95, 96)}, InputError, "size is 95 × 96, expected sides from 96 to 512"),
        ({"size": (96, 513)}, InputError, "from 96 to 512"),
        ({"size": 96}, InputTypeError, r"size is 96, expected \(rows, columns\)"),
        ({"size": (96.0, 96)}, InputTypeError, "a side of size is 96.0, expected an integer"),
        ({"object_classes": 1}, InputError, "object_classes is 1, expected 2 to 20"),
        ({"object_classes": 21}, InputError, "expected 2 to 20"),
        ({"object_classes": True}, InputTypeError, "object_classes is True"),
        ({"seed": -1}, InputError, "seed is -1, expected 0 or more"),
        ({"seed": 2**64}, InputError, "below"),
        ({"index": -1}, InputError, "index is -1"),
        ({"index": 1.5}, InputTypeError, "index is 1.5"),
    ],
)
def test_invalid_arguments_raise(change, error, message):
    with pytest.raises(error, match=message):
        draw_scene(**{"seed": 1, "index": 2, **change})


def test_a_dataset_without_images_raises():
    with pytest.raises(InputError, match="images is 0, expected 1 or more"):
        SceneDataset(0)
    with pytest.raises(InputError, match="images is -3"):
        SceneDataset(-3)
