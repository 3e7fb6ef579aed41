"""The form of a mask is detected from its file."""

from __future__ import annotations

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="files need Pillow")

from densefield.errors import InputError  # noqa: E402
from densefield.images.masks import read_mask  # noqa: E402
from densefield.images.palette import voc_palette  # noqa: E402

LABELS = np.array([[0, 1, 2], [3, 255, 0]], np.uint8)
SOFT = np.random.default_rng(8087).dirichlet([1.0] * 4, (2, 3)).transpose(2, 0, 1)


@pytest.fixture
def save(tmp_path):
    def save(values: np.ndarray, name: str = "mask.png", palette: list[int] | None = None):
        path = tmp_path / name
        if name.endswith(".npy"):
            np.save(path, values)
        elif name.endswith(".npz"):
            np.savez(path, any_name=values)
        else:
            picture = Image.fromarray(values)
            if palette is not None:
                picture.putpalette(palette)
            picture.save(path)
        return path

    return save


def test_palette_indices_are_labels(save):
    palette = np.arange(768) % 251
    mask = read_mask(save(LABELS, palette=palette.tolist()))
    assert mask.form == "indexed" and list(mask.unary()) == ["labels", "void"]
    assert np.array_equal(mask.values, LABELS) and mask.void == 255
    assert np.array_equal(mask.palette, palette.reshape(256, 3))


def test_a_palette_of_0_and_255_keeps_255_as_void(save):
    mask = read_mask(save(np.array([[0, 255]], np.uint8), palette=[0] * 768))
    assert mask.values.tolist() == [[0, 255]]


def test_grey_values_are_labels(save):
    mask = read_mask(save(LABELS))
    assert mask.form == "labels" and mask.palette is None and mask.size == (2, 3)
    assert np.array_equal(mask.values, LABELS)


@pytest.mark.parametrize("values", [[[0, 255, 255]], [[0, 0, 0]], [[255, 255, 255]]])
def test_grey_0_and_255_are_a_binary_mask(save, values):
    for num_classes in (None, 2):
        mask = read_mask(save(np.array(values, np.uint8)), num_classes=num_classes)
        assert mask.form == "binary" and (mask.values * 255).tolist() == values


def test_one_bit_images_are_binary_masks(save):
    mask = read_mask(save(np.array([[True, False]])))
    assert mask.form == "binary" and mask.values.tolist() == [[1, 0]]


def test_grey_0_and_255_are_labels_if_there_are_more_than_two_classes(save):
    mask = read_mask(save(np.array([[0, 255]], np.uint8)), num_classes=21)
    assert mask.form == "labels" and mask.values.tolist() == [[0, 255]]


def test_grey_values_of_soft_masks_are_probabilities(save):
    mask = read_mask(save(np.array([[0, 51, 255]], np.uint8)), soft=True)
    assert mask.form == "soft" and list(mask.unary()) == ["probabilities"]
    assert mask.values == pytest.approx(np.array([[[1, 0.8, 0]], [[0, 0.2, 1]]]), abs=1e-7)  # float32


def test_many_grey_values_raise_unless_the_number_of_classes_is_given(save):
    path = save(np.arange(144, dtype=np.uint8).reshape(12, 12))
    with pytest.raises(InputError, match=r"mask\.png has 144 different grey values.*soft=True.*num_classes="):
        read_mask(path)
    assert read_mask(path, num_classes=150).form == "labels"
    assert read_mask(path, soft=True).form == "soft"


