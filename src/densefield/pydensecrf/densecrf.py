"""DenseCRF and DenseCRF2D with pydensecrf's interface: energies in, marginals out."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from densefield import _core
from densefield.crf.kernels import Normalization
from densefield.crf.native import native_mean_field, new_array
from densefield.crf.options import CRFOptions
from densefield.crf.pairwise import Pairwise, PixelGrid, bind
from densefield.errors import InputError, InputTypeError, warn
from densefield.filters.pixel_order import PixelOrder, pixel_order
from densefield.filters.threads import check_threads
from densefield.pydensecrf import eigen
from densefield.pydensecrf.buffers import (
    Float32,
    checked_buffer,
    checked_colours,
    checked_energies,
    checked_integer,
    checked_widths,
    score_of,
)


class KernelType(IntEnum):
    """Which parameters of a kernel could be learnt; inference is the same for all three."""

    CONST_KERNEL = 0
    DIAG_KERNEL = 1
    FULL_KERNEL = 2


class NormalizationType(IntEnum):
    """K, K D⁻¹, D⁻¹ K or D^-½ K D^-½, with D = diag(K·1)."""

    NO_NORMALIZATION = 0
    NORMALIZE_BEFORE = 1
    NORMALIZE_AFTER = 2
    NORMALIZE_SYMMETRIC = 3


CONST_KERNEL, DIAG_KERNEL, FULL_KERNEL = KernelType
NO_NORMALIZATION, NORMALIZE_BEFORE, NORMALIZE_AFTER, NORMALIZE_SYMMETRIC = NormalizationType

OPTIONS = CRFOptions(operator="pydensecrf")
NORMALIZATIONS: tuple[Normalization, ...] = ("none", "before", "after", "symmetric")  # by their number


class Unary:
    """The base of ConstUnary and LogisticUnary: energies (L, N)."""

    _energies: Float32


class ConstUnary(Unary):
    """Unary energies u (L, N), float32."""

    def __init__(self, u: object) -> None:
        self._energies = checked_buffer(u, "u", ("labels", "points")).copy()


class LogisticUnary(Unary):
    """Unary energies L·f of features f (D, N), weighted for each label by L (labels, D); both float32.

    >>> weights, features = np.ones((2, 3), np.float32), np.ones((3, 5), np.float32)
    >>> crf = DenseCRF(5, 2)
    >>> crf.setUnary(LogisticUnary(weights, features))
    """

    def __init__(self, L: object, f: object) -> None:
        weights = checked_buffer(L, "L", ("labels", "features"))
        features = checked_buffer(f, "f", ("features", "points"))
        if weights.shape[1] != features.shape[0]:
            raise InputError(
                f"L has shape {weights.shape} and f {features.shape}, expected (labels, features) and (features, "
                "points) with as many features in both."
            )
        self._energies = weights @ features


class DenseCRF:
    """A dense CRF over `nvar` points with `nlabels` labels.

    `threads` is the number of threads, by default all available processors; pydensecrf does not have it.

    >>> crf = DenseCRF(4, 2)
    >>> crf.setUnaryEnergy(np.array([[0, 1, 1, 9], [1, 0, 0, 0]], np.float32))
    >>> crf.addPairwiseEnergy(np.zeros((1, 4), np.float32), compat=3)  # all points alike: the majority wins
    >>> np.argmax(crf.inference(5), axis=0).tolist()
    [1, 1, 1, 1]
    """

    def __init__(
        self, nvar: int, nlabels: int, *surplus: object, threads: int | None = None, **unknown: object
    ) -> None:
        if surplus or unknown:  # pydensecrf ignores them, so scripts may have them
            given = ", ".join([*map(repr, surplus), *(f"{key}={value!r}" for key, value in unknown.items())])
            warn(f"{type(self).__name__} got the surplus arguments {given}, which are ignored: leave them out.")
        self._points = checked_integer(nvar, "nvar")
        self._labels = checked_integer(nlabels, "nlabels")
        if self._points < 0 or self._labels < 1:
            raise InputError(
                f"got {self._points} points and {self._labels} labels, expected no fewer than 0 and 1 of them."
            )
        self._threads = check_threads(threads)
        self._given: Float32 | None = None  # scores (L, N): minus the energies
        self._terms: list[Pairwise[npt.NDArray[np.floating]]] = []
        self._order: PixelOrder | None = None  # of the points in the pairwise terms, if not that of the energies

    def setUnary(self, u: Unary) -> None:
        """Takes the energies of a ConstUnary or LogisticUnary."""
        if not isinstance(u, (ConstUnary, LogisticUnary)):
            raise InputTypeError(f"u is of type {type(u).__name__}, expected ConstUnary or LogisticUnary.")
        self._set_energies(u._energies)

    def setUnaryEnergy(self, u: object, f: object = None) -> None:
        """Unary energies u (L, N), float32: -log of probabilities. With f (D, N), they are u·f for weights u (L, D)."""
        if f is None:
            self._set_energies(checked_buffer(u, "u", ("labels", "points")))
        else:
            self.setUnary(LogisticUnary(u, f))

    def addPairwiseEnergy(
        self,
        features: object,  # (D, N) float32, divided by the widths
        compat: object,  # a number attracts; float32 (L,) or (L, L) are energies
        kernel: int = DIAG_KERNEL,
        normalization: int = NORMALIZE_SYMMETRIC,
    ) -> None:
        """Adds a Gaussian kernel of features of your own."""
        rows = checked_buffer(features, "features", ("dimensions", "points")).T
        if len(rows) != self._points:
            raise InputError(f"features have shape {rows.T.shape}, expected (dimensions, {self._points}).")
        if self._order is not None:
            rows = self._order.reorder(rows)
        chosen = _normalization(kernel, normalization)
        self._terms.append(bind(rows, chosen, score_of(compat, self._labels), OPTIONS, self._threads))

    def inference(self, niter: int) -> eigen.MatrixXf:
        """Marginals (L, N) after `niter` iterations; ``np.array`` makes an array of them."""
        return eigen.MatrixXf(self._infer(max(checked_integer(niter, "niter"), 0)))

    def startInference(self) -> tuple[eigen.MatrixXf, eigen.MatrixXf, eigen.MatrixXf]:
        """The initial marginals Q (L, N), and two buffers that stepInference takes but does not use."""
        return self.inference(0), eigen.MatrixXf(), eigen.MatrixXf()

    def stepInference(self, Q: eigen.MatrixXf, tmp1: eigen.MatrixXf, tmp2: eigen.MatrixXf) -> None:
        """Updates the marginals Q (L, N) in place, by one iteration."""
        _check_matrix(tmp1, "tmp1")
        _check_matrix(tmp2, "tmp2")
        Q[...] = self._infer(1, start=self._marginals(Q))

    def klDivergence(self, Q: eigen.MatrixXf) -> float:
        """pydensecrf's number for marginals Q (L, N): Σ q log q - Σ q·f - Σ_m Σ_ij q_iᵀ μ_m q_j k̂_m(i,j).

        It lacks log Z and counts each pair twice. The free energy, with half the last sum, is
        ``densefield.crf.mean_field.free_energy``.
        """
        q = self._marginals(Q)
        rows = np.ascontiguousarray(q.T if self._order is None else q.T[self._order.indices])
        pairwise = sum(float(np.einsum("nl,nl->", rows, term.message(rows), dtype=np.float64)) for term in self._terms)
        log_q = np.log(np.maximum(q, np.float32(1e-20)))  # as in pydensecrf
        return float(np.einsum("ln,ln->", q, log_q - self._scores, dtype=np.float64)) - pairwise

    @property
    def _scores(self) -> Float32:
        """Minus the unary energies; zero if there are none."""
        if self._given is None:
            self._given = np.zeros((self._labels, self._points), np.float32)
        return self._given

    def _infer(self, iterations: int, start: Float32 | None = None) -> Float32:
        q = new_array(self._labels, self._points)
        native_mean_field(
            self._terms, self._scores, iterations, self._threads, marginals=q, start=start, order=self._order
        )
        return q

    def _set_energies(self, energies: Float32) -> None:
        expected = (self._labels, self._points)
        if energies.shape != expected:
            hint = " Use .reshape(labels, -1)." if energies.size == self._labels * self._points else ""
            raise InputError(f"the unary energies have shape {energies.shape}, expected {expected}.{hint}")
        scores = np.negative(energies, out=new_array(*expected))
        if not _core.all_finite(scores.reshape(-1), self._threads):
            np.negative(checked_energies(energies), out=scores)
        self._given = scores

    def _marginals(self, q: object) -> Float32:
        marginals = _check_matrix(q, "Q")
        if marginals.shape != (self._labels, self._points):
            raise InputError(f"Q has shape {marginals.shape}, expected {(self._labels, self._points)}.")
        return marginals


class DenseCRF2D(DenseCRF):
    """A dense CRF over the pixels of an image, `w` wide and `h` high, row by row.

    >>> image = np.zeros((4, 6, 3), np.uint8)
    >>> image[:, 3:] = 255
    >>> energies = np.zeros((2, 24), np.float32)
    >>> energies[1, 0] = energies[0, 5] = 4  # one hint on either side
    >>> crf = DenseCRF2D(6, 4, 2)
    >>> crf.setUnaryEnergy(energies)
    >>> crf.addPairwiseBilateral(sxy=60, srgb=10, rgbim=image, compat=5)
    >>> np.argmax(crf.inference(5), axis=0)[:6].tolist()
    [0, 0, 0, 1, 1, 1]
    """

    def __init__(
        self, w: int, h: int, nlabels: int, *surplus: object, threads: int | None = None, **unknown: object
    ) -> None:
        self._width, self._height = checked_integer(w, "w"), checked_integer(h, "h")
        if self._width < 0 or self._height < 0:
            raise InputError(f"the image is {self._width} wide and {self._height} high, expected 0 or more.")
        super().__init__(self._width * self._height, nlabels, *surplus, threads=threads, **unknown)
        self._order = pixel_order((self._height, self._width))
        self._grid = PixelGrid((self._height, self._width), order=self._order)

    def addPairwiseGaussian(
        self,
        sxy: object,  # a number, or (sx, sy)
        compat: object,
        kernel: int = DIAG_KERNEL,
        normalization: int = NORMALIZE_SYMMETRIC,
    ) -> None:
        """Adds a Gaussian kernel of position, `sxy` pixels wide."""
        chosen, mu = _normalization(kernel, normalization), score_of(compat, self._labels)
        widths = np.array(checked_widths(sxy, "sxy", ("x", "y")))
        self._terms.append(self._grid.bind(("position",), {}, widths, chosen, mu, OPTIONS, self._threads))

    def addPairwiseBilateral(
        self,
        sxy: object,  # a number, or (sx, sy)
        srgb: object,  # a number, or (sr, sg, sb)
        rgbim: object,  # (h, w, 3) uint8
        compat: object,
        kernel: int = DIAG_KERNEL,
        normalization: int = NORMALIZE_SYMMETRIC,
    ) -> None:
        """Adds a Gaussian kernel of position and colour, `sxy` pixels and `srgb` levels wide."""
        chosen, mu = _normalization(kernel, normalization), score_of(compat, self._labels)
        pixels = {"channel": checked_colours(rgbim, self._height, self._width)}
        widths = np.array((*checked_widths(sxy, "sxy", ("x", "y")), *checked_widths(srgb, "srgb", ("r", "g", "b"))))
        term = self._grid.bind(("position", "channel"), pixels, widths, chosen, mu, OPTIONS, self._threads)
        self._terms.append(term)


def _check_matrix(matrix: object, name: str) -> eigen.MatrixXf:
    if not isinstance(matrix, eigen.MatrixXf):
        raise InputTypeError(
            f"{name} is of type {type(matrix).__name__}, expected what startInference or inference returned."
        )
    return matrix


def _normalization(kernel: int, normalization: int) -> Normalization:
    if checked_integer(kernel, "kernel") not in list(KernelType):
        warn(
            f"kernel is {kernel!r}, expected one of {_names(KernelType)}. It has no effect on inference. If it is "
            "meant as the normalization, pass normalization= by name."
        )
    number = checked_integer(normalization, "normalization")
    if number not in list(NormalizationType):
        raise InputError(f"normalization is {normalization!r}, expected one of {_names(NormalizationType)}.")
    return NORMALIZATIONS[number]


def _names(kind: type[IntEnum]) -> str:
    return ", ".join(member.name for member in kind)
