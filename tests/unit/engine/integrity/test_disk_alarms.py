"""What members tell each other of what keeps their servers from storing."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, cast

import pytest

from grid_member.engine.cluster_settings import ClusterSettings
from grid_member.engine.integrity import disk_alarms
from grid_member.engine.integrity.disk_alarms import BELIEVED_S, SUBJECT, DiskAlarms
from grid_member.engine.nats.client.wire import Message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from grid_member.engine.nats.client.client import NatsClient

PATIENCE_S = 20.0
SETTINGS = {
    name: ClusterSettings("dev", name, port, (("a", 1), ("b", 2)), "grid", "pw")
    for name, port in (("m1", 1), ("m2", 2))
}
FULL = "the disk of /data is full: make room on it"


class Connection:
    """Members that hear each other, and themselves."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[Sequence[Message]], None]] = []
        self.said = 0
        self.told: set[tuple[str, int]] = set()

    def subscribe(self, subject: bytes, take: Callable[[Sequence[Message]], None]) -> None:
        assert subject == SUBJECT
        self.listeners.append(take)

    async def tell(
        self, settings: ClusterSettings, host: str, port: int, subject: bytes, payload: bytes
    ) -> None:
        assert settings is SETTINGS["m2"]
        self.told.add((host, port))
        self.say(payload, subject)

    def say(self, payload: bytes, subject: bytes = SUBJECT) -> None:
        self.said += 1
        for take in self.listeners:
            take([Message(subject, b"", b"", payload, 1)])

    async def heard(self) -> None:
        """Wait until somebody has said something since."""
        before, ends_s = self.said, time.monotonic() + PATIENCE_S
        while self.said == before:
            assert time.monotonic() < ends_s
            await asyncio.sleep(0.01)


class Two:
    """A member with room on its disk, and one with a full disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        self.trouble: str | None = None
        self.connection = Connection()
        monkeypatch.setattr(disk_alarms, "TELL_S", 0.01)
        monkeypatch.setattr(disk_alarms, "send_message", self.connection.tell)
        self.well = DiskAlarms(SETTINGS["m1"], lambda: None, lambda: self.now_s)
        self.full = DiskAlarms(SETTINGS["m2"], lambda: self.trouble, lambda: self.now_s)

    async def __aenter__(self) -> Two:
        for one in (self.well, self.full):
            one.begin(cast("NatsClient", self.connection))
        return self

    async def __aexit__(self, *_: object) -> None:
        for one in (self.well, self.full):
            await one.end()


@pytest.fixture
async def two(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Two]:
    async with Two(monkeypatch) as both:
        yield both


async def test_the_others_know_whose_disk_is_full(
    two: Two, caplog: pytest.LogCaptureFixture
) -> None:
    two.trouble = FULL
    await two.connection.heard()
    await two.connection.heard()
    assert two.connection.told == {("a", 1), ("b", 2)}
    assert two.well.of_others == f"the member m2 says: {FULL}"
    assert two.full.of_others is None, "it knows that itself"
    assert caplog.text.count(FULL) == 1


async def test_what_was_said_long_ago_is_not_believed(two: Two) -> None:
    two.trouble = FULL
    await two.connection.heard()
    two.trouble = None
    two.now_s += BELIEVED_S
    assert two.well.of_others is not None
    two.now_s += 1
    assert two.well.of_others is None


@pytest.mark.parametrize(
    "payload",
    [b"", b"{", b"[]", b"\xff", json.dumps({"member": "m3"}).encode()],
)
async def test_what_is_not_understood_is_left_out(two: Two, payload: bytes) -> None:
    two.connection.say(payload)
    assert two.well.of_others is None


async def test_a_complaint_is_one_short_line(two: Two) -> None:
    said = {"member": "m3", "trouble": "a\r\nb" + "c" * 10_000}
    two.connection.say(json.dumps(said).encode())
    told = two.well.of_others
    assert told is not None
    assert told.startswith("the member m3 says: a bc")
    assert len(told) < 400
