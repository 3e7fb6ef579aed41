"""DenseCRF by native code and by torch operations, on the CPU and on a pretended device: the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from densefield import Bilateral, Custom, Spatial
from densefield.errors import InputError

torch = pytest.importorskip("torch")
from densefield import DenseCRF  # noqa: E402
from densefield.nn import hand_over  # noqa: E402
from tests.support.pretend_device import DEVICE, PretendDevice, pretend, pretend_module, values  # noqa: E402

B, L, H, W = 3, 3, 14, 17
MATRIX = np.array([[2.0, -0.5, 0.0], [-0.5, 1.0, 0.2], [0.0, 0.2, 3.0]])
KERNELS = {
    "photo": (Spatial(3, weight=3), Bilateral(9, 40, weight=5)),
    "covariance, matrix": (
        Spatial(covariance=[[9.0, 2.0], [2.0, 6.0]], weight=MATRIX),
        Bilateral(9, 40, weight=[1.0, 2.0, 3.0], normalization="after"),
    ),
    "before, none": (Spatial(2, weight=2, normalization="before"), Bilateral(4, 60, weight=0.2, normalization="none")),
}
# Both are in float32, and log marginals are below 20. Measured: 3e-7 of the largest log marginal.
MARGINALS = 2e-6
# Gradients of widths and colours are differences of sums. Measured: 4e-5 of the largest.
GRADIENTS = 2e-4


def images(seed: int = 733) -> tuple[Any, Any, Any]:
    """Scores, different images with an edge and noise, and some ignored pixels, all of the first row of the first."""
    rng = np.random.default_rng(seed)
    side = np.arange(W) > np.array([5, 8, 11])[:, None, None]  # (B, 1, W)
    colour = 90 + 80 * side[:, None] * np.array([1.0, 0.3, -0.5])[:, None, None] + np.zeros((B, 3, H, W))
    colour = np.clip(colour + rng.normal(0, 9, (B, 3, H, W)), 0, 255)
    scores = 2 * rng.standard_normal((B, L, H, W))
    ignore = rng.random((B, H, W)) < 0.15
    ignore[0, 0] = True
    return torch.tensor(scores).float(), torch.tensor(colour).float(), torch.tensor(ignore)


def run(crf: Any, scores: Any, image: Any, on_device: bool = False, **options: Any) -> dict[str, Any]:
    """Log marginals, and gradients of a random combination by scores, image and all parameters."""
    place: Callable[[Any], Any] = pretend if on_device else lambda tensor: tensor.clone()
    read: Callable[[Any], Any] = values if on_device else lambda tensor: tensor
    if on_device:
        pretend_module(crf)
    f, photo = place(scores).requires_grad_(), place(image).requires_grad_()
    moved = {name: place(each) if isinstance(each, torch.Tensor) else each for name, each in options.items()}
    if "features" in moved:
        moved["features"] = {name: place(each) for name, each in moved["features"].items()}
    cotangent = place(torch.tensor(np.random.default_rng(29).standard_normal(scores.shape), dtype=torch.float32))
    log_q = crf(f, photo, **moved)
    log_q.backward(cotangent)
    slopes = {name: read(parameter.grad) for name, parameter in crf.named_parameters()}
    return {"log_q": read(log_q.detach()), "scores": read(f.grad), "image": read(photo.grad), **slopes}


def assert_close(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, one in found.items():
        tolerance = MARGINALS if name in ("log_q", "scores") else GRADIENTS
        assert one.dtype == expected[name].dtype and one.shape == expected[name].shape, name
        assert float((one - expected[name]).abs().max() / expected[name].abs().max()) < tolerance, name


@pytest.mark.parametrize("adjoint", ["store", "recompute"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kernels", KERNELS)
def test_both_backends_give_the_same_marginals_and_gradients(kernels: str, masked: bool, adjoint: Any) -> None:
    scores, image, ignore = images()
    options = {"ignore": ignore} if masked else {}
    found = [
        run(DenseCRF(L, KERNELS[kernels], backend=backend, adjoint=adjoint), scores, image, **options)
        for backend in ("torch", "native")
    ]
    assert_close(*found)


@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kernels", KERNELS)
def test_another_device_gives_the_numbers_of_the_cpu_and_gradients_on_the_device(
    kernels: str, masked: bool, backend: Any
) -> None:
    scores, image, ignore = images()
    options = {"ignore": ignore} if masked else {}
    expected = run(DenseCRF(L, KERNELS[kernels], backend=backend), scores, image, **options)
    with PretendDevice():
        found = run(DenseCRF(L, KERNELS[kernels], backend=backend), scores, image, on_device=True, **options)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_features_spacing_and_exclude_self_on_another_device(backend: Any) -> None:
    scores, image, _ = images()
    kernels = Spatial(2, weight=2), Custom("depth", 0.5, weight=3)
    depth = torch.tensor(np.random.default_rng(5).standard_normal((1, 1, H, W)), dtype=torch.float32)
    options: Any = {"features": {"depth": depth}, "spacing": (1.0, 2.0)}

    def run_both(on_device: bool) -> dict[str, Any]:
        crf = DenseCRF(L, [*kernels, Bilateral(5, 40)], backend=backend, exclude_self=True, iterations=2)
        return run(crf, scores, image, on_device, **options)

    expected = run_both(False)
    with PretendDevice():
        found = run_both(True)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_a_list_of_images_on_another_device(backend: Any) -> None:
    scores, image, _ = images()
    sizes = (H, W), (9, 11)
    crf = DenseCRF(L, backend=backend)
    lists = [[each[0, :, :h, :w] for h, w in sizes] for each in (scores, image)]
    expected = crf(*lists)
    with PretendDevice(), torch.no_grad():
        found = pretend_module(crf)(*([pretend(each) for each in group] for group in lists))
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(values(one), other)


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_bytes_and_half_precision_on_another_device(backend: Any) -> None:
    scores, image, _ = images()
    f, photo = scores.bfloat16(), image.byte()
    crf = DenseCRF(L, backend=backend)
    expected = crf(f, photo).detach()
    with PretendDevice():
        half = pretend(f).requires_grad_()
        log_q = pretend_module(crf)(half, pretend(photo))
        log_q.sum().backward()
    assert log_q.dtype == torch.float32 and torch.equal(values(log_q.detach()), expected)
    assert values(half.grad).dtype == torch.bfloat16


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_autocast_changes_neither_marginals_nor_gradients(backend: Any) -> None:
    """Products with matrices of weights would be rounded to bfloat16, in the backward pass too."""
    scores, image, _ = images()
    plain = run(DenseCRF(L, KERNELS["covariance, matrix"], backend=backend), scores, image)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = run(DenseCRF(L, KERNELS["covariance, matrix"], backend=backend), scores, image)
    assert_close(cast, plain)


def test_double_precision_on_another_device_is_computed_there() -> None:
    scores, image, _ = images()
    crf = DenseCRF(L)
    expected = crf(scores.double(), image).detach()
    with PretendDevice(), torch.no_grad():
        found = pretend_module(crf)(pretend(scores.double()), pretend(image))
    assert found.dtype == torch.float64 and torch.equal(values(found), expected)


def test_frozen_parameters_have_no_gradient_on_another_device() -> None:
    scores, image, _ = images()
    with PretendDevice():
        crf = pretend_module(DenseCRF(L).freeze("*.log_sigma"))
        crf(pretend(scores), pretend(image)).sum().backward()
    assert {name for name, each in crf.named_parameters() if each.grad is None} == {
        "spatial.log_sigma",
        "bilateral.log_sigma",
    }


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_second_derivatives_are_an_error_on_another_device(backend: Any) -> None:
    scores, image, _ = images()
    with PretendDevice():
        crf, f = pretend_module(DenseCRF(L, backend=backend)), pretend(scores).requires_grad_()
        (slope,) = torch.autograd.grad(crf(f, pretend(image)).square().sum(), f, create_graph=True)
        with pytest.raises(NotImplementedError, match="densefield has no second derivatives"):
            torch.autograd.grad(slope.sum(), f)


def test_native_code_computes_unless_torch_operations_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    for name in ("native_op", "_batched", "_reference"):
        function = getattr(__import__("densefield.nn.backends", fromlist=[name]), name)

        def noting(*arguments: Any, name: str = name, function: Any = function, **options: Any) -> Any:
            used.append(name)
            return function(*arguments, **options)

        monkeypatch.setattr(f"densefield.nn.backends.{name}", noting)
    scores, image, _ = images()
    DenseCRF(L)(scores, image)
    DenseCRF(L, backend="torch")(scores, image)
    DenseCRF(L)(scores.double(), image)
    DenseCRF(L, method="exact")(scores, image)
    DenseCRF(L, method="exact", backend="torch")(scores, image)
    assert used == ["native_op", "_batched", "_batched", "_reference", "_reference"]


@pytest.mark.parametrize("direction", ["to the CPU", "to the device"])
def test_devices_with_page_locked_memory_copy_through_it(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is in a machine without a GPU, so both are noted and left out here."""
    events: list[str] = []
    empty, to = torch.empty, torch.Tensor.to

    class Stream:
        def synchronize(self) -> None:
            events.append("synchronize")

    def unpinned(*arguments: Any, pin_memory: bool = False, **options: Any) -> Any:
        events.append(f"buffer, pinned: {pin_memory}")
        return empty(*arguments, **options)

    def pinned(tensor: Any) -> Any:
        events.append("pin")
        return tensor

    def noting(tensor: Any, *arguments: Any, **options: Any) -> Any:
        events.append(f"copy, waits: {not options.get('non_blocking', False)}")
        return to(tensor, *arguments, **options)

    monkeypatch.setattr(hand_over, "_PINNED", (DEVICE.type,))
    monkeypatch.setattr(torch, DEVICE.type, type("Module", (), {"current_stream": lambda _: Stream()}), raising=False)
    monkeypatch.setattr(torch, "empty", unpinned)
    monkeypatch.setattr(torch.Tensor, "pin_memory", pinned)
    with PretendDevice():
        if direction == "to the CPU":
            (found,) = hand_over.copied([pretend(torch.arange(3.0))], torch.device("cpu"))
            assert events == ["buffer, pinned: True", "synchronize"]
            assert found.tolist() == [0.0, 1.0, 2.0] and found.device.type == "cpu"
        else:
            monkeypatch.setattr(torch.Tensor, "to", noting)
            (found,) = hand_over.copied([torch.arange(3.0)], DEVICE)
            assert events == ["pin", "copy, waits: False"]
            assert values(found).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("adjoint", ["store", "recompute"])
