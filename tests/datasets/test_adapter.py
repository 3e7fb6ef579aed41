"""Datasets of any form: pairs and dicts of arrays, tensors and Pillow images, and what is wrong with them."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="Pillow images are among the forms")
torch = pytest.importorskip("torch", reason="tensors are among the forms")

from densefield.datasets.adapter import as_dataset, as_sample  # noqa: E402
from densefield.datasets.sample import Sample  # noqa: E402
from densefield.errors import InputError, InputTypeError  # noqa: E402

RNG = np.random.default_rng(90731)
COLOURS = RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8)
LABELS = RNG.choice(np.array([0, 1, 2, 255], np.uint8), (5, 7))
FIRST = np.ascontiguousarray(COLOURS.transpose(2, 0, 1))

PALETTE = Image.fromarray(LABELS)
PALETTE.putpalette(list(range(256)) * 3)
SCAN = Image.fromarray(np.full((5, 7), 1000, np.uint16))

IMAGES = {
    "rows first": COLOURS,
    "channels first": FIRST,
    "tensor, channels first": torch.from_numpy(FIRST),
    "tensor, channels last": torch.from_numpy(COLOURS),
    "int64": COLOURS.astype(np.int64),
    "Pillow": Image.fromarray(COLOURS),
    "Pillow with alpha": Image.fromarray(COLOURS).convert("RGBA"),
}
MASKS = {
    "uint8": LABELS,
    "int64 tensor": torch.from_numpy(LABELS.astype(np.int64)),
    "one channel first": LABELS[None],
    "one channel last": LABELS[..., None],
    "Pillow, grey": Image.fromarray(LABELS),
    "Pillow, palette": PALETTE,
}


@pytest.mark.parametrize("image", IMAGES.values(), ids=IMAGES)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_every_usual_form_gives_the_same_sample(image, mask):
    for item in ((image, mask), [image, mask], {"image": image, "mask": mask}, {"image": image, "label": mask}):
        sample = as_sample(item, "a", 3)
        assert sample.image.dtype == sample.labels.dtype == np.uint8
        assert np.array_equal(sample.image, COLOURS) and np.array_equal(sample.labels, LABELS)


@pytest.mark.parametrize("size", [(3, 7), (5, 3), (3, 3), (1, 3)])
def test_images_of_three_rows_or_columns_keep_their_axes(size):
    image, labels = RNG.integers(0, 256, (*size, 3), dtype=np.uint8), np.zeros(size, int)
    assert np.array_equal(as_sample((image, labels), "a", 1).image, image)
    tensor = torch.from_numpy(image).movedim(-1, 0)
    assert np.array_equal(as_sample((tensor, labels), "a", 1).image, image)


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1), (1, 5, 7)])
def test_grey_images_have_three_equal_channels(shape):
    image = as_sample((FIRST[0].reshape(shape), LABELS), "a", 3).image
    assert np.array_equal(image, np.stack([FIRST[0]] * 3, -1))


def test_a_boolean_mask_has_the_labels_0_and_1():
    assert np.array_equal(as_sample((COLOURS, LABELS > 0), "a", 2).labels, LABELS > 0)


def test_names_and_classes_are_the_datasets_own_if_it_has_them():
    class Own(list):
        ids, classes = ("cat", "dog"), ["sky", "tree", "road"]

    pair = (COLOURS, LABELS)
    own = as_dataset(Own([pair, pair]), 3, name="val")
    assert own.ids == ("cat", "dog") and own.classes == ("sky", "tree", "road") and own[1].id == "dog"
    plain = as_dataset(deque([pair, pair]), 3, name="val")
    assert plain.ids == ("val_000000", "val_000001") and plain.classes == ("0", "1", "2")
    assert len(as_dataset({"a": pair}.values(), 3)) == 1  # a length, but no indices
    assert as_dataset([Sample(COLOURS, None, "x")], ["a"])[0].labels is None
    with pytest.raises(InputError, match="the number of classes is 4, but image has 3"):
        as_dataset(Own([pair, pair]), 4)
    with pytest.raises(InputError, match="the number of classes of image is unknown"):
        as_dataset([pair])


def one_hot(labels):
    return torch.nn.functional.one_hot(torch.from_numpy(labels.astype(np.int64)) % 3, 3)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ((COLOURS / 255, LABELS), r"^a: the image is float64 .* from 0.* expected colours .*look like colours 0…1"),
        ((torch.randn(3, 5, 7), LABELS), r"float32 \(3, 5, 7\) with values from -.*before it is .* normalised"),
        ((COLOURS.astype(np.int32) * 200, LABELS), r"with values from \d+ to \d+, .*Scale them to 0…255"),
        ((COLOURS > 3, LABELS), r"the image is bool"),
        ((COLOURS[None], LABELS), r"\(1, 5, 7, 3\).*Return one image at a time"),
        ((np.zeros((5, 7, 4), np.uint8), LABELS), r"If the fourth is alpha, leave it out"),
        ((np.zeros((0, 7, 3), np.uint8), LABELS), r"\(0, 7, 3\), expected colours"),
        (("a.png", LABELS), r"the image is of type str, expected colours.*as an array, a tensor or a Pillow image"),
        ((COLOURS, LABELS.T), r"int|uint8 \(7, 5\), but the image is \(5, 7\).*Rows and columns are exchanged"),
        ((COLOURS, LABELS[:4]), r"the labels are uint8 \(4, 7\), but the image is \(5, 7\), expected"),
        ((COLOURS, one_hot(LABELS)), r"If they are one-hot, return labels.argmax\(-1\)"),
        ((COLOURS, one_hot(LABELS).movedim(-1, 0)), r"one-hot, return labels.argmax\(0\)"),
        ((COLOURS, COLOURS), r"the labels are uint8 \(5, 7, 3\), .*They look like the colours of a mask"),
        ((SCAN, LABELS), r"the image is uint16 \(5, 7\) with values from 1000 to 1000, .*Scale them to 0…255"),
        ((COLOURS, LABELS / 1.0), r"the labels are float64 .*Return labels.round\(\).long\(\)"),
        (
            (COLOURS, LABELS * 0 + 3),
            r"^a has the label 3 at 35 of 35 pixels, expected 0 to 2 .there are 3 classes., or 255",
        ),
        (
            (COLOURS, LABELS.astype(int) * 0 - 100),
            r"label -100 at 35 .* Write 255 in place of -100 if it means unknown",
        ),
        (
            (COLOURS, LABELS, "cat"),
            r"^a is 3 values, expected a pair .image, labels., or a dict with 'image' and one of",
        ),
        (COLOURS, r"a is of type ndarray, expected a pair"),
        ({"image": COLOURS}, r"a is a dict with 'image', expected"),
        ({"image": COLOURS, "mask": LABELS, "label": LABELS}, r"a dict with 'image', 'mask', 'label', expected"),
    ],
)
def test_a_wrong_sample_is_named_with_a_cure(item, message):
    with pytest.raises((InputError, InputTypeError), match=message):
        as_sample(item, "a", 3)


class Broken:
    def __len__(self):
        return 2

    def __getitem__(self, index):
        raise KeyError("no such\nfile")


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], "train is empty"),
        (iter([1]), "train is of type list_iterator, which has no length"),
        ("folder", "train is of type str, expected a torch Dataset or a list"),
        ({"a": (COLOURS, LABELS)}, "train is of type dict"),
        (None, "train is of type NoneType"),
        (torch.utils.data.DataLoader([1, 2]), r"train is a DataLoader: pass its dataset, loader\.dataset"),
    ],
)
def test_what_is_no_dataset_is_rejected(samples, message):
    with pytest.raises((InputError, InputTypeError), match=message):
        as_dataset(samples, 3, name="train")


def test_an_error_of_the_dataset_names_the_sample():
    with pytest.raises(InputError, match=r"^train_000001: reading it raised KeyError: 'no such\\nfile'\.$"):
        as_dataset(Broken(), 3, name="train")[1]
