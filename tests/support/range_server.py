"""A local web server with typical faults."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Served:
    """Files, faults and received requests of the server."""

    files: dict[str, bytes]
    url: str = ""
    ranges: bool = True  # supports Range requests
    drop_after: int | None = None  # close the connection after this many bytes of a response
    length: bool = True  # send Content-Length
    claim: str | None = None  # a wrong Content-Length to send
    errors: list[int] = field(default_factory=list)  # status codes of the next responses
    asked: list[str | None] = field(default_factory=list)  # the Range of each request


@contextmanager
def serve(files: dict[str, bytes]) -> Iterator[Served]:
    """Serve the files inside the context."""
    served = Served(files)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.headers.get("Range"))
            if served.errors:
                self.send_error(served.errors.pop(0))
                return
            content = served.files.get(self.path.lstrip("/"))
            if content is None:
                self.send_error(404)
                return
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
            start = int(asked[1]) if asked and served.ranges else 0
            if start >= len(content) and start:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            if served.length:
                self.send_header("Content-Length", served.claim or str(len(content) - start))
            self.end_headers()
            self.wfile.write(content[start:][: served.drop_after])

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
