"""Refining a folder of frames and a folder of masks, file by file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from densefield.crf.label_mask import expanded
from densefield.errors import InputError
from densefield.images.masks import ARRAYS, Mask
from densefield.images.pairs import Pair, Pairing, pair_up
from densefield.images.reading import IMAGE_SUFFIXES
from densefield.images.refine_settings import DATA_RANGE, RefineSettings
from densefield.images.writing import write_result
from densefield.io.folders import list_files
from densefield.io.messages import first_names
from densefield.io.progress import Progress
from densefield.io.untrusted import check_array
from densefield.video.clip import checked_window, opened_clip, refined_windows
from densefield.video.files import FrameFiles, MaskFiles, check_sizes
from densefield.video.labels import UNLABELLED
from densefield.video.options import VideoOptions
from densefield.video.sequence import ordered_pairs
from densefield.video.stream import Streamed, stream
from densefield.volumes.formats import volume_kind

INDEXED = re.compile(r"frame (\d+) \(from 0\)")


@dataclass(frozen=True)
class RefinedFolder:
    """How a folder of frames was refined.

    Parameters
    ----------
    written
        The results that were written, in the order of the frames.
    skipped
        Results that existed and were kept.
    notes
        A line for each kind of file that was skipped because it is neither a frame nor a mask.
    """

    written: tuple[Path, ...]
    skipped: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def refine_folder(
    frames: Path | str,
    masks: Path | str,
    out: Path | str,
    settings: RefineSettings | None = None,
    *,
    causal: bool = False,
    frame_step: float | None = None,
    window: int | None = None,
    format: str | None = None,
    mask_suffix: str = "",
    skip_existing: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> RefinedFolder:
    """Refine the masks of a video whose frames are the images of a folder, and write one result for each frame.

    Frames are in the order of the numbers in their names. All files are checked before anything is written.

    Parameters
    ----------
    frames, masks
        Two folders, in which frame2.jpg is paired with frame2.png.
    out
        The folder for the results, which have the names of the masks.
    settings
        How masks are read and refined; those for photos, volumes and other kernels are errors.
    causal
        Refine each frame with the frames before it alone, as `refine_stream` does, instead of by windows.
    frame_step, window
        Those of `refine_clip`.
    format
        The format of the results: "png", "tif", "npy" or "npz"; by default tif for tif masks, else png.
    mask_suffix
        The suffix of mask names: with "_mask", frame2.jpg is paired with frame2_mask.png.
    skip_existing
        Keep existing results, and leave out windows that are complete.
    threads
        Number of threads, by default all processors.
    progress
        Called with the number of finished frames and the total.

    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as name:
    ...     for folder, mode in (("frames", "RGB"), ("masks", "L")):
    ...         Path(name, folder).mkdir()
    ...         for t in range(9, 12):
    ...             Image.new(mode, (30, 20)).save(Path(name, folder, f"{t}.png"))
    ...     done = refine_folder(f"{name}/frames", f"{name}/masks", f"{name}/out")
    >>> [path.name for path in done.written]
    ['9.png', '10.png', '11.png']
    """
    settings = settings or RefineSettings()
    _check_settings(settings)
    if causal and window is not None:
        raise InputError("got window= together with causal=True, which needs the frame before alone: leave it out.")
    if causal and skip_existing:
        raise InputError(
            "got skip_existing=True together with causal=True: marginals of finished frames are not kept. Leave it out."
        )
    pairing = _paired(Path(frames), Path(masks), Path(out), format, mask_suffix)
    pairs = ordered_pairs(pairing)
    skipped = {index for index, pair in enumerate(pairs) if skip_existing and pair.out.exists()}
    results: tuple[Path, ...] = tuple(pair.out for pair in pairs)
    kept = tuple(results[index] for index in sorted(skipped))
    if len(skipped) == len(pairs):
        return RefinedFolder((), kept, pairing.skipped)
    given = MaskFiles([pair.mask for pair in pairs], settings)
    options = VideoOptions(
        given.kind,
        given.num_classes,
        UNLABELLED if given.kind == "labels" else "auto",
        settings.roughness,
        settings.temperature,
        settings.iterations,
        frame_step,
        DATA_RANGE,
        threads,
    )
    size = checked_window(window, given.kind)
    for paths in ([pair.image for pair in pairs], [pair.mask for pair in pairs]):
        check_sizes(paths)
    images = FrameFiles([pair.image for pair in pairs], given.size)
    source = _causal(images, given, options) if causal else _windows(images, given, options, size, skipped)
    done, total = 0, len(pairs) - len(skipped)
    if progress is not None:
        progress(done, total)
    for index, result in _naming_files(source, pairs):
        if index in skipped:
            continue
        _write(pairs[index], result, given.written.pop(index), settings)
        done += 1
        if progress is not None:
            progress(done, total)
    written = tuple(path for index, path in enumerate(results) if index not in skipped)
    return RefinedFolder(written, kept, pairing.skipped)


def _paired(frames: Path, masks: Path, out: Path, format: str | None, mask_suffix: str) -> Pairing:
    for path in (frames, masks):
        if path.exists() and (not path.is_dir() or volume_kind(path) is not None):
            raise InputError(f"{path} is no folder of pictures, expected a folder of frames and a folder of masks.")
        if path.is_dir():
            what, kinds = ("frames", IMAGE_SUFFIXES) if path == frames else ("masks", IMAGE_SUFFIXES | set(ARRAYS))
            _check_files(path, what, kinds)
    return pair_up(frames, masks, out, None, format, mask_suffix=mask_suffix)


def _check_files(folder: Path, what: str, suffixes: set[str]) -> None:
    """Raises if a folder has no files with these suffixes."""
    listing = list_files(folder, suffixes)
    if listing.files or listing.unreadable:  # which pair_up() reports
        return
    others = first_names([path.name for path in (*listing.others, *listing.subfolders)])
    came = f"has no {what}, but {others}" if others else "is empty"
    raise InputError(f"{folder} {came}: expected {what} such as f1.png ({', '.join(sorted(suffixes))}).")


def _windows(
    images: FrameFiles, masks: MaskFiles, options: VideoOptions, window: int, skipped: set[int]
) -> Iterator[tuple[int, Streamed]]:
    clip = opened_clip(images, masks, options)  # type: ignore[arg-type]  # they have a length and are read by index
    for index, q in refined_windows(clip, len(images), window, lambda index: index not in skipped):
        yield index, Streamed(q, clip.values, clip.num_classes)


def _causal(images: FrameFiles, masks: MaskFiles, options: VideoOptions) -> Iterator[tuple[int, Streamed]]:
    return enumerate(stream(((images[index], masks[index]) for index in range(len(images))), options))


def _naming_files(source: Iterator[tuple[int, Streamed]], pairs: Sequence[Pair]) -> Iterator[tuple[int, Streamed]]:
    """The same results; errors name the files of a frame instead of its index."""
    try:
        yield from source
    except InputError as error:
        text = INDEXED.sub(lambda match: f"frame {pairs[int(match[1])].image.stem}", str(error))
        raise InputError(text) from None


def _write(pair: Pair, result: Streamed, mask: Mask, settings: RefineSettings) -> None:
    """Writes the result of a frame; pictures need no rows for labels that do not occur."""
    q: npt.NDArray[np.float32] = result.q
    numbers = result.values
    if pair.out.suffix.lower() in ARRAYS or mask.form == "soft":
        check_array(pair.out, (result.num_classes, *q.shape[1:]), 4 * result.num_classes * q[0].size)
        q = expanded(q, numbers, result.num_classes)
        numbers = np.arange(result.num_classes)
    write_result(pair.out, q, mask, numbers, settings.decode)


def _check_settings(settings: RefineSettings) -> None:
    """Raises if a setting is given that video does not have."""
    given = {
        "crf=": settings.crf,
        "confidence=": settings.confidence,
        "explain=True": settings.explain or None,
        "window=": settings.window,
        "spacing=": settings.spacing,
        "tile=": settings.tile,
    }
    for argument, value in given.items():
        if value is not None:
            raise InputError(f"{argument} is not for video: leave it out.")
