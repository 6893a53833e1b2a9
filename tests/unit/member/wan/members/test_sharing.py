"""Promise: for each publisher and shard exactly one member sends, and every member knows which."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from grid_member.cluster.membership.member_table import MemberRecord
from grid_member.engine.wan.agreement import PublisherName, PublisherState
from grid_member.wan.members.assignment import SendingMember, sender_of
from grid_member.wan.members.reports import MAX_BLOCKED, SenderReport, SenderReports, merged
from grid_member.wan.members.sharing import Shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LONDON = PublisherName("rep", "london")
PARIS = PublisherName("rep", "paris")
UUIDS = tuple(str(UUID(int=number)) for number in range(1, 7))
A, B, C = UUIDS[:3]
REPLICATING, PAUSED = PublisherState.REPLICATING, PublisherState.PAUSED


def record(uuid: str, *, lite: bool = False) -> MemberRecord:
    return MemberRecord(uuid, "life", "a:1", uuid[-1], "0.2.0", lite, "server", int(uuid[-1]))


class FakeStore:
    """A system store that takes everything at once."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.puts = 0

    def system_get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def system_items(self, prefix: str) -> list[tuple[str, bytes]]:
        return sorted(item for item in self.values.items() if item[0].startswith(prefix))

    def system_put(
        self,
        key: str,
        value: bytes | None,
        done: Callable[[None], None],
        *,
        time_to_live_s: int = 0,
    ) -> None:
        self.puts += 1
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value
        done(None)


@dataclass
class FakeShard:
    paused: set[str] = field(default_factory=set)

    def state_of(self, publisher: PublisherName, member: bytes) -> PublisherState | None:
        return PAUSED if str(UUID(bytes=member)) in self.paused else REPLICATING


@dataclass
class Cluster:
    """Members that see one list and one store."""

    members: list[MemberRecord]
    store: FakeStore = field(default_factory=FakeStore)
    shard: FakeShard = field(default_factory=FakeShard)
    waits: bool = False

    def member(self, uuid: str) -> Shared:
        found = Shared(self.store, lambda: self.members, lambda: uuid, lambda _: self.waits)
        found.look([LONDON, PARIS])
        return found

    def senders(self, publisher: PublisherName = LONDON, unable: Iterable[str] = ()) -> list[str]:
        """Return who sends each of four shards; a shard with none or two fails."""
        found: dict[int, str] = {}
        for each in self.members:
            lanes = self.member(each.uuid).lanes(
                publisher, [self.shard] * 4, able=each.uuid not in unable
            )
            assert not lanes & found.keys()
            found |= dict.fromkeys(lanes, each.uuid)
        return [found[lane] for lane in sorted(found)]


@pytest.mark.parametrize("size", range(1, 7))
def test_one_member_sends_each_shard(size: int) -> None:
    cluster = Cluster([record(uuid) for uuid in UUIDS[:size]])
    found = cluster.senders()
    assert len(found) == 4
    counts = Counter(found)
    assert len(counts) == min(size, 4)
    assert max(counts.values()) - min(counts.values()) <= 1


def test_members_without_data_send_nothing() -> None:
    cluster = Cluster([record(A, lite=True), record(B), record(C)])
    assert set(cluster.senders()) == {B, C}


def test_the_next_one_sends_when_a_member_is_gone() -> None:
    cluster = Cluster([record(uuid) for uuid in (A, B, C)])
    cluster.members = [record(A), record(C)]
    assert set(cluster.senders()) == {A, C}
    assert not cluster.member(B).lanes(LONDON, [cluster.shard], able=True), "it is off the list"


def test_one_that_cannot_send_says_so_and_the_others_do() -> None:
    cluster = Cluster([record(uuid) for uuid in (A, B, C)])
    cluster.member(B).report(LONDON, SenderReport(able=False, problem="no credentials"))
    assert set(cluster.senders(unable=[B])) == {A, C}
    for uuid in (A, C):
        cluster.member(uuid).report(LONDON, SenderReport(able=False))
    assert cluster.senders(unable=[A, B, C]) == []
    assert cluster.member(A).merged(LONDON).problem == "no credentials"


