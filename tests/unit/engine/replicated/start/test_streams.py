"""What a start does while the streams have no leaders yet, or only some of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from grid_member.engine.api import EngineError
from grid_member.engine.cluster_settings import ClusterSettings
from grid_member.engine.integrity.damage import Damage
from grid_member.engine.jetstream.mismatch import info
from grid_member.engine.log.log import wall_clock_ms
from grid_member.engine.nats.admin.streams import Stream, ensure_stream, stream_config
from grid_member.engine.nats.client.blocking import BlockingClient
from grid_member.engine.nats.client.errors import (
    LackingError,
    NatsError,
    RequestTimeoutError,
    ShortError,
)
from grid_member.engine.nats.client.wire import Message
from grid_member.engine.replicated import streams as cluster_streams
from grid_member.engine.replicated.engine import ClusterEngine
from grid_member.engine.replicated.replicated_shard import ReplicatedShard
from grid_member.engine.replicated.replicated_shards import ReplicatedShards
from grid_member.engine.replicated.streams import Streams
from grid_member.engine.state.machine import State
from tests.unit.engine.cluster.clusters import HOST, START_S
from tests.unit.engine.drive import Driver, FixedStructures
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from grid_member.engine.jetstream.log import JetStreamLog
    from grid_member.engine.jetstream.replay import ReplaySource
    from grid_member.engine.nats.client.client import NatsClient

CLUSTER = "dev"
SETTINGS = ClusterSettings(CLUSTER, "m", 0, tuple(("h", port) for port in range(3)), "u", "p")
STREAMS = [Stream(f"shard-{shard}", durable=False) for shard in range(3)]
FAILS_S = 0.003
"""How long a shard is tried that cannot be read: one after the other."""
ALL = [*STREAMS, *(stream.snapshots for stream in STREAMS)]


class Leaders:
    """The servers of a cluster in which streams get leaders one by one."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        """Streams with a leader."""
        self.missing: set[str] = set()
        """Those that are not there until they are made."""
        self.made: list[str] = []
        self.silent = False
        """Whether questions without an answer end, as after their time."""
        self.asked: list[str] = []
        self.lost = 0
        """Questions that nobody will ever answer, and somebody still waits for."""
        self.configs = {one.name: stream_config(one, 3, CLUSTER) for one in ALL}

    async def request(
        self, subject: bytes, payload: bytes = b"", *, timeout_s: float, headers: bytes = b""
    ) -> Message:
        call, _, name = subject.decode().rpartition(".")
        self.asked.append(name)
        if name not in self.known:
            if self.silent:
                raise RequestTimeoutError("nobody answers")
            # Who leads it later did not hear this.
            self.lost += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.lost -= 1
        if call.endswith("CREATE"):
            self.made.append(name)
            self.missing.discard(name)
        if name in self.missing:
            return Message(b"", b"", b"", b'{"error": {"err_code": 10059}}', 1)
        answer = json.dumps({"config": self.configs[name]}).encode()
        return Message(b"", b"", b"", answer, 1)

    def client(self) -> NatsClient:
        return cast("NatsClient", self)


class Shard:
    """A shard that can be read when its failures are used up, and looks at what was read."""

    def __init__(self, stream: Stream, failures: list[Exception], damage: Damage) -> None:
        self.stream = stream
        self.was_read = asyncio.Event()
        self._failures, self._damage = failures, damage

    async def read(self) -> None:
        if self._failures:
            await asyncio.sleep(FAILS_S)
            raise self._failures.pop()
        await self._damage.check(self.stream, "then", State(), State)
        self.was_read.set()


class Begin:
    """One begin over such servers."""

    def __init__(self) -> None:
        self.leaders = Leaders()
        self.shards: list[Shard] = []
        self.told: list[str] = []
        self.failures: dict[str, list[Exception]] = {}
        self.damage = Damage(lambda: STREAMS, None)
        self.streams = Streams(
            *(self.leaders.client(), SETTINGS, STREAMS),
            *(self.told.append, self._servers),
            *(never, self.damage),
        )

    def made(self, shard: int, stream: Stream) -> ReplicatedShard:
        assert STREAMS[shard] == stream
        made = Shard(stream, self.failures.get(stream.name, []), self.damage)
        self.shards.append(made)
        return cast("ReplicatedShard", made)

    async def run(self) -> list[ReplicatedShard]:
        async with self.streams as streams:
            return await streams.shards(self.made, range(len(STREAMS)))

    async def _servers(self) -> int:
        return 3


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_streams, "RETRY_S", 0.01)


async def none() -> int:
    raise AssertionError


async def never(_: Stream) -> str | None:
    return None


async def test_a_question_that_nobody_heard_is_asked_again_without_waiting_for_its_end() -> None:
    leaders, told = Leaders(), list[str]()
    making = asyncio.ensure_future(
        ensure_stream(leaders.client(), STREAMS[0], 3, CLUSTER, told.append, none, never)
    )
    await until(lambda: leaders.lost == 2)
    leaders.known.add(STREAMS[0].name)
    assert await making == 3
    assert leaders.lost == 0
    assert told == []


async def test_a_stream_is_not_made_while_another_member_is_to_write_it_back() -> None:
    leaders, told, kept = Leaders(), list[str](), ["m1 holds it"]
    leaders.missing.add(STREAMS[0].name)
    leaders.known.add(STREAMS[0].name)

    async def creation_obstacle(stream: Stream) -> str | None:
        assert stream == STREAMS[0]
        return kept[0] if kept else None

    making = asyncio.ensure_future(
        ensure_stream(
            leaders.client(), STREAMS[0], 3, CLUSTER, told.append, none, creation_obstacle
        )
    )
    await until(lambda: len(told) >= 2)
    assert set(told) == {"m1 holds it"}
    assert leaders.made == []
    kept.clear()
    assert await making == 3
    assert leaders.made == [STREAMS[0].name]


async def test_who_never_answers_is_told_of() -> None:
    leaders, told = Leaders(), list[str]()
    leaders.silent = True
    making = asyncio.ensure_future(
        ensure_stream(leaders.client(), STREAMS[0], 3, CLUSTER, told.append, none, never)
    )
    await until(lambda: told)
    making.cancel()
    await asyncio.wait({making})
    assert set(told) == {"nobody answers"}


async def test_no_stream_is_asked_for_before_the_first_one_is_there() -> None:
    begin = Begin()
    running = asyncio.ensure_future(begin.run())
    await until(lambda: begin.leaders.lost == 2)
    assert set(begin.leaders.asked) == {STREAMS[0].name}
    begin.leaders.known.update(one.name for one in ALL)
    await running
    assert set(begin.leaders.asked) == {one.name for one in ALL}


async def test_what_has_a_leader_is_read_while_another_has_none() -> None:
    begin = Begin()
    late = STREAMS[1].snapshots
    begin.leaders.known.update(one.name for one in ALL if one != late)
    running = asyncio.ensure_future(begin.run())
    await until(lambda: sum(shard.was_read.is_set() for shard in begin.shards) == 2)
    assert {shard.stream for shard in begin.shards} == {STREAMS[0], STREAMS[2]}
    assert not running.done()
    begin.leaders.known.add(late.name)
    shards = cast("list[Shard]", await running)
    assert [shard.stream for shard in shards] == STREAMS
    assert all(shard.was_read.is_set() for shard in shards)


async def test_a_shard_that_could_not_be_read_is_made_and_read_anew() -> None:
    begin = Begin()
    begin.leaders.known.update(one.name for one in ALL)
    begin.failures[STREAMS[2].name] = [NatsError("no leader now"), NatsError("nor now")]
    shards = cast("list[Shard]", await begin.run())
    assert [shard.stream for shard in shards] == STREAMS
    assert [shard.stream for shard in begin.shards].count(STREAMS[2]) == 3
    assert all(shard.was_read.is_set() for shard in shards)
    assert set(begin.told) == {"no leader now", "nor now"}


async def test_a_log_that_is_short_is_left_alone_until_it_is_longer_and_longer_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin, waits, grown = Begin(), list[float](), asyncio.Event()

    async def await_growth(client: NatsClient, error: ShortError, delay_s: float) -> None:
        assert client is begin.leaders.client()
        waits.append(delay_s)
        await grown.wait()

    monkeypatch.setattr(cluster_streams, "await_growth", await_growth, raising=False)
    begin.leaders.known.update(one.name for one in ALL)
    short = ShortError(STREAMS[2].name, 7)
    begin.failures[STREAMS[2].name] = [short, short]
    running = asyncio.ensure_future(begin.run())
    await until(lambda: sum(shard.was_read.is_set() for shard in begin.shards) == 2)
    await until(lambda: waits)
    assert [shard.stream for shard in begin.shards].count(STREAMS[2]) == 1
    grown.set()
    await running
    assert len(waits) == 2
    assert waits[0] < waits[1]


async def test_of_many_streams_only_the_first_is_told_of() -> None:
    begin = Begin()
    begin.leaders.known.update(one.name for one in STREAMS[:2])
    begin.leaders.silent = True
    running = asyncio.ensure_future(begin.run())
    await until(lambda: begin.leaders.asked.count(ALL[-1].name) > 3)
    asked = begin.leaders.asked.count(STREAMS[2].name)
    # Once for each time that it was given up, and not for the three streams of snapshots as well.
    assert 0 < len(begin.told) <= asked
    running.cancel()
    await asyncio.wait({running})


async def test_of_many_shards_that_cannot_be_read_only_the_first_is_told_of() -> None:
    """In turn, each look would find another reason to wait, and it would be logged each time."""
    begin = Begin()
    begin.leaders.known.update(one.name for one in ALL)
    for stream, failures in zip(STREAMS[1:], (9, 18), strict=True):
        begin.failures[stream.name] = [NatsError(f"nobody leads {stream.name}")] * failures
    await begin.run()
    assert set(begin.told) == {f"nobody leads {stream.name}" for stream in STREAMS[1:]}
    assert begin.told == sorted(begin.told)


@pytest.mark.parametrize("wrong", ALL, ids=[one.name for one in ALL])
async def test_a_stream_that_is_another_one_ends_all_of_it(wrong: Stream) -> None:
    begin = Begin()
    begin.leaders.known.update({STREAMS[0].name, wrong.name})
    other: dict[str, Any] = {**begin.leaders.configs[wrong.name], "storage": "file"}
    begin.leaders.configs[wrong.name] = other
    with pytest.raises(EngineError, match=r"persistence\.enabled has to be the same"):
        await asyncio.wait_for(begin.run(), 20)
    assert begin.leaders.lost == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("made_anew", [False, True], ids=["gone", "made-anew"])
async def test_what_was_read_before_all_was_deleted_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made_anew: bool
) -> None:
    maps = [f"map-{number}" for number in range(8)]
    read, reads, one = ReplicatedShard.replay, list[str](), STREAMS[1].name

    def replay(shard: ReplicatedShard) -> None:
        read(shard)
        log = cast("JetStreamLog", shard._log)
        reads.append(log._stream)
        if (log._stream == one and reads.count(one) == 1) if made_anew else len(reads) == shards:
            delete_all(log._source, made_anew=made_anew)

    settings = replace(SETTINGS, members=((HOST, 0),), directory=tmp_path)

    @contextlib.asynccontextmanager
    async def started() -> AsyncIterator[Driver]:
        engine = ClusterEngine(FixedStructures(), ReplicatedShards(settings), wall_clock_ms)
        await asyncio.wait_for(engine.start(), START_S)
        try:
            yield Driver(engine)
        finally:
            await engine.stop()

    async with started() as driver:
        shards = len(driver.engine.shards)
        for name in maps:
            await driver.put(name, "k", b"v")
    monkeypatch.setattr(ReplicatedShard, "replay", replay)
    async with started() as driver:
        assert len(reads) > shards
        assert [await driver.value(name, "k") for name in maps] == [None] * len(maps)
        for name in maps:
            await driver.put(name, "k", b"w")
        assert [await driver.value(name, "k") for name in maps] == [b"w"] * len(maps)


def delete_all(source: ReplaySource, *, made_anew: bool) -> None:
    """Delete all streams, as a member does that begins with nothing; others may make them anew."""
    address = source.address()
    assert address is not None
    with BlockingClient(address, source.user, source.password, 20) as client:
        names = json.loads(client.request(b"$JS.API.STREAM.NAMES").payload)["streams"]
        configs = {name: info(client, name)["config"] for name in names}
        for name in names:
            client.request(f"$JS.API.STREAM.DELETE.{name}".encode())
        for name, config in configs.items() if made_anew else ():
            client.request(f"$JS.API.STREAM.CREATE.{name}".encode(), json.dumps(config).encode())


async def test_what_a_copy_lacked_is_forgotten_when_the_log_was_read_from_another_one() -> None:
    begin = Begin()
    begin.leaders.known.update(one.name for one in ALL)
    begin.failures = {STREAMS[1].name: [LackingError(STREAMS[1].name, "m1-0123abcd-0123ab")]}
    running = asyncio.ensure_future(begin.run())
    await until(lambda: begin.damage.report)
    await running
    assert begin.told == [f"no copy of {STREAMS[1].name} could be read to its end yet"]
    assert begin.damage.report is None
