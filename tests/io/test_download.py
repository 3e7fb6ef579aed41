"""Downloads are complete and correct, or an error says why not."""

from __future__ import annotations

import hashlib
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from densefield.errors import DensefieldError, InputError
from densefield.io import download as module
from densefield.io.download import DownloadError, cache_folder, download
from tests.support.range_server import serve

CONTENT = np.random.default_rng(71993).bytes(300_007)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(module, "PAUSE", 0.001)
    monkeypatch.setattr(module, "CHUNK", 1 << 14)
    with serve({"file.tar": CONTENT}) as served:
        yield served


@pytest.fixture
def get(server, tmp_path):
    def get(sha256=SHA256, progress=None):
        return download(f"{server.url}/file.tar", tmp_path / "below" / "file.tar", sha256=sha256, progress=progress)

    return get


@pytest.fixture
def part(tmp_path):
    (tmp_path / "below").mkdir()
    return tmp_path / "below" / "file.tar.part"


@pytest.mark.parametrize("checksum", [SHA256, SHA256.upper()])
def test_a_download_leaves_no_temporary_files(get, checksum):
    path = get(checksum)
    assert path.read_bytes() == CONTENT and list(path.parent.iterdir()) == [path]


def test_progress_counts_bytes_up_to_the_total(get):
    steps = []
    get(progress=lambda done, total: steps.append((done, total)))
    assert steps[-1] == (len(CONTENT), len(CONTENT)) and len(steps) > 10
    assert [done for done, _ in steps] == sorted({done for done, _ in steps})


def test_an_existing_file_with_the_right_checksum_is_not_requested(get, server):
    get()
    get()
    assert len(server.asked) == 1


def test_an_interrupted_download_is_resumed(get, server, part):
    part.write_bytes(CONTENT[:100_000])
    steps = []
    path = get(progress=lambda done, total: steps.append((done, total)))
    assert path.read_bytes() == CONTENT and server.asked == ["bytes=100000-"]
    assert steps[0][0] > 100_000 and steps[-1] == (len(CONTENT), len(CONTENT))


def test_a_complete_part_file_is_renamed(get, server, part):
    part.write_bytes(CONTENT)
    assert get().read_bytes() == CONTENT and len(server.asked) == 1


def test_a_damaged_file_is_downloaded_again(get, part):
    part.with_name("file.tar").write_bytes(CONTENT[:-1] + b"!")
    assert get().read_bytes() == CONTENT


def test_a_partial_file_under_the_final_name_is_resumed(get, server, part):
    part.with_name("file.tar").write_bytes(CONTENT[:4321])
    assert get().read_bytes() == CONTENT and server.asked == ["bytes=4321-"]


def test_broken_connections_are_retried(get, server):
    server.drop_after = 40_000
    assert get().read_bytes() == CONTENT
    assert server.asked == [None, *(f"bytes={start}-" for start in range(40_000, 300_007, 40_000))]


def test_without_range_support_the_download_starts_again(get, server, part):
    server.ranges = False
    part.write_bytes(b"x" * 1000)
    assert get().read_bytes() == CONTENT and server.asked == ["bytes=1000-"]


def test_without_a_content_length_the_checksum_decides(get, server):
    server.length = False
    assert get().read_bytes() == CONTENT
    server.files["file.tar"] = CONTENT[:-1]
    get().unlink()
    with pytest.raises(DownloadError, match="SHA-256"):
        get()


@pytest.mark.parametrize("left", [b"x" * 100_000, b"x" * 300_007, b"x" * 400_000])
def test_a_part_file_of_another_download_is_replaced(get, part, left):
    part.write_bytes(left)
    assert get().read_bytes() == CONTENT


def test_a_download_with_the_wrong_checksum_raises_and_is_removed(get, tmp_path):
    message = rf"its SHA-256 is {SHA256}, expected 0{{64}}\. It was deleted\. .* put it at .*file\.tar\."
    with pytest.raises(DownloadError, match=message):
        get("0" * 64)
    assert list((tmp_path / "below").iterdir()) == []


def test_temporary_server_errors_are_retried(get, server):
    server.errors = [503, 500, 429]
    assert get().read_bytes() == CONTENT and len(server.asked) == 4


def test_permanent_server_errors_stop_the_attempts_and_keep_the_part_file(get, server, part):
    part.write_bytes(CONTENT[:1000])
    server.errors = [503] * 99
    with pytest.raises(DownloadError, match=r"503 Service Unavailable\. 1000 bytes are in .*\.part; try again later"):
        get()
    assert len(server.asked) == module.ATTEMPTS and part.stat().st_size == 1000


def test_a_missing_file_is_not_requested_twice(server, tmp_path):
    with pytest.raises(DownloadError, match=r"404 Not Found\. Look for another address.*put it at .*gone\."):
        download(f"{server.url}/gone", tmp_path / "gone", sha256=SHA256)
    assert len(server.asked) == 1


def test_an_unreachable_server_raises_a_download_error(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PAUSE", 0.001)
    with serve({}) as served:
        url = served.url
    with pytest.raises(DensefieldError, match="cannot be downloaded"):
        download(f"{url}/file", tmp_path / "file", sha256=SHA256)


def test_a_full_disk_raises_before_the_download(get, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(DownloadError, match=r"needs 300007 bytes more, but only 10 are free"):
        get()


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://example.org/a", "example.org/a", ""])
def test_only_http_addresses_are_accepted(tmp_path, url):
    with pytest.raises(InputError, match="begins with https"):
        download(url, tmp_path / "a", sha256=SHA256)


def test_several_processes_may_download_the_same_file_at_once(get):
    paths: list[Path] = []
    threads = [threading.Thread(target=lambda: paths.append(get())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paths) == 4 and paths[0].read_bytes() == CONTENT and list(paths[0].parent.iterdir()) == [paths[0]]


def test_the_cache_is_in_the_users_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("DENSEFIELD_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("DENSEFIELD_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "densefield"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "densefield"


@pytest.mark.parametrize("claim", ["many", "-5", "1e9", "²", "9" * 40])
def test_an_invalid_content_length_counts_as_missing(get, server, claim):
    server.claim = claim
    assert get().read_bytes() == CONTENT


def test_a_file_beyond_the_size_limit_raises_before_or_during_the_download(get, server, part, monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES", 100_000)
    with pytest.raises(DownloadError, match=r"gives 300007 bytes or more, expected at most 100000"):
        get()
    assert part.stat().st_size == 0
    server.length = False
    with pytest.raises(DownloadError, match="expected at most 100000"):
        get()
    assert part.stat().st_size <= 100_000
