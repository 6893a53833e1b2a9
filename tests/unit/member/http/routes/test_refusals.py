"""What the engine refuses, and what nobody expected, as answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from grid_member.engine.api import Reason, Refused
from tests.unit.member.wire import Wire, once

if TYPE_CHECKING:
    from tests.unit.member.running import RunningMember

MAP = "/grid/rest/maps/default"
QUEUE = "/grid/rest/queues/default"
CALLS = {
    "map_put": ("POST", f"{MAP}/k"),
    "map_get": ("GET", f"{MAP}/k"),
    "map_remove": ("DELETE", f"{MAP}/k"),
    "map_clear": ("DELETE", MAP),
    "queue_offer": ("POST", QUEUE),
    "queue_poll": ("DELETE", f"{QUEUE}/0"),
    "queue_size": ("GET", f"{QUEUE}/size"),
}
ANSWERS = {
    Reason.NOT_CONFIGURED: (404, None),
    Reason.PASSIVE: (503, None),
    Reason.UNAVAILABLE: (503, "1"),
    Reason.OVERLOADED: (503, "1"),
    Reason.CLOSING: (503, "1"),
    Reason.CLOCK_AHEAD: (503, None),
    Reason.FAILED: (500, None),
}


def test_every_reason_has_an_answer() -> None:
    assert set(ANSWERS) == set(Reason)


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("operation", CALLS)
async def test_a_refusal_is_an_empty_answer_that_says_why(
    member: RunningMember, monkeypatch: pytest.MonkeyPatch, operation: str, reason: Reason
) -> None:
    def refuse(*given: Any) -> None:
        given[-1](Refused(reason, "because\r\nof \x00 ä"))

    monkeypatch.setattr(member.engine, operation, refuse)
    method, path = CALLS[operation]
    reply = await once(member.port, method, path, b"v" if method == "POST" else None)
    status, retry = ANSWERS[reason]
    assert (reply.status, reply.body) == (status, b"")
    assert reply.header("Retry-After") == retry
    assert reply.header("X-Grid-Error") == "because??of ? ?"


@pytest.mark.parametrize("operation", CALLS)
async def test_an_unexpected_error_is_500_and_tells_nothing(
    member: RunningMember,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    operation: str,
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("hush")

    monkeypatch.setattr(member.engine, operation, fail)
    method, path = CALLS[operation]
    async with await Wire.connect(member.port) as wire:
        reply = await wire.call(method, path, b"v" if method == "POST" else None)
        assert (reply.status, reply.body) == (500, b"")
        assert reply.header("X-Grid-Error") == "unexpected error"
        assert (await wire.call("GET", "/grid/health/ready")).status == 200
    assert "request failed" in caplog.text
    assert "hush" not in caplog.text


@pytest.mark.parametrize("length", [1, 255, 256, 257, 5000])
async def test_the_reason_is_one_short_line(
    member: RunningMember, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    def refuse(*given: Any) -> None:
        given[-1](Refused(Reason.PASSIVE, "r" * length))

    monkeypatch.setattr(member.engine, "map_get", refuse)
    reply = await once(member.port, "GET", f"{MAP}/k")
    assert reply.header("X-Grid-Error") == "r" * min(length, 256)
