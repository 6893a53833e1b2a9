"""A log and a snapshot that fit by their lengths, and are of two different logs."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any, cast

import pytest

from grid_member.engine.api import EngineError
from grid_member.engine.jetstream import mismatch, replay
from grid_member.engine.jetstream.compaction import Compactor
from grid_member.engine.jetstream.consumer import StreamMessage, place
from grid_member.engine.jetstream.replay import SnapshotChunk, replay_log
from grid_member.engine.jetstream.snapshots import (
    OtherLogError,
    OvertakenError,
    SnapshotEnd,
    SnapshotWriter,
    check_log,
    end_fields,
    look_at,
    purge,
    record_ms,
)
from grid_member.engine.nats.admin.streams import ask_successfully
from grid_member.engine.nats.client.client import NatsClient
from grid_member.engine.nats.client.errors import RequestTimeoutError, ShortError
from grid_member.engine.state.machine import State
from tests.unit.engine.cleaned import compact_always
from tests.unit.engine.jetstream.worlds import COUNT, StateConsumer, World
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grid_member.engine.nats.client.wire import Message


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    compact_always(monkeypatch)
    monkeypatch.setattr(mismatch, "LOOK_S", 0.01)


async def test_an_image_knows_the_record_that_it_was_taken_at(world: World) -> None:
    snapshot, last_ms = await world.in_snapshot()
    end = await world.end()
    assert end is not None
    assert (end.log, end.log_ms) == (COUNT, last_ms)
    assert snapshot.sequence == COUNT
    assert (await world.state())["first_seq"] == COUNT + 1
    again, consumer = world.member(), StateConsumer()
    await asyncio.to_thread(consumer.load, again)
    # A member that has read it and no record writes the same.
    again.start(consumer)
    assert again._messages.time_ms(COUNT) == last_ms


class Slow:
    """Servers that answer with a record as long as a large one takes, and with all else at once."""

    def __init__(self, client: NatsClient, record_s: float) -> None:
        self._client = client
        self._record_s = record_s
        self.records = 0

    async def request(self, subject: bytes, payload: bytes, *, timeout_s: float) -> Message:
        if b"MSG.GET" in subject:
            self.records += 1
            if timeout_s < self._record_s:
                raise RequestTimeoutError("nobody answered in time")
        return await self._client.request(subject, payload, timeout_s=timeout_s)


async def test_a_large_record_may_take_longer_than_other_answers(world: World) -> None:
    slow = Slow(world.client, record_s=5.0)
    with pytest.raises(OtherLogError):
        await check_log(
            cast("NatsClient", slow), world.log.name, SnapshotEnd(COUNT, 1, 0, 0, log_ms=1)
        )
    assert slow.records == 1


async def test_a_log_goes_on_behind_a_record_that_is_purged(world: World) -> None:
    await world.in_snapshot()
    log, consumer = world.member(), StateConsumer()
    await asyncio.to_thread(consumer.load, log)
    log.start(consumer)
    await world.write(COUNT + 1, COUNT + 2)
    await until(lambda: consumer.state.sequence == COUNT + 2)
    assert consumer.losses == 0


async def test_who_read_an_image_of_another_log_reads_anew(world: World) -> None:
    await world.in_snapshot()
    log, consumer = world.member(), StateConsumer()
    await asyncio.to_thread(consumer.load, log)
    await world.replace(COUNT + 2)
    log.start(consumer)
    await until(lambda: consumer.losses or consumer.state.sequence > COUNT)
    assert (consumer.losses, consumer.state.sequence) == (1, COUNT)


async def test_an_image_of_another_log_is_replaced_and_purges_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.in_snapshot()
    old = await world.end()
    await world.replace(COUNT)
    compactor = Compactor(world.client, world.log.name, lambda: None)
    for _ in range(3):
        await until(lambda: compactor.wants(0))
        compactor._snapshots = None
    assert await world.end() == old
    assert (await world.state())["messages"] == COUNT
    said = [one.message for one in caplog.records if one.levelno == logging.ERROR]
    assert said == [
        f"log has another record {COUNT} than its image, which is of another log: "
        "it is written anew"
    ]
    # Also while nothing is written: the log is as long as the snapshot tells.
    snapshot, last_ms = await world.in_snapshot()
    end = await world.end()
    assert end is not None
    assert (snapshot.sequence, end.log, end.log_ms) == (COUNT, COUNT, last_ms)
    assert end != old
    assert (await world.state())["first_seq"] == COUNT + 1


async def test_who_knows_the_former_log_replaces_no_image(world: World) -> None:
    snapshot, last_ms = await world.in_snapshot()
    await world.replace(COUNT - 1)
    held = await look_at(world.client, world.log.name)
    with pytest.raises(OvertakenError, match="another one"):
        await SnapshotWriter(world.client, world.log.name, held).write(snapshot, last_ms)
    await world.write(COUNT, COUNT)
    held = await look_at(world.client, world.log.name)
    with pytest.raises(OtherLogError):
        await SnapshotWriter(world.client, world.log.name, held).write(snapshot, last_ms)
    assert await world.end() == held.end
    assert (await world.state())["messages"] == COUNT


async def test_a_log_that_is_replaced_when_its_image_ends_is_not_made_to_fit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_end = SnapshotWriter._put_end

    async def replaced(writer: SnapshotWriter, end: SnapshotEnd) -> None:
        await put_end(writer, end)
        await world.replace(0)

    monkeypatch.setattr(SnapshotWriter, "_put_end", replaced)
    state = State()
    state.sequence = COUNT
    writer = SnapshotWriter(world.client, world.log.name, await look_at(world.client, "log"))
    with pytest.raises(OvertakenError):
        await writer.write(state.snapshot())
    end = await world.end()
    assert end is not None
    assert end.log == COUNT
    assert (await world.state())["last_seq"] == 0
    with pytest.raises(ShortError, match=f"ends before record {COUNT}, at which its image"):
        await asyncio.to_thread(read, world)


@pytest.mark.parametrize("replaced", [True, False], ids=["replaced", "purged"])
async def test_a_log_that_changes_between_two_questions_is_looked_at_again(
    world: World, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    _, last_ms = await world.in_snapshot()
    end = await world.end()
    assert end is not None
    if replaced:
        await world.replace(COUNT)
    else:
        await world.write(COUNT + 1, COUNT + 2)
        end = end._replace(log=COUNT + 1, log_ms=last_ms)
    request = NatsClient.request
    changes: list[bytes] = []

    async def late(client: NatsClient, subject: bytes, *args: Any, **named: Any) -> Any:
        if subject == b"$JS.API.STREAM.MSG.GET.log" and not changes:
            changes.append(subject)
            if replaced:
                await world.replace(0)
            else:
                await ask_successfully(client, "STREAM.PURGE.log", {"seq": COUNT + 2})
        return await request(client, subject, *args, **named)

    monkeypatch.setattr(NatsClient, "request", late)
    if replaced:
        with pytest.raises(OvertakenError, match="another one"):
            await purge(world.client, world.log.name, end)
        assert (await world.state())["last_seq"] == 0, "it would seem to fit"
    else:
        await purge(world.client, world.log.name, end)
        assert (await world.state())["first_seq"] == COUNT + 2
    assert changes


def read(world: World) -> list[object]:
    return list(replay_log(world.source, world.log.name))


async def test_a_start_names_two_logs_and_waits_while_somebody_knows_the_state(
    world: World,
) -> None:
    await world.in_snapshot()
    await world.replace(COUNT + 5)
    log = world.member()
    log.start(StateConsumer())
    await until(lambda: log._messages._last == COUNT + 5)
    named = "log has 1 to 15, its image was taken at 10 of another log"
    with pytest.raises(OvertakenError, match=named):
        await asyncio.to_thread(read, world)
    await log.close()

    await world.nobody_is_fed()
    with pytest.raises(EngineError, match=f"damaged on the disks of all members: the {named}"):
        await asyncio.to_thread(read, world)


async def test_a_log_on_disks_that_ends_before_its_image_is_waited_for(world: World) -> None:
    await world.in_snapshot()
    await world.replace(COUNT - 1)
    with pytest.raises(ShortError, match=f"ends before record {COUNT}, at which its image was"):
        await asyncio.to_thread(read, world)


async def test_a_log_that_is_replaced_while_its_image_is_read_is_read_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.in_snapshot()
    loop, snapshot = asyncio.get_running_loop(), replay._read_snapshot

    def replaced(*args: Any) -> Iterator[SnapshotChunk]:
        yield from snapshot(*args)
        asyncio.run_coroutine_threadsafe(world.replace(COUNT + 5), loop).result()

    monkeypatch.setattr(replay, "_read_snapshot", replaced)
    with pytest.raises(OvertakenError, match="became another one"):
        await asyncio.to_thread(read, world)


async def test_images_that_tell_no_time_are_compared_by_lengths(world: World) -> None:
    await world.in_snapshot()
    held = await look_at(world.client, world.log.name)
    assert held.end is not None
    await world.write(COUNT + 1, COUNT + 5)
    state = State()
    state.sequence = COUNT + 3
    await SnapshotWriter(world.client, world.log.name, held).write(state.snapshot())
    end = await world.end()
    assert end is not None
    assert (end.log, end.log_ms) == (COUNT + 3, None)
    await world.replace(COUNT + 5)
    steps = await asyncio.to_thread(read, world)
    assert [type(step) for step in steps][-2:] == [StreamMessage, StreamMessage]


def test_an_end_without_a_time_is_what_it_was() -> None:
    fields = {"format": 1, "log": 40, "first": 7, "chunks": 2, "crc": 99}
    assert json.loads(end_fields(SnapshotEnd(40, 7, 2, 99))) == fields
    assert json.loads(end_fields(SnapshotEnd(40, 7, 2, 99, 5))) == {**fields, "log_ms": 5}


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("2026-01-02T03:04:05Z", 1_767_323_045_000_000_000),
        ("2026-01-02T03:04:05.1Z", 1_767_323_045_100_000_000),
        ("2026-01-02T03:04:05.9999999Z", 1_767_323_045_999_999_900),
        ("2026-01-02T03:04:05.000999999Z", 1_767_323_045_000_999_999),
        ("2026-01-02T03:04:05.001Z", 1_767_323_045_001_000_000),
        ("2026-01-02T03:04:05.289Z", 1_767_323_045_289_000_000),
        ("2026-01-02T05:04:05.123456789+02:00", 1_767_323_045_123_456_789),
    ],
)
def test_a_record_has_the_same_time_for_who_asks_and_who_is_fed(
    text: str, nanoseconds: int
) -> None:
    _, _, fed_ms = place(b"$JS.ACK.s.c.1.1.1.%d.0" % nanoseconds)
    assert record_ms("log", {"message": {"seq": 1, "time": text}}) == fed_ms


def test_a_record_that_is_purged_has_no_time() -> None:
    assert record_ms("log", {"error": {"err_code": 10037, "description": "no message"}}) is None
