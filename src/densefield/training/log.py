"""The log of a run: a CSV table, TensorBoard files, and a progress bar on the terminal."""

from __future__ import annotations

import csv
import io
import sys
import time
from pathlib import Path
from typing import IO, Any

import numpy as np

from densefield.io.files import write_atomically
from densefield.io.messages import printable
from densefield.nn.dense_crf import DenseCRF
from densefield.runs.checkpoint import Validation

TABLE, BOARD = "log.csv", "tensorboard"
COLUMNS = ("step", "stage", "loss", "iou", "nll", "train_iou", "train_nll", "images_per_second")


def crf_values(crf: DenseCRF | None) -> dict[str, float]:
    """The CRF's values by name; for a matrix, the means of its diagonal and of the rest.

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
    """Rows of RUN/log.csv, and the same values in RUN/tensorboard.

    A run resumed after `step` keeps its rows up to there and removes later ones. Only one process `writes`.
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

    def write(self, step: int, crf: DenseCRF | None, **metrics: float) -> None:
        """Adds a row with metrics of COLUMNS; others are blank, such as IoUs without a validation."""
        if not self._writes:
            return
        values = crf_values(crf)
        numbers = {key: f"{value:.9g}" for key, value in {**metrics, **values}.items()}
        self._table.writerow({"step": step, "stage": self._stage, **numbers})
        self._file.flush()
        for name, value in metrics.items():
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
    """The complete rows of the table of a `run` folder as text; none if there is no table."""
    path = run / TABLE
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    complete = text[: text.rfind("\n") + 1]  # a killed run may have left part of a line
    return list(csv.DictReader(io.StringIO(complete, newline="")))


class Display:
    """A progress bar on a terminal, else a line per validation: loss, IoU, images per second, time left; on stderr."""

    def __init__(self, steps: int, done: int, *, shown: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._console = Console(stderr=True)
        self._shown, self._steps, self._first = shown, steps, done
        self._start = time.monotonic()
        self._bar = Progress(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not (shown and self._console.is_terminal),
        )
        self._task = self._bar.add_task("", total=steps, completed=done, numbers="")

    def __enter__(self) -> Display:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def step(self, step: int, loss: float, found: Validation | None, images_per_second: float) -> None:
        """Updates the bar after a step, with the metrics of the last validation."""
        self._bar.update(self._task, completed=step, numbers=_bar_text(loss, found, images_per_second))

    def validated(self, step: int, loss: float, found: Validation, images_per_second: float) -> None:
        """Prints a line if there is no bar."""
        if self._shown and not self._console.is_terminal:
            left = (time.monotonic() - self._start) / max(step - self._first, 1) * (self._steps - step)
            numbers = _bar_text(loss, found, images_per_second)
            print(f"step {step}/{self._steps}  {numbers}  {left:.0f} s left", file=sys.stderr, flush=True)

    def print(self, line: str) -> None:
        """Prints a line above the bar."""
        if self._shown:
            self._console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def _bar_text(loss: float, found: Validation | None, images_per_second: float) -> str:
    """The numbers of the bar.

    >>> from densefield.runs.checkpoint import Validation
    >>> _bar_text(0.51234, Validation(0.6, 0.45678), 33.33)
    'loss 0.5123  val. IoU 60.0, NLL 0.4568  33.3 images/s'
    """
    metrics = "–" if found is None else f"{100 * found.iou:.1f}, NLL {found.nll:.4f}"
    return f"loss {loss:.4f}  val. IoU {metrics}  {images_per_second:.1f} images/s"
