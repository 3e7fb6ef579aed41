"""Refining masks in files: one pair, or folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from densefield.filters.threads import check_threads
from densefield.images.pair_refining import Outcome, refine_pair
from densefield.images.pairs import Pair, Pairing, pair_up
from densefield.images.refine_settings import RefineSettings
from densefield.io.progress import Progress


@dataclass(frozen=True)
class RefinedFiles:
    """The outcome of `refine_files`.

    Parameters
    ----------
    outcomes
        The outcomes of all refined pairs in the order of their names: `error` is None for a written result.
    skipped
        The pairs whose results exist already.
    pairing
        All pairs, and the files that belong to no pair.
    """

    outcomes: tuple[Outcome, ...]
    skipped: tuple[Pair, ...]
    pairing: Pairing

    @property
    def failures(self) -> list[str]:
        """One line for each failed file and each mask without an image: name and reason."""
        return [outcome.error for outcome in self.outcomes if outcome.error is not None] + _unpaired(self.pairing)


def _unpaired(pairing: Pairing) -> list[str]:
    """One line for each mask without exactly one image."""
    return [*pairing.ambiguous, *(f"{mask}: no image has this name." for mask in pairing.masks_alone)]


def refine_files(
    image: Path,
    mask: Path,
    out: Path,
    settings: RefineSettings | None = None,
    *,
    preview: Path | None = None,
    format: str | None = None,
    recursive: bool = False,
    mask_suffix: str = "",
    skip_existing: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    failed: Callable[[str], None] | None = None,
) -> RefinedFiles:
    """Refine the mask of one image, or of every image of a folder, and write the results.

    A single pair uses all threads. Several pairs are refined in parallel, one thread each. A pair that fails is
    reported in the result, and the others continue.

    Parameters
    ----------
    image, mask
        Two files, or two folders in which cat.jpg is paired with cat.png.
    out, preview
        Where results and previews are written: files for two files, folders for two folders.
    settings
        How masks are read and refined.
    format
        The format of a folder's results: "png", "tif", "npy" or "npz"; by default tif for tif masks, else png.
    recursive
        Search subfolders too; results are in subfolders of the same names.
    mask_suffix
        The suffix of mask names: with "_mask", cat.jpg is paired with cat_mask.png, also in the same folder.
    skip_existing
        Skip pairs whose result exists.
    threads
        Number of threads, by default all processors.
    progress
        Called with the number of finished pairs and the total.
    failed
        Called with one line for each failed file, as soon as it fails.

    >>> import tempfile
    >>> import numpy as np
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as name:
    ...     image, mask, out = (Path(name, file) for file in ("cat.jpg", "cat.png", "refined.png"))
    ...     Image.new("RGB", (30, 20)).save(image)
    ...     Image.fromarray(np.eye(20, 30, dtype=np.uint8)).save(mask)
    ...     refine_files(image, mask, out).failures, out.exists()
    ([], True)
    """
    settings = settings or RefineSettings()
    count = check_threads(threads)
    pairing = pair_up(image, mask, out, preview, format, recursive=recursive, mask_suffix=mask_suffix)
    skipped = [pair for pair in pairing.pairs if skip_existing and pair.out.exists()]
    todo = sorted(set(pairing.pairs) - set(skipped), key=lambda pair: pair.out)
    if failed is not None:
        for line in _unpaired(pairing):
            failed(line)
    if progress is not None:
        progress(0, len(todo))
    outcomes: list[Outcome] = []
    of_tiles = progress if todo and pairing.is_volume else None
    for outcome in _refine_pairs(todo, settings, count, of_tiles):
        outcomes.append(outcome)
        if failed is not None and outcome.error is not None:
            failed(outcome.error)
        if progress is not None and of_tiles is None:
            progress(len(outcomes), len(todo))
    return RefinedFiles(tuple(outcomes), tuple(skipped), pairing)


def _refine_pairs(
    pairs: Sequence[Pair], settings: RefineSettings, threads: int, progress: Progress | None
) -> Iterator[Outcome]:
    """Outcomes in the order of the pairs; volumes, which take much memory, one at a time."""
    if len(pairs) < 2 or any(pair.is_volume for pair in pairs):
        yield from (refine_pair(pair, settings, threads, progress) for pair in pairs)
        return
    pool = ThreadPoolExecutor(min(threads, len(pairs)))
    try:
        yield from pool.map(lambda pair: refine_pair(pair, settings, 1), pairs)
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C, running pairs finish and no others start
