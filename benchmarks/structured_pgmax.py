"""Loopy belief propagation on a grid by pgmax, run by benchmarks/structured.py in a separate environment.

It builds the model from an .npz file, then runs once for every input line and prints the seconds.
"""

from __future__ import annotations

import os
import sys
import time

# Constant folding of large graphs takes XLA minutes and gains nothing here.
os.environ.setdefault("XLA_FLAGS", "--xla_disable_hlo_passes=constant_folding")

import jax
import numpy as np
from pgmax import fgraph, fgroup, infer, vgroup


def main() -> None:
    given = np.load(sys.argv[1])
    pixel, right, down, iterations = given["pixel"], given["right"], given["down"], int(given["iterations"])
    rows, columns, labels = pixel.shape
    variables = vgroup.NDVarArray(num_states=labels, shape=(rows, columns))
    graph = fgraph.FactorGraph(variables)
    across = [[variables[i, j], variables[i, j + 1]] for i in range(rows) for j in range(columns - 1)]
    below = [[variables[i, j], variables[i + 1, j]] for i in range(rows - 1) for j in range(columns)]
    for pairs, scores in ((across, right), (below, down)):
        tables = scores.reshape(-1, labels, labels)
        graph.add_factors(fgroup.PairwiseFactorGroup(variables_for_factors=pairs, log_potential_matrix=tables))
    inferer = infer.build_inferer(graph.bp_state, backend="bp")
    arrays = inferer.init(evidence_updates={variables: pixel})
    run = jax.jit(lambda a: inferer.run(a, num_iters=iterations, damping=0.0, temperature=1.0))
    found = jax.block_until_ready(run(arrays))  # compiles
    np.save(sys.argv[2], np.asarray(infer.get_marginals(inferer.get_beliefs(found))[variables]))
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        jax.block_until_ready(run(arrays))
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
