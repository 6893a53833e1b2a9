"""Which logs in memory nobody holds any more, by what servers tell of them, and when that is so."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from grid_member.engine.lost_memory import empty_logs as module
from grid_member.engine.lost_memory.empty_logs import (
    ELECTING,
    LEADS,
    LOOKS,
    PERIOD_S,
    EmptyCount,
    EmptyLogs,
    StreamGroup,
    describe_wait,
    empty_streams,
)
from grid_member.engine.nats.admin.peers import peer_id
from grid_member.engine.nats.admin.streams import Stream
from grid_member.engine.nats.client.errors import NatsError
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.nats.client.client import NatsClient

LOG: Final = Stream("volatile", durable=False)
GROUPS: Final = {"volatile": "S-R3M-a", "volatile-image": "S-R3M-b"}
ORDER: Final = ["volatile-image", "volatile"]
BOTH: Final = {StreamGroup(*each) for each in GROUPS.items()}
EMPTY: Final = {"size": 3, "quorum_needed": 2, "pindex": 0, "ever_had_leader": False}
LED: Final = {"leader": "x", "pindex": 1, "ever_had_leader": True}
PATIENCE: Final = 40
"""Looks."""
GONE: Final = frozenset({"c"})
NOBODY: Final = frozenset[str]()


def told(
    name: str,
    servers: int = 2,
    *,
    last_seq: int = 0,
    storage: str = "memory",
    group: str | None = None,
    desired: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    detail = {
        "name": name,
        "stream_raft_group": GROUPS[name] if group is None else group,
        "state": {"last_seq": last_seq},
        "config": {"storage": storage},
        "cluster": {"raft_group": GROUPS[name], **({"desired": desired} if desired else {})},
    }
    return [{"data": {"account_details": [{"stream_detail": [detail]}]}}] * servers


def copies(name: str, *states: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"data": {"GRID": {GROUPS[name]: {**EMPTY, **state}}}} for state in states]


STREAMS: Final = [*told("volatile"), *told("volatile-image")]
SNAPSHOTS: Final = copies("volatile-image", {}, {})


def test_a_log_that_most_have_nothing_of_is_emptied_with_its_images() -> None:
    assert empty_streams([LOG], STREAMS, [*copies("volatile", {}, {}), *SNAPSHOTS]) == BOTH


@pytest.mark.parametrize(
    "states",
    [
        pytest.param([{}, {}, {}], id="all are there, and will elect"),
        pytest.param([{}], id="those that are missing may be a quorum"),
        pytest.param([{}, {"pindex": 1}], id="one has its log"),
        pytest.param([{}, {"ever_had_leader": True}], id="one has seen a leader"),
        pytest.param([{}, {"size": 5, "quorum_needed": 3}], id="copies are being added"),
        pytest.param([{"size": 5, "quorum_needed": 3}] * 2, id="fewer than most of five"),
        pytest.param([{"size": 5, "quorum_needed": 2}] * 2, id="fewer than most, told otherwise"),
    ],
)
def test_what_somebody_may_have_is_not(states: list[dict[str, Any]]) -> None:
    assert empty_streams([LOG], STREAMS, [*copies("volatile", *states), *SNAPSHOTS]) == set()


@pytest.mark.parametrize(
    "streams",
    [
        pytest.param(told("volatile", last_seq=7), id="a record"),
        pytest.param([*told("volatile"), *told("volatile", 1, last_seq=7)], id="one has a record"),
        pytest.param(told("volatile", storage="file"), id="on disks"),
        pytest.param([*told("volatile", 1), *told("volatile", 1, group="S-c")], id="two groups"),
        pytest.param(told("volatile", group=""), id="one copy only, and no group"),
        pytest.param([], id="nobody tells of it"),
        pytest.param(told("volatile", desired={"peers": ["a"]}), id="copies are being made"),
    ],
)
def test_what_is_stored_on_disks_or_unknown_is_not(streams: list[dict[str, Any]]) -> None:
    found = empty_streams(
        [LOG], [*streams, *told("volatile-image")], [*copies("volatile", {}, {}), *SNAPSHOTS]
    )
    assert found == set()


def test_what_does_not_tell_whether_it_ever_was_led_is_an_error() -> None:
    silent = [{"data": {"GRID": {"S-R3M-a": {"size": 3, "quorum_needed": 2}}}}] * 2
    with pytest.raises(KeyError):
        empty_streams([LOG], STREAMS, [*silent, *SNAPSHOTS])


@pytest.mark.parametrize(
    ("snapshots", "told_of_snapshots"),
    [
        pytest.param([], told("volatile-image"), id="whoever has images is missing"),
        pytest.param([LED, LED], told("volatile-image", last_seq=1), id="there is an image"),
        pytest.param([LED], told("volatile-image", 1), id="others may have an image"),
    ],
)
def test_a_log_is_kept_as_long_as_its_images_may_be_there(
    snapshots: list[dict[str, Any]], told_of_snapshots: list[dict[str, Any]]
) -> None:
    groups = [*copies("volatile", {}, {}), *copies("volatile-image", *snapshots)]
    assert empty_streams([LOG], [*told("volatile"), *told_of_snapshots], groups) == set()


@pytest.mark.parametrize(
    ("anew", "left"), [("volatile", "volatile-image"), ("volatile-image", "volatile")]
)
def test_what_is_left_of_a_log_goes_when_its_other_half_began_anew(anew: str, left: str) -> None:
    groups = [*copies(left, {}, {}), *copies(anew, LED, LED)]
    assert empty_streams([LOG], STREAMS, groups) == {StreamGroup(left, GROUPS[left])}


def looks(
    count: EmptyCount,
    number: int,
    *,
    leads: bool = True,
    missing: frozenset[str] = GONE,
    silent: frozenset[str] = GONE,
) -> list[str]:
    found: list[str] = []
    for _ in range(number):
        found = count.after(BOTH, leads=leads, missing=missing, silent=silent)
    return found


def patient() -> EmptyCount:
    return EmptyCount(PATIENCE * PERIOD_S)


def test_who_is_missing_and_may_have_it_is_waited_for() -> None:
    count = patient()
    assert looks(count, PATIENCE - 1) == []
    assert count.reason == describe_wait(math.ceil(PERIOD_S))
    assert looks(count, 1) == ORDER
    assert "as soon as the member whose server leads" in count.reason


def test_who_is_heard_again_when_the_time_is_over_is_not_left_behind() -> None:
    count = patient()
    assert looks(count, PATIENCE + 1, silent=NOBODY) == []  # it did not answer yet
    count.after(frozenset(), leads=True, missing=NOBODY, silent=NOBODY)  # it has it
    assert "those that hold it have to come back" in count.reason
    assert looks(count, PATIENCE - 1) == []


def test_who_was_taken_off_is_missed_by_nobody() -> None:
    found = looks(patient(), PATIENCE, missing=NOBODY, silent=NOBODY)
    assert found == ORDER


def test_a_stream_made_anew_is_another_one() -> None:
    count = patient()
    looks(count, PATIENCE - 1)
    anew = frozenset({StreamGroup("volatile", "S-R3M-c")})
    assert count.after(anew, leads=True, missing=GONE, silent=GONE) == []


def test_who_has_just_begun_to_lead_deletes_nothing() -> None:
    count = patient()
    assert looks(count, PATIENCE, leads=False) == []
    assert looks(count, LEADS - 1) == []
    assert looks(count, 1) == ORDER


def test_without_patience_it_takes_as_long_as_elections() -> None:
    count = EmptyCount(0)
    assert looks(count, LOOKS - 1) == []
    assert looks(count, 1) == ORDER


def test_a_look_that_finds_out_nothing_costs_no_time_that_is_over() -> None:
    count = patient()
    assert looks(count, PATIENCE - LEADS) == []
    count.note_failure()
    assert looks(count, LEADS - 1) == []
    assert looks(count, 1) == ORDER


def test_how_long_it_takes_is_told_in_few_steps() -> None:
    told = {describe_wait(left_s) for left_s in range(1, 86_401)}
    assert len(told) == 300 // 30 + (3600 - 300) // 300 + (86_400 - 3600) // 3600
    assert "about 30 s" in describe_wait(1)


def test_a_start_that_only_waits_for_an_election_speaks_of_nobody_that_is_missing() -> None:
    count = patient()
    count.after(frozenset(), leads=True, missing=NOBODY, silent=NOBODY)
    assert count.reason == ELECTING


class Servers:
    """Three of which the last is away; what they tell, and what is deleted of it."""

    def __init__(self) -> None:
        self.leader = "a"
        self.silent = True
        self.fails = False
        self.refuses = False
        self.looks = self.tries = 0
        self.deleted: list[str] = []

    async def meta(self, _: NatsClient) -> dict[str, Any]:
        self.looks += 1
        if self.fails:
            raise NatsError("nobody leads")
        others = {"a", "b", "c"} - {self.leader}
        replicas = [self._replica(name, silent=name == "c" and self.silent) for name in others]
        return {"leader": self.leader, "replicas": replicas}

    @staticmethod
    def _replica(name: str, *, silent: bool) -> dict[str, Any]:
        return {"peer": peer_id(name), "offline": silent, "active": 10**12 if silent else 1}

    async def answers(self, _: NatsClient, subject: bytes, __: object) -> list[dict[str, Any]]:
        if b"JSZ" in subject:
            return [*STREAMS]
        named = [{"server": {"name": name}} for name in ("a", "b")]
        groups = {
            group: {**EMPTY, **(LED if name in self.deleted else {})}  # it is made anew at once
            for name, group in GROUPS.items()
        }
        return [{**each, "data": {"GRID": groups}} for each in named]

    async def delete(self, _: NatsClient, name: str) -> None:
        self.tries += 1
        if self.refuses:
            self.refuses = False
            raise NatsError("no answer")
        self.deleted.append(name)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    made = Servers()
    monkeypatch.setattr(module, "meta_cluster", made.meta)
    monkeypatch.setattr(module, "all_answers", made.answers)
    monkeypatch.setattr(module, "delete_stream", made.delete)
    monkeypatch.setattr(module, "LOOK_S", 0)
    return made


@pytest.fixture
async def watched(servers: Servers) -> AsyncIterator[Callable[..., EmptyLogs]]:
    tasks: list[asyncio.Task[None]] = []
    nobody = cast("NatsClient", None)
    settings = cast("ClusterSettings", SimpleNamespace(validation_timeout_s=0))

    def begin(own: str = "a", *, beside: bool = True) -> EmptyLogs:
        streams = [Stream("shard-0", durable=beside), LOG]
        watcher = EmptyLogs(nobody, nobody, own, streams, settings)
        tasks.append(asyncio.create_task(watcher.watch()))
        return watcher

    yield begin
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def looked(servers: Servers, number: int = 4 * LOOKS) -> None:
    wanted = servers.looks + number
    await until(lambda: servers.looks >= wanted)


async def test_one_deletes_what_is_emptied_images_first(
    servers: Servers, watched: Callable[..., EmptyLogs]
) -> None:
    watched("a")
    watched("b")
    await looked(servers)
    assert servers.deleted == ORDER


async def test_who_does_not_lead_the_servers_deletes_nothing(
    servers: Servers, watched: Callable[..., EmptyLogs]
) -> None:
    watcher = watched("b")
    await looked(servers)
    assert (servers.deleted, "as soon as the member" in watcher.answers) == ([], True)


async def test_who_is_heard_and_did_not_answer_is_waited_for(
    servers: Servers, watched: Callable[..., EmptyLogs]
) -> None:
    servers.silent = False
    watched()
    await looked(servers)
    assert servers.deleted == []
    servers.silent = True
    await looked(servers, LOOKS)
    assert servers.deleted == ORDER


async def test_what_is_not_deleted_at_once_is_deleted_later(
    servers: Servers, watched: Callable[..., EmptyLogs]
) -> None:
    servers.refuses = True
    watched()
    await looked(servers)
    assert (servers.deleted, servers.tries) == (ORDER, 3)


async def test_nobody_looks_where_nothing_is_on_disks(
    servers: Servers, watched: Callable[..., EmptyLogs]
) -> None:
    watcher = watched(beside=False)
    for _ in range(100):
        await asyncio.sleep(0)
    assert (servers.looks, watcher.concerns(LOG)) == (0, False)
    assert watched().concerns(LOG.snapshots)
