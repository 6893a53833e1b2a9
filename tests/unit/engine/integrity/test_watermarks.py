"""How far a member has read its logs: what it finds of that in logs that it reads later."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import EngineError
from grid_member.engine.integrity import watermarks
from grid_member.engine.integrity.watermarks import Watermarks
from grid_member.engine.nats.client.errors import NatsError, ShortError
from grid_member.engine.state.operations import MemberGone, Record
from tests.unit.engine.integrity.notes import (
    BEGAN,
    FILE,
    FIRST,
    LOG,
    MEMBER,
    NEW,
    OTHER,
    SECOND,
    SELF,
    STRANGER,
    VOLATILE,
    Servers,
    add,
    begin,
    check,
    found,
    lived,
    log_of,
    noted,
    noting,
)
from tests.unit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_log_that_was_emptied_is_short_however_long_it_grew(
    servers: Servers, directory: Path
) -> None:
    await lived(servers, directory, log_of((STRANGER, FIRST, 1)), log_of())
    for state in (log_of(), log_of((STRANGER, SECOND, 1), (STRANGER, SECOND, 2), (STRANGER, 3, 3))):
        with pytest.raises(ShortError, match="shard-1 ends before record 2, which this member"):
            await found(servers, directory, state)
    await found(servers, directory, log_of((MEMBER, FIRST, 1)), OTHER)
    await found(servers, directory, log_of((STRANGER, FIRST, 1), (MEMBER, FIRST, 1)))


async def test_a_log_that_lost_its_end_is_short(servers: Servers, directory: Path) -> None:
    state = log_of()
    one = Watermarks(directory)
    begin(one, servers)
    await check(one, servers, state)
    add(state, MEMBER, FIRST, 1)
    await until(lambda: one._watermarks)
    add(state, MEMBER, FIRST, 2)
    add(state, STRANGER, FIRST, 1)
    await one.end()
    assert noted(directory)["shard-1"] == {
        "created": "shard-1 began",
        "incarnation": FIRST,
        "counter": 2,
        "sequence": 3,
        "servers": ["s0", "s1", "s2"],
        "bare": False,
    }
    whole = ((MEMBER, FIRST, 1), (MEMBER, FIRST, 2), (STRANGER, FIRST, 1))
    for end in (1, 2):  # its own record is missing, or the last one of another member
        with pytest.raises(ShortError):
            await found(servers, directory, log_of(*whole[:end]))
    # The others ended that incarnation, after its last record.
    ended = log_of(*whole)
    ended.apply(4, 3000, Record(STRANGER, FIRST, 2, (MemberGone(MEMBER, FIRST),)))
    await found(servers, directory, ended)


async def test_what_servers_that_were_taken_off_had_is_not_missed(
    servers: Servers, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await lived(servers, directory, log_of())
    servers.ids = frozenset({"s0", "s3", "s4"})
    short = log_of()
    later = Watermarks(directory)
    begin(later, servers)
    servers.silent = servers.ids
    await check(later, servers, short)
    assert "servers that had it were taken off" in caplog.text
    add(short, MEMBER, SECOND - 1, 1)
    await until(lambda: noted(directory)["shard-1"]["servers"] == ["s0", "s3", "s4"])
    await later.end()
    with pytest.raises(ShortError):
        await found(servers, directory, log_of())


async def test_who_votes_is_asked_once_more_at_the_end(
    servers: Servers, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = await noting(servers, directory)
    monkeypatch.setattr(watermarks, "LOOK_S", 3600.0)
    asked = servers.asked
    await until(lambda: servers.asked > asked)  # now it looks no more
    servers.ids = frozenset({"s0", "s1", "s2", "s3", "s4"})
    await one.end()
    assert noted(directory)["shard-1"]["servers"] == ["s0", "s1", "s2", "s3", "s4"]


async def test_at_an_end_at_which_nobody_tells_those_voted_that_did_last(
    servers: Servers, directory: Path
) -> None:
    one, state = await noting(servers, directory)
    servers.ids = None
    add(state, MEMBER, FIRST, 2)
    await one.end()
    assert noted(directory)["shard-1"]["counter"] == 2
    assert noted(directory)["shard-1"]["servers"] == ["s0", "s1", "s2"]


async def test_what_is_in_memory_is_not_noted_after_a_rescue_before_the_log_goes_on(
    servers: Servers, directory: Path
) -> None:
    one, _ = await noting(servers, directory)
    before = noted(directory)
    servers.ids = frozenset({"s0", "s1"})
    asked = servers.asked
    await until(lambda: servers.asked > asked + 1)
    assert noted(directory) == before
    # The log lacks what only the third had. It is read anew.
    await check(one, servers, log_of())
    await one.end()
    await found(servers, directory, log_of())


async def test_once_a_record_fitted_behind_the_others_a_former_server_may_be_gone(
    servers: Servers, directory: Path
) -> None:
    one, state = await noting(servers, directory)
    servers.ids = frozenset({"s0", "s1"})
    asked = servers.asked
    await until(lambda: servers.asked > asked + 1)
    add(state, STRANGER, FIRST, 1)
    await one.end()
    assert noted(directory)["shard-1"]["servers"] == ["s0", "s1"]


@pytest.mark.parametrize("wrong", [None, KeyError("leader"), ValueError("no JSON"), TypeError("a")])
async def test_nothing_is_taken_for_whole_while_nobody_tells_who_votes(
    servers: Servers, directory: Path, wrong: Exception | None
) -> None:
    await lived(servers, directory, log_of())
    servers.ids, servers.wrong = None, wrong
    with pytest.raises(NatsError, match=r"nobody leads|who votes"):
        await found(servers, directory, log_of())


async def test_it_is_noted_as_soon_as_each_log_has_begun_and_somebody_tells_who_votes(
    servers: Servers, directory: Path
) -> None:
    state, other = log_of((MEMBER, FIRST, 7)), log_of((STRANGER, FIRST, 1))
    one = Watermarks(directory)
    begin(one, servers)
    await check(one, servers, state)
    await check(one, servers, other, OTHER)
    servers.ids = None
    add(state, MEMBER, SECOND, 1)
    begun = [one._is_begun]
    add(other, MEMBER, SECOND, 1)
    assert [*begun, one._is_begun] == [False, True]
    servers.ids = frozenset({"s0"})
    await until((directory / FILE).exists)
    assert noted(directory).keys() == {"shard-1", "shard-2"}
    await one.end()


async def test_a_log_that_is_emptied_under_a_member_that_runs_is_short_and_not_noted(
    servers: Servers, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watermarks, "NOTE_S", 0.0)
    states = [log_of((STRANGER, FIRST, 1))]
    one = Watermarks(directory)
    begin(one, servers)
    await one.check(LOG, BEGAN, states[0], lambda: states[-1])
    add(states[0], MEMBER, FIRST, 1)
    add(states[0], STRANGER, FIRST, 2)
    await until(lambda: one._watermarks)
    for emptied in (log_of(), log_of(*[(MEMBER, FIRST, 1 + number) for number in range(9)])):
        with pytest.raises(ShortError, match="before record 3"):
            await one.check(LOG, BEGAN, emptied, lambda: states[-1])
    # It goes on with it all the same, and adds to it.
    states.append(log_of((STRANGER, FIRST, 1), (MEMBER, FIRST, 1)))
    assert one._read[LOG.name].watermark is not None
    asked = servers.asked
    await until(lambda: servers.asked > asked + 1)
    await one.end()
    assert noted(directory)["shard-1"]["sequence"] == 3


async def test_a_log_that_is_emptied_is_short_for_a_member_that_has_noted_nothing_of_this_start(
    servers: Servers, directory: Path
) -> None:
    state = log_of((STRANGER, FIRST, 1))
    await lived(servers, directory, log_of())
    one = Watermarks(directory)
    begin(one, servers)
    add(state, MEMBER, FIRST, 1)
    add(state, STRANGER, FIRST, 2)
    await check(one, servers, state)
    emptied = log_of((MEMBER, FIRST, 1))
    for _ in range(2):  # the mark is of before the last record, and fits
        with pytest.raises(ShortError, match="before record 3"):
            await one.check(LOG, BEGAN, emptied, lambda: state)
    await one.end()


async def test_a_log_that_is_emptied_is_short_for_a_member_that_had_no_notes(
    servers: Servers, directory: Path
) -> None:
    state = log_of((STRANGER, FIRST, 1))
    one = Watermarks(directory)
    begin(one, servers)
    await check(one, servers, state)
    with pytest.raises(ShortError, match="before record 1"):
        await one.check(LOG, BEGAN, log_of(), lambda: state)
    await one.end()


async def test_a_log_whose_shard_was_given_up_is_looked_after_no_more(
    servers: Servers, directory: Path
) -> None:
    one, state, other = Watermarks(directory), log_of(), log_of()
    begin(one, servers)
    await check(one, servers, state)
    await check(one, servers, other, OTHER)
    add(state, MEMBER, FIRST, 1)
    assert not one._is_begun
    one.forget(OTHER)
    one.forget(VOLATILE)
    await until(lambda: one._watermarks)
    one.forget(LOG)
    add(state, MEMBER, FIRST, 2)
    await one.end()
    assert noted(directory)["shard-1"]["counter"] == 1


async def test_what_another_member_noted_is_ignored(
    servers: Servers, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await lived(servers, directory, log_of())
    servers.silent = servers.ids
    state = log_of((STRANGER, FIRST, 1))
    one = Watermarks(directory)
    begin(one, servers, NEW)
    with caplog.at_level(logging.WARNING, "grid.engine.nats"):
        await check(one, servers, state)
    assert f"was noted by the member {SELF.uuid}, not by this one" in caplog.text
    await one.end()


async def test_logs_in_memory_and_members_without_a_disk_note_nothing(
    servers: Servers, directory: Path
) -> None:
    state = log_of()
    one = Watermarks(directory)
    begin(one, servers)
    await check(one, servers, state, VOLATILE)
    assert not one._is_begun
    await one.end()
    assert not (directory / FILE).exists()
    nowhere = Watermarks(None)
    begin(nowhere, servers)
    await check(nowhere, servers, state)
    assert nowhere._noting is None
    await nowhere.end()


@pytest.mark.parametrize(
    "content", ["{", "", '{"format": 1, "member": "", "logs": {"shard-1": {"counter": 1}}}', "[]"]
)
async def test_notes_that_are_damaged_are_ignored_and_made_anew(
    servers: Servers, directory: Path, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    file = directory / FILE
    file.write_text(content, encoding="utf-8")
    state = log_of((STRANGER, FIRST, 1))
    one = Watermarks(directory)
    begin(one, servers)
    await check(one, servers, state)
    assert f"{file} is damaged and ignored" in caplog.text
    add(state, MEMBER, FIRST, 1)
    await until(lambda: one._watermarks)
    await one.end()
    assert noted(directory)["shard-1"]["sequence"] == 2


async def test_what_a_newer_version_noted_ends_the_start(servers: Servers, directory: Path) -> None:
    (directory / FILE).write_text('{"format": 2}', encoding="utf-8")
    with pytest.raises(EngineError, match="has format 2, this version reads 1"):
        await found(servers, directory, log_of())
