"""Batches do not depend on the number of workers, and the stream can be resumed."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("PIL", reason="scaling needs Pillow")

from densefield.datasets.loading import evaluation_batches, stack_samples, to_batch, training_batches  # noqa: E402  # noqa: E402
from densefield.datasets.sample import Sample  # noqa: E402
from densefield.datasets.sampling import Position  # noqa: E402
from densefield.datasets.transforms import Augmentation, augment  # noqa: E402
from densefield.errors import InputError  # noqa: E402
from densefield.scenes.scene import SceneDataset  # noqa: E402

# Python 3.12 and newer warn about forks of processes with threads, which torch's workers are on Linux.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

SCENES = SceneDataset(5, size=(96, 96), object_classes=3, seed=20231)
HOW = Augmentation((48, 56))


class Photos:
    """Photos of several sizes; the last has no labels."""

    classes = ("background", "cat")
    ids = ("a", "b", "c")

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Sample:
        rng = np.random.default_rng(300 + index)
        image = rng.integers(0, 256, (10 + index, 20 - index, 3)).astype(np.uint8)
        return Sample(image, None if index == 2 else image[..., 0] // 128, self.ids[index])


def same(one, two) -> bool:
    tensors = all(torch.equal(getattr(one, name), getattr(two, name)) for name in ("image", "labels"))
    if one.padding is not None and two.padding is not None:
        tensors = tensors and torch.equal(one.padding, two.padding)
    return (
        tensors
        and (one.padding is None) == (two.padding is None)
        and one.ids == two.ids
        and one.position == two.position
    )


class TestTraining:
    def test_a_batch_holds_augmented_samples_in_the_order_of_the_epoch(self):
        batch = next(training_batches(SCENES, HOW, 4, seed=77))
        assert batch.image.shape == (4, 3, 48, 56) and batch.image.dtype == torch.uint8
        assert batch.labels.shape == (4, 48, 56) and batch.labels.dtype == torch.int64
        assert len(set(batch.ids)) == 4 and batch.position == Position(0, 4)
        for row, name in enumerate(batch.ids):
            index = SCENES.ids.index(name)
            seen = augment(SCENES[index], HOW, 77, 0, index)
            assert np.array_equal(batch.image[row].numpy().transpose(1, 2, 0), seen.image)
            assert np.array_equal(batch.labels[row].numpy(), seen.labels)

    @pytest.mark.parametrize("workers", [0, 2])
    def test_padding_marks_pixels_beyond_the_image(self, workers):
        """Scenes have no void labels. Images scaled to 56 pixels or more are not padded."""
        how = Augmentation((48, 56), scales=(0.3, 0.65))
        batches = list(islice(training_batches(SCENES, how, 3, seed=77, workers=workers), 4))
        for batch in batches:
            assert batch.padding.dtype == torch.bool
            assert torch.equal(batch.padding, batch.labels == 255)
        padded = torch.cat([batch.padding for batch in batches]).flatten(1).any(1)
        assert padded.any() and not padded.all()

    def test_batches_without_padding_have_no_padding_mask(self):
        how = Augmentation((48, 56), scales=(1.0, 1.2))
        assert all(batch.padding is None for batch in islice(training_batches(SCENES, how, 3, seed=77), 3))

    @pytest.mark.parametrize("workers", [1, 2])
    def test_batches_do_not_depend_on_the_number_of_workers(self, workers):
        alone = islice(training_batches(SCENES, HOW, 3, seed=77), 6)
        helped = islice(training_batches(SCENES, HOW, 3, seed=77, workers=workers), 6)
        assert all(same(one, two) for one, two in zip(alone, helped, strict=True))

    def test_a_resumed_stream_equals_the_uninterrupted_one(self):
        full = list(islice(training_batches(SCENES, HOW, 2, seed=9), 8))
        for stop in (1, 3, 5):
            rest = training_batches(SCENES, HOW, 2, seed=9, start=full[stop - 1].position)
            assert all(same(one, two) for one, two in zip(full[stop:], islice(rest, 8 - stop), strict=True))

    def test_augmentation_differs_from_epoch_to_epoch(self):
        first, second = islice(training_batches(SCENES, HOW, 5, seed=9), 2)
        rows = [second.ids.index(name) for name in first.ids]
        assert not torch.equal(first.image, second.image[rows])

    def test_the_random_state_of_torch_does_not_change(self):
        torch.manual_seed(4)
        before = torch.random.get_rng_state()
        list(islice(training_batches(SCENES, HOW, 2, seed=9), 2))
        assert torch.equal(before, torch.random.get_rng_state())

    @pytest.mark.parametrize("workers", [0, 1])
    def test_errors_name_a_sample_without_labels(self, workers):
        with pytest.raises(InputError, match=r"^c has no labels[^\n]*$"):  # without the traceback of the worker
            list(islice(training_batches(Photos(), HOW, 3, workers=workers), 1))

    def test_invalid_settings_raise_at_once(self):
        with pytest.raises(InputError, match="batch size is 0"):
            training_batches(SCENES, HOW, 0)
        with pytest.raises(InputError, match="workers is -1"):
            training_batches(SCENES, HOW, 1, workers=-1)
        with pytest.raises(InputError, match="was it another one before"):
            training_batches(SCENES, HOW, 1, start=Position(0, 99))


class TestEvaluation:
    @pytest.mark.parametrize("workers", [0, 2])
    def test_samples_are_in_order_and_keep_their_size(self, workers):
        photos, batches = Photos(), list(evaluation_batches(Photos(), workers=workers))
        assert [batch.ids for batch in batches] == [("a",), ("b",), ("c",)]
        for index, batch in enumerate(batches):
            assert np.array_equal(batch.image[0].numpy().transpose(1, 2, 0), photos[index].image)
            assert batch.position is None
        assert np.array_equal(batches[1].labels[0].numpy(), photos[1].labels) and batches[2].labels is None


class TestBatches:
    def test_workers_send_only_bytes(self):
        stack = stack_samples([SCENES[0], SCENES[1]])
        assert stack.image.dtype == stack.labels.dtype == torch.uint8
        assert stack.image.is_contiguous() and stack.ids == (SCENES.ids[0], SCENES.ids[1])

    def test_void_stays_void(self):
        sample = Sample(np.zeros((1, 2, 3), np.uint8), np.array([[255, 1]], np.uint8), "a")
        assert to_batch(stack_samples([sample])).labels.tolist() == [[[255, 1]]]

    def test_batches_with_and_without_labels_raise(self):
        image = np.zeros((2, 2, 3), np.uint8)
        samples = [Sample(image, label, "a") for label in (None, image[..., 0])]
        with pytest.raises(InputError, match="1 of 2 samples have no labels"):
            stack_samples(samples)
