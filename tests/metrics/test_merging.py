"""Counts of several processes are merged to the result of one."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.segmentations import random_log_marginals, random_truth

torch = pytest.importorskip("torch")
from densefield.metrics import SegmentationMetrics, SegmentationResult  # noqa: E402

CLASSES = 5
# The images of each process. 4 is repeated, as by a sampler that gives each process equally many.
SHARES = {"uneven": [[0, 2, 4], [1, 3, 4]], "one has none": [[0, 1, 2, 3, 4], []]}


def counted(metrics: Any, numbers: list[int]) -> Any:
    for n in numbers:
        truth = random_truth(12 + n, 17, [0, 1 + n % 4], seed=7333 + n)
        log_q = random_log_marginals(truth, CLASSES, seed=89 + n)
        metrics.update(torch.tensor(log_q)[None], torch.tensor(truth)[None], [f"image {n}"])
    return metrics


def work(rank: int, folder: str) -> None:
    """One of two processes: counts its images and writes the result."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    try:
        for name, shares in SHARES.items():
            metrics = counted(SegmentationMetrics(CLASSES), shares[rank])
            merged = metrics.compute()
            assert len(metrics._images) == len(shares[rank])  # merging does not change the images of a process
            Path(folder, f"{name} {rank}").write_bytes(pickle.dumps(merged))
    finally:
        torch.distributed.destroy_process_group()


def test_two_processes_give_the_result_of_one(tmp_path: Path) -> None:
    context = torch.multiprocessing.get_context("spawn")
    processes = [context.Process(target=work, args=(rank, str(tmp_path)), daemon=True) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    for name, shares in SHARES.items():
        order = list(dict.fromkeys(shares[0] + shares[1]))
        alone = counted(SegmentationMetrics(CLASSES), order).compute()
        for rank in range(2):
            merged: SegmentationResult = pickle.loads(Path(tmp_path, f"{name} {rank}").read_bytes())
            assert merged.images == 5
            assert merged.names == alone.names
            assert np.array_equal(merged.confusion, alone.confusion)
            assert np.array_equal(merged.per_image.truth, alone.per_image.truth)
            assert np.array_equal(merged.per_image.bins, alone.per_image.bins)
            assert np.array_equal(merged.per_image.log_loss, alone.per_image.log_loss)
