"""Work in threads of which each client's newest request alone is done."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

MOST_CLIENTS = 64  # pages that are remembered


class SupersededError(Exception):
    """A newer request of the same page came, or the page went away."""


class Lane:
    """One thread. A request gives way to newer ones of its client: it never starts, or stops at its next check.

    Parameters
    ----------
    name
        The name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"densefield-{name}")
        self._newest: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    async def run(
        self,
        client: str,
        number: int,
        work: Callable[[Callable[[], None]], T],
        gone: Callable[[], Awaitable[object]],
    ) -> T:
        """The result of work(check); raises SupersededError once the request is no longer wanted.

        Parameters
        ----------
        client
            The page that asks.
        number
            The number of the request, which grows.
        work
            Called in the thread with a function that raises SupersededError if the request is no longer wanted.
        gone
            Returns when the page has closed the connection.
        """
        closed = threading.Event()
        self._announce(client, number)

        def check() -> None:
            if closed.is_set() or self._newest.get(client, number) != number:
                raise SupersededError

        def job() -> T:
            check()
            return work(check)

        future = asyncio.get_running_loop().run_in_executor(self._pool, job)
        watcher = asyncio.ensure_future(gone())
        either: set[asyncio.Future[Any]] = {future, watcher}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not future.done():
                closed.set()
            return await future
        finally:
            watcher.cancel()

    def close(self) -> None:
        """Ends the thread after the request in progress, and refuses further ones."""
        with self._lock:
            self._newest = OrderedDict.fromkeys(self._newest, -1)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _announce(self, client: str, number: int) -> None:
        with self._lock:
            newest = max(number, self._newest.get(client, number))
            self._newest[client] = newest
            self._newest.move_to_end(client)
            while len(self._newest) > MOST_CLIENTS:
                self._newest.popitem(last=False)