def test_those_that_replicate_come_first() -> None:
    cluster = Cluster([record(uuid) for uuid in (A, B, C)], shard=FakeShard({A, C}))
    assert set(cluster.senders()) == {B}
    cluster.shard.paused = {A, B, C}
    assert len(cluster.senders()) == 4, "the line is watched though nothing is sent"


def test_nobody_sends_what_a_restore_brought() -> None:
    cluster = Cluster([record(uuid) for uuid in (A, B)], waits=True)
    assert cluster.member(A).waits(LONDON)
    assert set(cluster.senders()) == {A, B}, "jobs that are asked for are carried out"


def test_publishers_are_spread() -> None:
    members = [SendingMember(uuid, able=True, replicating=True) for uuid in UUIDS[:3]]
    names = [PublisherName(f"r{n}", "p") for n in range(30)]
    chosen = {sender_of(name, lane, members) for name, lane in product(names, (0,))}
    assert chosen == set(UUIDS[:3])


def test_a_report_is_put_only_when_it_says_something_else() -> None:
    cluster = Cluster([record(A), record(B)])
    member = cluster.member(A)
    told = SenderReport(lanes=2, connected=True, endpoint="a:1")
    member.report(LONDON, told)
    member.report(LONDON, SenderReport(lanes=2, connected=True, endpoint="b:1"))
    assert cluster.store.puts == 1
    member.report(LONDON, SenderReport(lanes=2, problem="refused"))
    assert cluster.store.puts == 2
    assert SenderReports(cluster.store).of(LONDON)[A].problem == "refused"


def test_the_oldest_member_removes_reports_that_are_out_of_date() -> None:
    cluster = Cluster([record(A), record(B), record(C)])
    for uuid in (A, B, C):
        cluster.member(uuid).report(LONDON, SenderReport(lanes=1))
        cluster.member(uuid).report(PARIS, SenderReport(lanes=1))
    cluster.members = [record(A), record(B)]
    cluster.member(B).look([LONDON])
    assert len(cluster.store.values) == 6
    cluster.member(A).look([LONDON])
    assert set(SenderReports(cluster.store).of(LONDON)) == {A, B}
    assert SenderReports(cluster.store).of(PARIS) == {}


def test_a_publisher_is_connected_when_all_its_senders_are() -> None:
    up = SenderReport(lanes=1, connected=True, endpoint="a:1")
    down = SenderReport(lanes=3, problem="refused", blocked={"m": "too large"})
    idle = SenderReport()
    assert merged([idle, up]).connected
    both = merged([idle, up, down])
    assert (both.lanes, both.connected, both.problem) == (4, False, "refused")
    assert (both.endpoint, both.blocked) == ("a:1", {"m": "too large"})
    assert not merged([idle]).connected


def test_a_member_that_cannot_send_is_told_of_while_others_send() -> None:
    up = SenderReport(lanes=1, connected=True)
    unable = SenderReport(able=False, problem="no file")
    lacking = SenderReport(able=False)
    assert merged([lacking, up]).problem == ""
    both = merged([unable, up])
    assert (both.able, both.connected) == (True, True)
    assert both.problem == "a member cannot send, and others do so in its place: no file"
    refused = SenderReport(lanes=1, problem="refused")
    assert merged([unable, up, refused]).problem == "refused"


def test_a_report_names_a_part_of_very_many_blocked_maps() -> None:
    cluster = Cluster([record(A)])
    blocked = {f"m{n:03}": "refused" for n in range(100)}
    cluster.member(A).report(LONDON, SenderReport(lanes=1, blocked=blocked))
    found = SenderReports(cluster.store).of(LONDON)[A].blocked
    assert list(found) == [f"m{n:03}" for n in range(MAX_BLOCKED)]
    cluster.member(A).report(LONDON, SenderReport(lanes=1, blocked=blocked))
    assert cluster.store.puts == 1


def test_a_report_of_another_version_is_read() -> None:
    store = FakeStore()
    store.values[f"wan/sender/rep/london/{A}"] = b'{"later": 1}'
    assert SenderReports(store).of(LONDON) == {A: SenderReport()}
