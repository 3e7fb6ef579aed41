"""Serving the explorer to this computer alone."""

from __future__ import annotations

import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from densefield.errors import InputError
from densefield.explorer.app import Explorer, create_app

HOST = "127.0.0.1"
SHUTDOWN = 2  # seconds for requests in progress after Ctrl-C


def serve(explorer: Explorer, port: int = 0, browser: bool = True, ready: Callable[[str], None] = print) -> None:
    """Serves until Ctrl-C; `ready` is called with the address, which has the token.

    Parameters
    ----------
    explorer
        What to show.
    port
        The port; 0 is any free one.
    browser
        Open the page in the browser.
    ready
        Called with the address as soon as it can be opened.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except (OSError, OverflowError) as error:
            raise InputError(f"port {port} cannot be used: {error}. Choose another, or 0 for any free one.") from error
        listener.listen()
        port, token = listener.getsockname()[1], secrets.token_urlsafe(32)
        address = f"http://{HOST}:{port}/{token}/"
        app = create_app(explorer, token, [f"{HOST}:{port}", f"localhost:{port}"])
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="off",
            timeout_keep_alive=30,
            timeout_graceful_shutdown=SHUTDOWN,
        )
        ready(address)
        if browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        with suppress(KeyboardInterrupt):  # which the server passes on after it has stopped
            uvicorn.Server(config).run(sockets=[listener])
    finally:
        explorer.close()
        listener.close()
