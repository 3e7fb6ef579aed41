"""Scenes in files, in the layout of PASCAL VOC."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from io import BytesIO
from pathlib import Path

from densefield.errors import InputError, InputTypeError
from densefield.images.palette import voc_palette
from densefield.io.files import write_atomically
from densefield.scenes.scene import (
    Size,
    checked_classes,
    checked_size,
    checked_whole,
    draw_scene,
    scene_classes,
    scene_id,
)

DRAWING = 1  # goes up when the same seed draws other scenes
QUALITY = 95  # of JPEG, with colours as fine as brightness: borders stay where they are
NOTES = "scenes.json"


@dataclass(frozen=True)
class _Recipe:
    """All that scenes depend on, save their number."""

    seed: int
    size: Size
    object_classes: int
    drawing: int = DRAWING


def write_scenes(
    directory: Path | str,
    images: int,
    size: Size = (128, 128),
    object_classes: int = 10,
    seed: int = 0,
    *,
    val_share: float = 0.2,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Writes the first so many scenes of a seed into a folder, and returns how many were not there yet.

    The layout is that of PASCAL VOC: JPEGImages/ID.jpg, SegmentationClass/ID.png with its palette, and the lists train,
    val and trainval in ImageSets/Segmentation, which come last; classes.txt names the labels. Scenes that are there
    already are kept, so a run that was interrupted can be gone on with, and a folder can grow. The same scenes are
    written with any number of workers. `progress` is called with the number of scenes done and of all.
    """
    folder = Path(directory)
    recipe = _Recipe(checked_whole(seed, "seed"), checked_size(size), checked_classes(object_classes))
    checked_whole(images, "images", least=1)
    if isinstance(val_share, bool) or not isinstance(val_share, int | float):
        raise InputTypeError(f"val_share is {val_share!r}, expected a number.")
    if not 0 <= val_share < 1:
        raise InputError(f"val_share is {val_share}, expected 0 or more, and less than 1.")
    checked_whole(workers, "workers", least=1)
    _check_recipe(folder, recipe)
    missing = [index for index in range(images) if not all(path.exists() for path in _paths(folder, index))]
    done = images - len(missing)
    for _ in _write(partial(_write_scene, folder, recipe), missing, workers):
        done += 1
        if progress is not None:
            progress(done, images)
    write_atomically(folder / "classes.txt", _lines(scene_classes(object_classes)))
    validation = [index for index in range(images) if in_validation(index, val_share)]
    training = sorted(set(range(images)) - set(validation))
    for name, indices in (("train", training), ("val", validation), ("trainval", range(images))):
        write_atomically(folder / "ImageSets" / "Segmentation" / f"{name}.txt", _lines([scene_id(k) for k in indices]))
    return len(missing)


def in_validation(index: int, share: float) -> bool:
    """Whether a scene is for validation: evenly spread, and the same however many scenes there are.

    >>> [index for index in range(12) if in_validation(index, 0.25)]
    [3, 7, 11]
    """
    return int((index + 1) * share + 1e-9) > int(index * share + 1e-9)  # 10 · 0.1 must count as 1


def _check_recipe(folder: Path, recipe: _Recipe) -> None:
    """Notes in the folder what its scenes depend on, or raises where they depend on something else."""
    notes = folder / NOTES
    wanted = json.loads(json.dumps(asdict(recipe)))  # as it comes back from the file
    if notes.exists():
        try:
            found = json.loads(notes.read_text(encoding="utf-8"))
        except ValueError:
            found = None
        if found != wanted:
            raise InputError(
                f"{folder} holds other scenes: {notes} says {found}, but {wanted} was asked for. Choose another "
                "folder, or the same settings."
            )
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} holds something else than scenes: choose a new or empty folder.")
    else:
        write_atomically(notes, (json.dumps(wanted) + "\n").encode())


def _paths(folder: Path, index: int) -> tuple[Path, Path]:
    """Where the image and the labels of a scene are."""
    name = scene_id(index)
    return folder / "JPEGImages" / f"{name}.jpg", folder / "SegmentationClass" / f"{name}.png"


def _write_scene(folder: Path, recipe: _Recipe, index: int) -> None:
    """Draws one scene and writes its two files."""
    from PIL import Image  # here, so that the name can be had without it

    sample = draw_scene(recipe.seed, index, recipe.size, recipe.object_classes)
    assert sample.label is not None
    image, label = BytesIO(), BytesIO()
    Image.fromarray(sample.image).save(image, "JPEG", quality=QUALITY, subsampling=0)
    mask = Image.fromarray(sample.label)
    mask.putpalette(voc_palette().tobytes())
    mask.save(label, "PNG")
    to_image, to_label = _paths(folder, index)
    write_atomically(to_image, image.getvalue())
    write_atomically(to_label, label.getvalue())


def _write(write: Callable[[int], None], indices: Sequence[int], workers: int) -> Iterator[None]:
    """Writes scenes, here or in processes of their own."""
    if workers == 1 or len(indices) < 2 * workers:
        yield from map(write, indices)
        return
    # Fresh processes: copies of one that runs threads, as torch does, can hang.
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    try:
        yield from pool.map(write, indices, chunksize=max(1, min(16, len(indices) // (4 * workers))))
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C, what has begun is finished, and no more is begun


def _lines(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
