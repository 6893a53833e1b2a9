"""What a member tells of the copies, and when there are more of them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from grid_member.engine.cluster_settings import ClusterSettings
from grid_member.engine.nats.admin.peers import Peers
from grid_member.engine.nats.admin.streams import Copies
from grid_member.engine.nats.client.errors import NatsError
from grid_member.engine.replicas import watch
from grid_member.engine.replicas.watch import (
    LOOK_S,
    MORE_AGAIN_S,
    OLD_S,
    WITHOUT_COPIES_S,
    CopyWatch,
)
from grid_member.engine.replication import NOT_REPLICATED, LockedOutError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from grid_member.engine.replicas.servers import Servers
    from grid_member.engine.replication import Colleagues, Replication

SETTINGS = ClusterSettings("dev", "m1", 5704, (("a", 1), ("b", 2), ("c", 3)), "grid", "pw")
STREAMS = ["shard-0", "shard-1"]


@pytest.fixture(autouse=True)
def plain_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let servers have their names as ids."""
    monkeypatch.setattr(watch, "peer_id", str)


def all_of(*servers: str, wanted: int | None = None, leader: str = "own") -> Copies:
    names = frozenset(servers)
    return Copies(wanted or len(names), leader, names, names, (), moving=False)


class World:
    """The servers of a cluster, as this member's watch sees them."""

    client = system = None
    streams = STREAMS
    own = "own"

    def __init__(self, monkeypatch: pytest.MonkeyPatch, settings: ClusterSettings) -> None:
        self.now_s = 100.0
        self.ids, self.silent = {"own", "b", "c"}, set[str]()
        self.going: set[str] = set()
        self.places: dict[str, str] = {}  # others are each somewhere else
        self.lites = 0
        self.left = False
        self.steady = True
        self.copies: dict[str, Copies | None] = dict.fromkeys(STREAMS, all_of("own", "b", "c"))
        self.changed: list[tuple[str, int]] = []
        self.broken: Exception | None = None
        self.free = True  # the cluster's lock
        self.purposes: list[str] = []
        self.when_locked: Callable[[], None] = lambda: None
        self.when_changed: Callable[[], None] = lambda: None
        self.unsettled: set[str] | None = set()
        """Groups; None: the own server does not tell."""
        self.untold = set[str]()
        """Groups of which it tells nothing."""
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self.now_s)
        monkeypatch.setattr(watch, "peers", self._peers)
        monkeypatch.setattr(watch, "copies_of", self._copies_of)
        monkeypatch.setattr(watch, "unsettled_groups", self._unsettled)
        monkeypatch.setattr(watch, "change_copies", self._change)
        self.watch = CopyWatch(cast("Servers", self), settings, lambda: self.steady)

    def departed(self) -> set[str]:
        return {"another"} if self.left else set()

    async def look(self) -> Replication:
        await self.watch.look()
        return self.watch.replication(in_contact=True)

    async def trouble(self) -> str | None:
        await self.look()
        return self.watch.trouble

    def present_servers(self) -> frozenset[str]:
        return frozenset({"own", "b", "c", "d", "e"})

    def describe(self, servers: frozenset[str]) -> str:
        return ", ".join(sorted(servers))

    def members(self, servers: frozenset[str]) -> int:
        return len({self.places.get(one, one) for one in servers})

    def leaving(self) -> frozenset[str]:
        return frozenset(self.going)

    def colleagues(self) -> Colleagues:
        return cast("Colleagues", self)

    def lite(self) -> int:
        return self.lites

    @contextlib.asynccontextmanager
    async def lock_cluster(self, purpose: str) -> AsyncIterator[None]:
        if not self.free:
            raise LockedOutError
        self.purposes.append(purpose)
        self.when_locked()
        yield

    async def _peers(self, _: object) -> Peers:
        return Peers(frozenset(self.ids), frozenset(self.silent))

    async def _unsettled(
        self,
        _: object,
        server: str,
        groups: frozenset[str],
        present: frozenset[str],
        held: frozenset[str],
    ) -> frozenset[str]:
        assert (server, present) == ("own", frozenset(self.ids))
        if self.unsettled is None:
            raise NatsError("no answer")
        return groups & self.unsettled | held & self.untold

    async def _copies_of(self, _: object, stream: str) -> Copies:
        if self.broken is not None:
            raise self.broken
        found = self.copies[stream]
        if found is None:
            raise NatsError("nobody leads it now")
        return found

    async def _change(self, _: object, stream: str, copies: int) -> None:
        assert self.purposes, "the cluster's lock is not held"
        self.changed.append((stream, copies))
        self.when_changed()


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch, SETTINGS)


