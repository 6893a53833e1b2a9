"""Which servers are taken off, when, and what is in the way of that."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from grid_member.engine.cluster_settings import ClusterSettings
from grid_member.engine.nats.admin.peers import Peers, peer_id
from grid_member.engine.nats.admin.server_records import (
    LEAVING,
    LEFT,
    REMOVED,
    REPLACED,
    SERVER,
    ServerRecord,
    decode_server_record,
    own_record,
)
from grid_member.engine.nats.admin.streams import Copies
from grid_member.engine.nats.client.errors import NatsError
from grid_member.engine.replicas import servers as cluster_servers
from grid_member.engine.replicas.servers import (
    FORMER_S,
    LEADERLESS_S,
    UNKNOWN_S,
    NoteStore,
    Servers,
)
from grid_member.engine.replication import LockedOutError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from pathlib import Path

    from grid_member.engine.nats.client.client import NatsClient

SETTINGS = ClusterSettings("dev", "m1", 5704, (("a", 1), ("b", 2), ("c", 3)), "grid", "pw")
HERE = ServerRecord("host", "m1", 5704, (), durable=True)
ELSEWHERE = ServerRecord("host", "m2", 5704, (), durable=True)
ALL_COPIES = Copies(3, peer_id("own"), frozenset(), frozenset(), (), moving=False)


class Others:
    """The other members, and the cluster's lock."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)
        self.free = True
        self.purposes: list[str] = []
        self.when_locked: Callable[[], None] = lambda: None

    def servers(self) -> frozenset[str]:
        return frozenset(self.names)

    def lite(self) -> int:
        return 0

    @contextlib.asynccontextmanager
    async def lock_cluster(self, purpose: str) -> AsyncIterator[None]:
        if not self.free:
            raise LockedOutError
        self.purposes.append(purpose)
        self.when_locked()
        yield


class World:
    """What the servers' leader tells, and what is asked of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        self.values: dict[str, bytes] = {}
        self.voting = {"own", "second", "third"}
        self.silent: set[str] = set()
        self.led = True
        self.kept: set[str] = set()
        """Streams that are on disks."""
        self.copies: Copies | None = ALL_COPIES
        self.takes = True
        self.when_put: Callable[[], None] = lambda: None
        self.removed: list[str] = []
        self.others = Others("own", "second", "third")
        self.servers = Servers(
            cast("NatsClient", None),
            cast("NatsClient", None),
            SETTINGS,
            "own",
            ["shard-0"],
            NoteStore(self._items, self._put),
            lambda: self.others,
            kept_servers=self.kept,
        )
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "time", lambda: self.now_s)
        monkeypatch.setattr(cluster_servers, "peers", self._peers)
        monkeypatch.setattr(cluster_servers, "copies_of", self._copies_of)
        monkeypatch.setattr(cluster_servers, "remove_server", self._remove)
        monkeypatch.setattr(cluster_servers, "own_record", lambda _: HERE)

    def note(self, name: str, place: ServerRecord) -> None:
        self.values[SERVER + name] = place.encode()

    async def look(self, seconds: float = 0.0) -> None:
        """Let time go on, then look once, as the member does each second."""
        self.now_s += seconds
        try:
            await self.servers.look()
        except (NatsError, LockedOutError):
            return

    def _items(self, prefix: str) -> list[tuple[str, bytes]]:
        return [(k, v) for k, v in sorted(self.values.items()) if k.startswith(prefix)]

    async def _put(self, key: str, value: bytes | None) -> bool:
        self.when_put()
        if self.takes and value is None:
            self.values.pop(key, None)
        elif self.takes and value is not None:
            self.values[key] = value
        return self.takes

    async def _peers(self, _: object) -> Peers:
        if not self.led:
            raise NatsError("nobody leads the servers now")
        return Peers(ids(self.voting), ids(self.silent))

    async def _copies_of(self, *_: object) -> Copies:
        if self.copies is None:
            raise NatsError("nobody leads the stream now")
        return self.copies

    async def _remove(self, _: object, peer: str) -> None:
        self.removed.append(peer)
        self.voting = {name for name in self.voting if peer_id(name) != peer}
        self.silent &= self.voting


def ids(names: Iterable[str]) -> frozenset[str]:
    return frozenset(map(peer_id, names))


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Three members, of which this one was somebody else before."""
    world = World(monkeypatch)
    await world.servers.note_own()
    world.voting.add("former")
    world.silent.add("former")
    world.note("former", HERE)
    return world


