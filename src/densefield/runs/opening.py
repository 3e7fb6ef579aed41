"""Scored images, and a CRF for them, from what a user names: a run, a checkpoint, or a folder of scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from densefield.datasets.folder import open_dataset
from densefield.datasets.sample import Dataset, entries_of
from densefield.datasets.transforms import ShrunkDataset
from densefield.errors import InputError
from densefield.nn.dense_crf import DenseCRF
from densefield.runs.score_sources import NetworkScores, SavedScores, ScoreSource
from densefield.runs.source_checks import check_sources, names_score_files


class Opened(NamedTuple):
    """The scored images of a split, the CRF of the run if it has one, a description, and a line for what was skipped.

    Files may be replaced by others of the same names, so the description has digests of weights, of files of scores,
    and of files of images and masks.
    """

    source: ScoreSource
    crf: DenseCRF | None
    about: dict[str, str]
    notes: tuple[str, ...] = ()


def identity(about: Mapping[str, str]) -> dict[str, str]:
    """What results depend on: where weights are known, not the place that they were read from.

    >>> identity({"scores": "runs/joint", "split": "val", "weights": "88fa"})
    {'split': 'val', 'weights': '88fa'}
    """
    return {key: value for key, value in about.items() if key != "scores" or "weights" not in about}


def open_scores(
    scores: Path, data: Path | None = None, split: str | None = None, *, probabilities: bool = False
) -> Opened:
    """Scored images of a run, a checkpoint, or a folder of scores.

    * ``scores``: the run, the checkpoint, or the folder with scores as ID.npz or ID.npy.
    * ``data``: the folder of the dataset; by default that of the run's settings.
    * ``split``: the split; by default that of the run's settings, or "val", or all images of a folder without split
      lists.
    * ``probabilities``: the files hold probabilities rather than logits.
    """
    check_sources(scores, data, split, probabilities)
    about = {"scores": str(scores.resolve())}
    if data is not None:
        about["data"] = str(data.resolve())
    if names_score_files(scores, probabilities):
        assert data is not None
        dataset = open_dataset(data, split)
        saved = SavedScores(scores, dataset, probabilities=probabilities)
        about |= {"split": _split_of(dataset), "logits": _digest(saved.files)}
        notes = (*getattr(dataset, "notes", ()), *saved.notes)
        return Opened(saved, None, about | _about_images(dataset, saved.ids), notes)
    # Scores in files do not need what training needs.
    from densefield.runs.checkpoint import load_segmenter
    from densefield.runs.splits import default_split, open_split

    segmenter, config = load_segmenter(scores)
    longest = config.data.longest_side
    notes = ()
    if data is None:
        about["split"] = split or default_split(config.data)
        dataset = open_split(config.data, about["split"])
    else:
        dataset = open_dataset(data, split)
        about["split"], notes = _split_of(dataset), getattr(dataset, "notes", ())
        dataset = ShrunkDataset(dataset, longest) if longest else dataset
    if len(dataset.classes) != config.network.num_classes:
        raise InputError(
            f"the network of {scores} scores {config.network.num_classes} labels, but the dataset has "
            f"{len(dataset.classes)}: name the data that it was trained for."
        )
    about |= _about_images(dataset, dataset.ids)
    values = segmenter.state_dict().values()
    about["weights"] = blake2b(b"".join(value.numpy().tobytes() for value in values), digest_size=8).hexdigest()
    source = NetworkScores(segmenter.scores, dataset)
    return Opened(source, segmenter.crf, about, notes)


def _split_of(dataset: Dataset) -> str:
    return getattr(dataset, "split", None) or "all"


def _about_images(dataset: Dataset, ids: Iterable[str]) -> dict[str, str]:
    """A digest of the files of those images and of their masks; nothing where there are none."""
    used = set(ids)
    pairs = [(entry.image, entry.mask) for entry in entries_of(dataset) if entry.id in used]
    if not pairs:
        return {}
    return {"images and masks": _digest(path for pair in pairs for path in pair if path is not None)}


def _digest(files: Iterable[Path]) -> str:
    """Names, sizes and times of change: to read all that is in the files would take long each time."""
    stats = [(path.name, path.stat()) for path in files]
    facts = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    return blake2b(repr(facts).encode(), digest_size=8).hexdigest()