async def test_before_the_first_look_nothing_is_safe(world: World) -> None:
    assert NOT_REPLICATED.not_current
    assert world.watch.replication(in_contact=True).not_current
    assert (await world.look()).not_current == 0


async def test_a_look_that_is_old_is_not_safe_and_contact_is_of_now(world: World) -> None:
    await world.look()
    world.now_s += OLD_S + LOOK_S
    told = world.watch.replication(in_contact=False)
    assert told.not_current
    assert not told.in_contact


async def test_a_copy_of_which_nobody_knows_is_not_current(world: World) -> None:
    world.copies["shard-1"] = None
    assert (await world.look()).not_current == 3


@pytest.mark.parametrize("silent", [{"c"}, {"never noted"}])
async def test_with_a_silent_server_nothing_is_safe(world: World, silent: set[str]) -> None:
    world.ids |= silent
    world.silent = silent
    assert (await world.look()).not_current == 1


async def test_who_is_missing_is_named(world: World) -> None:
    assert (await world.look()).absent is None
    world.silent = {"b"}
    told = await world.look()
    assert told.absent == "no word from b"
    assert told.shortage.startswith("1 copies of the data are missing, behind or out of reach: no")
    world.ids |= {"gone"}
    told = await world.look()
    strange = "counted, but of no member that gives signs of life: gone"
    assert told.absent == f"no word from b; {strange}"


async def test_who_was_never_there_is_counted(world: World) -> None:
    world.ids = {"own", "b"}
    world.copies = dict.fromkeys(STREAMS, all_of("own", "b"))
    told = await world.look()
    assert told.not_current == 2
    assert told.absent == "2 members with data count, the list names 3"


async def test_a_state_that_lets_no_copies_be_made_is_told(world: World) -> None:
    world.steady = False
    assert (await world.look()).absent is None
    world.copies["shard-0"] = all_of("own", "b")
    assert (
        await world.look()
    ).absent == "the cluster state, which is not active, lets none be made"


async def test_that_nobody_leads_the_servers_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nobody(_: object) -> Peers:
        raise NatsError("nobody leads the servers now")

    monkeypatch.setattr(watch, "peers", nobody)
    assert (await world.look()).absent == "nobody leads the servers now"


@pytest.mark.parametrize("unsettled", [{"g"}, None], ids=["unsettled", "silent"])
async def test_until_it_is_agreed_on_who_votes_nothing_is_safe_nor_copied(
    world: World, unsettled: set[str] | None
) -> None:
    world.copies["shard-1"] = all_of("own", "b", "c")._replace(group="g")
    world.unsettled = unsettled
    told = await world.look()
    assert (told.not_current, told.copied) == (1, False)
    world.unsettled = {"of a stream that does not matter"}
    told = await world.look()
    assert (told.not_current, told.copied) == (0, True)


async def test_until_the_own_server_tells_of_each_group_it_is_in_nothing_is_safe(
    world: World,
) -> None:
    world.untold = {"g", ""}
    world.copies["shard-1"] = all_of("own", "b", "c")._replace(group="g")
    told = await world.look()
    assert (told.not_current, told.copied) == (1, False)
    # It is in no group of copies that are all elsewhere.
    world.copies["shard-1"] = all_of("b", "c", "d")._replace(group="g")
    assert (await world.look()).not_current == 0


async def test_a_single_copy_has_no_group_that_its_server_could_tell_of(world: World) -> None:
    world.untold, world.ids, world.left = {"g"}, {"own"}, True
    world.copies = dict.fromkeys(STREAMS, all_of("own")._replace(group="g"))
    assert (await world.look()).not_current == 0


async def test_a_server_that_no_member_names_is_not_safe(world: World) -> None:
    world.ids.add("strange")
    assert (await world.look()).not_current


async def test_more_copies_than_wanted_are_none_too_few(world: World) -> None:
    world.ids |= {"d", "e"}
    world.copies = dict.fromkeys(STREAMS, all_of("own", "b", "c", "d", "e"))
    assert (await world.look()).not_current == 0


async def test_fewer_members_than_listed_have_too_few_copies_unless_they_left(
    world: World,
) -> None:
    world.ids = {"own", "b"}
    world.copies = dict.fromkeys(STREAMS, all_of("own", "b"))
    assert (await world.look()).not_current == 2
    world.left = True
    assert (await world.look()).not_current == 0
    world.left, world.lites = False, 1
    assert (await world.look()).not_current == 0


async def test_copies_are_made_when_members_have_come(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, replace(SETTINGS, backup_count=2))
    await world.look()
    assert world.changed == []
    world.ids |= {"d", "e"}
    await world.look()
    assert world.changed == [("shard-0", 5), ("shard-1", 5)]


