"""Images of any kind are read as colours and masks as labels; errors name the file and what to do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="data need Pillow")

from densefield.datasets.reading import read_labels, read_photo, read_sample  # noqa: E402
from densefield.datasets.sample import Entry  # noqa: E402
from densefield.errors import InputError  # noqa: E402
from densefield.images.palette import voc_palette  # noqa: E402

LABELS = np.array([[0, 1, 2], [20, 255, 0]], np.uint8)
COLOURS = np.random.default_rng(40423).integers(0, 256, (2, 3, 3)).astype(np.uint8)


def save(path: Path, values: np.ndarray, **options) -> Path:
    Image.fromarray(values).save(path, **options)
    return path


@pytest.mark.parametrize("suffix", ["png", "bmp", "tif", "ppm", "webp"])
def test_colours_equal_those_of_the_file(tmp_path, suffix):
    options = {"lossless": True} if suffix == "webp" else {}
    assert np.array_equal(read_photo(save(tmp_path / f"a.{suffix}", COLOURS, **options)), COLOURS)


@pytest.mark.parametrize("suffix", ["png", "jpg", "tif"])
def test_grey_images_have_three_equal_channels(tmp_path, suffix):
    path = save(tmp_path / f"a.{suffix}", COLOURS[..., 0])
    with Image.open(path) as image:
        grey = np.asarray(image)
    assert grey.ndim == 2 and np.array_equal(read_photo(path), np.stack([grey] * 3, axis=2))


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bits_are_scaled(tmp_path, suffix):
    values = np.array([[0, 257, 12850, 12978, 12979, 65535]], np.uint16)
    colours = read_photo(save(tmp_path / f"a.{suffix}", values))
    # 65535 becomes 255, so one step is 257: 12978 is 50.498 and rounds down, 12979 is 50.502 and rounds up.
    assert colours[0].tolist() == [[grey] * 3 for grey in (0, 1, 50, 50, 51, 255)]


def test_alpha_is_dropped_and_palettes_become_colours(tmp_path):
    alpha = np.concatenate([COLOURS, np.full((2, 3, 1), 7, np.uint8)], axis=2)
    assert np.array_equal(read_photo(save(tmp_path / "a.png", alpha)), COLOURS)
    picture = Image.fromarray(LABELS)
    picture.putpalette(voc_palette().tobytes())
    picture.save(tmp_path / "b.png")
    assert np.array_equal(read_photo(tmp_path / "b.png"), voc_palette()[LABELS])


def test_errors_name_a_truncated_jpeg_and_what_to_do(tmp_path):
    path = save(tmp_path / "photo.jpg", np.random.default_rng(77).integers(0, 256, (64, 64, 3)).astype(np.uint8))
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(InputError, match=r"photo\.jpg cannot be read.*truncated.*Download it again, or remove"):
        read_photo(path)


def test_errors_name_unreadable_images(tmp_path):
    (tmp_path / "text.jpg").write_text("not found", encoding="utf-8")
    with pytest.raises(InputError, match=r"text\.jpg is not an image.*Download it again"):
        read_photo(tmp_path / "text.jpg")
    with pytest.raises(InputError, match=r"no file .*gone\.jpg"):
        read_photo(tmp_path / "gone.jpg")


@pytest.mark.parametrize("palette", ["grey", "voc", "odd"])
def test_masks_are_read_as_indices_with_any_palette(tmp_path, palette):
    picture = Image.fromarray(LABELS)
    if palette != "grey":
        colours = voc_palette() if palette == "voc" else np.random.default_rng(5).integers(0, 256, (256, 3))
        picture.putpalette(colours.astype(np.uint8).tobytes())
    picture.save(tmp_path / "mask.png")
    labels = read_labels(tmp_path / "mask.png", 21)
    assert labels.dtype == np.uint8 and np.array_equal(labels, LABELS)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_masks_of_few_bits_are_read_as_indices(tmp_path, bits):
    labels = np.array([[0, 1, 1], [1, 0, 0]], np.uint8)
    picture = Image.fromarray(labels)
    picture.putpalette([0, 0, 0, 9, 9, 9])
    picture.save(tmp_path / "mask.png", bits=bits)
    assert np.array_equal(read_labels(tmp_path / "mask.png", 2), labels)
    save(tmp_path / "bits.png", labels.astype(bool))
    assert np.array_equal(read_labels(tmp_path / "bits.png", 2), labels)


def test_masks_with_sixteen_bits_are_read_if_their_labels_fit(tmp_path):
    path = save(tmp_path / "mask.png", LABELS.astype(np.uint16))
    assert np.array_equal(read_labels(path, 21), LABELS)
    path = save(tmp_path / "mask.png", LABELS.astype(np.uint16) + 256)  # would wrap to LABELS in 8 bits
    with pytest.raises(InputError, match=r"mask\.png has label 256 at row 0, column 0"):
        read_labels(path, 21)
    path = save(tmp_path / "mask.tif", LABELS.astype(np.int32) - 1)
    with pytest.raises(InputError, match=r"mask\.tif has label -1"):
        read_labels(path, 21)


def test_errors_name_a_label_beyond_the_classes_and_its_position(tmp_path):
    path = save(tmp_path / "mask.png", LABELS)
    with pytest.raises(
        InputError, match=r"mask\.png has label 20 at row 1, column 0, expected 0 to 19 \(there are 20.*Renumber"
    ):
        read_labels(path, 20)
    assert np.array_equal(read_labels(path, 21), LABELS)


def test_masks_in_colours_raise_with_a_hint(tmp_path):
    path = save(tmp_path / "mask.png", np.array([[[1, 2, 3], [40, 5, 6]]], np.uint8))
    with pytest.raises(InputError, match=r"mask\.png has pixels of mode RGB.*2 colours: number them") as caught:
        read_labels(path, 21)
    assert "VOC" not in str(caught.value)
    path = save(tmp_path / "voc.png", voc_palette()[LABELS])
    with pytest.raises(InputError, match=r"voc\.png .*number them.*colours of PASCAL VOC.*voc_labels\(\)"):
        read_labels(path, 21)
    path = save(tmp_path / "grey.png", np.repeat(LABELS[..., None], 3, axis=2))
    with pytest.raises(InputError, match=r"grey\.png .*three channels are equal: save one"):
        read_labels(path, 21)


def test_masks_in_formats_that_change_labels_raise(tmp_path):
    with pytest.raises(InputError, match=r"mask\.gif is a GIF, which renumbers labels: save masks as PNG"):
        read_labels(save(tmp_path / "mask.gif", LABELS), 21)
    with pytest.raises(InputError, match=r"mask\.jpg is a JPEG, which blurs labels: save masks as PNG"):
        read_labels(save(tmp_path / "mask.jpg", LABELS), 21)
    with pytest.raises(InputError, match=r"mask\.tif has pixels of mode F.*convert it"):
        read_labels(save(tmp_path / "mask.tif", LABELS.astype(np.float32)), 21)


def test_errors_name_a_truncated_mask(tmp_path):
    random = np.random.default_rng(3301).integers(0, 21, (64, 64)).astype(np.uint8)
    path = save(tmp_path / "mask.png", random)
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(InputError, match=r"mask\.png cannot be read.*Download it again"):
        read_labels(path, 21)


def test_errors_name_a_mask_of_another_size_and_both_sizes(tmp_path):
    image = save(tmp_path / "photo.png", COLOURS)
    mask = save(tmp_path / "mask.png", LABELS[:, :2])
    message = r"mask\.png has 2 × 2 pixels .* but .*photo\.png has 3 × 2.*Take the mask that belongs"
    with pytest.raises(InputError, match=message):
        read_sample(Entry("photo", image, mask), 21)


def test_a_photo_is_rotated_to_fit_its_mask(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # display rotated by 90 degrees clockwise
    image = save(tmp_path / "photo.png", COLOURS, exif=exif)
    standing = save(tmp_path / "standing.png", np.zeros((3, 2), np.uint8))
    lying = save(tmp_path / "lying.png", np.zeros((2, 3), np.uint8))
    assert np.array_equal(read_sample(Entry("a", image, standing), 1).image, np.rot90(COLOURS, -1))
    assert np.array_equal(read_sample(Entry("a", image, lying), 1).image, COLOURS)


def test_one_pixel_is_enough(tmp_path):
    image, mask = save(tmp_path / "photo.png", COLOURS[:1, :1]), save(tmp_path / "mask.png", LABELS[:1, :1])
    sample = read_sample(Entry("one", image, mask), 1)
    assert sample.image.shape == (1, 1, 3) and sample.labels.tolist() == [[0]]
