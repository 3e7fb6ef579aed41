"""Images of DenseCRF: colour range, alpha channel and axis order."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from densefield import CRF, Bilateral, Custom, InputError, InputTypeError, Spatial
from densefield.errors import InputWarning

torch = pytest.importorskip("torch")
from densefield import DenseCRF, Segmenter  # noqa: E402
from densefield.nn import dense_crf  # noqa: E402

KERNELS = (Spatial([2, 4], weight=2), Bilateral([9, 5], [50, 60, 70], weight=3))


def random(*shape: int, seed: int = 2111) -> Any:
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape), dtype=torch.float32)


def photo(*shape: int, seed: int = 201) -> Any:
    return torch.tensor(np.random.default_rng(seed).integers(0, 256, shape), dtype=torch.uint8)


SCORES, PHOTO = random(1, 3, 9, 11), photo(1, 3, 9, 11)
MEAN, DEVIATION = torch.tensor([123.7, 116.3, 103.5]), torch.tensor([58.4, 57.1, 57.4])
NORMALISED = (PHOTO - MEAN[:, None, None]) / DEVIATION[:, None, None]


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (PHOTO / 255, r"from 0 to 0\.9\d+, which looks like colours from 0 to 1, but sigma_rgb = 10 .*data_range=1"),
        ((PHOTO / 255).double(), "which looks like colours from 0 to 1"),
        ((PHOTO / 255).half(), "which looks like colours from 0 to 1"),
        (PHOTO.float() * 257, r"more than 8 bits.*data_range=65535"),
        (PHOTO.int() * 257, r"more than 8 bits.*data_range=65535"),
        (NORMALISED, "looks like a network's normalised input"),
    ],
)
def test_colours_outside_0_to_255_give_one_warning_at_the_users_line(image: Any, message: str) -> None:
    crf = DenseCRF(3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for factor in (1.0, 0.9):  # another image, whose warning would differ
            crf(SCORES, image if factor == 1 else (image * factor).to(image))
    (warning,) = caught
    assert warning.category is InputWarning and warning.filename == __file__
    with pytest.warns(InputWarning, match=message):
        DenseCRF(3)([SCORES[0]], [image[0]])


class Network(torch.nn.Module):
    """A network that passes its normalised input to the CRF."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.crf = torch.nn.Conv2d(3, 3, 1), DenseCRF(3)

    def forward(self, image: Any) -> Any:
        return self.crf(self.convolution(image), image)


def test_in_a_network_the_warning_names_the_line_that_calls_the_crf() -> None:
    with pytest.warns(InputWarning) as caught:
        Network()(NORMALISED)
    code = Network.forward.__code__
    assert caught[0].filename == __file__
    assert code.co_firstlineno < caught[0].lineno <= code.co_firstlineno + 1


@pytest.mark.parametrize(
    ("crf", "image"),
    [
        (DenseCRF(3), PHOTO),
        (DenseCRF(3), PHOTO.clamp(max=1)),  # uint8 images are not checked
        (DenseCRF(3), PHOTO.float()),
        (DenseCRF(3, [Spatial(3)]), PHOTO / 255),  # uses no colours
        (DenseCRF(3, [Bilateral(9, 0.1)]), PHOTO / 255),  # a width that fits
        (DenseCRF(3, data_range=1), PHOTO / 255),
        (DenseCRF(3, data_range=255), PHOTO / 255),
        (DenseCRF(3), torch.zeros(1, 3, 9, 11)),
        (Segmenter(torch.nn.Conv2d(3, 3, 1), DenseCRF(3)), None),
    ],
)
def test_other_images_give_no_warning(crf: Any, image: Any) -> None:
    """Warnings are errors here."""
    found = crf(PHOTO) if image is None else crf(SCORES, image)
    assert found.shape == SCORES.shape


def test_the_warning_uses_the_smallest_current_width() -> None:
    crf = DenseCRF(3, [Bilateral(9, [200, 200, 200]), Bilateral(9, [200, 0.5, 200])])
    assert crf(SCORES, PHOTO / 255).shape == SCORES.shape
    crf.bilateral2.log_sigma.data += 3
    with pytest.warns(InputWarning, match="sigma_rgb = 10.04 refers"):
        crf(SCORES, PHOTO / 255)


def test_compiled_modules_do_not_check_images() -> None:
    torch.compiler.reset()
    compiled = torch.compile(DenseCRF(3), backend="eager", fullgraph=True)
    assert compiled(SCORES, PHOTO / 255).shape == SCORES.shape
    torch.compiler.reset()


