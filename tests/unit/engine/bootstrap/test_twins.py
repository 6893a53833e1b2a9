"""What members make of the heartbeats of processes that are the same member."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.bootstrap.admission import await_admission
from grid_member.engine.bootstrap.footing import SILENT_S, TwinDetector
from grid_member.engine.bootstrap.incarnation import (
    Incarnation,
    TwinError,
    decode_incarnation,
    is_older_twin,
)
from grid_member.engine.bootstrap.member_probe import Occupant, answer_with, probe
from tests.unit.engine.server.servers import HOST, client_of, formed, settings, started
from tests.unit.ports import free_ports
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from grid_member.engine.cluster_settings import ClusterSettings

OLD = Incarnation("aa" * 16, "t1", 1000, "m1", "h1:1", "/one")
NEW = Incarnation("aa" * 16, "t2", 2000, "m2", "h2:2", "/two")
OTHER = Incarnation("bb" * 16, "t3", 3000, "m3", "h3:3", "")


def heard(*incarnations: Incarnation) -> list[tuple[Incarnation, Incarnation] | None]:
    memory = TwinDetector()
    return [
        memory.hear(incarnation, float(number)) for number, incarnation in enumerate(incarnations)
    ]


def test_one_after_the_other_is_no_pair() -> None:
    assert heard(*[OLD] * 5, *[NEW] * 20) == [None] * 25


def test_a_last_word_that_comes_late_is_none_of_a_living_one() -> None:
    assert heard(OLD, OLD, NEW, OLD, NEW, NEW, NEW) == [None] * 7


def test_two_that_go_on_are_found_and_the_later_one_is_the_younger() -> None:
    found = heard(OLD, NEW, OTHER, OLD, NEW, OTHER, OLD, NEW)
    assert found == [None] * 6 + [(OLD, NEW)] * 2
    found = heard(NEW, OLD, NEW, OLD, NEW)
    assert found == [None] * 4 + [(OLD, NEW)]


def test_one_that_was_away_for_long_and_comes_back_is_found() -> None:
    memory = TwinDetector()
    assert memory.hear(OLD, 0.0) is None
    later_s = 2 * SILENT_S
    assert [memory.hear(NEW, later_s + n) for n in range(3)] == [None] * 3
    assert memory.hear(OLD, later_s + 3) is None
    assert memory.hear(NEW, later_s + 4) is None
    assert memory.hear(NEW, later_s + 5) == (OLD, NEW)


def test_of_two_exactly_one_ends() -> None:
    assert NEW.yields_to(OLD)
    assert not OLD.yields_to(NEW)
    same = NEW._replace(since_ms=OLD.since_ms)
    assert same.yields_to(OLD) != OLD.yields_to(same)


@pytest.mark.parametrize("since_ms", [5, 2**32 - 3, 3 * 2**32])
def test_lots_tell_twins_and_which_is_older(since_ms: int) -> None:
    old, new = OLD._replace(since_ms=since_ms), NEW._replace(since_ms=since_ms + 10)
    assert is_older_twin(new.lot, old.lot)
    assert not is_older_twin(old.lot, new.lot)
    assert not is_older_twin(new.lot, new.lot)
    assert not is_older_twin(OTHER.lot, old.lot)


@pytest.mark.parametrize("said", [b"", b"{}", b"[1]", b"null", b"\xff", b'[1,2,"c",4,5,6]'])
def test_what_another_version_says_is_no_life(said: bytes) -> None:
    assert decode_incarnation(said) is None


def test_a_life_is_read_as_it_was_sent() -> None:
    assert decode_incarnation(OLD.payload) == OLD


CLUSTER = "0" * 16


async def test_who_lives_is_told_by_itself_and_by_any_other_member() -> None:
    ports = free_ports(3)
    members = [settings(port, ports[:2], name=f"m{port}") for port in ports[:2]]
    asking = settings(ports[2], ports)
    seen: list[tuple[Incarnation, Incarnation]] = []
    async with (
        started(*members) as servers,
        client_of(servers[0]) as first,
        client_of(servers[1]) as second,
    ):
        await formed(servers)
        answer_with(first, lambda: CLUSTER, OLD, lambda *twins: seen.append(twins))
        answer_with(second, lambda: CLUSTER, OTHER, lambda *twins: seen.append(twins))
        for port in ports[:2]:

            async def told(port: int = port) -> bool:
                found = await probe(asking, HOST, port, incarnation=NEW)
                return found == Occupant(None, CLUSTER, OLD)

            await eventually(told)
        assert set(seen) == {(OLD, NEW)}
        stranger = NEW._replace(member="cc" * 16)
        assert await probe(asking, HOST, ports[1], incarnation=stranger) == Occupant(None, CLUSTER)
        assert await probe(asking, HOST, ports[1], incarnation=OLD) == Occupant(None, CLUSTER)
        with pytest.raises(TwinError, match="m1 at h1:1 with its data in /one"):
            await await_admission(asking, CLUSTER, lambda _: None, incarnation=NEW)


async def test_of_two_that_wait_for_others_the_younger_one_ends() -> None:
    ports = free_ports(3)

    def waits(member: ClusterSettings, incarnation: Incarnation) -> asyncio.Task[object]:
        return asyncio.ensure_future(
            await_admission(member, CLUSTER, lambda _: None, incarnation=incarnation)
        )

    older = waits(settings(ports[0], ports), OLD)
    younger = waits(settings(ports[1], ports), NEW)
    with pytest.raises(TwinError, match=f":{ports[0]}"):
        await asyncio.wait_for(younger, 30)
    assert not older.done() or older.exception() is None
    older.cancel()
    await asyncio.gather(older, return_exceptions=True)
