"""Of the requests of a page the newest alone is done."""

from __future__ import annotations

import asyncio
import threading

import pytest

pytest.importorskip("starlette", reason="the explorer needs starlette")

from densefield.explorer.lanes import Lane, SupersededError


async def forever() -> None:
    await asyncio.Event().wait()


def test_requests_that_wait_give_way_to_the_newest():
    started, release, done = threading.Event(), threading.Event(), []

    def slow(check):
        started.set()
        release.wait(10)
        check()
        done.append("slow")

    async def main():
        lane = Lane("test")
        tasks = [asyncio.ensure_future(lane.run("page", 1, slow, forever))]
        await asyncio.to_thread(started.wait, 10)
        for number in (2, 3, 4):
            tasks.append(asyncio.ensure_future(lane.run("page", number, lambda check: done.append("new"), forever)))
        other = asyncio.ensure_future(lane.run("other page", 1, lambda check: "other", forever))
        await asyncio.sleep(0)
        release.set()
        found = await asyncio.gather(*tasks, other, return_exceptions=True)
        lane.close()
        return found

    found = asyncio.run(main())
    assert [type(each) for each in found[:3]] == [SupersededError] * 3  # the running one stopped at its check
    assert found[3:] == [None, "other"] and done == ["new"]


def test_an_older_number_that_arrives_late_is_refused():
    async def main():
        lane = Lane("test")
        await lane.run("page", 5, lambda check: None, forever)
        with pytest.raises(SupersededError):
            await lane.run("page", 4, lambda check: None, forever)
        lane.close()

    asyncio.run(main())


def test_work_stops_when_the_page_closes_the_connection():
    async def main():
        lane, gone, checks = Lane("test"), asyncio.Event(), []

        def work(check):
            for _ in range(2000):
                threading.Event().wait(0.005)
                check()
                checks.append(1)

        task = asyncio.ensure_future(lane.run("page", 1, work, gone.wait))
        await asyncio.sleep(0.05)
        gone.set()
        with pytest.raises(SupersededError):
            await asyncio.wait_for(task, 5)
        lane.close()
        return len(checks)

    assert asyncio.run(main()) < 2000


def test_errors_of_work_are_passed_on():
    async def main():
        lane = Lane("test")
        try:
            await lane.run("page", 1, lambda check: 1 / 0, forever)
        finally:
            lane.close()

    with pytest.raises(ZeroDivisionError):
        asyncio.run(main())
