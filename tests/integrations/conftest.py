"""Fixtures for integrations."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def _quiet_transformers():
    """No progress bars, and no notes about optional packages."""
    try:
        from transformers.utils import logging
    except ImportError:
        yield
        return
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    yield
    logging.set_verbosity(level)
    logging.enable_progress_bar()
