"""What servers tell of copies that lack something, and what is made of it."""

from __future__ import annotations

import logging
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import Mock

import pytest

from grid_member.engine.bootstrap.identity import MemberIdentity
from grid_member.engine.integrity import damage
from grid_member.engine.integrity.damage import (
    Copy,
    Damage,
    copies_found,
    describe_damage,
    places_of,
)
from grid_member.engine.nats.admin.streams import Stream
from grid_member.engine.nats.client.errors import LackingError, NatsError, ShortError
from grid_member.engine.state.machine import State
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from grid_member.engine.nats.client.client import NatsClient

LOG = Stream("shard-1", durable=True)
VOLATILE = Stream("volatile", durable=False)
STREAMS = [LOG, LOG.snapshots, VOLATILE]
SERVERS = [f"m{number}-0123abcd-0123ab" for number in range(3)]
FIRST, SECOND, THIRD = SERVERS
LAST = 40
WHOLE = Copy(FIRST, missing=0, is_waiting=False, copies=3, last=LAST)
DIRECTORY = Path("/data")
SELF = MemberIdentity(uuid.UUID(int=1), 1, SECOND)
MANY = 5
CONNECTION = cast("NatsClient", Mock())


class Servers:
    """Servers that tell of their copies."""

    def __init__(self) -> None:
        self.missing = dict.fromkeys(SERVERS, 0)
        self.last = dict.fromkeys(SERVERS, LAST)
        self.groups: dict[str, dict[str, Any]] = {
            server: {"size": 3, "leader": FIRST, "committed": 9, "applied": 9} for server in SERVERS
        }
        self.off: str | None = None
        """Who is not there."""
        self.looks = 0

    def wait(self, server: str) -> None:
        """Let a copy wait for a leader to copy from."""
        self.groups[server] = {"size": 3, "committed": 9, "applied": 0, "paused": True}

    async def answers(
        self, system: NatsClient, subject: bytes, request: dict[str, Any]
    ) -> list[dict[str, Any]]:
        assert system is CONNECTION
        assert request["account"] == "GRID"
        of_streams = subject.endswith(b"JSZ")
        self.looks += of_streams
        return [
            {
                "server": {"name": name},
                "data": self._streams(name) if of_streams else self._of(name),
            }
            for name in SERVERS
            if name != self.off
        ]

    def _streams(self, server: str) -> dict[str, Any]:
        details = [
            {
                "name": stream.name,
                "state": {"num_deleted": self.missing[server], "last_seq": self.last[server]},
                "stream_raft_group": f"group of {stream.name}",
            }
            for stream in STREAMS
        ]
        return {"account_details": [{"name": "GRID", "stream_detail": details}]}

    def _of(self, server: str) -> dict[str, Any]:
        return {"GRID": {f"group of {LOG.name}": self.groups[server]}}


def told_of(found: Mapping[str, list[Copy]], lacking: Mapping[str, set[str]]) -> str | None:
    return describe_damage(places_of(found, lacking, {}), "m1", DIRECTORY)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    servers = Servers()
    monkeypatch.setattr(damage, "all_answers", servers.answers)
    monkeypatch.setattr(damage, "LOOK_S", 0.01)
    return servers


@pytest.fixture
async def looking() -> AsyncIterator[Damage]:
    looking = Damage(lambda: STREAMS, DIRECTORY)
    yield looking
    await looking.end()


async def test_copies_on_disks_are_told_apart(servers: Servers) -> None:
    servers.missing[SECOND] = 7
    servers.wait(THIRD)
    found = await copies_found(CONNECTION, STREAMS)
    assert found == {
        LOG.name: [
            WHOLE,
            Copy(SECOND, missing=7, is_waiting=False, copies=3, last=LAST),
            Copy(THIRD, missing=0, is_waiting=True, copies=3, last=LAST),
        ],
        # Snapshots are given up in the midst of others.
        LOG.snapshots.name: [WHOLE._replace(server=server, copies=0) for server in SERVERS],
    }


@pytest.mark.parametrize(
    "group",
    [
        {"leader": FIRST, "committed": 9, "applied": 0, "paused": True},  # it is being copied
        {"committed": 9, "applied": 9, "paused": True},
        {"committed": 9, "applied": 0},  # it is applied
        {},
    ],
)
async def test_a_copy_that_is_made_or_applied_is_not_damaged(
    servers: Servers, group: dict[str, Any]
) -> None:
    servers.groups[SECOND] = group
    assert told_of(await copies_found(CONNECTION, STREAMS), {}) is None


