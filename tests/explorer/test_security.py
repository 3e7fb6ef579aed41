"""Only the page itself is answered, at its own address, with bodies of the right kind and size."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

import pytest

BODY = json.dumps({"client": "test", "number": 1, "settings": {"model": "learnt"}}).encode()


def error_of(answer) -> str:
    return json.loads(answer[2])["error"]


def test_the_page_itself_is_answered(served):
    status, headers, content = served.ask("")
    assert status == 200 and b"<!doctype html>" in content
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert headers["referrer-policy"] == "no-referrer" and headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store" and "server" not in headers
    assert served.ask("static/main.js")[1]["content-type"].startswith("text/javascript")


def test_the_page_has_no_address_of_another_site(served):
    for name in (
        "",
        "static/main.js",
        "static/theme.css",
        "static/layout.css",
        "static/controls.css",
        "static/stage.js",
    ):
        content = served.ask(name)[2].decode()
        outside = [word for word in content.split() if "://" in word and "www.w3.org" not in word]
        assert outside == []


@pytest.mark.parametrize(
    "path", ["/", "/x/", "/gallery", "/static/main.js", "//", "/%00/", "/" + "a" * 43 + "/", "/%C3%A9/"]
)
def test_without_the_token_nothing_is_answered(served, path):
    answer = served.ask(path)
    assert answer[0] == 403 and "token" in error_of(answer)
    assert served.ask(path, BODY)[0] == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "localhost", ""])
def test_another_host_is_refused(served, host):
    answer = served.ask("", Host=host)
    assert answer[0] in (400, 403)
    assert served.ask("gallery", Host=f"localhost:{urlsplit(served.address).port}")[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_another_origin_is_refused(served, headers):
    answer = served.ask("images/0/solve", BODY, **headers)
    assert answer[0] == 403 and "Another site" in error_of(answer)
    own = served.address.split("/", 3)
    assert served.ask("images/0/solve", BODY, Origin="/".join(own[:3]))[0] == 200


def test_bodies_that_other_sites_can_send_without_asking_are_refused(served):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert served.ask("images/0/solve", BODY, Content_Type=kind)[0] == 415


@pytest.mark.parametrize(
    "path",
    [
        "static/../app.py",
        "static/..%2fapp.py",
        "static/%2e%2e%2f%2e%2e%2fpyproject.toml",
        "static//etc/passwd",
        "static/%2fetc%2fpasswd",
        "static/__init__.py",
        "static/",
        "images/0/labels/..%2f..",
        "images/-1",
        "images/0/photo/../../1",
        "images/a.png",
    ],
)
def test_paths_lead_nowhere(served, path):
    answer = served.ask(path)
    assert answer[0] in (400, 404) and error_of(answer)


def test_images_beyond_the_list_are_refused(served):
    for number in ("4", "99999999999999999999"):
        answer = served.ask(f"images/{number}")
        assert answer[0] == 400 and "there is no image number" in error_of(answer)


@pytest.mark.parametrize(
    "body, message",
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not an object"),
        (b"{}", "client is missing"),
        (b'{"client": "x", "number": -1}', "number is missing"),
        (b'{"client": "x", "number": 1e999}', "number is missing"),
        (b'{"client": "x", "number": 1, "settings": {"confidence": NaN}}', "not JSON"),
        (b'{"client": "x", "number": 1, "settings": {"iterations": 1e300}}', "iterations is"),
        (b'{"client": "x", "number": 1, "settings": {"model": "kernels", "crf": {"kernels": [3]}}}', "kernels.0"),
        (b'{"client": "x", "number": 1, "settings": {"model": ["learnt"]}}', "model is"),
    ],
)
def test_bodies_that_make_no_sense_are_refused(served, body, message):
    answer = served.ask("images/0/solve", body)
    assert answer[0] == 400 and message in error_of(answer)


@pytest.mark.parametrize(
    "name, more",
    [
        ("pixel", {"pixel": 1 << 40}),
        ("pixel", {"pixel": "0"}),
        ("row", {"pixel": 0, "kernel": -1}),
        ("export", {"form": "exe"}),
    ],
)
def test_places_and_forms_that_do_not_exist_are_refused(served, name, more):
    answer = served.ask(f"images/0/{name}", json.dumps({**json.loads(BODY), "number": 10**9, **more}).encode())
    assert (answer[0] == 400 and next(iter(more)) in error_of(answer)) or "kernel" in error_of(answer)


def test_methods_that_do_not_belong_are_refused(served):
    assert served.ask("images/0/solve")[0] == 405
    assert served.ask("gallery", BODY)[0] == 405
    assert served.ask("gallery", method="DELETE")[0] == 405


def test_a_broken_file_is_a_readable_message(served):
    answer = served.ask("images/1")
    assert answer[0] == 400 and "b.png is not an image" in error_of(answer)


def test_a_body_that_is_too_large_is_refused_before_it_is_read(served):
    parts = urlsplit(served.address)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        head = f"POST {parts.path}images/0/solve HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: 99999999999\r\n\r\n".encode())
        assert b"413" in connection.recv(4096).split(b"\r\n")[0]
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        answer = b""
        try:
            for _ in range(40):
                connection.sendall(chunk)
        except OSError:  # the server has closed the connection
            pass
        else:
            answer = connection.recv(4096)
        assert answer == b"" or b"413" in answer.split(b"\r\n")[0]
    assert served.ask("gallery")[0] == 200
