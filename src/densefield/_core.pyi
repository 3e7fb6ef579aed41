import numpy as np
import numpy.typing as npt

_Float32 = npt.NDArray[np.float32]
_Points = npt.NDArray[np.float32] | npt.NDArray[np.float64]

def available_simd() -> list[str]: ...
def calibration_samples(points: _Points, threads: int) -> list[int]: ...

class Lattice:
    def __init__(
        self,
        points: _Points,
        scale: list[float],
        axes: list[int],
        taps: list[float],
        single_precision: bool,
        halo: int,
        threads: int,
        simd: str,
    ) -> None: ...
    @property
    def vertices(self) -> int: ...
    @property
    def features(self) -> _Points: ...
    def apply(self, values: _Float32, out: _Float32, adjoint: bool, magnitude: float, threads: int) -> None: ...
    def gradients(
        self,
        cotangent: _Float32,
        values: _Float32,
        back: _Float32,
        slope: _Float32,
        magnitude: float,
        threads: int,
    ) -> None: ...
    def calibrated_magnitude(self, threads: int) -> float: ...
    def diagonal(self, out: _Float32, magnitude: float, threads: int) -> None: ...
    def time_phases(self, values: _Float32, out: _Float32, threads: int) -> list[float]: ...

GRID_SUPPORT: int

class GridAxis:
    def __init__(
        self,
        pixels: int,
        taps: _Float32,
        derivative_taps: _Float32,
        cells: npt.NDArray[np.int64],
        weights: _Float32,
    ) -> None: ...

class GridFilter:
    def __init__(self, axes: list[GridAxis], simd: str) -> None: ...
    def apply(self, values: _Float32, out: _Float32, threads: int) -> None: ...
    def sigma_gradient(self, cotangent: _Float32, values: _Float32, threads: int) -> list[float]: ...
