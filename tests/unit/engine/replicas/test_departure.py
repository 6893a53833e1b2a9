"""In which order a member leaves for good, and what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from grid_member.engine.nats.admin.peers import Peers, peer_id
from grid_member.engine.nats.admin.server_records import LEAVING, LEFT, REMOVED
from grid_member.engine.nats.admin.streams import Copies
from grid_member.engine.nats.client.errors import RequestTimeoutError
from grid_member.engine.replicas import departure, servers
from grid_member.engine.replicas.departure import MAX_TOLD_CHARACTERS, Departure, Evacuation
from grid_member.engine.replication import LockedOutError
from tests.unit.engine.replicas.test_servers import World, ids

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_member.engine.nats.client.client import NatsClient

STREAM = "shard-0"


class Leaving(World):
    """Four servers, one of which leaves; what is asked of their leader is written down."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.voting = {"own", "second", "third", "fourth"}
        self.others.names = set(self.voting)
        self.copies = held("own", "second", "third", "fourth")
        self.steady = True
        self.leads = True
        self.spared: frozenset[str] = frozenset()
        self.asked: list[str] = []
        self.several: dict[str, Copies] = {}
        """Of further streams."""
        for name in ("peers", "all_copies", "remove_server"):
            monkeypatch.setattr(departure, name, getattr(self, f"told_{name}"))
        for name in ("change_copies", "evacuate_server", "step_down"):
            monkeypatch.setattr(departure, name, getattr(self, name))
        self.departure = Departure(self.servers, lambda: self.steady)

    async def step(self) -> Evacuation | None:
        return await self.departure.step()

    async def told_peers(self, _: NatsClient) -> Peers:
        return Peers(ids(self.voting), ids(self.silent))

    async def told_all_copies(self, _: NatsClient, streams: Iterable[str]) -> dict[str, Copies]:
        return {STREAM: cast("Copies", self.copies), **self.several}

    async def told_remove_server(self, _: NatsClient, peer: str) -> None:
        self.asked.append("remove")
        await self._remove(None, peer)

    async def change_copies(self, _: NatsClient, stream: str, copies: int) -> None:
        self.asked.append(f"{copies} copies")
        self.copies = held("second", "third", "fourth")

    async def evacuate_server(self, _: NatsClient, peer: str) -> None:
        self.asked.append("evacuate")
        self.copies = held("own", "second", "third", "fourth")._replace(moving=True)

    async def step_down(self, _: NatsClient, peer: str, leaving: frozenset[str]) -> bool:
        self.spared = leaving
        leads, self.leads = self.leads, False
        return leads


def held(*names: str) -> Copies:
    return Copies(len(names), peer_id("second"), ids(names), ids(names), (), moving=False)


@pytest.fixture
async def leaving(monkeypatch: pytest.MonkeyPatch) -> Leaving:
    return Leaving(monkeypatch)


async def test_it_is_noted_then_moved_then_removed(leaving: Leaving) -> None:
    await leaving.step()
    assert leaving.values[LEAVING + "own"] == b""
    assert leaving.asked == []
    assert not leaving.leads, "it leads the servers no more while it leaves"
    assert leaving.spared == ids({"own"})
    await leaving.step()
    await leaving.step()
    assert leaving.asked == ["evacuate"], "what is moving is not asked for again"
    leaving.copies = held("second", "third", "fourth")._replace(wanted=4)
    await leaving.step()
    # Before, the servers might give up the copy of one that stays, to make it anew then.
    assert leaving.asked == ["evacuate", "3 copies"]
    leaving.leads = True
    await leaving.step()
    assert not leaving.removed, "it leads the servers"
    assert await leaving.step() is None
    assert leaving.asked == ["evacuate", "3 copies", "remove"]
    assert leaving.values[REMOVED + peer_id("own")] == LEFT
    assert LEAVING + "own" not in leaving.values
    assert await leaving.step() is None


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ({"silent": {"third"}}, "silent"),
        ({"voting": {"own", "second"}}, "have to remain"),
        ({"steady": False}, "state"),
        ({"copies": held("own", "second")._replace(current=ids({"own"}))}, "not current"),
        ({"values": {LEAVING + "third": b""}}, "another member is leaving"),
    ],
    ids=["silence", "too few", "state", "copies", "another one"],
)
async def test_it_waits_and_says_what_for(
    leaving: Leaving, setting: dict[str, object], reason: str
) -> None:
    vars(leaving).update(setting)
    told = await leaving.step()
    assert told is not None
    assert told.obstacle is not None
    assert reason in told.obstacle
    assert LEAVING + "own" not in leaving.values


async def test_before_the_end_the_others_are_looked_at_again(leaving: Leaving) -> None:
    await leaving.step()
    leaving.copies = held("second", "third", "fourth")
    leaving.silent = {"third"}
    leaving.leads = False
    told = await leaving.step()
    assert told is not None
    assert told.obstacle is not None
    assert not leaving.removed
    leaving.silent.clear()
    leaving.takes = False
    await leaving.step()
    assert not leaving.removed, "it could not be noted that it must not come back"
    leaving.takes = True
    assert await leaving.step() is None


