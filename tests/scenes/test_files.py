"""Scenes in files: the layout of VOC, the same with any number of workers, resumable."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="files need Pillow")

from densefield.errors import InputError, InputTypeError  # noqa: E402
from densefield.images.palette import voc_palette  # noqa: E402
from densefield.scenes.files import in_validation, write_scenes  # noqa: E402
from densefield.scenes.scene import draw_scene, scene_classes  # noqa: E402

RECIPE = {"size": (96, 104), "object_classes": 3, "seed": 70657}


def digests(folder) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def lines(folder, split: str) -> list[str]:
    return (folder / "ImageSets" / "Segmentation" / f"{split}.txt").read_text().splitlines()


def test_the_layout_is_that_of_voc(tmp_path):
    assert write_scenes(tmp_path / "s", 10, **RECIPE) == 10
    names = [f"scene_{index:06d}" for index in range(10)]
    assert sorted(path.name for path in (tmp_path / "s" / "JPEGImages").iterdir()) == [f"{name}.jpg" for name in names]
    assert lines(tmp_path / "s", "trainval") == names
    assert lines(tmp_path / "s", "val") == ["scene_000004", "scene_000009"]
    assert sorted(lines(tmp_path / "s", "train") + lines(tmp_path / "s", "val")) == names
    assert (tmp_path / "s" / "classes.txt").read_text().splitlines() == list(scene_classes(3))
    for index, name in enumerate(names):
        scene = draw_scene(index=index, **RECIPE)
        with Image.open(tmp_path / "s" / "SegmentationClass" / f"{name}.png") as mask:
            assert mask.mode == "P" and np.array_equal(np.asarray(mask), scene.labels)
            assert np.array_equal(np.reshape(mask.getpalette(), (-1, 3)), voc_palette())
        with Image.open(tmp_path / "s" / "JPEGImages" / f"{name}.jpg") as image:
            error = np.asarray(image).astype(int) - scene.image
            assert image.mode == "RGB" and np.abs(error).mean() < 4  # steps of quality 95 are up to 10


def test_files_do_not_depend_on_the_number_of_workers(tmp_path):
    write_scenes(tmp_path / "one", 9, **RECIPE)
    write_scenes(tmp_path / "two", 9, **RECIPE, workers=2)
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


def test_an_interrupted_run_is_resumed(tmp_path):
    write_scenes(tmp_path / "full", 6, **RECIPE)

    def stop(done: int, total: int) -> None:
        assert total == 6
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_scenes(tmp_path / "part", 6, **RECIPE, progress=stop)
    assert not (tmp_path / "part" / "ImageSets").exists()  # the lists are written last
    (tmp_path / "part" / "SegmentationClass" / "scene_000001.png").unlink()
    calls = []
    assert write_scenes(tmp_path / "part", 6, **RECIPE, progress=lambda *now: calls.append(now)) == 4
    assert calls == [(3, 6), (4, 6), (5, 6), (6, 6)]
    assert digests(tmp_path / "part") == digests(tmp_path / "full")
    assert write_scenes(tmp_path / "part", 6, **RECIPE) == 0


def test_more_scenes_can_be_added_and_the_split_is_kept(tmp_path):
    write_scenes(tmp_path, 4, **RECIPE, val_share=0.5)
    before = lines(tmp_path, "val")
    assert write_scenes(tmp_path, 7, **RECIPE, val_share=0.5) == 3
    assert lines(tmp_path, "val")[: len(before)] == before and len(lines(tmp_path, "trainval")) == 7


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 1 / 3, 0.7, 0.9])
def test_the_validation_fraction_is_kept_and_spread_evenly(share):
    chosen = [in_validation(index, share) for index in range(1000)]
    assert sum(chosen) == int(1000 * share + 1e-9)
    assert all(abs(sum(chosen[:n]) - n * share) < 1 for n in range(1, 1000, 37))


def test_a_folder_with_scenes_of_other_settings_raises(tmp_path):
    write_scenes(tmp_path, 2, **RECIPE)
    for change in ({"seed": 1}, {"object_classes": 4}, {"size": (96, 96)}):
        with pytest.raises(InputError, match=r"holds other scenes: .*scenes\.json says"):
            write_scenes(tmp_path, 2, **{**RECIPE, **change})


def test_a_folder_with_other_files_raises_and_stays_unchanged(tmp_path):
    (tmp_path / "holiday.txt").write_text("photos")
    with pytest.raises(InputError, match="other files than scenes"):
        write_scenes(tmp_path, 2, **RECIPE)
    with pytest.raises(InputError, match="other files than scenes"):
        write_scenes(tmp_path / "holiday.txt", 2, **RECIPE)
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.txt"]


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"images": 0}, InputError, "images is 0, expected 1 or more"),
        ({"images": -4}, InputError, "images is -4"),
        ({"images": 2.5}, InputTypeError, "images is 2.5"),
        ({"size": (64, 64)}, InputError, "from 96 to 512"),
        ({"object_classes": 0}, InputError, "expected 2 to 20"),
        ({"seed": -1}, InputError, "seed is -1"),
        ({"val_share": 1.0}, InputError, "val_share is 1.0, expected 0 or more, and less than 1"),
        ({"val_share": -0.1}, InputError, "val_share is -0.1"),
        ({"val_share": float("nan")}, InputError, "val_share is nan"),
        ({"val_share": "half"}, InputTypeError, "val_share is 'half'"),
        ({"workers": 0}, InputError, "workers is 0"),
    ],
)
def test_invalid_settings_raise_before_files_are_written(tmp_path, change, error, message):
    with pytest.raises(error, match=message):
        write_scenes(tmp_path / "s", **{"images": 2, **RECIPE, **change})
    assert not (tmp_path / "s").exists()
