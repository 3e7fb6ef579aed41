"""Access control: only the page of this process, which knows the token in its address."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from starlette.responses import JSONResponse

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# Only files of this page: no inline script or style, no other site, no embedding.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Guard:
    """An ASGI application that passes on only what the page of this process asks.

    The first part of every path is the token, which no other site knows. Host and Origin must be this server, so that
    no other site reaches it through a name of its own (DNS rebinding). Bodies must be JSON, which other sites cannot
    send without asking.

    Parameters
    ----------
    app
        The application that answers.
    token
        The secret part of the address.
    hosts
        The allowed values of the header Host.
    """

    def __init__(self, app: App, token: str, hosts: Iterable[str]) -> None:
        self._app, self._token = app, token.encode()
        self._hosts = {host.encode() for host in hosts}
        self._origins = {b"http://" + host for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            return  # there are no WebSockets, and nothing to start
        status, message = self._refusal(scope)
        if status:
            await JSONResponse({"error": message}, status, HEADERS)(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        await self._app(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> tuple[int, str]:
        """Status and message of a refused request; 0 if it is allowed."""
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        host, origin = headers.get(b"host", []), headers.get(b"origin", [])
        if len(host) != 1 or host[0] not in self._hosts:
            return 403, "The header Host is not this explorer: open the address that the command printed."
        site = headers.get(b"sec-fetch-site", [])
        if any(each not in self._origins for each in origin) or any(s not in (b"same-origin", b"none") for s in site):
            return 403, "Another site asked, expected the page of this explorer."
        given = scope["path"].split("/", 2)[1].encode("utf-8", "replace") if "/" in scope["path"] else b""
        if not hmac.compare_digest(given, self._token):
            return 403, "The address lacks this explorer's token: open the address that the command printed."
        kind = headers.get(b"content-type", [b""])[0].split(b";")[0].strip()
        if scope["method"] == "POST" and kind != b"application/json":
            return 415, "The body is not JSON, expected the type application/json."
        return 0, ""
