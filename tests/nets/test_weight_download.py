"""Downloads from a server on this machine that can be told to misbehave."""

from __future__ import annotations

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("torch")

from densefield.errors import DensefieldError
from densefield.nets import vgg16
from densefield.nets.download import cache_folder, download

CONTENT = bytes((number * 7919 + number // 251) % 256 for number in range(300_000))
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server:
    """Serves one file, and keeps the Range that each request asked for."""

    def __init__(self):
        self.ranges: list[str | None] = []
        self.knows_ranges = True
        self.knows_length = True
        self.status: int | None = None  # answered instead of the file
        self.cut: list[int] = []  # bytes after which each of the next answers breaks off
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/folder/weights.pth"

    def answer(self, request):
        asked = request.headers.get("Range")
        self.ranges.append(asked)
        if self.status is not None:
            request.send_error(self.status)
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.knows_ranges else 0
        if start >= len(CONTENT):
            request.send_error(416)
            return
        body = CONTENT[start:]
        request.send_response(206 if asked and self.knows_ranges else 200)
        if self.knows_length:
            request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body[: self.cut.pop(0)] if self.cut else body)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.http.shutdown()
    server.http.server_close()
    thread.join()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_comes_whole_and_progress_is_told(server, tmp_path):
    told = []
    path = download(server.url, SHA256, tmp_path / "new" / "folder", lambda done, total: told.append((done, total)))
    assert path == tmp_path / "new" / "folder" / "weights.pth"
    assert path.read_bytes() == CONTENT
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert told == sorted(told)
    assert names(path.parent) == ["weights.pth"]


def test_a_file_that_is_there_is_not_fetched_again(server, tmp_path):
    first = download(server.url, SHA256, tmp_path)
    assert download(server.url, SHA256, tmp_path) == first
    assert len(server.ranges) == 1


def test_a_file_that_was_damaged_in_the_cache_is_fetched_again(server, tmp_path):
    (tmp_path / "weights.pth").write_bytes(CONTENT[:-1] + b"!")
    assert download(server.url, SHA256, tmp_path).read_bytes() == CONTENT


def test_a_part_is_gone_on_with(server, tmp_path):
    (tmp_path / "weights.pth.part").write_bytes(CONTENT[:123_456])
    told = []
    path = download(server.url, SHA256, tmp_path, lambda done, total: told.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert server.ranges == ["bytes=123456-"]
    assert told[0][0] > 123_456 and told[-1] == (len(CONTENT), len(CONTENT))


def test_a_broken_connection_is_gone_on_with_at_once(server, tmp_path):
    server.cut = [100_000, 50_000]
    assert download(server.url, SHA256, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=100000-", "bytes=150000-"]


def test_a_server_without_ranges_sends_all_again(server, tmp_path):
    server.knows_ranges = False
    (tmp_path / "weights.pth.part").write_bytes(CONTENT[:123_456])
    assert download(server.url, SHA256, tmp_path).read_bytes() == CONTENT


def test_a_server_that_does_not_tell_the_length_is_enough(server, tmp_path):
    server.knows_length = False
    told = []
    assert download(server.url, SHA256, tmp_path, lambda *now: told.append(now)).read_bytes() == CONTENT
    assert told[-1] == (len(CONTENT), None)


@pytest.mark.parametrize("rest", [b"", b"and more"])
def test_a_part_that_is_complete_or_too_long_is_checked(server, tmp_path, rest):
    (tmp_path / "weights.pth.part").write_bytes(CONTENT + rest)
    assert download(server.url, SHA256, tmp_path).read_bytes() == CONTENT


def test_a_part_of_another_file_is_replaced(server, tmp_path):
    (tmp_path / "weights.pth.part").write_bytes(b"something else")
    assert download(server.url, SHA256, tmp_path).read_bytes() == CONTENT
    assert server.ranges == ["bytes=14-", None]


def test_a_wrong_checksum_is_an_error_and_leaves_nothing(server, tmp_path):
    wrong = SHA256[:-1] + ("0" if SHA256[-1] != "0" else "1")
    with pytest.raises(DensefieldError, match=f"SHA-256 {SHA256}, expected {wrong}.*deleted"):
        download(server.url, wrong, tmp_path)
    assert names(tmp_path) == []


def test_a_missing_file_is_an_error_at_once(server, tmp_path):
    server.status = 404
    with pytest.raises(DensefieldError, match=r"weights.pth cannot be fetched .*404.*pass its name"):
        download(server.url, SHA256, tmp_path)
    assert len(server.ranges) == 1


def test_a_server_in_trouble_is_asked_three_times_and_the_part_is_kept(server, tmp_path):
    (tmp_path / "weights.pth.part").write_bytes(CONTENT[:1000])
    server.status = 503
    with pytest.raises(DensefieldError, match=r"503.*1000 bytes have come. Try again, and it goes on from there"):
        download(server.url, SHA256, tmp_path)
    assert len(server.ranges) == 3
    server.status = None
    assert download(server.url, SHA256, tmp_path).read_bytes() == CONTENT
    assert server.ranges[-1] == "bytes=1000-"


def test_nobody_at_home_is_an_error(server, tmp_path):
    url = "http://127.0.0.1:9/weights.pth"  # the port of "discard", which nobody serves
    with pytest.raises(DensefieldError, match="cannot be fetched"):
        download(url, SHA256, tmp_path)


def test_several_may_fetch_the_same_file_at_once(server, tmp_path):
    paths: list[Path] = []
    threads = [threading.Thread(target=lambda: paths.append(download(server.url, SHA256, tmp_path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paths) == 4
    assert (tmp_path / "weights.pth").read_bytes() == CONTENT


def test_vgg16_is_fetched_into_the_cache(server, tmp_path, monkeypatch):
    monkeypatch.setenv("DENSEFIELD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(vgg16, "_URL", server.url)
    monkeypatch.setattr(vgg16, "_SHA256", SHA256)
    assert vgg16.imagenet_weights() == tmp_path / "cache" / "weights.pth"


def test_the_name_of_torchvisions_file_begins_its_checksum():
    # The rule of download.pytorch.org, by which torch itself checks its files.
    assert vgg16._URL.endswith(f"/vgg16-{vgg16._SHA256[:8]}.pth")
    assert len(bytes.fromhex(vgg16._SHA256)) == 32


def test_the_cache_is_where_the_user_keeps_caches(monkeypatch, tmp_path):
    monkeypatch.delenv("DENSEFIELD_CACHE", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "densefield"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "densefield"