async def test_a_former_server_is_removed_and_must_not_come_back(world: World) -> None:
    await world.look()
    assert not world.removed
    await world.look(FORMER_S)
    assert world.removed == [peer_id("former")]
    assert world.values[REMOVED + peer_id("former")] == REPLACED
    assert SERVER + "former" not in world.values
    assert len(world.others.purposes) == 1


async def test_of_one_in_memory_nothing_is_kept(world: World) -> None:
    world.note("former", replace(HERE, durable=False))
    await world.look()
    await world.look(FORMER_S)
    assert world.removed
    assert not world.servers.store.items(REMOVED)


async def test_a_server_whose_member_gives_signs_of_life_is_never_removed(world: World) -> None:
    world.others.names.add("former")
    await world.look()
    await world.look(UNKNOWN_S)
    assert not world.removed


async def test_a_server_that_is_away_and_may_come_back_is_never_removed(world: World) -> None:
    world.note("former", ELSEWHERE)
    await world.look()
    await world.look(10 * UNKNOWN_S)
    assert not world.removed


async def test_the_former_server_of_another_member_is_removed_as_well(world: World) -> None:
    world.note("former", ELSEWHERE)
    world.note("second", ELSEWHERE)
    await world.look()
    await world.look(FORMER_S)
    assert world.removed


async def test_one_that_was_killed_at_the_end_of_leaving_is_removed(world: World) -> None:
    world.note("former", ELSEWHERE)
    world.values[LEAVING + "former"] = b""
    world.values[REMOVED + peer_id("former")] = LEFT
    await world.look()
    assert not world.removed
    await world.look(FORMER_S)
    assert world.removed == [peer_id("former")]
    assert world.values[REMOVED + peer_id("former")] == LEFT
    assert not {LEAVING + "former", SERVER + "former"} & set(world.values)


async def test_a_server_that_nobody_ever_noted_is_removed_after_minutes(world: World) -> None:
    del world.values[SERVER + "former"]
    await world.look()
    await world.look(UNKNOWN_S - 1)
    assert not world.removed
    await world.look(1)
    assert world.removed == [peer_id("former")]


async def test_a_server_that_was_noted_by_another_version_is_not_unknown(world: World) -> None:
    world.values[SERVER + "former"] = b'{"where": "as a later version tells it"}'
    await world.look()
    await world.look(10 * UNKNOWN_S)
    assert not world.removed


async def test_silence_counts_without_a_gap(world: World) -> None:
    await world.look()
    world.led = False
    await world.look(FORMER_S)
    world.servers.forget()
    world.led = True
    await world.look()
    assert not world.removed, "the next leader knows nothing of the silence before"
    await world.look(FORMER_S)
    assert world.removed


async def test_nothing_is_removed_while_another_one_is_silent(world: World) -> None:
    world.silent.add("third")
    await world.look()
    await world.look(UNKNOWN_S)
    assert not world.removed
    world.silent.discard("third")
    await world.look()
    assert world.removed


async def test_two_that_never_come_back_are_removed_one_after_the_other(world: World) -> None:
    world.voting.add("third before")
    world.silent.add("third before")
    world.note("third", ELSEWHERE)
    world.note("third before", ELSEWHERE)
    await world.look()
    await world.look(FORMER_S)
    assert len(world.removed) == 1
    await world.look()
    assert len(world.removed) == 2
    assert world.voting == {"own", "second", "third"}


async def test_nothing_is_removed_while_a_copy_is_behind(world: World) -> None:
    own, second = ids({"own"}), ids({"second"})
    world.copies = ALL_COPIES._replace(servers=own | second | ids({"former"}), current=own)
    await world.look()
    await world.look(UNKNOWN_S)
    assert not world.removed
    world.copies = world.copies._replace(current=own | second)
    await world.look()
    assert world.removed


async def test_a_stream_that_waits_for_the_removal_is_no_obstacle_to_it(world: World) -> None:
    world.copies = None
    await world.look()
    await world.look(FORMER_S)
    assert not world.removed
    await world.look(LEADERLESS_S)
    assert world.removed


