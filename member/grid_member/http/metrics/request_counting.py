"""Counting the requests of a listener, where a member counts anything at all."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from aiohttp import web

from grid_member.telemetry.measurements import OTHER

if TYPE_CHECKING:
    from grid_member.http.wire.answers import Answer
    from grid_member.telemetry.measurements import Measurements

PATH: Final = web.RequestKey("grid_path", str)
"""The path of a request as the routing table has it, noted where requests are counted."""


class RequestHandler(Protocol):
    """What answers the requests of one listener."""

    async def answer(self, request: web.BaseRequest) -> Answer:
        """Return the answer; what goes wrong is an answer, too."""


@dataclass(frozen=True, slots=True)
class MeasuredHandler:
    """Counts what another one answers; the time is that until the answer is there to be sent."""

    answering: RequestHandler
    measurements: Measurements

    async def answer(self, request: web.BaseRequest) -> Answer:
        """Return the other one's answer; clients that leave before it are not counted."""
        began_s = time.perf_counter()
        answer = await self.answering.answer(request)
        path = request.get(PATH, OTHER)
        took_s = time.perf_counter() - began_s
        self.measurements.count_request(request.method, path, answer.status, took_s)
        return answer


@dataclass(frozen=True, slots=True)
class ListenerFigures:
    """What one listener tells of itself."""

    kind: str
    connections: int
    refused_count: int
    slowed_logins: int
