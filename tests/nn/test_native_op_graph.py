"""Lifetime of the native loop's memory in the graph, with torch's transforms, compiler and workers."""

from __future__ import annotations

import gc
import io
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from densefield import CRF, Bilateral, Spatial
from densefield.crf.options import CRFOptions

torch = pytest.importorskip("torch")
from torch.utils.checkpoint import checkpoint  # noqa: E402

from densefield import DenseCRF  # noqa: E402
from densefield.nn import batch  # noqa: E402
from densefield.nn import native_op as native_torch  # noqa: E402
from tests.support.mean_field_ops import native  # noqa: E402

KERNELS = (Spatial(2, weight=2), Bilateral(8, 60, weight=[1.0, 2.0, 3.0], normalization="after"))


def random(*shape: int, seed: int = 1871) -> Any:
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape), dtype=torch.float32)


def colours(*shape: int, seed: int = 201) -> Any:
    return torch.tensor(np.random.default_rng(seed).uniform(0, 255, shape), dtype=torch.float32)


def leaves(images: int = 2, points: int = 70, seed: int = 33) -> list[Any]:
    """Scores, features, widths and weight of one kernel."""
    tensors = random(images, 3, points, seed=seed), random(images, points, 2, seed=seed + 1), torch.ones(2)
    return [tensor.clone().requires_grad_() for tensor in (*tensors, torch.tensor(2.0))]


def mean_field(scores: Any, features: Any, widths: Any, weight: Any, **options: Any) -> Any:
    options = {"normalizations": ["symmetric"], "iterations": 3, **options}
    return native(scores, [features], [widths], [weight], **options)


def gradients(log_q: Any, inputs: list[Any], **options: Any) -> list[Any]:
    cotangent = random(*log_q.shape, seed=64)
    return [slope.clone() for slope in torch.autograd.grad(log_q, inputs, cotangent, **options)]


def assert_equal(found: list[Any], expected: list[Any]) -> None:
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.fixture(autouse=True)
def _no_batch_stays_behind() -> Iterator[None]:
    yield
    if batch.live:  # compilers leave reference cycles
        gc.collect()
    assert not batch.live


@pytest.fixture
def _eager_switching() -> Iterator[None]:
    """Python threads switch after every few instructions, which exposes race conditions."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.parametrize("adjoint", ["store", "recompute"])
def test_kernels_live_as_long_as_the_graph(adjoint: str) -> None:
    inputs = leaves()
    log_q = mean_field(*inputs, adjoint=adjoint)
    loss = log_q.sum()
    assert len(batch.live) == 1
    loss.backward()
    assert not batch.live
    log_q = mean_field(*inputs, adjoint=adjoint)
    result = log_q.detach()
    assert len(batch.live) == 1
    del log_q
    assert not batch.live
    assert result.isfinite().all()


def test_without_gradients_nothing_is_stored() -> None:
    with torch.no_grad():
        log_q = mean_field(*leaves())
    assert not batch.live and not log_q.requires_grad


@pytest.mark.parametrize("adjoint", ["store", "recompute"])
def test_a_retained_graph_can_be_differentiated_again(adjoint: str) -> None:
    inputs = leaves()
    log_q = mean_field(*inputs, adjoint=adjoint)
    once = gradients(log_q, inputs, retain_graph=True)
    assert_equal(gradients(log_q, inputs), once)
    with pytest.raises(RuntimeError, match="second time"):
        gradients(log_q, inputs)


def test_second_derivatives_are_an_error_not_zero() -> None:
    inputs = leaves()
    (slope,) = torch.autograd.grad(mean_field(*inputs).square().sum(), inputs[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="densefield has no second derivatives"):
        slope.sum().backward()


def test_several_graphs_do_not_share_kernels() -> None:
    ours, theirs = leaves(seed=33), leaves(seed=99)
    first, second = mean_field(*ours), mean_field(*theirs)
    assert len(batch.live) == 2
    found = gradients(second, theirs), gradients(first, ours)
    assert_equal(found[0], gradients(mean_field(*theirs), theirs))
    assert_equal(found[1], gradients(mean_field(*ours), ours))


@pytest.mark.parametrize("adjoint", ["store", "recompute"])
def test_copies_of_saved_tensors_give_the_same_gradients(adjoint: str) -> None:
    inputs = leaves()
    expected = gradients(mean_field(*inputs, adjoint=adjoint), inputs)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.clone(), lambda tensor: tensor):
        log_q = mean_field(*inputs, adjoint=adjoint)
    assert not batch.live  # so kernels are built again
    assert_equal(gradients(log_q, inputs), expected)
    with torch.autograd.graph.save_on_cpu():
        log_q = mean_field(*inputs, adjoint=adjoint)
    assert_equal(gradients(log_q, inputs), expected)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("adjoint", ["store", "recompute"])
def test_checkpointing_gives_the_same_gradients(adjoint: str, reentrant: bool) -> None:
    inputs = leaves()
    expected = gradients(mean_field(*inputs), inputs)
    log_q = checkpoint(lambda *tensors: mean_field(*tensors, adjoint=adjoint), *inputs, use_reentrant=reentrant)
    assert not batch.live
    log_q.backward(random(*log_q.shape, seed=64))
    assert_equal([leaf.grad for leaf in inputs], expected)


@pytest.mark.parametrize("test", ["test_schema", "test_autograd_registration", "test_faketensor"])
def test_the_operators_pass_opcheck(test: str) -> None:
    """Except test_aot_dispatch of the forward pass, which compares all results; tickets are numbered."""
    spec = batch.KernelSpec(("depth",), "symmetric")
    for needs in (True, False):
        scores, features, widths, weight = (leaf.detach().requires_grad_(needs) for leaf in leaves())
        for adjoint in ("implicit", "store", "recompute"):
            # A fixed point is reached within 500 iterations.
            chosen = CRFOptions(iterations=500 if adjoint == "implicit" else 3, threads=1)
            options = batch.OpOptions((spec,), ("depth",), chosen).encode()
            inputs = (scores, [features.detach().mT.requires_grad_(needs)], [widths], [weight], None, None, options)
            forward = (*inputs, adjoint, needs, False)
            torch.library.opcheck(native_torch._forward_op, forward, test_utils=test)
    saved = native_torch._forward_op(*forward)
    for wanted in ([True] * 3, [False, True, False]):
        backward = (random(2, 3, 70), *saved, *inputs, False, wanted)
        torch.library.opcheck(native_torch._backward_op, backward, test_utils=test)


class Network(torch.nn.Module):
    """A convolution followed by a dense CRF."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 3, 3, padding=1)
        self.crf = DenseCRF(3, KERNELS, iterations=3, **options)
        with torch.no_grad():
            self.convolution.weight.copy_(random(3, 3, 3, 3) / 255)
            self.convolution.bias.copy_(random(3))

    def forward(self, image: Any) -> Any:
        return self.crf(self.convolution(image), image)