async def test_what_only_the_lost_disks_may_have_is_not_given_up(world: World) -> None:
    world.kept.add("shard-0")
    world.copies = None
    await world.look()
    await world.look(FORMER_S)
    await world.look(100 * LEADERLESS_S)
    assert not world.removed
    world.copies = ALL_COPIES  # the copies that are left have a leader
    await world.look()
    assert world.removed


async def test_a_stream_that_elects_its_leader_is_waited_for_however_long_the_silence(
    world: World,
) -> None:
    world.silent.add("third")
    await world.look()
    await world.look(2 * LEADERLESS_S)
    world.silent.discard("third")
    world.copies = None  # its leader has just ended: of what it confirmed nobody else may have all
    await world.look()
    await world.look(LEADERLESS_S - 1)
    assert not world.removed
    world.copies = ALL_COPIES._replace(servers=ids({"own"}))
    await world.look()
    world.copies = None
    await world.look(1)
    await world.look(LEADERLESS_S - 1)
    assert not world.removed, "it had a leader in between"
    await world.look(1)
    assert world.removed


async def test_nothing_is_removed_when_sight_was_lost_while_that_was_noted(world: World) -> None:
    await world.look()
    world.when_put = lambda: world.silent.add("third")
    await world.look(FORMER_S)
    assert not world.removed
    world.when_put = lambda: None
    world.silent.discard("third")
    await world.look()
    assert world.removed == [peer_id("former")]


async def test_nothing_is_removed_without_the_lock_or_without_a_note_of_it(world: World) -> None:
    world.others.free = False
    await world.look()
    await world.look(FORMER_S)
    assert not world.removed
    world.others.free, world.takes = True, False
    await world.look()
    assert not world.removed
    world.takes = True
    await world.look()
    assert world.removed


async def test_a_member_that_is_started_again_stays(world: World) -> None:
    world.values[LEAVING + "own"] = b""
    assert world.servers.leaving() == ids({"own"})
    assert await world.servers.note_own()
    assert not world.servers.leaving()


async def test_a_note_that_was_lost_is_written_again(world: World) -> None:
    del world.values[SERVER + "own"]
    await world.look()
    assert decode_server_record(world.values[SERVER + "own"]) == HERE


async def test_of_a_server_that_was_taken_off_no_note_is_written(world: World) -> None:
    world.voting.discard("own")
    del world.values[SERVER + "own"]
    await world.look()
    assert SERVER + "own" not in world.values


async def test_servers_that_one_place_had_in_turn_are_of_one_member(world: World) -> None:
    world.note("second", ELSEWHERE)
    assert world.servers.members(ids({"own", "former", "second", "never noted"})) == 3


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (HERE, HERE, True),
        (HERE, ELSEWHERE, False),
        (replace(HERE, listed=("10.0.0.1",)), replace(HERE, listed=("10.0.0.2",)), False),
        (replace(HERE, listed=("10.0.0.1", "x")), replace(HERE, listed=("10.0.0.1",)), True),
        # A host that could not be looked up.
        (replace(HERE, listed=("10.0.0.1",)), HERE, True),
        (HERE, replace(HERE, durable=False), True),
    ],
)
def test_copied_machines_are_not_at_the_same_place(
    one: ServerRecord, other: ServerRecord, same: bool
) -> None:
    assert one.excludes(other) is same
    assert other.excludes(one) is same


def test_a_place_names_the_listed_hosts_that_are_this_machine(tmp_path: Path) -> None:
    members = (("127.0.0.1", 5704), ("192.0.2.1", 5704), ("no.such.host.invalid", 5704))
    place = own_record(replace(SETTINGS, members=members, directory=tmp_path))
    assert place.listed == ("127.0.0.1",)
    assert place.durable
    assert decode_server_record(place.encode()) == place
    assert decode_server_record(b'["host","m1",5704]') is None


def test_ids_are_those_of_the_servers() -> None:
    assert peer_id("nats-0") == "S1Nunr6R"  # as a nats-server tells of one of that name


async def test_servers_are_told_by_the_names_of_their_members(world: World) -> None:
    world.note("second", ELSEWHERE)
    assert world.servers.describe(ids({"second"})) == "m2"
    told = world.servers.describe(ids({"second", "nobody"}))
    assert sorted(told.split(", ")) == sorted(["m2", peer_id("nobody")])
