"""A management call whose client leaves in the middle is carried out to its end."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from grid_member.http.server.service import BackgroundCalls
from grid_member.http.wire.answers import EMPTY, Answer
from grid_member.security.audit import LOGGER
from grid_member.telemetry.logs import JsonLines
from tests.unit.member.wire import Wire, once, request
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.api import Done
    from tests.unit.member.running import RunningMember

UPLOAD = "/grid/rest/config/upload"
ADDED = "/grid/rest/maps/added/k"


class HeldPuts:
    """The system puts of a member, each waiting for a word."""

    def __init__(self, member: RunningMember, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = member.member.management.store
        self.waiting: list[Callable[[], None]] = []
        self._put = self.store.system_put
        monkeypatch.setattr(self.store, "system_put", self._hold)

    def _hold(
        self, key: str, value: bytes | None, done: Done[None], *, time_to_live_s: int = 0
    ) -> None:
        self.waiting.append(lambda: self._put(key, value, done, time_to_live_s=time_to_live_s))

    def let_go(self) -> None:
        waiting, self.waiting = self.waiting, []
        for put in waiting:
            put()


@pytest.mark.parametrize("keys", [{}, {"Idempotency-Key": "k"}], ids=["no key", "key"])
async def test_an_upload_whose_client_leaves_takes_effect(
    member: RunningMember,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    keys: dict[str, str],
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    held = HeldPuts(member, monkeypatch)
    async with await Wire.connect(member.port) as wire:
        wire.send(request("POST", UPLOAD, b"dev&&grid: {map: {added: {}}}", **keys))
        await until(lambda: bool(held.waiting))
        plain: socket.socket = wire.writer.get_extra_info("socket")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire.writer.transport.abort()
    await until(lambda: member.listeners.counts().total == 0)
    assert "added" not in member.member.config.maps
    held.let_go()
    await until(lambda: "added" in member.member.config.maps)
    await until(lambda: "management call" in caplog.text)
    audited = [r for r in caplog.records if r.name == LOGGER]
    assert [json.loads(JsonLines().format(r))["status"] for r in audited] == [200]
    assert (await once(member.port, "POST", ADDED, b"v")).status == 200


async def cut(work: asyncio.Task[Answer]) -> None:
    await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


async def test_who_waits_may_leave_and_the_answer_is_told_to_be_lost() -> None:
    going_on, lost = asyncio.Event(), asyncio.Event()

    async def work() -> Answer:
        await going_on.wait()
        return Answer(200, on_loss=lost.set)

    await cut(asyncio.create_task(BackgroundCalls().run(work())))
    assert not lost.is_set()
    going_on.set()
    await asyncio.wait_for(lost.wait(), 5)


async def test_an_answer_and_an_error_reach_who_waits() -> None:
    async def work(problem: Exception | None) -> Answer:
        if problem is not None:
            raise problem
        return EMPTY

    unattended = BackgroundCalls()
    assert await unattended.run(work(None)) is EMPTY
    with pytest.raises(ValueError, match="broken"):
        await unattended.run(work(ValueError("broken")))


async def test_an_error_that_nobody_waits_for_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    going_on = asyncio.Event()

    async def work() -> Answer:
        await going_on.wait()
        raise ValueError("broken")

    await cut(asyncio.create_task(BackgroundCalls().run(work())))
    assert caplog.records == []
    going_on.set()
    await until(lambda: caplog.records != [])
    (record,) = caplog.records
    told = json.loads(JsonLines().format(record))
    assert (told["message"], told["error"]) == ("request failed", "ValueError")
    assert told["where"].startswith("work:")
    assert "broken" not in str(told), "the text of an error may quote a value"
