"""Refinement of video: frame by frame, the whole clip at once, by windows, and as a stream.

    python benchmarks/video.py                        # the table of docs/video.md, on clips that chose no setting
    python benchmarks/video.py --choose               # lengths of the step between frames, on the clips that choose
    python benchmarks/video.py --seams                # windows against the whole clip
    python benchmarks/video.py --memory               # peak memory against the length of the clip
    python benchmarks/video.py --photos               # any of the first two on panned photos instead

Clips are synthetic (benchmarks/synthetic_video.py): three textured objects that move and turn. Panned photos are photos
of PASCAL VOC (benchmarks/rough_masks.py) through a window that moves, so that objects enter and leave; those of the
train split choose. Metrics in percent, as
means over clips: mean IoU over the classes; edge accuracy, of pixels within 4 of a true edge; flicker, the pixels per
frame whose label changes although the true one does not.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import distance_transform_edt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import densefield
from benchmarks.rough_masks import filled, photos
from benchmarks.synthetic_video import Array, Video, moving_objects, network_scores, rough_masks
from densefield.video import refine_clip, refine_stream

CHOOSING, REPORTED = (101, 102, 103), (211, 212, 213, 214)
SPEEDS = (2.5, 5.0)  # pixels per frame, of the clips in turn
FRAMES = 40
PANS, WINDOW = (1, 2, 4), (200, 280)  # pixels per frame, and rows and columns, of panned photos
NEAR = 4  # pixels: of edge accuracy
METHODS = ("input", "frame by frame", "clip at once", "windows", "stream")


def clips(seeds: tuple[int, ...], frames: int) -> Iterator[tuple[int, Video]]:
    for number, seed in enumerate(seeds):
        yield seed, moving_objects(seed, frames, speed=SPEEDS[number % len(SPEEDS)])


def panned_photos(split: str, count: int, frames: int) -> Iterator[tuple[int, Video]]:
    """Photos through a window that moves to the right and down by 1, 2 and 4 pixels a frame in turn."""
    for number, photo in enumerate(photos(split, count)):
        speed = PANS[number % len(PANS)]
        labels = np.unique(filled(photo.truth), return_inverse=True)[1].reshape(photo.truth.shape).astype(np.uint8)
        rows = [slice(speed * t // 2, speed * t // 2 + WINDOW[0]) for t in range(frames)]
        columns = [slice(speed * t, speed * t + WINDOW[1]) for t in range(frames)]
        places = list(zip(rows, columns, strict=True))
        if labels.shape[0] < rows[-1].stop or labels.shape[1] < columns[-1].stop or not labels.any():
            continue
        yield number, Video(np.array([photo.image[at] for at in places]), np.array([labels[at] for at in places]))


def inputs(video: Video, seed: int) -> dict[str, tuple[str, Array]]:
    """The rough masks by kind, and what they are."""
    masks = {kind: ("labels", each) for kind, each in rough_masks(video.truth, seed).items()}
    return {**masks, "scores": ("logits", network_scores(video.truth, seed))}


def metrics(result: Array, truth: Array) -> tuple[float, float, float]:
    """Mean IoU, edge accuracy and flicker in percent."""
    classes = np.unique(truth)
    ious = [np.sum((result == k) & (truth == k)) / np.sum((result == k) | (truth == k)) for k in classes]
    right = [(r == t)[near_edges(t)].mean() for r, t in zip(result, truth, strict=True)]
    flicker = (result[1:] != result[:-1]) & (truth[1:] == truth[:-1])
    return 100 * float(np.mean(ious)), 100 * float(np.mean(right)), 100 * float(flicker.mean())


def near_edges(labels: Array) -> Array:
    distances = [distance_transform_edt(labels == k) for k in np.unique(labels)]
    return np.min([np.where(d == 0, np.inf, d) for d in distances], axis=0) <= NEAR


def best(results: Iterator[Array]) -> Array:
    return np.array([q.argmax(axis=0) for q in results])


def method(name: str, video: Video, what: str, masks: Array, **options: Any) -> Array:
    classes = {"num_classes": int(video.truth.max()) + 1} if what == "labels" else {}
    given: dict[str, Any] = {what: masks}
    if name == "input":
        return masks if what == "labels" else masks.argmax(axis=1)
    if name == "frame by frame":
        pairs = zip(video.frames, masks, strict=True)
        return best(densefield.refine(frame, **{what: mask}, **classes) for frame, mask in pairs)
    if name == "stream":
        return best(refine_stream(zip(video.frames, masks, strict=True), what, **classes, **options))
    window = len(masks) if name == "clip at once" else None
    return best(refine_clip(video.frames, **given, **classes, window=window, **options))


def table(videos: Iterator[tuple[int, Video]], methods: dict[str, Callable[..., Array]]) -> None:
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for seed, video in videos:
        for kind, (what, masks) in inputs(video, seed).items():
            for name, run in methods.items():
                score = metrics(run(video, what, masks), video.truth)
                found.setdefault((kind, name), []).append(score)
                print(f"  {seed} {kind}, {name}:", *(f"{each:.2f}" for each in score), file=sys.stderr, flush=True)
    kinds = list(dict.fromkeys(kind for kind, _ in found))
    for number, title in enumerate(("mean IoU", "edge accuracy", "flicker")):
        print(f"\n| {title} | {' | '.join(kinds)} |\n|---|{'---|' * len(kinds)}")
        for name in methods:
            means = [np.mean([score[number] for score in found[kind, name]]) for kind in kinds]
            print(f"| {name} | {' | '.join(f'{mean:.2f}' for mean in means)} |", flush=True)


def choose(videos: Iterator[tuple[int, Video]]) -> None:
    """The step between frames in pixels."""
    methods = {
        f"{name}, step {step:g}": lambda *given, name=name, step=step: method(name, *given, frame_step=step)
        for name in ("clip at once", "stream")
        for step in (1.5, 2, 3, 4, 6, 10)
    }
    table(videos, methods)


def seams(frames: int) -> None:
    """Windows against the whole clip, and changes between frames at the ends of windows against those elsewhere."""
    print(
        "| kind | window | labels that differ, % | at seams | mean difference of probabilities |\n|---|---|---|---|---|"
    )
    for seed, video in clips(REPORTED[:2], frames):
        for kind, (what, masks) in inputs(video, seed).items():
            given: dict[str, Any] = {what: masks}
            whole = np.array(list(refine_clip(video.frames, **given, window=frames)))
            for window in (8, 16, 32):
                parts = np.array(list(refine_clip(video.frames, **given, window=window)))
                differ = (parts.argmax(1) != whole.argmax(1)).mean(axis=(1, 2))
                kept = -(-frames // -(-frames // (window - 2 * (window // 4))))
                at = [index for index in range(1, frames) if index % kept in (0, kept - 1)]
                means = 100 * differ.mean(), 100 * differ[at].mean(), np.abs(parts - whole).mean()
                print(f"| {kind}, {seed} | {window} | {means[0]:.3f} | {means[1]:.3f} | {means[2]:.5f} |", flush=True)


class Repeated:
    """A long clip of few frames, as an array of T frames would be, without its memory."""

    def __init__(self, frames: Array, length: int) -> None:
        self._frames, self._length = frames, length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Array:
        if not 0 <= index < self._length:
            raise IndexError(index)
        there_and_back = np.abs((index % (2 * len(self._frames) - 2)) - (len(self._frames) - 1))
        return np.array(self._frames[there_and_back])


def memory() -> None:
    """Peak memory of a process for clips of several lengths, in MB."""
    print("| frames of 480 × 854 | clip at once | windows | stream |\n|---|---|---|---|")
    for length in (24, 48, 96, 192):
        row = []
        for name in ("clip at once", "windows", "stream"):
            if name == "clip at once" and length > 96:
                row.append("–")
                continue
            command = [sys.executable, __file__, "--one-process", json.dumps([name, length])]
            row.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
        print(f"| {length} | {' | '.join(row)} |", flush=True)


def one_process(name: str, length: int) -> None:
    import resource

    video = moving_objects(REPORTED[0], 8, (480, 854))
    masks = rough_masks(video.truth, REPORTED[0])["displaced"]
    frames: Any = Repeated(video.frames, length)
    labels: Any = Repeated(masks, length)
    if name == "stream":
        results = refine_stream((frames[t], labels[t]) for t in range(length))
    else:
        results = refine_clip(frames, labels=labels, window=length if name == "clip at once" else None)
    for _ in results:
        pass
    print(round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=FRAMES)
    for flag in ("--choose", "--seams", "--memory", "--photos"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--one-process", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one_process:
        one_process(*json.loads(given.one_process))
    elif given.choose:
        choose(panned_photos("train", 12, given.frames) if given.photos else clips(CHOOSING, given.frames))
    elif given.seams:
        seams(given.frames)
    elif given.memory:
        memory()
    else:
        videos = panned_photos("val", 18, given.frames) if given.photos else clips(REPORTED, given.frames)
        table(videos, {name: lambda *each, name=name: method(name, *each) for name in METHODS})


if __name__ == "__main__":
    main()
