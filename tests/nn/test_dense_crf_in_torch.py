"""DenseCRF in torch: copies, autocast, inference mode, compilation, several processes."""

from __future__ import annotations

import copy
import io
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from densefield import Bilateral, Spatial

torch = pytest.importorskip("torch")
from densefield import DenseCRF  # noqa: E402


def random(*shape: int, seed: int = 4669) -> Any:
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape), dtype=torch.float32)


def colours(*shape: int, seed: int = 201) -> Any:
    return torch.tensor(np.random.default_rng(seed).uniform(0, 255, shape), dtype=torch.float32)


KERNELS = (
    Spatial(
        covariance=[[9.0, 2.0], [2.0, 6.0]], weight=np.array([[2.0, -0.5, 0.0], [-0.5, 1.0, 0.2], [0.0, 0.2, 3.0]])
    ),
    Bilateral(9, 50, weight=[1.0, 2.0, 3.0], normalization="after"),
)


def through_torch_save(crf: Any) -> Any:
    file = io.BytesIO()
    torch.save(crf, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def through_state_dict(crf: Any) -> Any:
    other = DenseCRF(3, KERNELS)
    other.load_state_dict(crf.state_dict())
    return other


@pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy, lambda crf: pickle.loads(pickle.dumps(crf)), through_torch_save, through_state_dict],
    ids=["deepcopy", "pickle", "torch.save", "state_dict"],
)
def test_a_copy_computes_the_same(duplicate: Callable[[Any], Any]) -> None:
    crf = DenseCRF(3, KERNELS)
    for parameter in crf.parameters():
        parameter.data += 0.1 * random(*parameter.shape)
    arguments = random(1, 3, 4, 5), colours(1, 3, 4, 5)
    expected = crf(*arguments)
    assert torch.equal(duplicate(crf)(*arguments), expected)


def test_autocast_computes_in_single_precision() -> None:
    crf = DenseCRF(3, KERNELS, method="exact")
    scores, image = random(1, 3, 5, 6), colours(1, 3, 5, 6)
    plain = crf(scores, image)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = crf(scores, image)
    assert cast.dtype == torch.float32
    assert torch.equal(cast, plain)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # used by torch itself
@pytest.mark.parametrize("frozen", [True, False])
def test_forward_mode_is_an_error_not_a_silent_zero(frozen: bool) -> None:
    crf = DenseCRF(3, [Spatial(2)])
    if frozen:
        crf.freeze("*")
    scores = torch.zeros(1, 3, 4, 5)
    with torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="Use reverse mode"):
        crf(torch.autograd.forward_ad.make_dual(scores, torch.ones_like(scores)))


def test_a_module_can_be_trained_after_inference() -> None:
    crf = DenseCRF(2)
    scores, image = random(1, 2, 4, 5), colours(1, 3, 4, 5)
    with torch.inference_mode():
        crf(scores, image)
    crf(scores, image)[0, 0].sum().backward()
    assert crf.spatial.log_sigma.grad is not None


class Network(torch.nn.Module):
    """A convolution followed by a dense CRF."""

    def __init__(self, backend: Any = "native") -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 3, 3, padding=1)
        self.crf = DenseCRF(3, KERNELS, iterations=3, backend=backend)
        with torch.no_grad():
            self.convolution.weight.copy_(random(3, 3, 3, 3) / 255)
            self.convolution.bias.copy_(random(3))

    def forward(self, image: Any) -> Any:
        return self.crf(self.convolution(image), image)


def loss_and_gradients(network: Callable[[Any], Any], model: Network, image: Any) -> tuple[Any, dict[str, Any]]:
    model.zero_grad()
    target = image.sum(1).long() % 3
    loss = torch.nn.functional.nll_loss(network(image), target)
    loss.backward()
    return loss.detach(), {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


# At a graph break torch accesses gradients of non-leaf tensors; it hides the warning, but not from pytest.
at_a_break = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")


def check_compiled(backend: str) -> None:
    torch.compiler.reset()
    model = Network()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    for image in (colours(1, 3, 7, 8), colours(2, 3, 9, 6)):  # then with other sizes
        loss, gradients = loss_and_gradients(compiled, model, image)
        expected, expected_gradients = loss_and_gradients(model, model, image)
        assert torch.allclose(loss, expected, rtol=1e-5)  # fused operations round differently
        for name, gradient in gradients.items():
            scale = expected_gradients[name].abs().max()
            assert float((gradient - expected_gradients[name]).abs().max() / scale) < 1e-4, name


@at_a_break
def test_a_compiled_network_equals_an_eager_one() -> None:
    check_compiled("aot_eager")


@pytest.mark.slow
@at_a_break
@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # used by imports of the compiler
@pytest.mark.skipif(not (shutil.which("c++") or shutil.which("g++")), reason="there is no C++ compiler")
def test_a_network_compiled_to_native_code_equals_an_eager_one() -> None:
    check_compiled("inductor")


def test_the_module_compiles_to_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    def stand_in(scores: Any, features: Any, shapes: Any, weights: Any, *_: Any) -> Any:
        """A loss that uses every tensor of mean field."""
        total = sum((s.sum() * w.sum()).sum() for s, w in zip(shapes, weights, strict=True))
        return scores.log_softmax(1) + 1e-6 * total * sum(p.sum() for p in features)

    monkeypatch.setattr("densefield.nn.backends.native_op", stand_in)
    torch.compiler.reset()
    model = Network()
    image = colours(2, 3, 7, 8)
    expected = model(image)
    assert torch.allclose(torch.compile(model, backend="aot_eager", fullgraph=True)(image), expected, rtol=1e-5)


def work(rank: int, folder: str, backend: str) -> None:
    """One of two processes, each with half of the batch."""
    meeting = (Path(folder) / "meeting").as_uri()
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    model = Network(backend)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    _, gradients = loss_and_gradients(parallel, model, colours(2, 3, 6, 7)[rank : rank + 1])
    torch.save(gradients, f"{folder}/gradients{rank}.pt")
    torch.distributed.barrier()
    # Freeing the group holds the GIL and waits for a gloo thread, which may wait for the GIL.
    os._exit(0)


@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without torch.distributed")
def test_two_processes_give_the_gradients_of_one(tmp_path: Path, backend: str) -> None:
    torch.multiprocessing.spawn(work, args=(str(tmp_path), backend), nprocs=2)
    model = Network(backend)
    _, expected = loss_and_gradients(model, model, colours(2, 3, 6, 7))
    for rank in range(2):
        for name, gradient in torch.load(tmp_path / f"gradients{rank}.pt").items():
            # Means of two float32 numbers, summed in another order.
            assert torch.allclose(gradient, expected[name], rtol=1e-4, atol=1e-7), name
