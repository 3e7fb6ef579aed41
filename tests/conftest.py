"""What every test may ask for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Threads of torch that wait for each other spin by default: with two processes of tests on few cores, each for the
# other's time. Read when torch is first imported, which no test has done yet.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

CHECKOUT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real images, masks and scores; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("DENSEFIELD_SHARED", CHECKOUT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no folder {folder}; set DENSEFIELD_SHARED to the folder of real data")
    return folder
