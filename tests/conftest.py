"""Fixtures for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tiny_settings import TINY

# Waiting threads of torch spin by default and slow down parallel test processes. OpenMP reads this when torch is first
# imported, which no test has done yet.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

CHECKOUT = Path(__file__).resolve().parents[1]
SMALL_TENSORS = {
    "networks",
    "runs",
    "structured",
    "training",
    "tuning",
}  # test folders that do not benefit from threads


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real images, masks and scores; tests that need it are skipped if it is missing."""
    folder = Path(os.environ.get("DENSEFIELD_SHARED", CHECKOUT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no folder {folder}; set DENSEFIELD_SHARED to the folder of real data")
    return folder


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """The configuration file of a small run."""
    path = tmp_path / "tiny.toml"
    path.write_text(TINY, encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _one_torch_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    """Use one thread for small tensors."""
    if request.path.parent.name not in SMALL_TENSORS:
        yield
        return
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