def loss_and_gradients(network: Callable[[Any], Any], model: Any, image: Any) -> list[Any]:
    log_q = network(image)
    return [log_q.detach(), *gradients(log_q, list(model.parameters()))]


@pytest.mark.parametrize("adjoint", ["store", "recompute"])
def test_one_compiled_graph_serves_all_sizes(adjoint: str) -> None:
    torch.compiler.reset()
    model = Network(adjoint=adjoint)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=True)
    loss_and_gradients(compiled, model, colours(2, 3, 7, 9))
    compiled = torch.compiler.set_stance("fail_on_recompile")(compiled)
    for size in ((2, 3, 7, 9), (3, 3, 12, 8), (2, 3, 64, 65)):
        found = loss_and_gradients(compiled, model, colours(*size))
        for one, other in zip(found, loss_and_gradients(model, model, colours(*size)), strict=True):
            # Widths and positions are computed by other torch kernels.
            assert float((one - other).abs().max() / other.abs().max()) < 1e-4
    torch.compiler.reset()


def test_an_exported_model_computes_the_same_after_a_round_trip() -> None:
    model = Network().eval()
    image = colours(2, 3, 9, 8)
    expected = model(image).detach()
    rows, columns, batch = (torch.export.Dim(name, min=2, max=512) for name in ("rows", "columns", "batch"))
    shapes = {"image": {0: batch, 2: rows, 3: columns}}
    with torch.no_grad():
        program = torch.export.export(model, (image,), dynamic_shapes=shapes)
    graphs = [module.graph for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    (node,) = (node for graph in graphs for node in graph.nodes if "densefield.mean_field" in str(node.target))
    assert node.args[8] is False  # states are stored for gradients only
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for exported in (program, torch.export.load(file)):
        network = exported.module()
        assert torch.allclose(network(image), expected, rtol=0, atol=1e-5)
        other = colours(3, 3, 20, 30)
        assert torch.allclose(network(other), model(other), rtol=0, atol=1e-5)


class Marginals(torch.utils.data.Dataset[Any]):
    """Log marginals and gradients, computed in a data-loader worker."""

    def __init__(self, model: Network) -> None:
        self.model = model

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return loss_and_gradients(self.model, self.model, colours(1, 3, 40, 50, seed=index))


@pytest.mark.skipif("fork" not in torch.multiprocessing.get_all_start_methods(), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # since Python 3.12, if other threads run
def test_forked_workers_give_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Network(threads=2)
    items = Marginals(model)
    expected = [items[index] for index in range(4)]  # threads have run here before the fork
    loader = torch.utils.data.DataLoader(items, batch_size=None, num_workers=2, multiprocessing_context="fork")
    for found, item in zip(loader, expected, strict=True):
        assert_equal(found, item)


def test_two_concurrent_python_threads_give_the_same_result() -> None:
    problems = [leaves(images, points, seed=points) for images, points in ((2, 300), (1, 5000)) * 6]
    expected = [gradients(mean_field(*inputs), inputs) for inputs in problems]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda inputs: gradients(mean_field(*inputs), inputs), problems))
    for one, other in zip(found, expected, strict=True):
        assert_equal(one, other)


@pytest.mark.usefixtures("_eager_switching")
def test_two_python_threads_can_share_a_crf_for_images_of_two_sizes() -> None:
    crf = CRF([Spatial(2, weight=2)], iterations=1, threads=1)
    problems = [random(2, *size, seed=size[0]).numpy() for size in ((3, 4), (5, 2)) * 200]
    expected = [crf.marginals(scores) for scores in problems[:2]] * 200
    with ThreadPoolExecutor(2) as pool:
        for found, marginals in zip(pool.map(crf.marginals, problems), expected, strict=True):
            assert np.array_equal(found, marginals)


@pytest.mark.usefixtures("_eager_switching")
def test_two_python_threads_can_share_a_module_for_images_of_two_sizes() -> None:
    module = DenseCRF(2, [Spatial(2, weight=2)], iterations=1, threads=1)
    problems = [random(1, 2, *size, seed=size[0]) for size in ((3, 4), (5, 2)) * 200]
    with torch.no_grad():
        expected = [module(scores) for scores in problems[:2]] * 200
    with ThreadPoolExecutor(2) as pool:
        assert_equal([found.detach() for found in pool.map(module, problems)], expected)