@pytest.mark.parametrize("data_range", [1.0, (1.0, 1.0, 1.0)])
@pytest.mark.parametrize("method", ["lattice", "exact"])
def test_a_range_of_1_equals_a_range_of_255(data_range: Any, method: Any) -> None:
    """Colours divided by 255 are rounded in float32, which changes lattice results of about 10 by 1e-5."""
    expected = DenseCRF(3, KERNELS, method=method)(SCORES, PHOTO)
    found = DenseCRF(3, KERNELS, method=method, data_range=data_range)(SCORES, PHOTO / 255)
    assert torch.allclose(found, expected, rtol=0, atol=1e-4)


def test_widths_and_their_gradients_stay_in_colour_levels() -> None:
    plain, ranged = (
        DenseCRF(3, KERNELS, method="exact").double(),
        DenseCRF(3, KERNELS, method="exact", data_range=[1, 2, 4]),
    )
    ranged.double()
    scale = torch.tensor([1, 2, 4.0]).reshape(3, 1, 1).double() / 255
    for crf, image in ((plain, PHOTO.double()), (ranged, PHOTO.double() * scale)):
        crf(SCORES.double(), image)[0, 0].sum().backward()
    assert ranged.values()["bilateral.sigma"].tolist() == [9, 5, 50, 60, 70]
    for (name, one), two in zip(plain.named_parameters(), ranged.parameters(), strict=True):
        assert torch.allclose(one.grad, two.grad, rtol=1e-9), name


@pytest.mark.parametrize("order", ["xy", "yx"])
@pytest.mark.parametrize("covariance", [False, True])
def test_axis_order_and_range_equal_the_numpy_crf(order: Any, covariance: bool) -> None:
    shape = np.diag([81.0, 25, 2500, 3600, 4900]) + 3
    kernels = [Spatial([2, 4], weight=2), Bilateral(covariance=shape, weight=3) if covariance else KERNELS[1]]
    crf = DenseCRF(3, kernels, axis_order=order, data_range=1)
    twin = crf.to_numpy()
    assert twin.options.axis_order == order and twin.options.data_range == 1
    image, spacing = (PHOTO / 255), (0.8, 1.5)
    found = crf(SCORES, image, spacing=spacing)[0].detach().numpy()
    solved = twin.solve(SCORES[0].numpy(), np.moveaxis(image[0].numpy(), 0, -1), spacing=spacing).log_marginals
    assert np.abs(found - solved).max() < 1e-5  # of numbers below 15, in float32
    other = DenseCRF(3, kernels, axis_order="yx" if order == "xy" else "xy", data_range=1)
    assert not torch.allclose(other(SCORES, image, spacing=spacing)[0], torch.tensor(found), atol=1e-2)


def test_from_numpy_and_back_is_the_same_crf() -> None:
    crf = CRF(KERNELS, iterations=7, exclude_self=True, halo=1, threads=1, data_range=[1, 1, 2], axis_order="yx")
    module = DenseCRF.from_numpy(crf, num_classes=3, adjoint="recompute")
    assert module.adjoint == "recompute" and module.to_numpy().options == crf.options
    for one, two in zip(module.to_numpy().kernels, crf.kernels, strict=True):
        dimensions = {"position": 2, "channel": 3}
        assert np.array_equal(one.shape(dimensions), two.shape(dimensions)) and one.weight == two.weight
    assert DenseCRF.from_numpy(CRF([Spatial(2)]), 2, channels=1, axes=3).spatial.log_sigma.shape == (3,)


def test_from_numpy_takes_only_a_crf() -> None:
    with pytest.raises(InputTypeError, match=r"crf is of type DenseCRF, expected a densefield\.CRF"):
        DenseCRF.from_numpy(DenseCRF(2), num_classes=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data_range": [1, 2]}, "data_range has 2 numbers, but images have 3 channels"),
        ({"data_range": -1}, "data_range is -1, expected a finite number above 0"),
        ({"axis_order": "rc"}, "axis_order is 'rc', expected one of xy, yx"),
    ],
)
def test_invalid_ranges_and_orders_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DenseCRF(3, **options)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_constant_alpha_channel_is_ignored(channels: int) -> None:
    crf = DenseCRF(3, [Spatial(2), Bilateral(9, 30, weight=3)], channels=channels)
    image = photo(2, channels, 9, 11)
    alpha = torch.full((2, 1, 9, 11), 255, dtype=torch.uint8)
    alpha[1] = 7  # differs between images
    scores = random(2, 3, 9, 11)
    assert torch.equal(crf(scores, torch.cat([image, alpha], 1)), crf(scores, image))
    alpha[0, 0, 4, 4] = 0
    with pytest.raises(InputError, match=f"has {channels + 1} channels, but its kernel has widths for {channels}"):
        crf(scores, torch.cat([image, alpha], 1))
    # For values from 0 to 1, alpha does not count for the range.
    with pytest.warns(InputWarning, match="colours from 0 to 1"):
        crf(scores, torch.cat([image / 255, torch.full((2, 1, 9, 11), 255.0)], 1))