def test_the_exact_filter_passes_gradcheck_in_double_precision(adjoint: Any) -> None:
    crf = DenseCRF(L, KERNELS["covariance, matrix"], method="exact", backend="torch", adjoint=adjoint, iterations=2)
    crf = crf.double()
    scores, image, ignore = (each[:2, ..., :3, :3] for each in images())
    leaves = [scores.double().requires_grad_(), image.double().requires_grad_()]
    weights = torch.tensor(np.random.default_rng(3).standard_normal((2, *scores.shape)))

    def projected(f: Any, photo: Any, *_: Any) -> Any:
        return (crf(f, photo, ignore=ignore) * weights).sum((1, 2, 3, 4))

    assert torch.autograd.gradcheck(projected, (*leaves, *crf.parameters()))


def test_an_unknown_backend_is_an_error() -> None:
    with pytest.raises(InputError, match="backend is 'cuda', expected one of native, torch"):
        DenseCRF(2, backend="cuda")  # type: ignore[arg-type]


def test_the_backend_is_kept_by_conversions_and_shown() -> None:
    crf = DenseCRF.from_numpy(DenseCRF(2).to_numpy(), 2, backend="torch")
    assert crf.backend == "torch" and "backend='torch'" in repr(crf)
    assert "backend" not in repr(DenseCRF(2))
