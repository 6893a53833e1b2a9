"""Counting the requests of a listener, where a member counts anything at all."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from aiohttp import web

from grid_member.telemetry.measurements import OTHER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.http.wire.answers import Answer
    from grid_member.telemetry.measurements import Measurements

    RequestHandler: TypeAlias = Callable[[web.BaseRequest], Awaitable[Answer]]
    """What answers the requests of one listener; what goes wrong is an answer, too."""

PATH: Final = web.RequestKey("grid_path", str)
"""The path of a request as the routing table has it, noted where requests are counted."""


def measured(answering: RequestHandler, measurements: Measurements) -> RequestHandler:
    """Return a handler that counts what another one answers; clients that leave are not counted.

    The time is that until the answer is there to be sent.
    """

    async def answer(request: web.BaseRequest) -> Answer:
        began_s = time.perf_counter()
        answer = await answering(request)
        path = request.get(PATH, OTHER)
        took_s = time.perf_counter() - began_s
        measurements.count_request(request.method, path, answer.status, took_s)
        return answer

    return answer


@dataclass(frozen=True, slots=True)
class ListenerFigures:
    """What one listener tells of itself."""

    kind: str
    connections: int
    refused_count: int
    slowed_logins: int
