"""Kernels of positions alone: the lattice beside the exact filter, which is separable on a grid.

    python benchmarks/position_kernels.py

A grid of 375×500 pixels, 20 channels. For each width:
  error     of the normalised filter D^-½ K D^-½ of marginals in patches: mean and largest, over the largest value
  gradient  of five iterations of mean field with this kernel by log σ in x and y: cosine and relative length
  ms        of one application to all channels on all CPUs: the native lattice; the exact filter by two dense matrices;
            and by convolutions truncated at four widths, whose sums lack 6e-5
"""

from __future__ import annotations

import numpy as np
import torch
from clock import interleaved, machine
from torch import Tensor
from torch.nn.functional import conv2d

from densefield import DenseCRF, Spatial
from densefield.filters import LatticeFilter

HEIGHT, WIDTH, CHANNELS, ITERATIONS = 375, 500, 20, 5
WIDTHS = (1, 2, 3, 5, 10, 20, 40, 60)


def gaussian(count: int, sigma: Tensor) -> Tensor:
    """The kernel matrix of a line of pixels, (count, count)."""
    x = torch.arange(count, dtype=sigma.dtype)
    return torch.exp(-(((x[:, None] - x) / sigma) ** 2) / 2)


class Separable:
    """v → D^-½ K D^-½ v for (…, H, W), with gradients by both widths."""

    def __init__(self, sigma: Tensor) -> None:
        self.columns, self.rows = gaussian(WIDTH, sigma[0]), gaussian(HEIGHT, sigma[1])
        self.root = (self.rows.sum(1)[:, None] * self.columns.sum(1)) ** -0.5

    def apply(self, v: Tensor) -> Tensor:
        return self.root * (self.rows @ (self.root * v) @ self.columns)


def exact_gradient(scores: Tensor, sigma: float, cotangent: Tensor) -> Tensor:
    """That of mean field by log σ, (2,), in float64."""
    log_sigma = torch.full((2,), float(np.log(sigma)), dtype=torch.float64, requires_grad=True)
    k, f = Separable(log_sigma.exp()), scores.double()
    q = f.softmax(1)
    for _ in range(ITERATIONS):
        log_q = (f + 3 * k.apply(q)).log_softmax(1)
        q = log_q.exp()
    (slope,) = torch.autograd.grad(log_q, log_sigma, cotangent.double())
    return slope


def lattice_gradient(scores: Tensor, sigma: float, cotangent: Tensor) -> Tensor:
    crf = DenseCRF(scores.shape[1], [Spatial(sigma, weight=3)], iterations=ITERATIONS)
    (slope,) = torch.autograd.grad(crf(scores), crf.spatial.log_sigma, cotangent)
    return slope.double()


def truncated(v: Tensor, sigma: float) -> Tensor:
    """K v by convolutions with 2·4σ + 1 taps."""
    reach = min(int(np.ceil(4 * sigma)), HEIGHT - 1)
    taps = torch.exp(-((torch.arange(-reach, reach + 1) / sigma) ** 2) / 2)
    along_y = conv2d(v[:, None], taps[None, None, :, None], padding=(reach, 0))
    return conv2d(along_y, taps[None, None, None, :], padding=(0, reach))[:, 0]


def main() -> None:
    print(machine(), f"torch {torch.__version__}")
    draw = np.random.default_rng(8100)
    patches = torch.tensor(np.kron(draw.standard_normal((1, CHANNELS, 25, 25)), np.ones((1, 1, 15, 20))))
    scores = (2 * patches + torch.tensor(draw.standard_normal((1, CHANNELS, HEIGHT, WIDTH)))).float()
    labels = patches.argmax(1)
    q = scores.softmax(1)
    cotangent = -torch.nn.functional.one_hot(labels, CHANNELS).movedim(-1, 1).float() / labels.numel()
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    print("width   error: mean  largest   gradient: cos  length   ms: lattice   dense  truncated")
    for sigma in WIDTHS:
        features = (np.stack([x, y], -1).reshape(-1, 2) / sigma).astype(np.float32)
        lattice, exact = LatticeFilter(features, calibrate=False), Separable(torch.full((2,), float(sigma)).double())
        rows = np.ascontiguousarray(q[0].flatten(1).T.numpy())
        root = lattice.apply(np.ones((len(rows), 1), np.float32)) ** -0.5
        truth = exact.apply(q[0].double()).flatten(1).T.numpy()
        error = np.abs(root * lattice.apply(root * rows) - truth) / truth.max()
        a, b = exact_gradient(scores, sigma, cotangent), lattice_gradient(scores, sigma, cotangent)
        single = Separable(torch.full((2,), float(sigma)))
        seconds = interleaved(
            {
                "lattice": lambda k=lattice, v=rows: k.apply(v),
                "dense": lambda k=single: k.apply(q[0]),
                "truncated": lambda s=sigma: truncated(q[0], s),
            },
            5,
        )
        print(
            f"{sigma:5d}{error.mean():14.1e}{error.max():10.1e}{float(a @ b / a.norm() / b.norm()):14.4f}"
            f"{float(b.norm() / a.norm()):8.3f}" + "".join(f"{1e3 * each:12.1f}" for each in seconds.values()),
            flush=True,
        )


if __name__ == "__main__":
    main()