async def test_whose_copies_are_damaged_is_told_with_what_to_do(servers: Servers) -> None:
    servers.wait(SECOND)
    told = told_of(await copies_found(CONNECTION, STREAMS), {LOG.snapshots.name: {THIRD}})
    assert told == (
        "damaged data: records of shard-1 are missing on the disks of m1: start all members, as "
        "others may hold it whole; damaged data: records of shard-1-image are missing on the disks "
        "of m2: start all members, as others may hold it whole"
    )
    servers.wait(FIRST)
    told = told_of(await copies_found(CONNECTION, STREAMS), {LOG.name: {THIRD}})
    assert told == (
        "damaged data: records of shard-1 are missing on the disks of m0, m1, m2, which are all "
        "that hold it: stop all members, keep a copy of their directories, empty these and start "
        "all with persistence.restore-from, which names the last backup; what was written after it "
        "is lost; partialStart does not help with that, as no member is lost"
    )


async def test_copies_of_replaced_and_unnamed_servers_count_for_none(servers: Servers) -> None:
    servers.wait(SECOND)
    servers.wait(THIRD)
    found = await copies_found(CONNECTION, STREAMS)
    del found[LOG.name][0]  # the whole one is down
    former = "m2-4567cdef-4567cd"
    told = told_of(found, {LOG.name: {former, THIRD, "a member"}})
    assert told == (
        "damaged data: records of shard-1 are missing on the disks of a member, m1, m2: start all "
        "members, as others may hold it whole"
    )


async def test_damage_is_told_beside_a_majority_that_is_lost_unless_no_copy_is_whole(
    servers: Servers, looking: Damage
) -> None:
    assert looking.beside("no majority") == "no majority"
    servers.missing[FIRST] = servers.missing[THIRD] = 1
    looking.begin(CONNECTION, SELF, lambda: True)
    await until(lambda: looking.report)
    assert looking.beside("no majority") == f"{looking.report}; no majority"
    servers.missing[SECOND] = 1
    await until(lambda: "all that hold it" in (looking.report or ""))
    assert looking.beside("no majority") == looking.report


def planted(looking: Damage, monkeypatch: pytest.MonkeyPatch, found: list[NatsError]) -> None:
    """Let that be found of logs that are read, one after the other."""

    async def check(
        stream: Stream, created: str, read: State, current: Callable[[], State]
    ) -> None:
        if found:
            raise found.pop(0)

    monkeypatch.setattr(looking.watermarks, "check", check)


async def read_short(
    looking: Damage, monkeypatch: pytest.MonkeyPatch, *, waits: bool = True
) -> None:
    """Find that a log ends before what was read of it."""
    planted(looking, monkeypatch, [ShortError(LOG.name, LAST)])
    looking.begin(CONNECTION, SELF, lambda: waits)
    with pytest.raises(ShortError):
        await looking.check(LOG, "then", State(), State)


