"""Slices of work leave the event loop to requests."""

from __future__ import annotations

import pytest

from grid_member.wan.pacing import BUSY_TURN_S, PAUSES, Pacer


class Loop:
    """A clock that a slice of work, or a turn of the loop, moves."""

    def __init__(self, turn_s: float) -> None:
        self.now_s = 0.0
        self.turn_s = turn_s
        self.slept_s: list[float] = []

    def clock(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        if seconds:
            self.slept_s.append(seconds)
        self.now_s += seconds or self.turn_s


async def test_a_pause_is_as_long_as_the_work_asks_for_while_requests_wait() -> None:
    loop = Loop(turn_s=2 * BUSY_TURN_S)
    pacer = Pacer(loop.clock, loop.sleep)
    pacer.begin()
    loop.now_s += 0.25
    await pacer.turn()
    assert loop.slept_s == [PAUSES * 0.25]


async def test_a_loop_without_requests_gets_no_pause() -> None:
    loop = Loop(turn_s=BUSY_TURN_S / 2)
    pacer = Pacer(loop.clock, loop.sleep)
    pacer.begin()
    loop.now_s += 0.25
    await pacer.turn()
    assert loop.slept_s == []


async def test_a_batch_that_begins_in_a_turn_of_another_one_shortens_no_pause() -> None:
    loop = Loop(turn_s=2 * BUSY_TURN_S)

    async def sleep(seconds: float) -> None:
        await loop.sleep(seconds)
        pacer.begin()

    pacer = Pacer(loop.clock, sleep)
    pacer.begin()
    loop.now_s += 0.25
    await pacer.turn()
    assert loop.slept_s == [pytest.approx(PAUSES * 0.25)]
