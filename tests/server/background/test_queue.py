# SPDX-License-Identifier: Apache-2.0
"""The slow lane: everybody gets a turn, and those whom it cannot take are told."""

import asyncio
import threading
from functools import partial

import pytest

from legcf.server.background.queue import Busy, ClientDisconnected, SlowQueue


def test_everybody_in_the_lane_gets_a_turn() -> None:
    done: list[str] = []

    async def piece(name: str) -> str:
        await asyncio.sleep(0.001)
        done.append(name)
        return name

    async def run() -> None:
        lane = SlowQueue()
        first = lane.run_all([partial(piece, f"a{k}") for k in range(3)])
        second = lane.run_all([partial(piece, f"b{k}") for k in range(3)])
        assert (await asyncio.gather(first, second))[1] == ["b0", "b1", "b2"]
        lane.close()

    asyncio.run(run())
    assert done == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_the_loop_goes_on_while_the_lane_works_and_a_full_lane_says_so() -> None:
    async def run() -> None:
        lane, gate = SlowQueue(max_waiting=2), threading.Event()
        waiting = [asyncio.create_task(lane.in_thread(gate.wait)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await lane.in_thread(gate.wait)
        gate.set()  # by the loop, which nothing holds up
        assert await asyncio.gather(*waiting) == [True, True]
        assert await lane.in_thread(lambda: 5) == 5
        lane.close()

    asyncio.run(run())


def test_a_piece_that_fails_frees_its_place() -> None:
    async def run() -> None:
        lane = SlowQueue(max_waiting=1)
        with pytest.raises(ZeroDivisionError):
            await lane.in_thread(lambda: 1 // 0)
        assert await lane.in_thread(lambda: 2) == 2
        lane.close()

    asyncio.run(run())


def test_nothing_is_done_for_somebody_who_has_gone() -> None:
    done: list[int] = []

    async def gone() -> bool:
        return len(done) >= 2

    async def piece(k: int) -> None:
        done.append(k)

    async def run() -> None:
        lane = SlowQueue(max_waiting=1)
        with pytest.raises(ClientDisconnected):
            await lane.run_all([partial(piece, k) for k in range(5)], gone)
        assert await lane.in_thread(lambda: 2) == 2
        lane.close()

    asyncio.run(run())
    assert done == [0, 1]
