"""Writing scenes to files, in the layout of PASCAL VOC."""

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
from densefield.io.progress import Progress
from densefield.scenes.scene import (
    Size,
    checked_classes,
    checked_integer,
    checked_size,
    draw_scene,
    scene_classes,
    scene_id,
)

VERSION = 2  # increased when the same seed draws other scenes
QUALITY = 95  # of JPEG, without chroma subsampling, so that borders stay sharp
SETTINGS = "scenes.json"


@dataclass(frozen=True)
class _Settings:
    """Everything that scenes depend on except their number."""

    seed: int
    size: Size
    object_classes: int
    drawing: int = VERSION


def write_scenes(
    directory: Path | str,
    images: int,
    size: Size = (128, 128),
    object_classes: int = 10,
    seed: int = 0,
    *,
    val_share: float = 0.2,
    workers: int = 1,
    progress: Progress | None = None,
) -> int:
    """Write the first scenes of a seed into a folder, and return how many did not exist yet.

    The layout is that of PASCAL VOC: JPEGImages/ID.jpg, SegmentationClass/ID.png, the lists train, val and trainval in
    ImageSets/Segmentation, which are written last, and classes.txt. Existing scenes are kept, so that an interrupted
    run can be resumed and a folder can grow.

    Parameters
    ----------
    directory
        A new or empty folder, or one with scenes of the same settings.
    images
        The number of scenes.
    size, object_classes, seed
        Those of `draw_scene`.
    val_share
        The share of scenes for validation.
    workers
        The number of processes; scenes do not depend on it.
    progress
        Called with the number of finished scenes and the total.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_scenes(folder, 3, size=(96, 96)), write_scenes(folder, 5, size=(96, 96))
    (3, 2)
    """
    folder = Path(directory)
    settings = _Settings(checked_integer(seed, "seed"), checked_size(size), checked_classes(object_classes))
    checked_integer(images, "images", least=1)
    if isinstance(val_share, bool) or not isinstance(val_share, int | float):
        raise InputTypeError(f"val_share is {val_share!r}, expected a number.")
    if not 0 <= val_share < 1:
        raise InputError(f"val_share is {val_share}, expected 0 or more, and less than 1.")
    checked_integer(workers, "workers", least=1)
    _check_settings(folder, settings)
    missing = [index for index in range(images) if not all(path.exists() for path in _paths(folder, index))]
    done = images - len(missing)
    for _ in _write(partial(_write_scene, folder, settings), missing, workers):
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
    """Whether a scene is for validation: evenly spread, and independent of the number of scenes.

    >>> [index for index in range(12) if in_validation(index, 0.25)]
    [3, 7, 11]
    """
    return int((index + 1) * share + 1e-9) > int(index * share + 1e-9)  # 10 · 0.1 must count as 1


def _check_settings(folder: Path, settings: _Settings) -> None:
    """Write the settings to the folder; raise if it holds scenes of other settings, or other files."""
    path = folder / SETTINGS
    wanted = json.loads(json.dumps(asdict(settings)))  # as read back from the file
    if path.exists():
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            found = None
        if found != wanted:
            raise InputError(
                f"{folder} holds other scenes: {path} says {found}, but {wanted} was requested. Choose another "
                "folder, or the same settings."
            )
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} holds other files than scenes: choose a new or empty folder.")
    else:
        write_atomically(path, (json.dumps(wanted) + "\n").encode())


def _paths(folder: Path, index: int) -> tuple[Path, Path]:
    """The files of the image and the labels of a scene."""
    name = scene_id(index)
    return folder / "JPEGImages" / f"{name}.jpg", folder / "SegmentationClass" / f"{name}.png"


def _write_scene(folder: Path, settings: _Settings, index: int) -> None:
    """Draw one scene and write its two files."""
    from PIL import Image  # here, so that this module does not need Pillow

    sample = draw_scene(settings.seed, index, settings.size, settings.object_classes)
    assert sample.labels is not None
    image, mask = BytesIO(), BytesIO()
    Image.fromarray(sample.image).save(image, "JPEG", quality=QUALITY, subsampling=0)
    picture = Image.fromarray(sample.labels)
    picture.putpalette(voc_palette().tobytes())
    picture.save(mask, "PNG")
    for path, content in zip(_paths(folder, index), (image, mask), strict=True):
        write_atomically(path, content.getvalue())


def _write(write: Callable[[int], None], indices: Sequence[int], workers: int) -> Iterator[None]:
    """Write scenes in this process or in worker processes."""
    if workers == 1 or len(indices) < 2 * workers:
        yield from map(write, indices)
        return
    # Not forked: forks of a process with threads, such as torch's, can hang.
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    try:
        yield from pool.map(write, indices, chunksize=max(1, min(16, len(indices) // (4 * workers))))
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C, running scenes finish and no others start


def _lines(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
