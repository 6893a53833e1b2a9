"""Looking at connections now and then: who is looked at, when, and what standing still means."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import TYPE_CHECKING

from grid_member.command.event_loop import loop_maker
from grid_member.http.wire.watch import (
    ANSWERS_PER_LOOK,
    AT_ONCE,
    PERIOD_S,
    LostClients,
    UnreadTimer,
    Watch,
    write_pieces,
)
from tests.unit.member.http.wire.test_patience import Clock, clock
from tests.unit.member.running import open_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["clock"]


class Looked:
    """A connection that counts how often it is looked at."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.times_s: list[float] = []
        self.leaves = False

    def look(self, now_s: float) -> None:
        self.times_s.append(now_s)
        if self.leaves:
            self.watch.discard(self)

    async def finish(self) -> None:
        raise AssertionError("a watch only looks")

    def abort(self) -> None:
        raise AssertionError("a watch only looks")


async def turns(count: int) -> None:
    """Let the loop run for some turns."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_each_is_looked_at_once_a_period(clock: Clock) -> None:
    watch = Watch()
    looked = [Looked(watch) for _ in range(3 * AT_ONCE + 1)]
    for one in looked:
        watch.add(one)
        watch.add(one)
    assert len(watch) == len(looked)
    for period in range(3):
        clock.ahead_s += PERIOD_S
        await turns(10)
        assert {len(one.times_s) for one in looked} == {period + 1}
    assert looked[0].times_s == sorted(looked[0].times_s)


async def test_others_have_their_turn_while_many_are_looked_at(clock: Clock) -> None:
    watch = Watch()
    looked = [Looked(watch) for _ in range(3 * AT_ONCE)]
    for one in looked:
        watch.add(one)
    clock.ahead_s += PERIOD_S
    seen = set()
    for _ in range(10):
        await asyncio.sleep(0)
        seen.add(sum(len(one.times_s) for one in looked))
    assert {AT_ONCE, 2 * AT_ONCE, 3 * AT_ONCE} <= seen


async def test_who_has_left_is_not_looked_at(clock: Clock) -> None:
    watch = Watch()
    looked = [Looked(watch) for _ in range(2 * AT_ONCE)]
    for one in looked:
        watch.add(one)
        one.leaves = True
    clock.ahead_s += PERIOD_S
    await turns(2)
    late = [one for one in looked if not one.times_s]
    assert late
    for one in late:
        watch.discard(one)
    await turns(5)
    assert all(not one.times_s for one in late)
    assert len(watch) == 0


async def test_without_connections_nothing_runs(clock: Clock) -> None:
    watch = Watch()
    first, second = Looked(watch), Looked(watch)
    watch.add(first)
    first.leaves = True
    clock.ahead_s += PERIOD_S
    await turns(3)
    assert len(watch) == 0
    assert watch._timer is None
    watch.add(second)
    clock.ahead_s += PERIOD_S
    await turns(3)
    assert len(second.times_s) == 1


def test_standing_still_is_measured_from_the_first_look() -> None:
    unread = UnreadTimer(10)
    assert not unread.overdue(100, 50)
    assert not unread.overdue(109, 50)
    assert unread.overdue(110, 50)


def test_any_byte_that_is_taken_is_progress() -> None:
    unread = UnreadTimer(10)
    buffered_bytes = 1000
    for now_s in range(0, 90, 9):
        buffered_bytes -= 1
        assert not unread.overdue(now_s, buffered_bytes)
    assert not unread.overdue(90, buffered_bytes)
    assert unread.overdue(91, buffered_bytes)


def test_more_that_is_written_is_no_standstill_and_no_progress() -> None:
    reading, deaf = UnreadTimer(10), UnreadTimer(10)
    for now_s in range(0, 60, 9):
        # As much is written as the client takes.
        assert not reading.overdue(now_s, 500, 500 + 100 * now_s)
        late = deaf.overdue(now_s, 500 + 100 * now_s, 500 + 100 * now_s)
        assert late == (now_s >= 10)


class Connected(asyncio.Transport):
    """A transport that has a socket, and the client at its other end."""

    def __init__(self, near: socket.socket, client: socket.socket) -> None:
        super().__init__({"socket": near})
        self.client = client


@contextlib.contextmanager
def connected(count: int) -> Iterator[list[Connected]]:
    pairs = [socket.socketpair() for _ in range(count)]
    try:
        yield [Connected(*pair) for pair in pairs]
    finally:
        for pair in pairs:
            for one in pair:
                one.close()


async def test_who_has_left_is_known_however_many_leave_at_once() -> None:
    leavers = LostClients(asyncio.get_running_loop())
    with connected(300) as transports:
        numbers = [leavers.follow(transport) for transport in transports]
        assert not any(map(leavers.has_left, numbers))
        await turns(2)
        for transport in transports[1:]:
            transport.client.shutdown(socket.SHUT_WR)
        assert [leavers.has_left(number) for number in numbers] == [False, *[True] * 299]


async def test_who_leaves_is_seen_in_the_next_turn_or_a_few_answers_later() -> None:
    leavers = LostClients(asyncio.get_running_loop())
    with connected(3) as transports:
        first, second = map(leavers.follow, transports[:2])
        assert not leavers.has_left(first)
        transports[0].client.close()
        await turns(2)
        assert leavers.has_left(first)
        transports[1].client.close()
        assert (
            sum(not leavers.has_left(second) for _ in range(2 * ANSWERS_PER_LOOK))
            < ANSWERS_PER_LOOK
        )

        transports[2].client.close()
        assert leavers.has_left(leavers.follow(transports[2]))


async def test_the_next_connection_of_the_same_number_is_another_one() -> None:
    leavers = LostClients(asyncio.get_running_loop())
    with connected(1) as (gone,):
        number = leavers.follow(gone)
        gone.client.close()
        assert leavers.has_left(number)
        gone.get_extra_info("socket").close()
        with connected(1) as (next_one,):
            assert leavers.follow(next_one) == number
            assert not leavers.has_left(number)


async def test_a_connection_that_is_forgotten_says_nothing_of_the_next_of_its_number() -> None:
    leavers = LostClients(asyncio.get_running_loop())
    with connected(1) as (gone,):
        near = gone.get_extra_info("socket")
        number = leavers.follow(gone)
        gone.client.close()
        assert leavers.has_left(number)
        with socket.socket(fileno=os.dup(near.fileno())):  # as a process that was forked may have
            leavers.forget(number)
            near.close()
            with connected(1) as (next_one,):
                assert leavers.follow(next_one) == number
                assert not leavers.has_left(number)
    leavers.forget(number)  # nothing is left of it


async def test_nothing_stays_open_of_who_follows_nobody_any_more() -> None:
    with connected(1) as (one,):
        before = open_files()
        leavers = LostClients(asyncio.get_running_loop())
        number = leavers.follow(one)
        assert not leavers.has_left(number)
        leavers.close()
        assert open_files() == before
        leavers.forget(number)  # as connections that are cut at the end do


class Counting(asyncio.Transport):
    """A transport that notes the calls of whoever writes."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[bytes]] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.calls.append([bytes(data)])

    def writelines(self, pieces: Iterable[bytes | bytearray | memoryview]) -> None:
        self.calls.append([bytes(piece) for piece in pieces])


class Loops(Counting):
    """One that would be uvloop's."""

    __module__ = "uvloop.loop"


def test_pieces_go_out_in_one_call_where_that_pauses_who_writes_too_much() -> None:
    own, uvloops = Counting(), Loops()
    write_pieces(own, [b"head", b"body"])
    write_pieces(uvloops, [b"head", b"body"])
    assert own.calls == [[b"head"], [b"body"]]
    assert uvloops.calls == [[b"head", b"body"]]


async def test_what_would_be_uvloops_is() -> None:
    loop = loop_maker("uvloop")()
    try:
        left, right = socket.socketpair()
        with left, right:
            opening = loop.create_connection(asyncio.Protocol, sock=left)
            transport, _ = await asyncio.to_thread(loop.run_until_complete, opening)
            assert type(transport).__module__.startswith("uvloop")
            transport.abort()
            await asyncio.to_thread(loop.run_until_complete, asyncio.sleep(0))
    finally:
        loop.close()
