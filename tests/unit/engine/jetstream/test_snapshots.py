"""A log that is replaced by snapshots: it stays small, and whatever happens it can be replayed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from grid_member.engine.api import Refused
from grid_member.engine.jetstream import compaction
from grid_member.engine.jetstream.snapshots import OvertakenError, SnapshotWriter, look_at
from grid_member.engine.nats.admin.streams import ask_successfully
from grid_member.engine.nats.client.client import NatsClient
from grid_member.engine.state.machine import State
from grid_member.engine.state.operations import Committed
from tests.unit.engine.cleaned import compact_always, compactor_of
from tests.unit.engine.conftest import StreamBench
from tests.unit.engine.drive import Driver, condition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from grid_member.engine.replicated.engine import ClusterEngine
    from grid_member.engine.state.snapshot import Snapshot

STREAM = "shard-0"
VALUE = b"x" * 100
KEYS = 40
STEPS = 9
"""Requests of a snapshot of `KEYS` entries in small chunks: over a claim, an end, two purges."""


@pytest.fixture
async def stream(tmp_path: Path, alone: None) -> AsyncIterator[StreamBench]:
    bench = StreamBench(tmp_path)
    yield bench
    await bench.stop()


def engine_of(driver: Driver) -> ClusterEngine:
    return driver.engine  # type: ignore[return-value]


async def filled(driver: Driver, rounds: int = 1, times: int = 1) -> dict[str, bytes]:
    """Write all keys again and again, that many times the value; return what was answered."""
    answers: dict[str, bytes] = {}
    for number in range(rounds):
        for key in range(KEYS):
            value = b"%d " % number + VALUE * times
            if await driver.put("m", f"k{key}", value) is None:
                answers[f"k{key}"] = value
    return answers


async def stored_bytes(driver: Driver) -> int:
    client = engine_of(driver).client
    infos = [
        await ask_successfully(client, f"STREAM.INFO.{name}")
        for name in (STREAM, f"{STREAM}-image")
    ]
    return sum(info["state"]["bytes"] for info in infos)


async def replayed(bench: StreamBench) -> Driver:
    """Stop what runs and start on what is left."""
    await bench.stop()
    return await bench.open()


async def test_garbage_is_bounded(stream: StreamBench, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = await stream.open()
    await filled(driver, times=50)
    live_bytes = await stored_bytes(driver)
    compact_always(monkeypatch, chunk_bytes=20_000)
    monkeypatch.setattr(compaction, "GARBAGE", 2)
    most_bytes = 0
    for _ in range(20):
        answers = await filled(driver, times=50)
        # How much is written while a snapshot is made is a matter of the machine.
        await condition(lambda: compactor_of(driver.engine)._task is None)
        most_bytes = max(most_bytes, await stored_bytes(driver))
    assert compactor_of(driver.engine).snapshots >= 5
    # A snapshot, twice as much log, and what was written since.
    assert most_bytes < 5 * live_bytes
    driver = await replayed(stream)
    for key, value in answers.items():
        assert await driver.value("m", key) == value


async def test_a_log_behind_an_image_is_the_same_state(
    stream: StreamBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    compact_always(monkeypatch)
    driver = await stream.open()
    await filled(driver, 3)
    for number in range(20):
        await driver.offer("q", b"item %d" % number)
    assert await driver.take("q") == b"item 0"
    while compactor_of(driver.engine).snapshots <= 3:
        await filled(driver)  # snapshots are made as records come
    monkeypatch.setattr(compaction, "SLACK_BYTES", 1 << 30)
    shard = driver.engine.shards[0]
    await shard.settle()
    again = State()
    for step in await asyncio.to_thread(lambda: list(shard._log.replay())):
        if isinstance(step, Committed):
            again.apply(step.sequence, step.timestamp_ms, step.record)
        else:
            again.load(step)
    assert again.sequence == shard.state.sequence
    assert again.dump() == shard.state.dump()


def snapshot_of(driver: Driver) -> Snapshot:
    return driver.engine.shards[0].state.snapshot()


async def test_of_two_that_write_an_image_the_later_one_gets_through(stream: StreamBench) -> None:
    driver = await stream.open()
    answers = await filled(driver)
    client = engine_of(driver).client
    before = await look_at(client, STREAM)
    first = SnapshotWriter(client, STREAM, before)
    await first._put(b"")
    await SnapshotWriter(client, STREAM, await look_at(client, STREAM)).write(snapshot_of(driver))
    with pytest.raises(OvertakenError):
        await first._put(b"chunk")
    with pytest.raises(OvertakenError):
        await SnapshotWriter(client, STREAM, before).write(snapshot_of(driver))
    after = await look_at(client, STREAM)
    assert after.end is not None
    assert after.claims == (after.end.first,), "what the first one left is still there"
    driver = await replayed(stream)
    assert await driver.value("m", "k0") == answers["k0"]


async def test_two_that_write_images_at_the_same_time(stream: StreamBench) -> None:
    driver = await stream.open()
    answers = await filled(driver)
    client = engine_of(driver).client

    async def write() -> bool:
        with contextlib.suppress(OvertakenError):
            await SnapshotWriter(client, STREAM, await look_at(client, STREAM)).write(
                snapshot_of(driver)
            )
            return True
        return False

    for _ in range(5):
        assert any(await asyncio.gather(write(), write(), write()))
        answers |= await filled(driver)
    driver = await replayed(stream)
    for key, value in answers.items():
        assert await driver.value("m", key) == value


async def test_an_image_that_is_older_than_the_last_one_is_not_written(
    stream: StreamBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = await stream.open()
    await filled(driver)
    old = snapshot_of(driver)
    answers = await filled(driver)
    client = engine_of(driver).client
    await SnapshotWriter(client, STREAM, await look_at(client, STREAM)).write(snapshot_of(driver))
    compactor = compactor_of(driver.engine)
    compactor._snapshots = await look_at(client, STREAM)
    compactor.store(old)
    assert compactor._task is None
    driver = await replayed(stream)
    assert await driver.value("m", "k0") == answers["k0"]


class Interrupted:
    """Does something at one of the requests of the first snapshot."""

    def __init__(self, step: int, what: Callable[[], None], *, after: bool) -> None:
        self.done = False
        self._left = step
        self._what = what
        self._after = after
        self._request = NatsClient.request

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def request(client: NatsClient, subject: bytes, *args: Any, **named: Any) -> Any:
            if not subject.startswith((b"grid.image.", b"$JS.API.STREAM.PURGE")):
                return await self._request(client, subject, *args, **named)
            self._left -= 1
            due = self._left < 0 and not self.done
            if due and not self._after:
                self._do()
            answer = await self._request(client, subject, *args, **named)
            if due and self._after:
                self._do()
            return answer

        monkeypatch.setattr(NatsClient, "request", request)

    def _do(self) -> None:
        self.done = True
        self._what()


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", range(STEPS))
@pytest.mark.parametrize("kind", ["kill", "cancel"])
async def test_an_image_that_is_interrupted_anywhere_leaves_everything(
    stream: StreamBench, monkeypatch: pytest.MonkeyPatch, kind: str, step: int, after: bool
) -> None:
    driver = await stream.open()
    answers = await filled(driver)
    # A snapshot that is complete, and one that is not, are there before.
    client = engine_of(driver).client
    await SnapshotWriter(client, STREAM, await look_at(client, STREAM)).write(snapshot_of(driver))
    await SnapshotWriter(client, STREAM, await look_at(client, STREAM))._put(b"")

    def kill() -> None:
        server = engine_of(driver)._cluster._server
        assert server is not None
        assert server.process_id is not None
        os.kill(server.process_id, signal.SIGKILL)

    def cancel() -> None:
        task = compactor_of(driver.engine)._task
        assert task is not None
        task.cancel()

    interrupted = Interrupted(step, kill if kind == "kill" else cancel, after=after)
    interrupted.patch(monkeypatch)
    compact_always(monkeypatch, chunk_bytes=2000)
    number = 0
    while not interrupted.done:
        number += 1
        value = b"%d" % number
        if not isinstance(await driver.put("m", "last", value), Refused):
            answers["last"] = value
    monkeypatch.setattr(compaction, "SLACK_BYTES", 1 << 30)
    driver = await replayed(stream)
    for key, expected in answers.items():
        found = await driver.value("m", key)
        assert found == expected or (key == "last" and found == b"%d" % number)
    # The next snapshot is made, and takes what the interrupted one left with it.
    monkeypatch.setattr(compaction, "SLACK_BYTES", 0)
    await filled(driver)
    await condition(lambda: compactor_of(driver.engine).snapshots > 0)
