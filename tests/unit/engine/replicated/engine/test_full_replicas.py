"""Places of those who hold everything: five, for who comes first, while they are renewed."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from grid_member.engine.api import EngineError, Reason, Refused
from grid_member.engine.cluster_settings import MAX_FULL_REPLICAS, ClusterSettings
from grid_member.engine.log.log import wall_clock_ms
from grid_member.engine.nats.client.errors import NatsError, ShortError
from grid_member.engine.replicated import full_replicas
from grid_member.engine.replicated.full_replicas import (
    FREE_SEAT_S,
    RENEW_S,
    RETRY_S,
    SEAT_MS,
    SEAT_PREFIX,
    Seats,
    initial_shards,
    read_shard,
)
from grid_member.engine.replicated.part_engine import PartEngine
from grid_member.engine.replicated.replicated_shards import ReplicatedShards
from grid_member.engine.state.machine import State
from grid_member.engine.state.operations import Record
from tests.unit.engine.drive import FixedStructures, HandClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.replicated.replicated_shard import ReplicatedShard
    from grid_member.engine.shard.shard import Answer
    from grid_member.engine.state.operations import Operation

MANY = 5


class First:
    """A first shard as all members see it: each operation travels in a record of its own."""

    def __init__(self) -> None:
        self.refused: Refused | None = None
        self.in_contact = True
        self._state = State()
        self._clock = HandClock()
        self._sequence = 0

    def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)

    def propose_system(self, operation: Operation, answer: Answer, size_bytes: int) -> None:
        asyncio.get_running_loop().call_soon(self._apply, operation, answer)

    def items(self, prefix: str) -> list[tuple[str, bytes]]:
        return self._state.system.items(prefix, self._clock())

    def places(self, own: str) -> Seats:
        return Seats(cast("ReplicatedShard", self), self.items, own)

    async def members(self) -> list[str]:
        await asyncio.sleep(0)  # what was proposed is applied
        return [key.removeprefix(SEAT_PREFIX) for key, _ in self.items(SEAT_PREFIX)]

    def _apply(self, operation: Operation, answer: Answer) -> None:
        if self.refused is not None:
            answer(self.refused)
            return
        self._sequence += 1
        record = Record(b"m" * 16, 1, self._sequence, (operation,))
        outcomes = self._state.apply(self._sequence, self._clock(), record)
        assert outcomes is not None
        answer(outcomes[0])


async def test_of_any_number_of_members_at_once_five_have_places() -> None:
    first = First()
    names = [f"m{number}" for number in range(2 * MAX_FULL_REPLICAS)]
    places = [first.places(name) for name in reversed(names)]
    taken = await asyncio.gather(*(one.take() for one in places))
    assert taken == [True] * MAX_FULL_REPLICAS + [False] * MAX_FULL_REPLICAS
    assert await first.members() == names[MAX_FULL_REPLICAS:]
    assert [one.free for one in places] == [True] * MAX_FULL_REPLICAS + [False] * MAX_FULL_REPLICAS
    assert await places[0].take()
    assert not await places[-1].take()
    places[0].leave()
    assert len(await first.members()) == MAX_FULL_REPLICAS - 1
    assert await places[-1].take()
    assert not await places[0].take()


async def test_a_place_ends_unless_it_is_renewed() -> None:
    first = First()
    stays, goes = first.places("stays"), first.places("goes")
    assert await stays.take()
    assert await goes.take()
    assert 2 * RENEW_S * 1000 < SEAT_MS
    first.advance(SEAT_MS / 1000 - 1)
    assert await stays.take()
    first.advance(1)
    assert await first.members() == ["stays"]


async def test_who_runs_takes_a_place_that_is_free_for_long() -> None:
    first = First()
    others = [first.places(str(number)) for number in range(MAX_FULL_REPLICAS)]
    for other in others:
        assert await other.take()
    late = first.places("late")
    assert not late.is_long_free(0.0)
    others[0].leave()
    await first.members()
    assert not late.is_long_free(1.0)
    assert not late.is_long_free(FREE_SEAT_S)
    assert late.is_long_free(1.0 + FREE_SEAT_S)
    assert await others[0].take()
    assert not late.is_long_free(2.0 + FREE_SEAT_S)
    others[0].leave()
    await first.members()
    assert not late.is_long_free(3.0 + FREE_SEAT_S)
    # Without contact places seem to end that are only not renewed.
    first.in_contact = False
    assert not late.is_long_free(3.0 + 2 * FREE_SEAT_S)
    first.in_contact = True
    assert not late.is_long_free(4.0 + 2 * FREE_SEAT_S)
    assert late.is_long_free(4.0 + 3 * FREE_SEAT_S)


async def test_who_does_not_know_whether_it_has_a_place_has_none() -> None:
    first = First()
    places = first.places("m")
    first.refused = Refused(Reason.UNAVAILABLE, "no quorum")
    assert not await places.take()
    assert await first.members() == []


def test_members_begin_with_the_shards_that_they_are_sure_to_have() -> None:
    def settings(count: int, *, lite: bool = False) -> ClusterSettings:
        members = tuple(("h", port) for port in range(count))
        return ClusterSettings("dev", "m", 0, members, "u", "p", lite=lite)

    assert initial_shards(settings(MAX_FULL_REPLICAS), 3, 4) == [0, 1, 2, 3]
    assert initial_shards(settings(MAX_FULL_REPLICAS + 1), 3, 4) == [0, 3]
    assert initial_shards(settings(MAX_FULL_REPLICAS + 1), 3, 3) == [0]
    assert initial_shards(settings(MAX_FULL_REPLICAS + 1, lite=True), 3, 4) == [0]


async def test_a_shard_that_nobody_leads_is_read_for_so_long_only() -> None:
    class Unled:
        async def read(self) -> None:
            raise NatsError("no leader")

    told: list[str] = []
    tell = partial(_appended, told)
    unled = cast("ReplicatedShard", Unled())
    with pytest.raises(EngineError, match="cannot be read now: no leader"):
        await read_shard(lambda: unled, asyncio.Event(), tell, cast("NatsClient", None), 0.0)
    assert told == ["no leader"]


def _appended(told: list[str], error: NatsError) -> None:
    told.append(str(error))


async def test_a_shard_that_is_short_is_left_alone_but_no_longer_than_it_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, now_s = cast("NatsClient", object()), 0.0
    left_alone: list[float] = []

    class Short:
        async def read(self) -> None:
            raise ShortError("shard-1", 7)

    async def await_growth(of: NatsClient, error: ShortError, delay_s: float) -> None:
        nonlocal now_s
        assert of is client
        left_alone.append(delay_s)
        now_s += delay_s
        if len(left_alone) == MANY:
            await asyncio.Event().wait()  # for what is left

    monkeypatch.setattr(full_replicas, "await_growth", await_growth)
    monkeypatch.setattr(full_replicas, "time", SimpleNamespace(monotonic=lambda: now_s))
    told: list[str] = []
    patience_s = sum(RETRY_S * 2**wait for wait in range(MANY - 1)) + 0.05
    short, tell = cast("ReplicatedShard", Short()), partial(_appended, told)
    with pytest.raises(EngineError, match="cannot be read now: shard-1 ends before record 7"):
        await read_shard(lambda: short, asyncio.Event(), tell, client, patience_s)
    assert left_alone == [RETRY_S * 2**wait for wait in range(MANY)]


@pytest.mark.parametrize("serves", [False, True])
async def test_a_member_that_serves_waits_for_nothing_that_it_reads_beside(
    serves: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(full_replicas, "RETRY_S", 0.001)
    members = tuple(("h", port) for port in range(MAX_FULL_REPLICAS + 1))
    shards = ReplicatedShards(ClusterSettings("dev", "m", 0, members, "u", "p"))
    engine = PartEngine(FixedStructures(), shards, wall_clock_ms)
    shards._client = cast("NatsClient", object())
    if serves:
        engine._refusal = None
    heard: list[str | None] = []

    class Unled:
        async def read(self) -> None:
            heard.append(engine.waiting)
            if len(heard) == MANY:
                raise EngineError("it is over")
            raise NatsError("a leader is away")

    monkeypatch.setattr(shards, "missing", lambda **_: [Unled])
    with pytest.raises(EngineError, match="it is over"):
        await engine._bring_in_missing()
    assert heard[0] is None
    waits = [reason is not None and "a leader is away" in reason for reason in heard[1:]]
    assert waits == [not serves] * (MANY - 1)
    assert caplog.text.count("a part of the data cannot be read yet: a leader is away") == 1


async def test_a_member_that_serves_waits_for_no_shard_that_is_being_confirmed() -> None:
    members = tuple(("h", port) for port in range(MAX_FULL_REPLICAS + 1))
    shards = ReplicatedShards(ClusterSettings("dev", "m", 0, members, "u", "p"))
    engine = PartEngine(FixedStructures(), shards, wall_clock_ms)
    engine._refusal = None
    seen: list[str | None] = []

    class Unconfirmed:
        def read_when_current(self, reader: Callable[[Refused | None], None]) -> None:
            seen.append(engine.waiting)
            reader(None if len(seen) > 1 else Refused(Reason.UNAVAILABLE, "no quorum"))

    await engine._catch_up(cast("ReplicatedShard", Unconfirmed()))
    assert seen == [None, None]