async def test_a_log_that_ends_before_what_was_read_is_damaged_where_copies_end_so(
    servers: Servers, looking: Damage, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers.last[SECOND] = LAST - 1
    await read_short(looking, monkeypatch)
    await until(lambda: "on the disks of m1:" in (looking.report or ""))
    servers.last[FIRST] = servers.last[THIRD] = 0
    await until(lambda: "m0, m1, m2, which are all that hold it" in (looking.report or ""))
    assert looking.report == (
        "damaged data: records of shard-1 are missing on the disks of m0, m1, m2, which are all "
        "that hold it: if the other members are ready, or wait and do not say this, only what this "
        "one has noted is newer than what they have: stop m1, empty /data and start it again, this "
        "one alone, and only while a majority is there without it: start who is off before; of two "
        "members the other one is none, and partialStart, asked of this one, goes on then; it "
        "copies what they have, and what only it had read is lost; if all that hold it say this, "
        "stop all members, keep a copy of their directories, empty these and start all with "
        "persistence.restore-from, which names the last backup; what was written after it is lost; "
        "partialStart does not help with that, as no member is lost"
    )
    servers.last = dict.fromkeys(SERVERS, LAST + 1)  # others went on with what is left
    await until(lambda: "on the disks of a member:" in (looking.report or ""))
    assert (looking.report or "").endswith(
        "start all members, as others may hold it whole; if all are there and this stays, the "
        "others have gone on without what only this one has read: stop m1, keep a copy of "
        "/data/cluster/reached.json, remove it and start the member again: it goes on with what "
        "they have"
    )
    assert looking.unreadable_log is None
    await looking.check(LOG, "then", State(), State)
    assert looking.report is None


@pytest.mark.parametrize("whole", SERVERS)
async def test_while_one_copy_has_what_was_read_nobody_is_told_to_empty_anything(
    servers: Servers, looking: Damage, monkeypatch: pytest.MonkeyPatch, whole: str
) -> None:
    servers.last = {**dict.fromkeys(SERVERS, 0), whole: LAST}
    await read_short(looking, monkeypatch)
    await until(lambda: looking.report)
    others = ", ".join(name[:2] for name in SERVERS if name != whole)
    assert looking.report == (
        f"damaged data: records of shard-1 are missing on the disks of {others}: start all "
        "members, as others may hold it whole"
    )


async def test_nobody_is_told_to_empty_anything_while_one_is_off_that_may_have_what_was_read(
    servers: Servers, looking: Damage, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers.last = dict.fromkeys(SERVERS, 0)
    servers.off = THIRD
    await read_short(looking, monkeypatch)
    await until(lambda: looking.report)
    assert looking.report == (
        "damaged data: records of shard-1 are missing on the disks of m0, m1: start all members, "
        "as others may hold it whole"
    )


async def test_a_log_that_is_short_is_told_when_nobody_else_is_elected_that_has_it(
    servers: Servers, looking: Damage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage, "LOOKS", 1000)
    servers.last = dict.fromkeys(SERVERS, 0)
    await read_short(looking, monkeypatch)
    await until(lambda: servers.looks > MANY)
    assert looking.report is None
    monkeypatch.setattr(damage, "LOOKS", MANY)
    await until(lambda: looking.report)


async def test_a_log_that_could_not_be_read_since_is_not_told_as_short(
    servers: Servers, looking: Damage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who answered too early may lead no more, and who leads then has all of it."""
    servers.last = dict.fromkeys(SERVERS, 0)
    planted(looking, monkeypatch, [ShortError(LOG.name, LAST)] * 2)
    monkeypatch.setattr(damage, "LOOKS", 1000)
    looking.begin(CONNECTION, SELF, lambda: True)
    with pytest.raises(ShortError):
        await looking.check(LOG, "then", State(), State)
    await until(lambda: servers.looks > MANY)
    looking.unread(LOG)
    monkeypatch.setattr(damage, "LOOKS", 1)
    looks = servers.looks
    await until(lambda: servers.looks > looks + MANY)
    assert looking.report is None
    with pytest.raises(ShortError):
        await looking.check(LOG, "then", State(), State)
    await until(lambda: looking.report)


HELD_BACK = (
    "; if all members run and this stays, no copy can lead, as newer records than m2 has may be "
    "noted on the damaged disks: to go on with the copy of m2, which ends at record 39, stop all "
    "members, keep a copy of their directories, empty those of m0 and m1, start all and ask m2 "
    "for partialStart; what only m0 and m1 had is lost; or stop all members, keep a copy of their "
    "directories, empty these and start all with persistence.restore-from, which names the last "
    "backup; what was written after it is lost"
)


@pytest.mark.parametrize("noted", [LAST - 1, LAST])
async def test_a_copy_that_damaged_ones_keep_from_leading_is_told_with_what_to_do(
    servers: Servers, looking: Damage, monkeypatch: pytest.MonkeyPatch, noted: int
) -> None:
    """Whether or not the member has read more than that copy has: emptying one helps nobody."""
    monkeypatch.setattr(damage, "HELD_BACK_LOOKS", 1000)
    servers.last[THIRD] = LAST - 1
    for server in (FIRST, SECOND):
        servers.wait(server)
        servers.last[server] = 0
    planted(looking, monkeypatch, [ShortError(LOG.name, noted)])
    looking.begin(CONNECTION, SELF, lambda: True)
    with pytest.raises(ShortError):
        await looking.check(LOG, "then", State(), State)
    everywhere = noted == LAST
    there = "m0, m1, m2" if everywhere else "m0, m1"
    await until(lambda: f"disks of {there}:" in (looking.report or ""))
    damaged = f"damaged data: records of shard-1 are missing on the disks of {there}"
    whole = ": start all members, as others may hold it whole"
    assert looking.report == damaged + whole
    monkeypatch.setattr(damage, "HELD_BACK_LOOKS", MANY)
    first = ", which are all that hold it" if everywhere else whole
    await until(lambda: looking.report == damaged + first + HELD_BACK)
    servers.off = THIRD  # who may hold it whole when it comes back
    await until(lambda: (looking.report or "").endswith(whole))


async def test_copies_that_are_a_majority_without_those_that_wait_are_kept_from_nothing(
    servers: Servers, looking: Damage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage, "HELD_BACK_LOOKS", damage.LOOKS)
    servers.wait(FIRST)
    looking.begin(CONNECTION, SELF, lambda: True)
    await until(lambda: looking.report)
    assert (looking.report or "").endswith("m0: start all members, as others may hold it whole")


async def test_an_empty_copy_is_no_copy_to_go_on_with(
    servers: Servers, looking: Damage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage, "HELD_BACK_LOOKS", damage.LOOKS)
    servers.last = dict.fromkeys(SERVERS, 0)
    servers.wait(FIRST)
    servers.wait(SECOND)
    await read_short(looking, monkeypatch)
    await until(lambda: "m0, m1, m2, which are all that hold it: if" in (looking.report or ""))


async def test_copies_that_lack_something_are_named_beside_those_that_end_too_early(
    servers: Servers, looking: Damage, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers.last[SECOND] = 0
    looking.reason(LackingError(LOG.name, THIRD))
    await read_short(looking, monkeypatch)
    await until(lambda: "on the disks of m1, m2:" in (looking.report or ""))


async def test_a_log_that_is_found_short_later_is_told_by_a_member_that_waits_for_nothing(
    servers: Servers, looking: Damage, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers.last = dict.fromkeys(SERVERS, 0)
    await read_short(looking, monkeypatch, waits=False)
    assert looking.unreadable_log is None  # whose copies lack it is known with a look
    await until(lambda: "m0, m1, m2, which are all that hold it" in (looking.unreadable_log or ""))
    await looking.check(LOG, "then", State(), State)
    assert looking.unreadable_log is None


@pytest.mark.parametrize("starts", [True, False])
async def test_a_log_that_ends_before_its_image_is_told_with_what_is_left_to_do(
    servers: Servers, looking: Damage, starts: bool
) -> None:
    servers.last = dict.fromkeys(SERVERS, 0)
    looking.begin(CONNECTION, SELF, lambda: starts)
    error = ShortError(LOG.name, LAST, in_snapshot=True)
    if starts:
        assert looking.reason(error) == str(error)
    else:
        looking.short(error)
    await until(lambda: "m0, m1, m2, which are all that hold it" in (looking.report or ""))
    assert looking.unreadable_log == (None if starts else looking.report)
    assert "all that hold it: stop all members, keep a copy" in (looking.report or "")
    servers.off = SECOND  # who may have it
    await until(lambda: (looking.report or "").endswith("as others may hold it whole"))
    looking.whole(LOG)
    assert looking.report is None


@pytest.mark.parametrize("stream", [LOG, LOG.snapshots])
async def test_what_was_read_whole_is_damaged_no_more(looking: Damage, stream: Stream) -> None:
    other = Stream("shard-2", durable=True)
    for name in (stream.name, other.name):
        looking.reason(LackingError(name, SECOND))
    looking.whole(LOG)
    assert looking.report == (
        "damaged data: records of shard-2 are missing on the disks of m1: start all members, as "
        "others may hold it whole"
    )
    looking.whole(other)
    assert looking.report is None


async def test_it_is_told_while_the_start_waits_and_of_the_own_copies_afterwards(
    servers: Servers, looking: Damage, caplog: pytest.LogCaptureFixture
) -> None:
    waits = True
    servers.missing[THIRD] = 1
    looking.begin(CONNECTION, SELF, lambda: waits)
    await until(lambda: "disks of m2:" in (looking.report or ""))
    assert looking.reason(NatsError("nobody leads it")) == "nobody leads it"
    reason = looking.reason(LackingError(LOG.name, SECOND))
    assert reason == "no copy of shard-1 could be read to its end yet"
    assert "disks of m1, m2:" in (looking.report or "")
    caplog.clear()
    with caplog.at_level(logging.ERROR, "grid.engine.nats"):
        waits = False
        await until(lambda: caplog.records)
    (said,) = caplog.messages
    assert "records of shard-1 are missing on the disk of this member" in said
    assert f"stop it, empty {DIRECTORY} and start it again" in said
    assert looking.report is None


async def test_a_copy_that_waits_for_a_leader_is_damaged_when_none_is_elected(
    servers: Servers, looking: Damage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage, "LOOKS", 1000)
    servers.wait(THIRD)
    looking.begin(CONNECTION, SELF, lambda: True)
    await until(lambda: servers.looks > MANY)
    assert looking.report is None
    monkeypatch.setattr(damage, "LOOKS", MANY)
    await until(lambda: "disks of m2:" in (looking.report or ""))


async def test_whose_own_copies_are_whole_says_nothing(
    servers: Servers, looking: Damage, caplog: pytest.LogCaptureFixture
) -> None:
    servers.missing[THIRD] = 1
    looking.begin(CONNECTION, SELF, lambda: False)
    await until(lambda: servers.looks)
    assert caplog.messages == []


async def test_members_without_a_disk_have_nothing_that_is_damaged() -> None:
    looking = Damage(lambda: STREAMS, None)
    looking.begin(CONNECTION, SELF, lambda: True)
    assert looking._looking is None


def test_a_server_that_is_not_named_is_somebodys() -> None:
    looking = Damage(lambda: STREAMS, DIRECTORY)
    looking.reason(LackingError(LOG.name, ""))
    assert "on the disks of a member:" in (looking.report or "")
