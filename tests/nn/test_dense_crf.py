"""DenseCRF equals the NumPy CRF, takes every form of input, and has named parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from densefield import CRF, Bilateral, Custom, InputError, Spatial
from densefield.crf import features as sites

torch = pytest.importorskip("torch")
from densefield import DenseCRF  # noqa: E402
from densefield.nn import reference as reference_torch  # noqa: E402

PHOTO = (Spatial(3, weight=3), Bilateral(60, 10, weight=5))


def random(*shape: int, seed: int = 4669) -> Any:
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape), dtype=torch.float32)


def colours(*shape: int, seed: int = 201) -> Any:
    return torch.tensor(np.random.default_rng(seed).uniform(0, 255, shape), dtype=torch.float32)


def every_kind_of_kernel(labels: int) -> list[Any]:
    mixing = np.random.default_rng(37).standard_normal((labels, labels))
    return [
        Spatial(2.5, weight=2),
        Spatial(covariance=[[30.0, 8.0], [8.0, 12.0]], weight=(mixing + mixing.T) / 2, normalization="after"),
        Bilateral([8, 6], [60, 50, 40], weight=[1.0, 2.0, 0.5][:labels], normalization="before"),
        Custom(feature="depth", sigma=[0.5, 0.7], weight=1.5, normalization="none"),
    ]


def channels_last(tensor: Any) -> Any:
    return np.moveaxis(tensor.numpy(), 0, -1)


@pytest.mark.parametrize(("method", "dtype", "tolerance"), [("exact", "float64", 1e-10), ("lattice", "float32", 1e-4)])
def test_it_agrees_with_the_numpy_crf(method: Any, dtype: str, tolerance: float) -> None:
    """Float32 log marginals of some tens change by about 1e-5 through rounding."""
    crf = DenseCRF(3, every_kind_of_kernel(3), method=method, iterations=4)
    for parameter in crf.parameters():  # away from the initial values
        parameter.data += 0.1 * random(*parameter.shape)
    scores, image = random(2, 3, 9, 11).to(getattr(torch, dtype)), colours(2, 3, 9, 11)
    depth, ignore = random(2, 2, 9, 11, seed=5), random(2, 9, 11, seed=6) > 1
    found = crf(scores, image, features={"depth": depth}, ignore=ignore).detach().numpy()
    assert found.dtype == dtype
    twin = crf.to_numpy()
    for index in range(2):
        expected = twin.solve(
            scores[index].numpy(),
            channels_last(image[index]),
            features={"depth": channels_last(depth[index])},
            ignore=ignore[index].numpy(),
        ).log_marginals
        assert np.allclose(found[index], expected, rtol=0, atol=tolerance)


def test_to_numpy_returns_the_initial_kernels() -> None:
    kernels = every_kind_of_kernel(3)
    back = DenseCRF(3, kernels, iterations=7, exclude_self=True, halo=1).double().to_numpy()
    dimensions = {"position": 2, "channel": 3, "depth": 2}
    for before, after in zip(kernels, back.kernels, strict=True):
        assert type(before) is type(after) and before.normalization == after.normalization
        # Parameters are created in float32.
        assert np.allclose(before.shape(dimensions), after.shape(dimensions), rtol=1e-6, atol=1e-7)
        assert np.allclose(before.weight, after.weight, rtol=1e-6)
    assert back.options.iterations == 7 and back.options.exclude_self
    assert isinstance(back, CRF)


def test_the_default_has_the_nine_parameters_of_the_paper() -> None:
    crf = DenseCRF(21)
    assert {name: tuple(p.shape) for name, p in crf.named_parameters()} == {
        "spatial.log_sigma": (2,),
        "spatial.log_weight": (),
        "bilateral.log_sigma": (5,),
        "bilateral.log_weight": (),
    }
    assert sum(parameter.numel() for parameter in crf.parameters()) == 9


def test_values_are_in_pixels_and_colour_levels() -> None:
    values = DenseCRF(3, every_kind_of_kernel(3)).values()
    assert list(values) == [
        "spatial.sigma",
        "spatial.weight",
        "spatial2.covariance",
        "spatial2.weight",
        "bilateral.sigma",
        "bilateral.weight",
        "depth.sigma",
        "depth.weight",
    ]
    assert values["spatial.weight"] == pytest.approx(2, rel=1e-6)
    assert np.allclose(values["spatial2.covariance"], [[30, 8], [8, 12]], rtol=1e-5)
    assert np.allclose(values["bilateral.sigma"], [8, 6, 60, 50, 40], rtol=1e-5)
    assert np.shape(values["spatial2.weight"]) == (3, 3)


def test_every_parameter_and_input_gets_a_gradient_in_its_own_dtype() -> None:
    crf = DenseCRF(3, every_kind_of_kernel(3))
    scores = random(1, 3, 6, 7).bfloat16().requires_grad_()
    image, depth = colours(1, 3, 6, 7).double().requires_grad_(), random(1, 2, 6, 7).half().requires_grad_()
    log_q = crf(scores, image, features={"depth": depth})
    assert log_q.dtype == torch.float32
    (log_q * random(1, 3, 6, 7, seed=9)).sum().backward()
    for name, leaf in {"scores": scores, "image": image, "depth": depth, **dict(crf.named_parameters())}.items():
        assert leaf.grad is not None and leaf.grad.dtype == leaf.dtype, name
        assert bool(leaf.grad.isfinite().all()) and float(leaf.grad.abs().max()) > 0, name


def test_gradients_of_the_parameters_match_finite_differences() -> None:
    crf = DenseCRF(3, every_kind_of_kernel(3), method="exact", iterations=2).double()
    scores, image, depth = random(1, 3, 2, 3).double(), colours(1, 3, 2, 3).double(), random(1, 2, 2, 3).double()
    names, leaves = zip(*crf.named_parameters(), strict=True)

    def loss(*values: Any) -> Any:
        log_q = torch.func.functional_call(
            crf, dict(zip(names, values, strict=True)), (scores, image), {"features": {"depth": depth}}
        )
        return (log_q * random(1, 3, 2, 3, seed=12)).sum()

    assert torch.autograd.gradcheck(loss, leaves)


def test_uint8_images_are_accepted() -> None:
    crf = DenseCRF(3)
    image = colours(1, 3, 5, 6).round()
    assert torch.equal(crf(random(1, 3, 5, 6), image), crf(random(1, 3, 5, 6), image.to(torch.uint8)))


def test_items_of_different_sizes_equal_single_items() -> None:
    crf = DenseCRF(2, [*PHOTO, Custom(feature="depth", sigma=1)])
    sizes = [(4, 5), (7, 3), (1, 1)]
    scores = [random(2, *size).requires_grad_() for size in sizes]
    images, depths = [colours(3, *size) for size in sizes], [random(1, *size, seed=8) for size in sizes]
    ignores = [random(*size, seed=3) > 1 for size in sizes]
    found = crf(scores, images, features={"depth": depths}, ignore=ignores)
    assert isinstance(found, list)
    for f, image, depth, ignore, log_q in zip(scores, images, depths, ignores, found, strict=True):
        alone = crf(f[None], image[None], features={"depth": depth[None]}, ignore=ignore[None])
        assert torch.equal(log_q, alone[0])
    sum(log_q[0].sum() for log_q in found).backward()
    assert all(f.grad is not None for f in scores)


def test_an_image_with_batch_size_1_is_shared_by_the_batch() -> None:
    crf = DenseCRF(2)
    scores, image = random(3, 2, 4, 5), colours(1, 3, 4, 5)
    assert torch.equal(crf(scores, image), crf(scores, image.expand(3, -1, -1, -1)))


def test_ignored_pixels_keep_their_scores_and_have_no_effect() -> None:
    crf = DenseCRF(2)
    scores, image = random(1, 2, 5, 6), colours(1, 3, 5, 6)
    ignore = torch.zeros(1, 5, 6, dtype=torch.bool)
    ignore[..., 4:] = True
    log_q = crf(scores, image, ignore=ignore)
    assert torch.allclose(log_q[..., 4:], scores.log_softmax(1)[..., 4:], rtol=1e-6)
    changed = scores.clone()
    changed[..., 4:] += 5 * random(1, 2, 5, 2, seed=3)
    assert torch.equal(crf(changed, image, ignore=ignore)[..., :4], log_q[..., :4])


def test_volumes_have_a_spacing() -> None:
    kernels = [Spatial(2, weight=2), Bilateral([4, 4, 2], 50, weight=3)]
    crf = DenseCRF(3, kernels, axes=3, channels=1)
    scores, image = random(1, 3, 3, 4, 5), colours(1, 1, 3, 4, 5)
    found = crf(scores, image, spacing=(0.7, 0.7, 2.5)).detach().numpy()
    expected = crf.to_numpy().solve(scores[0].numpy(), channels_last(image[0]), spacing=(0.7, 0.7, 2.5))
    assert np.allclose(found[0], expected.log_marginals, atol=1e-5)
    assert not np.allclose(found, crf(scores, image).detach().numpy(), atol=1e-3)


def test_point_clouds_have_custom_features() -> None:
    crf = DenseCRF(4, [Custom(feature="xyz", sigma=[0.5, 0.5, 0.5], weight=2)])
    scores, xyz = random(2, 4, 50), random(2, 3, 50, seed=3)
    found = crf(scores, features={"xyz": xyz}).detach().numpy()
    expected = crf.to_numpy().solve(scores[1].numpy(), features={"xyz": xyz[1].numpy().T}).log_marginals
    assert np.allclose(found[1], expected, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_results_do_not_depend_on_the_origin_of_points(dtype: Any) -> None:
    """Integers of nine digits, where float32 has seven; gradients reach them."""
    place = torch.as_tensor(np.random.default_rng(71).integers(0, 50, (1, 2, 40)))
    crf = DenseCRF(3, [Custom("place", (4.0, 4.0), weight=3)])
    found = []
    for far in (0, 500_000_000):
        given = (place + far).to(dtype)
        if dtype == torch.float64:
            given.requires_grad_()
        log_q = crf(random(1, 3, 40), features={"place": given})
        log_q[0, 0].sum().backward()
        found.append((log_q.detach(), given.grad))
    assert (found[0][0] == found[1][0]).all()
    if dtype == torch.float64:
        assert (found[0][1] == found[1][1]).all() and found[0][1].abs().max() > 0


@pytest.mark.parametrize(("shape", "spacing"), [((5,), None), ((3, 4), (0.7, 1.3)), ((2, 3, 4), (0.1, 0.2, 3.3))])
@pytest.mark.parametrize("order", ["xy", "yx"])
def test_positions_equal_those_of_the_numpy_crf(shape: Any, spacing: Any, order: Any) -> None:
    expected = sites.grid_positions(shape, spacing, order)
    assert np.array_equal(reference_torch.grid_positions(shape, spacing, order)[0].flatten(1).T.numpy(), expected)


def test_the_filter_of_positions_is_cached_unless_its_widths_are_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    crf = DenseCRF(3, [Spatial(2.75)])
    scores = random(1, 3, 14, 5)
    first = crf(scores).detach()
    with torch.no_grad():
        assert torch.equal(crf(scores), first)
    monkeypatch.setattr("densefield.crf.pairwise.LatticeFilter", lambda *_, **__: pytest.fail("built again"))
    with torch.no_grad():
        assert torch.equal(crf(scores), first)
    assert torch.equal(crf.freeze("*.log_sigma")(scores), first)
    assert torch.equal(torch.from_numpy(crf.to_numpy().solve(scores[0].numpy()).log_marginals), first[0])
    with pytest.raises(pytest.fail.Exception, match="built again"):
        crf.unfreeze("*")(scores)


def test_parameters_are_frozen_by_name() -> None:
    crf = DenseCRF(2, [*PHOTO, Spatial(9, weight=1)])

    def learning() -> set[str]:
        return {name for name, parameter in crf.named_parameters() if parameter.requires_grad}

    assert crf.freeze("*") is crf
    assert learning() == set()
    assert crf.unfreeze("bilateral.*", "spatial2.log_weight") is crf
    assert learning() == {"bilateral.log_sigma", "bilateral.log_weight", "spatial2.log_weight"}
    crf.freeze("*.log_sigma")
    assert learning() == {"bilateral.log_weight", "spatial2.log_weight"}
    crf(random(1, 2, 3, 4), colours(1, 3, 3, 4))[0, 0].sum().backward()
    assert crf.bilateral.log_sigma.grad is None and crf.bilateral.log_weight.grad is not None


@pytest.mark.parametrize("patterns", [("bilateral.sigma",), ("*", "colour.*"), ()])
def test_an_unknown_name_raises_and_lists_the_known_names(patterns: tuple[str, ...]) -> None:
    crf = DenseCRF(2)
    with pytest.raises(InputError, match=r"no parameter is called .*spatial\.log_sigma, spatial\.log_weight"):
        crf.freeze(*patterns)
    assert all(parameter.requires_grad for parameter in crf.parameters())
    with pytest.raises(InputError, match=r"called 'spatial\.sigma', .* Did you mean 'spatial\.log_sigma'\?"):
        crf.freeze("spatial.sigma")


def test_the_repr_has_classes_iterations_changed_options_and_kernels() -> None:
    kernels = [
        Spatial([3, 2.5], weight=np.linspace(1, 3, 21)),
        Bilateral(60, 10, weight=np.eye(21), normalization="after"),
        Spatial(covariance=[[30.0, 8.0], [8.0, 12.0]]),
        Custom(feature="depth", sigma=[0.5, 0.7], weight=1.5, normalization="none"),
    ]
    crf = DenseCRF(21, kernels, iterations=3, adjoint="recompute", threads=2, data_range=1)
    assert repr(crf).splitlines() == [
        "DenseCRF(",
        "  num_classes=21, iterations=3, threads=2, data_range=1.0, adjoint='recompute'",
        "  spatial: sigma (3, 2.5), weight 21 from 1 to 3, symmetric",
        "  bilateral: sigma_xy 60, sigma_rgb 10, weight 21×21 from 0 to 1, after",
        "  spatial2: covariance 2×2 from 8 to 30, weight 1, symmetric",
        "  depth: sigma (0.5, 0.7), weight 1.5, none",
        ")",
    ]
    crf.bilateral.log_sigma.data[:2] += 1
    assert "  bilateral: sigma_xy 163.1, sigma_rgb 10" in repr(torch.nn.Sequential(crf))  # the current value


SNIPPET = """
import torch
from densefield import DenseCRF
crf = DenseCRF(2)
scores, image = torch.zeros(1, 2, 4, 5), torch.zeros(1, 3, 4, 5)
reveal_type(crf(scores, image))
reveal_type(crf([scores[0]], [image[0]], ignore=[image[0, 0] > 0]))
"""


def test_type_checkers_know_what_it_returns(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    file = tmp_path / "snippet.py"
    file.write_text(SNIPPET, encoding="utf-8")
    checkout = Path(__file__).parents[2]  # use its mypy cache, so that torch is not analysed each time
    settings = ["--config-file", str(checkout / "pyproject.toml"), "--cache-dir", str(checkout / ".mypy_cache")]
    told, _, code = api.run([*settings, "--strict", str(file)])
    shown = [line.rpartition("note: ")[2] for line in told.splitlines() if "Revealed type" in line]
    assert code == 0, told
    assert shown == ['Revealed type is "torch._tensor.Tensor"', 'Revealed type is "list[torch._tensor.Tensor]"']


def test_no_pixels_and_no_items_are_accepted() -> None:
    crf = DenseCRF(2)
    assert crf(random(0, 2, 4, 5), colours(0, 3, 4, 5)).shape == (0, 2, 4, 5)
    assert crf(random(1, 2, 0, 5), colours(1, 3, 0, 5)).shape == (1, 2, 0, 5)
    assert crf([], []) == []


def test_log_marginals_are_contiguous() -> None:
    """nll_loss on images needs contiguous gradients."""
    log_q = DenseCRF(2)(random(1, 2, 4, 5), colours(1, 3, 4, 5))
    assert log_q.is_contiguous()
    torch.nn.functional.nll_loss(log_q, torch.zeros(1, 4, 5, dtype=torch.long)).backward()
