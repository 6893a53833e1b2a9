"""The members that tests start do not depend on who reads their log."""

from __future__ import annotations

import asyncio
import fcntl
from typing import TYPE_CHECKING

from tests.unit.member.running import configuration
from tests.unit.member.wire import Wire, request

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.member.running import MemberProcess

REQUESTS = 1000


async def test_a_log_that_is_not_read_stops_no_member(
    member_process: Callable[..., MemberProcess],
) -> None:
    process = member_process(configuration())
    process.wait_for("ready")
    assert process.process.stderr is not None
    room_bytes = fcntl.fcntl(process.process.stderr, fcntl.F_GETPIPE_SZ)

    async with await Wire.connect(process.port) as wire:
        for _ in range(REQUESTS):
            wire.send(request("GET", "/grid/health/unknown"))
            assert (await wire.reply()).status == 400

    process.process.terminate()
    assert await asyncio.to_thread(process.end) == 0
    refused = [entry for entry in process.log if entry["message"] == "request refused"]
    assert len(refused) == REQUESTS
    assert len(str(refused)) > room_bytes, "or nothing is shown here"
