"""The native lattice: threads, concurrency, memory, unusual input."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

from densefield import InputError, InputTypeError, _core
from densefield.filters import ExactFilter, LatticeFilter


def photo_like(height: int, width: int, seed: int = 12) -> np.ndarray:
    """Positions and smooth colours with noise, over their widths, (N, 5) float32."""
    y, x = np.mgrid[:height, :width]
    noise = np.random.default_rng(seed).standard_normal((height, width, 3)) * 4
    colour = np.stack([np.sin(x / 40) + y / height, np.cos(y / 30), np.sin((x + y) / 60)], axis=-1) * 80 + noise
    features = np.concatenate([np.stack([x, y], axis=-1) / 60, colour / 10], axis=-1)
    return features.reshape(-1, 5).astype(np.float32)


def random_values(points: int, channels: int) -> np.ndarray:
    return np.random.default_rng(77).standard_normal((points, channels)).astype(np.float32)


@pytest.fixture(scope="module")
def features() -> np.ndarray:
    return photo_like(150, 220)  # several chunks of points


@pytest.mark.parametrize("operator", ["symmetric", "pydensecrf"])
@pytest.mark.parametrize("halo", [0, 1])
def test_results_do_not_depend_on_the_number_of_threads(features: np.ndarray, operator: str, halo: int) -> None:
    values = random_values(len(features), 21)
    one = LatticeFilter(features, operator=operator, halo=halo, threads=1)  # type: ignore[arg-type]
    expected = one.apply(values), *one.gradients(values, values, "lattice"), one.magnitude
    for threads in (2, 3, 7):
        other = LatticeFilter(features, operator=operator, halo=halo, threads=threads)  # type: ignore[arg-type]
        found = other.apply(values), *other.gradients(values, values, "lattice"), other.magnitude
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_repeated_calls_give_identical_results(features: np.ndarray) -> None:
    k, values = LatticeFilter(features), random_values(len(features), 5)
    first = k.apply(values)
    for channels in (40, 1):  # buffers are reused, larger and smaller
        k.apply(random_values(len(features), channels))
    np.testing.assert_array_equal(k.apply(values), first)
    np.testing.assert_array_equal(LatticeFilter(features).apply(values), first)


def test_several_python_threads_can_share_a_filter(features: np.ndarray) -> None:
    k = LatticeFilter(features, threads=2)
    inputs = [random_values(len(features), channels) for channels in (3, 21, 33, 8)]
    expected = [k.apply(values) for values in inputs]
    failures: list[str] = []

    def work(index: int) -> None:
        for _ in range(15):
            if not np.array_equal(k.apply(inputs[index]), expected[index]):
                failures.append(f"thread {index}")

    workers = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_other_python_threads_run_during_a_call(features: np.ndarray) -> None:
    k, values = LatticeFilter(features, threads=1), random_values(len(features), 300)
    ticks, done = 0, threading.Event()

    def call() -> None:
        for _ in range(3):
            k.apply(values)
        done.set()

    worker = threading.Thread(target=call)
    worker.start()
    while not done.wait(0.001):
        ticks += 1
    worker.join()
    assert ticks > 3  # with the GIL held, others would run between calls only


def test_filters_work_in_a_forked_process(features: np.ndarray) -> None:
    code = (
        "import os, sys, numpy as np, densefield\n"
        "x = np.random.default_rng(1).standard_normal((30000, 3)); v = np.ones((30000, 2), np.float32)\n"
        "k = densefield.filters.LatticeFilter(x, threads=2); expected = k.apply(v)\n"
        "child = os.fork()\n"
        "if child == 0: os._exit(0 if np.array_equal(k.apply(v), expected) else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    if not hasattr(__import__("os"), "fork"):
        pytest.skip("this system does not fork")
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


def test_values_need_not_be_contiguous(features: np.ndarray) -> None:
    k, values = LatticeFilter(features), random_values(len(features), 6)
    np.testing.assert_array_equal(k.apply(np.asfortranarray(values)), k.apply(values))
    np.testing.assert_array_equal(k.apply(values[:, ::2]), k.apply(values[:, ::2].copy()))


@pytest.mark.parametrize("offset", [2.0**14, 2.0**20, 2.0**26])
def test_float64_features_are_not_rounded(offset: float) -> None:
    """Far from the origin float32 would not tell these points apart."""
    near = np.round(np.random.default_rng(3).random((200, 2)) * 3 * 2**20) / 2**20  # exact with any of the offsets
    values = random_values(200, 1)
    far = LatticeFilter(near + offset)
    ratio = far.apply(np.ones_like(values)) / ExactFilter(near).apply(np.ones((200, 1)))
    assert ratio.mean() == pytest.approx(1, abs=0.03)
    assert np.abs(ratio - 1).max() < 0.3  # the worst points
    here = LatticeFilter(near)
    for derivative in ("gaussian", "lattice"):
        slopes = [k.gradients(values, values, derivative)[1] for k in (far, here)]  # type: ignore[arg-type]
        cosine = (slopes[0] * slopes[1]).sum() / np.linalg.norm(slopes[0]) / np.linalg.norm(slopes[1])
        assert cosine > 0.5  # the lattice is shifted, so they differ somewhat


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e5, 1e6, 5e6])
def test_points_at_the_largest_distance_of_keys_are_filtered_correctly(scale: float) -> None:
    """Pairs of close points at large distances."""
    rng = np.random.default_rng(8)
    centres = np.round(rng.uniform(-1, 1, (300, 2)) * scale) * 8
    features = np.concatenate([centres, centres + 0.25])
    dense = ExactFilter(features).apply(np.ones((600, 1)))
    ones = LatticeFilter(features).apply(np.ones((600, 1), np.float32))
    assert (ones / dense).mean() == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("offset", [1e5, 1e6])
def test_single_precision_embeds_correctly_up_to_its_limit(offset: float) -> None:
    features = (np.random.default_rng(9).standard_normal((2000, 2)) + offset).astype(np.float32)
    ones = LatticeFilter(features, operator="pydensecrf").apply(np.ones((2000, 1), np.float32))
    assert ones.min() > 0
    assert ones.max() < 2100


@pytest.mark.parametrize("offset", [1e7, 1e8, 1e9])
def test_single_precision_raises_beyond_its_limit(offset: float) -> None:
    features = (np.random.default_rng(9).standard_normal((2000, 2)) + offset).astype(np.float32)
    with pytest.raises(InputError, match="larger widths"):
        LatticeFilter(features, operator="pydensecrf")


@pytest.mark.parametrize("dimension", [1, 2, 5, 16])
@pytest.mark.parametrize("span", [1e9, 1e12, 1e30, 1e300])
def test_widths_that_overflow_keys_raise(dimension: int, span: float) -> None:
    features = np.random.default_rng(4).random((50, dimension)) * span
    with pytest.raises(InputError, match=r"larger widths|NaN or infinity"):
        LatticeFilter(features)
    if span < 1e38:
        with pytest.raises(InputError, match=r"larger widths|NaN or infinity"):
            LatticeFilter(features.astype(np.float32), operator="pydensecrf")


def test_keys_hold_more_than_16_bits() -> None:
    # A 1e5-pixel line at a width of one pixel: 2e5 lattice cells, where 16-bit keys overflow.
    line = np.arange(100_000, dtype=np.float64)[:, None]
    ones = LatticeFilter(line).apply(np.ones((100_000, 1), np.float32))
    ratio = ones[10:-10] / np.sqrt(2 * np.pi)
    assert ratio.mean() == pytest.approx(1, abs=0.01)
    assert np.abs(ratio - 1).max() < 0.06  # sparse points show the position of vertices: 5 %


def test_sixteen_dimensions_may_span_many_widths() -> None:
    features = np.random.default_rng(6).random((300, 16)) * 150
    k = LatticeFilter(features)
    assert np.count_nonzero(k.to_dense()) == 300  # so distant that points do not interact


@pytest.mark.parametrize("features", [np.zeros((4, 2), int), np.zeros((4, 2), np.float16), np.zeros((4, 2), complex)])
def test_features_of_another_dtype_raise(features: np.ndarray) -> None:
    with pytest.raises(InputTypeError, match="float32 or float64"):
        LatticeFilter(features)  # type: ignore[arg-type]


def test_features_that_are_no_array_raise() -> None:
    with pytest.raises(InputTypeError, match="list"):
        LatticeFilter([[0.0, 0.0]])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"operator": "gauss"}, InputError, "symmetric, pydensecrf"),
        ({"halo": -1}, InputError, "from 0 to 8"),
        ({"halo": 9}, InputError, "from 0 to 8"),
        ({"halo": 1.5}, InputError, "integer"),
        ({"threads": 0}, InputError, "1 to"),
        ({"simd": "mmx"}, InputError, "this processor runs"),
    ],
)
def test_invalid_options_raise(options: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        LatticeFilter(np.zeros((3, 2)), **options)  # type: ignore[arg-type]


def test_an_unknown_derivative_raises() -> None:
    values = np.zeros((5, 3), np.float32)
    with pytest.raises(InputError, match="gaussian, lattice"):
        LatticeFilter(np.zeros((5, 2))).gradients(values, values, "finite")  # type: ignore[arg-type]


def test_a_large_dense_matrix_raises() -> None:
    with pytest.raises(InputError, match="20000"):
        LatticeFilter(np.zeros((20_001, 1))).to_dense()


def test_native_code_checks_its_arguments() -> None:
    """Direct calls of the core raise instead of crashing."""
    points, values = np.zeros((4, 2)), np.zeros((1, 4, 3), np.float32)
    good = (points, [1.0, 1.0], [0, 1, 2], [0.5] * 3, False, 0, 1, "auto")
    lattice = _core.Lattice(*good)
    wrong_builds = [(0, np.zeros((4, 17))), (1, [1.0]), (2, [0, 1, 3]), (3, [0.5]), (5, -1), (6, 0), (7, "mmx")]
    for position, argument in wrong_builds:
        with pytest.raises(ValueError, match=r"."):
            _core.Lattice(*good[:position], argument, *good[position + 1 :])  # type: ignore[arg-type]
    other = np.zeros((1, 5, 3), np.float32)
    for call in (
        lambda: lattice.apply(other, other.copy(), False, 1.0, 1),
        lambda: lattice.apply(values, other, False, 1.0, 1),
        lambda: lattice.apply(values, values.copy(), False, 1.0, 0),
        lambda: lattice.gradients(values, other, values.copy(), np.zeros((4, 2), np.float32), 1.0, 1),
        lambda: lattice.gradients(values, values, values.copy(), np.zeros((4, 3), np.float32), 1.0, 1),
        lambda: lattice.diagonal(np.zeros(3, np.float32), 1.0, 1),
        lambda: lattice.calibrated_magnitude(0),
    ):
        with pytest.raises(ValueError, match=r"."):
            call()
    empty = np.zeros((1, 4, 0), np.float32)
    assert lattice.time_phases(empty, empty.copy(), 1) == [0, 0, 0]


def test_a_million_points_stay_within_4_gb() -> None:
    code = (
        "import resource, sys, numpy as np, densefield\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from test_lattice import photo_like, random_values\n"
        "features = photo_like(1000, 1000)\n"
        "out = densefield.filters.LatticeFilter(features).apply(random_values(len(features), 21))\n"
        "assert out.shape == (1000000, 21) and np.isfinite(out).all()\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    if sys.platform != "linux":
        pytest.skip("peak memory is in other units here")
    here = __file__.rpartition("/")[0]
    answer = subprocess.run([sys.executable, "-c", code, here], check=True, capture_output=True, text=True, timeout=300)
    assert int(answer.stdout) < 4 * 2**20  # kilobytes