@pytest.mark.parametrize("suffix", ["npy", "npz"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_integer_arrays_are_labels(save, suffix, dtype):
    mask = read_mask(save(LABELS.astype(dtype), f"mask.{suffix}"))
    assert mask.form == "labels" and np.array_equal(mask.values, LABELS)


def test_boolean_arrays_are_labels_0_and_1(save):
    assert read_mask(save(np.array([[True, False]]), "mask.npy")).values.tolist() == [[1, 0]]


@pytest.mark.parametrize("suffix", ["npy", "npz", "NPY"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floating_point_arrays_are_probabilities_or_logits(save, suffix, dtype):
    path = save(SOFT.astype(dtype), f"mask.{suffix.lower()}")
    path = path.rename(path.with_suffix(f".{suffix}"))
    for logits, form in ((False, "probabilities"), (True, "logits")):
        mask = read_mask(path, logits=logits, num_classes=4)
        assert mask.form == form and list(mask.unary()) == [form]
        assert np.array_equal(mask.values, SOFT.astype(dtype))


def test_labels_of_soft_masks_are_the_most_probable(save):
    assert np.array_equal(read_mask(save(SOFT, "mask.npy")).labels(), SOFT.argmax(0))
    assert read_mask(save(LABELS)).labels().tolist() == [[0, 1, 2], [3, -1, 0]]


def test_colours_of_voc_are_its_labels(save):
    labels = np.random.default_rng(6607).permutation(np.r_[np.arange(21), [255] * 9]).reshape(5, 6).astype(np.uint8)
    for mode in ("RGB", "RGBA"):
        path = save(np.asarray(Image.fromarray(voc_palette()[labels]).convert(mode)))
        mask = read_mask(path)
        assert mask.form == "voc colours" and list(mask.unary()) == ["labels", "void"]
        assert np.array_equal(mask.values, labels) and np.array_equal(mask.palette, voc_palette())


@pytest.mark.parametrize("labels", [[[0, 0]], [[0, 7]], [[255, 255]]])
def test_the_grey_of_car_is_a_colour_of_voc(save, labels):
    assert read_mask(save(voc_palette()[np.array(labels)])).values.tolist() == labels


def test_other_colours_are_numbered_in_order(save):
    colours = np.array([[[200, 0, 0], [0, 0, 0], [0, 9, 0]], [[0, 0, 255], [0, 9, 0], [200, 0, 0]]], np.uint8)
    mask = read_mask(save(colours))
    assert mask.form == "colours" and mask.values.tolist() == [[3, 0, 2], [1, 2, 3]]
    assert np.array_equal(mask.palette[mask.values], colours)


def test_too_many_colours_and_other_pixels_raise_with_a_hint(save):
    colours = np.zeros((1, 101, 3), np.uint8)
    colours[0, :, 0] = np.arange(101)
    with pytest.raises(InputError, match=r"mask\.png has pixels of mode RGB.*101 colours: number them"):
        read_mask(save(colours))
    assert read_mask(save(colours[:, :100])).form == "colours"
    with pytest.raises(InputError, match="three channels are equal: save one"):
        read_mask(save(np.repeat(LABELS[..., None], 3, 2)))
    with pytest.raises(
        InputError, match="three channels are equal: save one"
    ):  # 64 is grey in VOC's palette, but not a class
        read_mask(save(np.full((2, 2, 3), 64, np.uint8)))
    with pytest.raises(InputError, match=r"mode F.*convert it"):
        read_mask(save(LABELS.astype(np.float32), "mask.tif"))


def test_jpeg_raises_for_labels_but_not_for_soft_masks(save):
    path = save(LABELS, "mask.jpg")
    with pytest.raises(InputError, match=r"mask\.jpg is a JPEG, which blurs labels"):
        read_mask(path)
    assert read_mask(path, soft=True).size == (2, 3)


@pytest.mark.parametrize(
    "name, values, options, message",
    [
        ("mask.npy", SOFT[0, 0], {}, r"float64 of shape \(3,\), expected integers \(rows, columns\)"),
        ("mask.npy", LABELS[None], {}, r"uint8 of shape \(1, 2, 3\)"),
        ("mask.npy", LABELS, {"logits": True}, "holds labels"),
        ("mask.npy", SOFT, {"soft": True}, "is an array"),
        ("mask.npy", SOFT, {"num_classes": 3}, "4 classes, but num_classes=3"),
        ("mask.png", LABELS, {"logits": True}, "is a picture"),
        ("mask.png", LABELS, {"logits": True, "soft": True}, "logits=True and soft=True"),
    ],
)
def test_contradictory_arguments_raise(save, name, values, options, message):
    with pytest.raises(InputError, match=message):
        read_mask(save(values, name), **options)


def test_a_soft_mask_must_be_grey(save):
    with pytest.raises(InputError, match="mode P, but soft=True expects 8 bits of grey"):
        read_mask(save(LABELS, palette=[0] * 768), soft=True)


def test_errors_name_unreadable_files(tmp_path):
    with pytest.raises(InputError, match=r"no file .*gone\.npy"):
        read_mask(tmp_path / "gone.npy")
    (tmp_path / "bad.npy").write_bytes(b"nonsense")
    (tmp_path / "bad.npz").write_bytes(b"PK nonsense")
    np.savez(tmp_path / "two.npz", a=LABELS, b=LABELS)
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    for name in ("bad.npy", "bad.npz"):
        with pytest.raises(InputError, match=f"{name} cannot be read as an array"):
            read_mask(tmp_path / name)
    with pytest.raises(InputError, match=r"two\.npz holds 2 arrays \(a, b\)"):
        read_mask(tmp_path / "two.npz")


@pytest.mark.parametrize("value", [127, 128, 254, 255])
@pytest.mark.parametrize("name", ["mask.png", "mask.tif", "mask.npy"])
def test_binary_masks_follow_one_rule(save, value, name):
    mask = read_mask(save(np.array([[0, value, 0]], np.uint8), name))
    assert mask.form == "binary" and mask.foreground == value
    assert mask.values.tolist() == [[0, 1, 0]] and mask.unary()["void"] is None


def test_two_other_values_are_labels(save):
    mask = read_mask(save(np.array([[0, 150]], np.uint8)))
    assert mask.form == "labels" and mask.values.tolist() == [[0, 150]]


def test_the_void_value_can_be_chosen(save):
    mask = read_mask(save(np.array([[0, 1, 2]], np.uint8)), void=0)
    assert mask.form == "labels" and mask.unary()["void"] == 0 and mask.labels().tolist() == [[-1, 1, 2]]
    mask = read_mask(save(np.array([[0, 255]], np.uint8)), void=255)
    assert mask.form == "labels" and mask.unary()["void"] == 255
    assert read_mask(save(np.zeros((1, 2), np.uint8)), void=0).labels().tolist() == [[-1, -1]]


def test_a_binary_mask_may_have_void_pixels_of_a_third_value(save):
    mask = read_mask(save(np.array([[0, 128, 255]], np.uint8)), void=128)
    assert mask.form == "binary" and mask.foreground == 255
    assert mask.labels().tolist() == [[0, -1, 1]] and mask.values[0, 1] == mask.unary()["void"]


@pytest.mark.parametrize("name", ["mask.png", "mask.tif"])
def test_images_of_16_bits_hold_more_than_255_labels(save, name):
    labels = np.arange(300, dtype=np.uint16).reshape(15, 20)
    mask = read_mask(save(labels, name), num_classes=300)
    assert mask.form == "labels" and mask.sixteen_bits and np.array_equal(mask.values, labels)
    assert mask.unary()["void"] is None  # 255 is a label
    few = read_mask(save(labels[:3] % 60, name))
    assert few.sixteen_bits and few.void == 255
    with pytest.raises(InputError, match="300 different grey values"):
        read_mask(save(labels, name))


def test_a_16_bit_mask_of_black_and_white_raises_with_a_hint(save):
    with pytest.raises(InputError, match=r"only the values \{0, 65535\}: save it with 8 bits"):
        read_mask(save(np.array([[0, 65535]], np.uint16), "mask.tif"))


def test_one_floating_point_number_per_pixel_is_the_probability_of_the_foreground(save):
    mask = read_mask(save(np.array([[0.25, 1.0]]), "mask.npy"))
    assert mask.form == "probabilities" and mask.values.tolist() == [[[0.75, 0.0]], [[0.25, 1.0]]]


def test_several_pictures_in_one_file_raise(tmp_path):
    pages = [Image.fromarray(LABELS), Image.fromarray(LABELS)]
    pages[0].save(tmp_path / "mask.tif", save_all=True, append_images=pages[1:])
    with pytest.raises(InputError, match=r"mask\.tif holds 2 pictures, expected one"):
        read_mask(tmp_path / "mask.tif")


@pytest.mark.parametrize("name", ["mask.npy", "mask.npz"])
def test_arrays_with_damaged_bytes_raise_only_input_errors(save, name):
    path = save(SOFT, name)
    content = path.read_bytes()
    rng = np.random.default_rng(40127)
    messages = []
    for _ in range(300):
        damaged = bytearray(content)
        for place in rng.integers(0, min(len(content), 130), 3):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged[: rng.integers(1, len(content) + 1)])
        try:
            read_mask(path)
        except InputError as error:
            messages.append(str(error))
    assert len(messages) > 200 and all(str(path) in message for message in messages)
