"""Promise: forceStart and partialStart under one key touch the data once, whatever comes later."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from grid_member.cluster.persistence import start_calls
from grid_member.cluster.persistence.start_calls import START_CALLS_FILE, StartCall, StartCalls
from grid_member.cluster.values.idempotency import KEEP_S
from grid_member.engine.api import EngineError, NotYetError
from tests.unit.member.cluster.persistence.test_actions import CLUSTER, WAITS, persistent
from tests.unit.member.cluster.persistence.test_actions import damaged as torn
from tests.unit.member.durable import MAP, READY
from tests.unit.member.wire import once

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.member.durable import Start
    from tests.unit.member.running import MemberProcess
    from tests.unit.member.wire import Reply

NOTHING = {"format": 1, "calls": []}
CALL = {"key": "k", "request": "r", "begun_ms": 1, "ended": True, "problem": None}


class Clock:
    now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


def work() -> None:
    """Stand for what is done to the store."""


def forbidden() -> None:
    raise AssertionError("the store was touched")


def test_a_call_is_noted_before_and_after_its_work(tmp_path: Path) -> None:
    seen: list[StartCall | None] = []
    calls = StartCalls(tmp_path, Clock())
    assert calls.find("k") is None
    # Another life reads what is there when this one dies at its work.
    calls.carry_out("k", "r", lambda: seen.append(StartCalls(tmp_path, Clock()).find("k")))
    assert seen == [StartCall("k", "r", 1_000)]
    assert StartCalls(tmp_path, Clock()).find("k") == StartCall("k", "r", 1_000, ended=True)
    assert calls.find("other") is None
    assert os.listdir(tmp_path) == [START_CALLS_FILE]


@pytest.mark.parametrize(
    ("error", "problem"),
    [(EngineError("full"), "full"), (ValueError("x"), "unexpected error: see the log")],
)
def test_a_call_that_failed_is_noted_as_such(
    tmp_path: Path, error: Exception, problem: str
) -> None:
    calls = StartCalls(tmp_path, Clock())

    def failing() -> None:
        raise error

    with pytest.raises(type(error)):
        calls.carry_out("k", "r", failing)
    assert calls.find("k") == StartCall("k", "r", 1_000, ended=True, problem=problem)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b" " * (start_calls.MAX_START_CALLS_BYTES + 1)]
    + [
        json.dumps(found).encode()
        for found in (
            {},
            NOTHING | {"format": 2},
            NOTHING | {"calls": 1},
            NOTHING | {"calls": [{}]},
            NOTHING | {"calls": [CALL | {"key": 1}]},
            NOTHING | {"calls": [CALL | {"begun_ms": "1"}]},
            NOTHING | {"calls": [CALL | {"ended": None}]},
            NOTHING | {"calls": [CALL | {"more": 1}]},
        )
    ],
)
def test_what_cannot_be_read_lets_no_key_touch_the_store(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / START_CALLS_FILE
    place.write_bytes(content)
    calls = StartCalls(tmp_path, Clock())
    with pytest.raises(EngineError, match="foreign or damaged: move it away"):
        calls.find("k")
    with pytest.raises(EngineError, match="foreign or damaged"):
        calls.carry_out("k", "r", forbidden)
    assert place.read_bytes() == content


def test_a_note_that_cannot_be_written_lets_no_key_touch_the_store(tmp_path: Path) -> None:
    (tmp_path / START_CALLS_FILE).with_suffix(".creating").mkdir()
    with pytest.raises(EngineError, match="cannot use the remembered calls"):
        StartCalls(tmp_path, Clock()).carry_out("k", "r", forbidden)
    (tmp_path / START_CALLS_FILE).mkdir()
    with pytest.raises(EngineError, match="cannot use the remembered calls"):
        StartCalls(tmp_path, Clock()).find("k")


def test_an_end_that_cannot_be_noted_is_a_call_that_was_interrupted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls = StartCalls(tmp_path, Clock())
    blocked = (tmp_path / START_CALLS_FILE).with_suffix(".creating")
    calls.carry_out("k", "r", blocked.mkdir)
    assert "outcome not remembered" in caplog.text
    assert calls.find("k") == StartCall("k", "r", 1_000)


def test_calls_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_calls, "MAX_START_CALLS", 2)
    clock = Clock()
    calls = StartCalls(tmp_path, clock)
    for key in ("a", "b"):
        calls.carry_out(key, "r", work)
    clock.now_ms += KEEP_S * 1000 - 1
    with pytest.raises(EngineError, match="too many idempotency keys"):
        calls.carry_out("c", "r", forbidden)
    assert calls.find("a") is not None
    clock.now_ms += 1
    calls.carry_out("c", "r", work)
    assert [key for key in "abc" if calls.find(key) is not None] == ["b", "c"]


def test_other_calls_hear_of_a_key_until_its_time_is_over(tmp_path: Path) -> None:
    StartCalls(tmp_path, Clock()).carry_out("k", "r", work)
    clock = Clock()
    calls = StartCalls(tmp_path, clock)
    assert not calls.has_call("k")
    calls.load()
    (tmp_path / START_CALLS_FILE).unlink()  # nobody waits for a disk
    assert (calls.has_call("k"), calls.has_call("other")) == (True, False)
    clock.now_ms += KEEP_S * 1000
    assert not calls.has_call("k")


async def ask(member: MemberProcess, action: str, key: str, body: bytes = b"dev&") -> Reply:
    headers = {"Idempotency-Key": key}
    return await once(member.port, "POST", f"{CLUSTER}/{action}", body, **headers)


async def damaged(member: MemberProcess, tmp_path: Path) -> None:
    member.wait_for("ready")
    assert (await once(member.port, "POST", f"{MAP}/k", b"v")).status == 200
    member.kill()
    log = tmp_path / "data/store/shard-0/data.mdb"
    log.write_bytes(b"\xff" * 8192 + log.read_bytes()[8192:])


def test_what_was_not_begun_is_no_outcome_of_its_key(tmp_path: Path) -> None:
    calls = StartCalls(tmp_path, Clock())
    calls.carry_out("before", "r", work)

    def missing() -> None:
        raise NotYetError("not there yet")

    with pytest.raises(NotYetError):
        calls.carry_out("k", "r", missing)
    assert calls.find("k") is None
    assert not calls.has_call("k")
    calls.carry_out("k", "r", work)
    assert calls.find("k") == StartCall("k", "r", 1_000, ended=True)
    assert calls.find("before") == StartCall("before", "r", 1_000, ended=True)


async def test_a_key_touches_the_data_once(member_process: Start, tmp_path: Path) -> None:
    text = persistent(tmp_path)
    action = "forceStart"
    store = tmp_path / "data/store/store.json"
    await damaged(member_process(text), tmp_path)
    member = member_process(text)
    member.wait_for(WAITS)
    first = await ask(member, action, "k")
    assert (first.status, first.body) == (200, b'{"status":"success"}')
    member.wait_for("ready")
    assert (await ask(member, action, "k")).body == first.body
    assert (await ask(member, "partialStart", "k")).status == 409
    for _ in range(2):
        other = await ask(member, "changeState", "k", b"dev&&passive")
        assert (other.status, b"sent before with another" in (other.body or b"")) == (409, True)
        member.kill()
        member = member_process(text)
        member.wait_for("ready")
    assert (await once(member.port, "GET", "/grid/health/cluster-state")).body == b'"ACTIVE"'

    member.kill()
    await damaged(member_process(text), tmp_path)
    before = store.read_bytes()
    member = member_process(text)
    member.wait_for(WAITS)
    assert (await ask(member, action, "k")).body == first.body
    assert (await ask(member, "partialStart", "k")).status == 409
    assert (await once(member.port, "GET", READY)).status == 503
    assert store.read_bytes() == before

    note = tmp_path / "data" / START_CALLS_FILE
    found = json.loads(note.read_bytes())
    found["calls"][0]["ended"] = False
    note.write_text(json.dumps(found))
    interrupted = await ask(member, action, "k")
    assert (interrupted.status, b"another key" in (interrupted.body or b"")) == (409, True)
    note.write_bytes(b"{")
    unreadable = await ask(member, action, "k2")
    assert (unreadable.status, b"move it away" in (unreadable.body or b"")) == (409, True)
    assert store.read_bytes() == before
    note.unlink()
    assert (await ask(member, action, "k2")).body == first.body
    member.wait_for("ready")
    assert store.read_bytes() != before
    assert (await ask(member, "changeState", "k2", b"dev&&passive")).status == 409
    # What is unreadable keeps no other call from its key.
    member.kill()
    note.write_bytes(b"{")
    member = member_process(text)
    member.wait_for("remembered calls not read")
    member.wait_for("ready")
    assert (await ask(member, "changeState", "k3", b"dev&&passive")).status == 200


async def test_a_partial_start_keeps_one_copy_for_a_key(
    member_process: Start, tmp_path: Path
) -> None:
    text = persistent(tmp_path, **{"cluster-data-recovery-policy": "PARTIAL_RECOVERY_MOST_RECENT"})
    for life in range(2):
        await torn(member_process, tmp_path)
        member = member_process(text)
        member.wait_for(WAITS)
        assert (await ask(member, "partialStart", "k")).body == b'{"status":"success"}'
        kept = [name for name in os.listdir(tmp_path / "data") if name.startswith("store.")]
        assert kept == ["store.damaged-1"]
        member.kill()
        (tmp_path / "data/store").rename(tmp_path / f"kept-{life}")
