"""How far others have read logs: who knows nothing of one asks them, and waits for who starts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.integrity import watermarks
from grid_member.engine.integrity.watermarks import Watermarks
from grid_member.engine.nats.admin.peers import peer_id
from grid_member.engine.nats.client.errors import NatsError, ShortError
from tests.unit.engine.integrity.notes import (
    FILE,
    FIRST,
    MEMBER,
    NEW,
    OWN,
    STRANGER,
    Servers,
    add,
    begin,
    check,
    found,
    lived,
    log_of,
)
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from grid_member.engine.nats.client.wire import Message
    from grid_member.engine.state.machine import State


async def another(servers: Servers, directory: Path) -> Watermarks:
    """Return another member, which has read three records and noted that."""
    (directory / "cluster").mkdir(parents=True)
    there = Watermarks(directory)
    begin(there, servers, NEW)
    state = log_of((STRANGER, FIRST, 1), (MEMBER, FIRST, 1))
    await check(there, servers, state)
    add(state, NEW.uuid.bytes, FIRST, 1)
    await until(lambda: there._watermarks)
    return there


async def test_what_others_have_read_counts_when_servers_were_taken_off(
    servers: Servers, directory: Path, tmp_path: Path
) -> None:
    await lived(servers, directory, log_of((STRANGER, FIRST, 1)))
    servers.ids = servers.silent = frozenset({"s0", "s1", "s3"})
    there = await another(servers, tmp_path / "other")
    with pytest.raises(ShortError, match="ends before record 3"):
        await found(servers, directory, log_of())
    await there.end()
    await found(servers, directory, log_of())


async def test_what_others_have_read_counts_when_the_own_note_is_damaged(
    servers: Servers, directory: Path, tmp_path: Path
) -> None:
    await lived(servers, directory, log_of((STRANGER, FIRST, 1)))
    there = await another(servers, tmp_path / "other")
    (directory / FILE).write_text("", encoding="utf-8")
    with pytest.raises(ShortError, match="ends before record 3"):
        await found(servers, directory, log_of())
    await there.end()


async def test_a_member_that_read_nothing_yet_asks_those_that_did(
    servers: Servers, directory: Path, tmp_path: Path
) -> None:
    await lived(servers, directory, log_of((STRANGER, FIRST, 1)))
    there = Watermarks(directory)
    begin(there, servers)
    await until(lambda: there._watermarks)
    new = tmp_path / "new"
    (new / "cluster").mkdir(parents=True)
    servers.silent = servers.ids
    with pytest.raises(ShortError, match="shard-1 ends before record 2"):
        await joins(new, servers, log_of())
    await joins(new, servers, log_of((STRANGER, FIRST, 1)))  # which is being written
    servers.ids = servers.silent = frozenset({"s0", "s1", "s3"})
    await joins(new, servers, log_of())
    servers.ids = servers.silent = frozenset({"s0", "s1", "s2"})
    servers.created["shard-1"] = "later"
    await joins(new, servers, log_of())
    await there.end()


async def test_who_is_answered_by_all_that_vote_asks_no_longer(
    servers: Servers, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers.ids, servers.silent = frozenset({peer_id(OWN)}), frozenset()
    monkeypatch.setattr(watermarks, "OTHER_MEMBERS_ANSWER_S", 3600.0)
    alone = Watermarks(directory)
    begin(alone, servers)
    await check(alone, servers, log_of())
    assert alone._read.keys() == {"shard-1"}  # it was not waited for an hour
    await alone.end()


async def test_a_member_that_is_starting_is_waited_for_and_one_that_is_off_is_not(
    servers: Servers, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers.ids, servers.silent = frozenset({peer_id(OWN), "s1"}), frozenset()
    one = Watermarks(directory)
    begin(one, servers)
    with pytest.raises(NatsError, match="1 of the members do not tell yet how far"):
        await check(one, servers, log_of())
    servers.silent = frozenset({"s1"})
    await check(one, servers, log_of())
    servers.silent = frozenset()
    monkeypatch.setattr(watermarks, "PATIENCE_S", 0.0)  # a former version's never tells
    with pytest.raises(NatsError, match="do not tell yet"):
        await check(one, servers, log_of())
    await one.end()
    other = Watermarks(directory)
    begin(other, servers)
    await check(other, servers, log_of())
    await other.end()


async def test_who_has_not_read_its_own_notes_yet_does_not_answer(
    servers: Servers, directory: Path
) -> None:
    await lived(servers, directory, log_of())
    answers: list[Sequence[Message]] = []
    one = Watermarks(directory)
    begin(one, servers)
    servers.subscribe(b"me", answers.append)
    servers.publish(watermarks.SUBJECT, b"", b"me")
    assert not answers
    await until(lambda: one._watermarks is not None)
    servers.publish(watermarks.SUBJECT, b"", b"me")
    ((said,),) = answers
    assert json.loads(said.payload)["logs"].keys() == {"shard-1"}
    await one.end()


async def joins(directory: Path, servers: Servers, state: State) -> None:
    """Read a log as somebody new."""
    one = Watermarks(directory)
    begin(one, servers, NEW)
    try:
        await check(one, servers, state)
    finally:
        await one.end()
