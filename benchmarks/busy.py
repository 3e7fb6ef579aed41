"""Images per second of several processes and threads, alone and beside a process that keeps a processor busy.

python benchmarks/busy.py [--seconds 4]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import numpy as np

from densefield import CRF

HEIGHT, WIDTH, LABELS = 375, 500, 21
CASES = [(1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (4, 1), (4, 4)]  # processes, threads of each


def work(threads: int, seconds: float) -> None:
    """Waits for a line, infers for so long, and prints images per second."""
    rng = np.random.default_rng(0)
    rows, columns = np.indices((HEIGHT, WIDTH))
    image = np.stack([rows // 2, columns // 2, 30 * (rows // 40 % 2) + 60], axis=2) + rng.integers(
        0, 12, (HEIGHT, WIDTH, 3)
    )
    image = image.astype(np.uint8)
    scores = rng.normal(size=(LABELS, HEIGHT, WIDTH)).astype(np.float32)
    crf = CRF(threads=threads)
    crf.marginals(scores, image)
    print("ready", flush=True)
    sys.stdin.readline()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        crf.marginals(scores, image)
        count += 1
    print(count / (time.perf_counter() - start), flush=True)


def throughput(processes: int, threads: int, seconds: float) -> float:
    """Images per second of all processes together."""
    command = [sys.executable, __file__, "--work", str(threads), "--seconds", str(seconds)]
    pipe = subprocess.PIPE
    workers = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(processes)]
    for worker in workers:
        worker.stdout.readline()
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    return sum(float(worker.communicate()[0]) for worker in workers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--work", type=int)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.seconds)
        return
    print(f"{HEIGHT}×{WIDTH}×{LABELS}, T = 5; images per second, and times that of one thread of one process\n")
    print("processes × threads        alone          beside a busy process")
    rates: dict[tuple[int, int], list[float]] = {case: [] for case in CASES}
    for busy in (False, True):
        neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
        try:
            for case in CASES:
                rates[case].append(throughput(*case, options.seconds))
        finally:
            if neighbour:
                neighbour.kill()
    for (processes, threads), (alone, beside) in rates.items():
        first = rates[CASES[0]]
        print(
            f"{processes} × {threads}              {alone:8.1f} {alone / first[0]:6.2f}      {beside:8.1f} "
            f"{beside / first[1]:6.2f}"
        )


if __name__ == "__main__":
    main()