def test_four_channels_with_widths_are_used() -> None:
    crf = DenseCRF(3, [Bilateral(9, [30, 40, 50, 60])], channels=4)
    assert crf(SCORES, photo(1, 4, 9, 11)).shape == SCORES.shape


def test_probabilities_passed_as_scores_give_one_warning():
    crf = DenseCRF(3)
    p = torch.rand(2, 3, 6, 7).softmax(1)
    image = torch.zeros(2, 3, 6, 7, dtype=torch.uint8)
    with pytest.warns(InputWarning, match="the scores are probabilities: they sum to one"):
        crf(p, image)
    crf(p, image)  # a second warning would be an error
    with pytest.warns(InputWarning, match="the scores are energies"):
        DenseCRF(3)(-p.log(), image)


@pytest.mark.parametrize("value", [float("nan"), -9999.0, 1e9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_of_ignored_pixels_have_no_effect(value, dtype):
    generator = torch.Generator().manual_seed(5501)
    scores = torch.randn(2, 3, 8, 9, generator=generator, dtype=dtype)
    image = torch.randint(256, (2, 3, 8, 9), generator=generator).to(dtype)
    ignore = torch.rand(2, 8, 9, generator=generator) < 0.3
    crf = DenseCRF(3)
    expected = crf(scores, image, ignore=ignore)
    image = image.masked_fill(ignore[:, None], value).requires_grad_()
    found = crf(scores, image, ignore=ignore)
    assert torch.equal(found, expected)
    found.square().sum().backward()
    assert image.grad.isfinite().all() and not image.grad[ignore[:, None].expand_as(image)].any()


def test_a_module_whose_parameters_are_not_numbers_can_be_printed():
    crf = DenseCRF(2)
    with torch.no_grad():
        crf.spatial.log_sigma.fill_(torch.nan)
    assert "spatial: sigma (nan, nan), weight 3" in repr(torch.nn.Sequential(crf))


@pytest.mark.parametrize(("masked", "shape"), [(False, (130, 140)), (True, (130, 140)), (False, (6, 50, 70))])
def test_gradients_do_not_depend_on_the_pixel_order(
    masked: bool, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large image or volume has its pixels in blocks; in rows, sums are in another order.

    Measured, of the largest number: 9e-6. Gradients of widths are small differences of float32 sums over squared
    distances: 1e-3, as far as either is from the same lattice in float64.
    """
    random = np.random.default_rng(5511)
    scores = torch.tensor(random.normal(size=(2, 3, *shape)), dtype=torch.float32)
    coarse = random.uniform(0, 255, (2, 3, *(n // 2 if n < 10 else n // 10 for n in shape)))
    for axis, n in enumerate(shape, 2):
        coarse = coarse.repeat(n // coarse.shape[axis], axis=axis)
    image = torch.tensor(coarse + random.normal(0, 4, coarse.shape), dtype=torch.float32)
    depth = torch.tensor(random.normal(size=(1, 1, *shape)), dtype=torch.float32)
    ignore = torch.tensor(random.random((2, *shape)) < 0.2) if masked else None
    kernels = [Spatial(3, weight=2), Bilateral(20, 15, weight=3, normalization="after"), Custom("depth", sigma=[0.5])]

    def gradients() -> dict[str, torch.Tensor]:
        crf = DenseCRF(3, kernels, axes=len(shape))
        leaves = [leaf.clone().requires_grad_() for leaf in (scores, image, depth)]
        log_q = crf(*leaves[:2], features={"depth": leaves[2]}, ignore=ignore)
        cotangent = torch.tensor(np.random.default_rng(8).normal(size=log_q.shape), dtype=torch.float32)
        found = torch.autograd.grad(log_q, [*leaves, *crf.parameters()], cotangent)
        names = ["scores", "image", "depth", *(name for name, _ in crf.named_parameters())]
        return {"log_q": log_q.detach(), **dict(zip(names, found, strict=True))}

    ordered = gradients()
    monkeypatch.setattr("densefield.nn.batch.pixel_order", lambda shape: None)
    for name, plain in gradients().items():
        tolerance = 3e-3 if name.endswith("log_sigma") else 3e-5
        assert float((ordered[name] - plain).abs().max()) <= tolerance * float(plain.abs().max()), name


def test_each_item_of_a_list_may_have_its_own_spacing():
    generator = torch.Generator().manual_seed(7013)
    crf = DenseCRF(num_classes=3)
    scores = [torch.randn(3, *size, generator=generator) for size in ((8, 9), (6, 7))]
    images = [torch.randint(256, (3, *each.shape[1:]), dtype=torch.uint8, generator=generator) for each in scores]
    spacing = [(2.0, 1.0), [0.5, 4.0]]
    for one, f, image, each in zip(crf(scores, images, spacing=spacing), scores, images, spacing, strict=True):
        assert torch.equal(one, crf(f[None], image[None], spacing=each)[0])
    for one, f, image in zip(crf(scores, images, spacing=(2, 1)), scores, images, strict=True):
        assert torch.equal(one, crf(f[None], image[None], spacing=(2, 1))[0])
    with pytest.raises(InputError, match="there are 2 images, but spacing is a list of 1: expected as many"):
        crf(scores, images, spacing=[(1.0, 1.0)])
    with pytest.raises(InputError, match=r"spacing is .*expected 2 numbers above 0"):
        crf(scores, images, spacing=[(1.0, 1.0), (0.0, 1.0)])


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_items_of_a_list_with_one_size_are_one_batch(backend, monkeypatch):
    """Results have the order of the list; marginals and gradients are those of each item alone."""
    generator = torch.Generator().manual_seed(7027)
    sizes = [(8, 9), (6, 7), (8, 9), (8, 9)]
    scores = [torch.randn(3, *size, generator=generator, requires_grad=True) for size in sizes]
    images = [torch.randint(256, (3, *size), dtype=torch.uint8, generator=generator) for size in sizes]
    images[3] = images[3].float()  # the same colours, of another type
    ignore = [torch.rand(size, generator=generator) < 0.2 for size in sizes]
    spacing = [(1.0, 1.0), (2.0, 1.0), (0.5, 3.0), (1.0, 1.0)]
    crf, batches = DenseCRF(num_classes=3, backend=backend), []
    infer_batch = dense_crf.infer_batch
    monkeypatch.setattr(
        dense_crf, "infer_batch", lambda batch, *rest: batches.append(len(batch.scores)) or infer_batch(batch, *rest)
    )
    found = crf(scores, images, spacing=spacing, ignore=ignore)
    assert batches == [2, 1, 1]
    cotangents = [torch.randn(each.shape, generator=generator) for each in scores]
    gradients = torch.autograd.grad(found, scores, cotangents)
    for item, (f, image) in enumerate(zip(scores, images, strict=True)):
        one = crf(f[None], image[None], spacing=spacing[item], ignore=ignore[item][None])[0]
        (gradient,) = torch.autograd.grad(one, f, cotangents[item])
        torch.testing.assert_close(found[item], one, rtol=1e-6, atol=1e-6)  # float32, in another order for "torch"
        torch.testing.assert_close(gradients[item], gradient, rtol=1e-5, atol=1e-6)


def test_a_list_with_an_array_in_it_is_an_error():
    with pytest.raises(InputTypeError, match="image is a list with an element of type ndarray, expected torch tensors"):
        DenseCRF(3)(list(SCORES), [each.numpy() for each in PHOTO.expand(len(SCORES), -1, -1, -1)])


@pytest.mark.parametrize("options", [{}, {"method": "exact"}, {"exclude_self": True}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_each_image_of_a_batch_may_have_its_own_spacing(dtype, options):
    """Marginals and all gradients are those of each image alone, with and without ignored pixels."""
    generator = torch.Generator().manual_seed(7019)
    scores = torch.randn(3, 2, 7, 8, generator=generator, dtype=dtype)
    images = torch.randint(256, (3, 3, 7, 8), dtype=torch.uint8, generator=generator)
    cotangent = torch.randn(3, 2, 7, 8, generator=generator, dtype=dtype)
    spacing = [(2.0, 1.0), (0.5, 4.0), (1.0, 1.0)]
    ignore = torch.zeros(3, 7, 8, dtype=torch.bool)
    ignore[1, :, 5:] = True
    for masks in (None, ignore):
        together, alone = (DenseCRF(2, [Spatial(2), Bilateral(9, 60)], **options).to(dtype) for _ in range(2))
        f = scores.clone().requires_grad_()
        log_q = together(f, images, spacing=spacing, ignore=masks)
        log_q.backward(cotangent)
        for number, each in enumerate(spacing):
            here = slice(number, number + 1)
            g = scores[here].clone().requires_grad_()
            one = alone(g, images[here], spacing=each, ignore=None if masks is None else masks[here])
            one.backward(cotangent[here])
            torch.testing.assert_close(log_q[here], one, rtol=1e-6, atol=1e-6)
            torch.testing.assert_close(f.grad[here], g.grad, rtol=1e-5, atol=1e-6)
        for a, b in zip(together.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)  # float32 sums of lattices
    with pytest.raises(InputError, match="there are 3 images, but spacing is a list of 2"):
        together(scores, images, spacing=spacing[:2])
