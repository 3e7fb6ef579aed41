"""What a run writes down at each step: a table in CSV, and TensorBoard's files."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import IO, Any

import numpy as np

from densefield.io.files import write_atomically
from densefield.nn.dense_crf import DenseCRF

TABLE, BOARD = "log.csv", "tensorboard"
COLUMNS = ("step", "stage", "loss", "iou", "train_iou", "images_per_second")


def crf_values(crf: DenseCRF | None) -> dict[str, float]:
    """The CRF's values by name, each a number: of a matrix the means of its diagonal and of the rest.

    >>> list(crf_values(DenseCRF(num_classes=2)))[:4]
    ['spatial.sigma.0', 'spatial.sigma.1', 'spatial.weight', 'bilateral.sigma.0']
    """
    numbers: dict[str, float] = {}
    for name, value in ({} if crf is None else crf.values()).items():
        array = np.asarray(value)
        if array.ndim == 0:
            numbers[name] = float(array)
        elif array.ndim == 1:
            numbers.update({f"{name}.{place}": float(each) for place, each in enumerate(array)})
        else:
            rest = array[~np.eye(len(array), dtype=bool)]
            numbers[f"{name}.diagonal"] = float(np.diagonal(array).mean())
            numbers[f"{name}.rest"] = float(rest.mean()) if rest.size else 0.0
    return numbers


class RunLog:
    """Rows of RUN/log.csv, and the same as curves in RUN/tensorboard.

    A run that is gone on with after `step` keeps its rows up to there and loses what it had written beyond. Of several
    processes only one `writes`.
    """

    def __init__(self, run: Path, stage: int, crf: DenseCRF | None, step: int = 0, *, writes: bool = True) -> None:
        self._stage, self._writes = stage, writes
        if not writes:
            return
        from torch.utils.tensorboard import SummaryWriter

        columns = [*COLUMNS, *crf_values(crf)]
        kept = [row for row in read_log(run) if int(row["step"]) <= step]
        start = io.StringIO(newline="")
        table = csv.DictWriter(start, columns, lineterminator="\n")
        table.writeheader()
        table.writerows(kept)
        write_atomically(run / TABLE, start.getvalue().encode())
        self._file: IO[str] = (run / TABLE).open("a", encoding="utf-8", newline="")
        self._table = csv.DictWriter(self._file, columns, lineterminator="\n")
        self._board: Any = SummaryWriter(str(run / BOARD), purge_step=step + 1)

    def write(
        self,
        step: int,
        crf: DenseCRF | None,
        *,
        loss: float,
        images_per_second: float,
        iou: float | None = None,
        train_iou: float | None = None,
    ) -> None:
        """One row; the scores are blank where there was no validation."""
        if not self._writes:
            return
        values = crf_values(crf)
        scores = {"loss": loss, "images_per_second": images_per_second, "iou": iou, "train_iou": train_iou}
        row = {name: value for name, value in scores.items() if value is not None}
        self._table.writerow(
            {"step": step, "stage": self._stage, **{key: f"{value:.9g}" for key, value in {**row, **values}.items()}}
        )
        self._file.flush()
        for name, value in row.items():
            self._board.add_scalar(name, value, step)
        for name, value in values.items():
            self._board.add_scalar(f"crf/{name}", value, step)

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writes:
            self._file.close()
            self._board.close()


def read_log(run: Path) -> list[dict[str, str]]:
    """The rows of a run's table as text, those that are whole; none where there is no table."""
    path = run / TABLE
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]  # a run that was killed may have left half a line
    return list(csv.DictReader(io.StringIO(whole, newline="")))
