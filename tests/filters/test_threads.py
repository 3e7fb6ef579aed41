"""The default number of threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from densefield.filters.threads import MAX_THREADS, _quota, default_threads


@pytest.mark.parametrize(
    ("text", "count"), [("200000 100000", 2), ("150000 100000", 2), ("5000 100000", 1), ("max 100000", MAX_THREADS)]
)
def test_a_containers_quota_limits_threads(tmp_path: Path, text: str, count: int) -> None:
    (tmp_path / "cpu.max").write_text(text + "\n")
    assert _quota(tmp_path / "cpu.max") == count


def test_no_quota_means_no_limit(tmp_path: Path) -> None:
    assert _quota(tmp_path / "cpu.max") == MAX_THREADS
    assert default_threads() >= 1