async def test_what_changed_before_the_lock_was_had_is_seen_under_it(leaving: Leaving) -> None:
    await leaving.step()
    gone, leaving.leads = held("second", "third", "fourth"), False
    changes: list[dict[str, object]] = [
        {"copies": held("own", "second", "third")},
        {"copies": gone._replace(moving=True)},
        {"steady": False},
        {"voting": {"own", "second"}},
    ]
    for change in changes:
        before = {name: getattr(leaving, name) for name in change}
        leaving.copies = gone
        leaving.others.when_locked = lambda change=change: vars(leaving).update(change)  # type: ignore[misc]
        told = await leaving.step()
        assert told is not None
        assert told.obstacle is not None
        assert not leaving.removed
        assert REMOVED + peer_id("own") not in leaving.values
        vars(leaving).update(before)
    leaving.copies = gone
    leaving.others.when_locked = lambda: None
    assert await leaving.step() is None
    assert leaving.removed


async def test_nothing_is_moved_once_another_one_is_lost(leaving: Leaving) -> None:
    await leaving.step()
    leaving.silent = {"third"}
    told = await leaving.step()
    assert told is not None
    assert "silent" in str(told.obstacle)
    leaving.silent.clear()
    leaving.copies = held("own", "second", "third")._replace(current=ids({"own", "second"}))
    told = await leaving.step()
    assert told is not None
    assert "not current" in str(told.obstacle)
    assert leaving.asked == []
    leaving.copies = held("own", "second", "third", "fourth")
    await leaving.step()
    assert leaving.asked == ["evacuate"]


async def test_it_is_not_removed_when_sight_was_lost_while_that_was_noted(
    leaving: Leaving,
) -> None:
    await leaving.step()
    leaving.copies, leaving.leads = held("second", "third", "fourth"), False
    leaving.when_put = lambda: leaving.silent.add("third")
    told = await leaving.step()
    assert told is not None
    assert "silent" in str(told.obstacle)
    assert not leaving.removed
    leaving.when_put = lambda: None
    leaving.silent.clear()
    assert await leaving.step() is None
    assert leaving.removed


async def test_it_says_which_copies_are_waited_for_and_what_those_wait_for(
    leaving: Leaving,
) -> None:
    await leaving.step()
    here = held("own", "second", "third")
    leaving.copies = here._replace(moving=True, doing="waiting for quorum to add peer")
    told = await leaving.step()
    assert told is not None
    assert told.obstacle is not None
    assert f"{STREAM} (waiting for quorum to add peer)" in told.obstacle
    leaving.copies = leaving.copies._replace(doing="x" * 10_000)
    told = await leaving.step()
    assert told is not None
    assert len(str(told.obstacle)) <= MAX_TOLD_CHARACTERS


async def test_all_streams_are_asked_though_one_does_not_answer(
    leaving: Leaving, monkeypatch: pytest.MonkeyPatch
) -> None:
    await leaving.step()
    gone = held("second", "third", "fourth")._replace(wanted=4)
    leaving.copies, streams = gone, ["shard-1", "shard-2"]
    leaving.several = dict.fromkeys(streams, gone)
    leaving.servers.streams = [STREAM, *streams]
    asked: list[str] = []

    async def change_copies(_: NatsClient, stream: str, copies: int) -> None:
        asked.append(stream)
        # It may be done though the answer is late.
        leaving.several[stream] = gone._replace(moving=True)
        if stream == STREAM:
            raise RequestTimeoutError("no answer in time")

    monkeypatch.setattr(departure, "change_copies", change_copies)
    with pytest.raises(RequestTimeoutError):
        await leaving.step()
    assert asked == [STREAM, *streams]


async def test_copies_are_looked_at_once_in_a_step(
    leaving: Leaving, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def copies_of(_: NatsClient, stream: str) -> Copies:
        pytest.fail(f"{stream} was looked at again")

    await leaving.step()
    monkeypatch.setattr(servers, "copies_of", copies_of)
    await leaving.step()
    assert leaving.asked


async def test_nothing_is_moved_once_the_state_forbids_it(leaving: Leaving) -> None:
    await leaving.step()
    leaving.others.when_locked = lambda: setattr(leaving, "steady", False)
    told = await leaving.step()
    assert told is not None
    assert "state" in str(told.obstacle)
    assert leaving.asked == []
    leaving.steady, leaving.others.when_locked = True, lambda: None
    leaving.others.free = False
    with pytest.raises(LockedOutError):
        await leaving.step()
    assert leaving.asked == []


@pytest.mark.parametrize("meanwhile", ["moved", "died"])
async def test_nothing_is_moved_by_a_look_from_before_the_lock(
    leaving: Leaving, meanwhile: str
) -> None:
    """Whoever had the lock before may have had copies moved; somebody may have died since."""
    await leaving.step()

    def other() -> None:
        if meanwhile == "moved":
            leaving.copies = held("own", "second", "third")._replace(moving=True)
        else:
            leaving.silent = {"third"}

    leaving.others.when_locked = other
    told = await leaving.step()
    assert told is not None
    assert told.obstacle
    assert leaving.asked == []
