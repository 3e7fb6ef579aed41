import numpy as np
import numpy.typing as npt

_Float32 = npt.NDArray[np.float32]
_Float64 = npt.NDArray[np.float64]
_Points = npt.NDArray[np.float32] | npt.NDArray[np.float64]

def available_simd() -> list[str]: ...
def largest_leads(scores: _Float32, out: _Float32, threads: int) -> None: ...
def best_labels(scores: _Float32, out: npt.NDArray[np.int32], threads: int) -> None: ...
def calibration_samples(features: _Points, threads: int) -> list[int]: ...

class PixelOrder:
    def __init__(self, height: int, width: int, depth: int = 1) -> None: ...
    @property
    def num_pixels(self) -> int: ...
    def fill_indices(self, out: npt.NDArray[np.int64]) -> None: ...

class Lattice:
    def __init__(
        self,
        features: _Points,
        scale: list[float],
        axes: list[int],
        taps: list[float],
        single_precision: bool,
        halo: int,
        threads: int,
        simd: str,
    ) -> None: ...
    @property
    def num_vertices(self) -> int: ...
    @property
    def features(self) -> _Points: ...
    def apply(self, values: _Float32, out: _Float32, adjoint: bool, magnitude: float, threads: int) -> None: ...
    def gradients(
        self,
        cotangent: _Float32,
        values: _Float32,
        to_values: _Float32,
        to_features: _Float32,
        magnitude: float,
        threads: int,
    ) -> None: ...
    def point_moments(
        self,
        row_sums: _Float32,
        extra: _Float32 | None,
        present: _Float32 | None,
        moments: _Float64,
        factor: float,
        magnitude: float,
        threads: int,
    ) -> None: ...
    def calibrated_magnitude(self, threads: int) -> float: ...
    def diagonal(self, out: _Float32, magnitude: float, threads: int) -> None: ...
    def time_phases(self, values: _Float32, out: _Float32, threads: int) -> list[float]: ...

class Coupling:
    def __init__(
        self,
        lattice: Lattice,
        magnitude: float,
        before: _Float32,
        after: _Float32,
        own: _Float32 | None,
        mu: _Float32,
    ) -> None: ...

class Gradients:
    def __init__(
        self,
        mu: _Float64 | None,
        moments: _Float64 | None,
        sent: _Float32 | None,
        received: _Float32 | None,
        own: _Float32 | None,
        features: _Float32 | None,
        slopes: _Float32 | None,
    ) -> None: ...

def state_floats(points: int, num_classes: int) -> int: ...
def mean_field(
    couplings: list[Coupling],
    scores: _Float32,
    start: _Float32 | None,
    iterations: int,
    convergent: bool,
    marginals: _Float32 | None,
    log_marginals: _Float32 | None,
    states: _Float32 | None,
    residuals: _Float32 | None,
    tolerance: float,
    order: PixelOrder | None,
    threads: int,
    simd: str,
) -> int: ...
def mean_field_backward(
    couplings: list[Coupling],
    cotangent: _Float32,
    log_marginals: _Float32,
    states: _Float32,
    iterations: int,
    convergent: bool,
    scores: _Float32,
    gradients: list[Gradients],
    order: PixelOrder | None,
    threads: int,
    simd: str,
) -> None: ...
def fill_features(
    columns: npt.NDArray[np.generic],
    widths: list[float],
    out: _Float32,
    offset: int,
    order: PixelOrder | None,
    threads: int,
) -> None: ...
def fill_grid(
    lines: list[_Float32], columns: list[int], out: _Float32, order: PixelOrder | None, threads: int
) -> None: ...
def all_finite(values: _Float32, threads: int) -> bool: ...
def release_memory() -> int: ...

class Cancellation:
    def __init__(self) -> None: ...
    def cancel(self) -> None: ...
    def enter(self) -> None: ...
    def leave(self) -> None: ...

def new_array(rows: int, columns: int) -> _Float32: ...

class MaskEdges:
    def __init__(self, labels: npt.NDArray[np.int32], spacing: list[float], num_labels: int, threads: int) -> None: ...
    def distances(self, squared: _Float32, nearest: npt.NDArray[np.int32]) -> None: ...
    def edge_lengths(self, use: npt.NDArray[np.uint8], out: npt.NDArray[np.int64]) -> None: ...
    def profile(
        self,
        image: npt.NDArray[np.generic],
        use: npt.NDArray[np.uint8],
        pairs: npt.NDArray[np.int32],
        bin_width: float,
        strengths: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
        threads: int,
    ) -> None: ...
    def margins(self, pairs: npt.NDArray[np.int32], displacements: _Float32, out: _Float32, threads: int) -> None: ...
    def band(
        self, margins: _Float32, use: npt.NDArray[np.uint8], limit: float, order: PixelOrder | None
    ) -> npt.NDArray[np.int32]: ...
    def scores(
        self,
        use: npt.NDArray[np.uint8],
        margins: _Float32,
        strength: float,
        width: float,
        points: npt.NDArray[np.int32],
        out: _Float32,
        threads: int,
    ) -> None: ...
    def assemble(
        self,
        margins: _Float32,
        points: npt.NDArray[np.int32],
        marginals: _Float32,
        certain: float,
        out: _Float32,
        threads: int,
    ) -> None: ...

class ColourMixtures:
    def __init__(
        self,
        image: npt.NDArray[np.generic],
        labels: npt.NDArray[np.int32],
        num_labels: int,
        low: list[float],
        scale: list[float],
        levels: int,
        components: int,
        iterations: int,
        least_variance: float,
        threads: int,
    ) -> None: ...
    def gaussians(self, out: _Float32) -> None: ...
    def add_log_likelihoods(
        self,
        image: npt.NDArray[np.generic],
        points: npt.NDArray[np.int32] | None,
        least: float,
        weight: float,
        scores: _Float32,
        threads: int,
    ) -> None: ...