@pytest.mark.parametrize(
    "obstacle",
    [{"steady": False}, {"silent": {"c"}}, {"going": {"d"}}, {"led by": "b"}, {"moving": True}],
    ids=lambda obstacle: next(iter(obstacle)),
)
async def test_copies_are_made_by_one_and_when_nothing_is_in_the_way(
    world: World, obstacle: dict[str, object]
) -> None:
    two = all_of("own", "b", wanted=2, leader=str(obstacle.pop("led by", "own")))
    moving = bool(obstacle.pop("moving", False))
    world.copies = dict.fromkeys(STREAMS, two._replace(moving=moving))
    world.ids = {"own", "b", "d"} if "going" in obstacle else {"own", "b", "c"}
    vars(world).update(obstacle)
    await world.look()
    assert world.changed == []


@pytest.fixture
async def short(world: World) -> World:
    """Streams with a copy less than there are servers."""
    world.copies = dict.fromkeys(STREAMS, all_of("own", "b"))
    return world


async def test_no_copies_are_made_once_the_state_forbids_it(short: World) -> None:
    short.when_changed = lambda: setattr(short, "steady", False)
    await short.look()
    assert short.changed == [("shard-0", 3)]
    short.when_changed, short.steady = lambda: None, True
    short.when_locked = lambda: setattr(short, "steady", False)
    short.changed.clear()
    await short.look()
    assert short.changed == [], "it changed before the lock was had"


async def test_who_leaves_is_known_before_copies_are_made(short: World) -> None:
    # The note of it is applied here by the time that this member has the lock.
    short.when_locked = lambda: short.going.add("c")
    await short.look()
    assert short.purposes
    assert short.changed == []


async def test_no_more_copies_are_made_of_what_moves_by_then(short: World) -> None:
    # As when another member begins to leave while this one waits for the lock.
    moved = all_of("own", "b", wanted=2)._replace(moving=True)
    short.when_locked = lambda: short.copies.update({"shard-0": moved})
    await short.look()
    assert short.changed == [("shard-1", 3)]


async def test_no_copies_are_made_while_another_member_changes_the_cluster(short: World) -> None:
    short.free = False
    assert (await short.look()).not_current
    assert short.changed == []
    short.free = True
    short.now_s += MORE_AGAIN_S
    await short.look()
    assert short.changed == [("shard-0", 3), ("shard-1", 3)]


async def test_the_lock_is_left_to_others_while_copies_cannot_be_made(short: World) -> None:
    def refuse() -> None:
        raise NatsError("no suitable peers for placement")

    short.when_changed = refuse
    for _ in range(3):
        await short.look()
    assert len(short.purposes) == 1
    short.now_s += MORE_AGAIN_S
    await short.look()
    assert len(short.purposes) == 2


async def test_whether_copies_move_can_be_looked_at_now(world: World) -> None:
    await world.look()
    assert not await world.watch.moving()
    world.copies["shard-1"] = all_of("own", "b", "c")._replace(moving=True)
    world.copies["shard-0"] = None
    assert await world.watch.moving()
    world.copies["shard-1"] = all_of("own", "b", "c")
    assert not await world.watch.moving()
    world.going.add("c")
    assert await world.watch.moving(), "what it led gets another leader, who tells nothing yet"


async def test_a_member_has_its_copies_once_they_were_current(world: World) -> None:
    whole = world.copies["shard-1"]
    assert whole is not None
    world.copies["shard-1"] = whole._replace(current=frozenset({"b", "c"}), leader="b")
    assert not (await world.look()).copied
    world.now_s += 10 * WITHOUT_COPIES_S
    assert not (await world.look()).copied, "they are being made"
    world.copies["shard-1"] = whole
    assert (await world.look()).copied
    world.copies["shard-1"] = None
    assert (await world.look()).copied


async def test_a_member_without_copies_waits_for_those_of_its_former_server(world: World) -> None:
    former = all_of("former", "b", "c", leader="b")
    world.copies = dict.fromkeys(STREAMS, former)
    world.ids.add("former")
    world.silent = {"former"}
    assert not (await world.look()).copied
    world.now_s += WITHOUT_COPIES_S
    assert (await world.look()).copied, "others may be in no state to give it any"


async def test_a_member_of_which_nobody_wants_copies_is_ready_at_once(world: World) -> None:
    world.ids |= {"d", "e"}
    world.copies = dict.fromkeys(STREAMS, all_of("b", "c", "d", leader="b"))
    assert (await world.look()).copied


async def test_a_lite_member_waits_for_no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, replace(SETTINGS, lite=True))
    world.copies = dict.fromkeys(STREAMS)
    assert (await world.look()).copied
