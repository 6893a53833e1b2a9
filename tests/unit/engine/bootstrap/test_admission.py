from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import NotYetError
from grid_member.engine.bootstrap import admission, discovery
from grid_member.engine.bootstrap.admission import (
    AdmissionDecision,
    AdmissionReason,
    admission_decision,
    await_admission,
    watch_strangers,
)
from grid_member.engine.bootstrap.identity import of_cluster, open_identity
from grid_member.engine.bootstrap.member_probe import Occupant, answer_with, probe, waiting_line
from grid_member.engine.cluster_settings import ClusterTls
from grid_member.engine.replicated import own_server
from grid_member.engine.replicated.own_server import connect_trusted, connection_to
from grid_member.engine.server.config import USER
from grid_member.engine.server.process import NatsServer
from tests.unit.engine.server.servers import HOST, client_of, lives, settings, started
from tests.unit.member.security.certificates import Authority
from tests.unit.ports import free_ports
from tests.unit.serving import close_server
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.nats.client.client import NatsClient

pytestmark = pytest.mark.timeout(150)

OWN, OTHER = "0" * 16, "1" * 16
PATIENCE_S = 60.0
"""Longer than a turn of members that wait for each other, on a machine that is busy."""
LOT = "ab" * 8
GO, WAIT = AdmissionDecision(True), AdmissionDecision(False)


def waits(cluster: str = OWN, lot: str = LOT) -> Occupant:
    return Occupant(lot, cluster)


def serves(cluster: str | None = OWN) -> Occupant:
    return Occupant(None, cluster)


def blocked(address: str, by: Occupant) -> AdmissionDecision:
    return AdmissionDecision(False, (address, by))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([None, None], WAIT),
        ([serves(), None], GO),
        ([serves(""), None], GO),
        ([waits(), None], GO),
        ([waits(""), None], GO),
        ([serves(None), None], WAIT),
        ([serves(None), waits()], GO),
        ([serves(OTHER), None], blocked("a1", serves(OTHER))),
        ([serves(), serves(OTHER)], blocked("a2", serves(OTHER))),
        ([waits(), waits(OTHER)], GO),
        ([serves(), waits(OTHER)], GO),
        ([None, waits(OTHER)], blocked("a2", waits(OTHER))),
        ([waits(OTHER), serves(OTHER)], blocked("a2", serves(OTHER))),
        ([waits(OTHER), waits(OTHER), waits(), None], blocked("a1", waits(OTHER))),
        (
            [waits(OTHER), waits(OTHER, "aa" * 8), waits(), None],
            blocked("a2", waits(OTHER, "aa" * 8)),
        ),
    ],
)
def test_a_server_is_started_among_its_own_only(
    seen: Sequence[Occupant | None], expected: AdmissionDecision
) -> None:
    addresses = {f"a{number}": found for number, found in enumerate(seen, 1)}
    assert admission_decision(OWN, len(seen) + 1, addresses) == expected


class Gate:
    """A member of a list that waits to be let in."""

    def __init__(self, port: int, ports: Sequence[int], cluster: str) -> None:
        self.said: list[str] = []
        self.trusted = False
        member = settings(port, ports)
        self.task = asyncio.ensure_future(
            await_admission(member, cluster, self.said.append, lambda: self.trusted)
        )

    async def refused(self) -> str:
        """Return what it says as it is not let in."""

        async def told() -> bool:
            return bool(self.said)

        await eventually(told)
        assert not self.task.done()
        return self.said[0]

    async def let_in(self) -> AdmissionReason:
        return await asyncio.wait_for(asyncio.shield(self.task), PATIENCE_S)

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def test_a_majority_of_one_cluster_starts_and_a_stranger_does_not() -> None:
    ports = free_ports(3)
    stranger = Gate(ports[2], ports, OTHER)
    first = Gate(ports[0], ports, OWN)
    assert "11111111" in await stranger.refused()
    assert "00000000" in await first.refused()
    second = Gate(ports[1], ports, OWN)
    await first.let_in()
    await second.let_in()
    assert not stranger.task.done()
    await stranger.end()


async def test_who_met_a_stranger_starts_when_that_one_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ports = free_ports(3)
    first, stranger = Gate(ports[0], ports, OWN), Gate(ports[1], ports, OTHER)
    await first.refused()
    await stranger.refused()
    monkeypatch.setattr(admission, "ALONE_S", 0.2)
    await stranger.end()
    await first.let_in()
    assert first.task.result() is AdmissionReason.ALONE


async def test_a_rescue_waits_for_nobody_that_waits() -> None:
    ports = free_ports(3)
    first, stranger = Gate(ports[0], ports, OWN), Gate(ports[1], ports, OTHER)
    await first.refused()
    first.trusted = True
    await first.let_in()
    assert not stranger.task.done()
    await stranger.end()


async def test_a_member_of_another_name_is_nobody() -> None:
    ports = free_ports(2)
    there = Gate(ports[0], ports, OTHER)
    asking = settings(ports[1], ports)

    async def here() -> bool:
        found = await probe(asking, HOST, ports[0])
        return found is not None and found.cluster == OTHER

    await eventually(here)
    other_name = dataclasses.replace(asking, cluster_name="test")
    assert await probe(other_name, HOST, ports[0]) is None
    await there.end()


async def test_nobody_starts_before_who_takes_its_connection_was_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = asyncio.Event()

    async def slow(*words: object) -> Occupant:
        reached = words[3]
        assert callable(reached)
        reached()
        await asked.wait()
        return serves(OTHER)

    monkeypatch.setattr(discovery, "probe", slow)
    monkeypatch.setattr(discovery, "FIRST_LOOK_S", 0.1)
    monkeypatch.setattr(admission, "ALONE_S", 0.0)
    first = Gate(0, free_ports(2), OWN)
    done, _ = await asyncio.wait([first.task], timeout=1.0)
    assert not done
    asked.set()
    assert "11111111" in await first.refused()
    await first.end()


async def test_a_member_in_its_turn_gives_way_at_its_end_to_who_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "TURN_S", 1000.0)
    ports = free_ports(2)
    waiting = Gate(ports[1], ports, OTHER)
    own = settings(ports[0], ports)
    said = await asyncio.wait_for(watch_strangers(own, OWN, AdmissionReason.ALONE), 30)
    assert said is not None
    assert f"{HOST}:{ports[1]} is of another cluster of that name, and waits" in said
    turn = asyncio.ensure_future(watch_strangers(own, OWN, AdmissionReason.TURN))
    done, _ = await asyncio.wait([turn], timeout=1.0)
    assert not done
    turn.cancel()
    monkeypatch.setattr(admission, "TURN_S", 0.2)
    assert await asyncio.wait_for(watch_strangers(own, OWN, AdmissionReason.TURN), 30)
    await waiting.end()


async def test_who_is_alone_starts_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "ALONE_S", 0.2)
    ports = free_ports(3)
    assert await Gate(ports[0], ports, OWN).let_in() is AdmissionReason.ALONE


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_a_server_is_asked_for_the_id_of_its_member(tls: bool, tmp_path: Path) -> None:
    ports = free_ports(3)
    files = tls_of(Authority(tmp_path, "ca")) if tls else None
    members = [
        dataclasses.replace(settings(port, ports[:2], name=f"m{port}"), tls=files)
        for port in ports[:2]
    ]
    async with started(*members) as servers, client_of(servers[0]) as client:
        asking = dataclasses.replace(settings(ports[2], ports), tls=files)
        assert await probe(asking, HOST, ports[2]) is None
        answer_with(client, lambda: OWN)

        async def answered() -> bool:
            return await probe(asking, HOST, ports[0]) == Occupant(None, OWN)

        await eventually(answered)
        assert await probe(asking, HOST, ports[1]) == Occupant(None, None)
        stranger = dataclasses.replace(asking, password="another")
        assert await probe(stranger, HOST, ports[0]) == Occupant(None, None)


def tls_of(authority: Authority) -> ClusterTls:
    pair = authority.issue("member")
    return ClusterTls(pair.certificate, pair.key, authority.file)


@pytest.mark.parametrize("joined", [False, True], ids=["alone", "joined"])
async def test_a_server_that_was_started_alone_gives_way_to_another_cluster(
    monkeypatch: pytest.MonkeyPatch, joined: bool
) -> None:
    monkeypatch.setattr(admission, "ALONE_S", 0.2)
    ports = free_ports(3)
    said: list[str] = []
    opened = open_identity(None, cluster_name="dev", member_name="m")
    lonely = NatsServer(
        settings(ports[0], ports), of_cluster(opened, "dev", OWN).identity, said.append
    )
    await lonely.start()
    if joined:
        lonely.note_join()
    process_id = lonely.process_id
    assert process_id is not None
    async with client_of(lonely) as client:
        answer_with(client, lambda: OWN)
        strangers = Gate(ports[1], ports, OTHER), Gate(ports[2], ports, OTHER)
        if joined:
            assert "00000000" in await strangers[0].refused()
            assert lives(process_id)
        else:
            await strangers[0].let_in()
            assert not lives(process_id)
            assert "11111111" in said[-1]
    if joined:
        assert said == []
    await lonely.stop()
    for stranger in strangers:
        await stranger.end()


@contextlib.asynccontextmanager
async def one_that_waits(member: ClusterSettings, port: int) -> AsyncIterator[None]:
    """A member of another cluster that never has a server."""

    def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(waiting_line(member, LOT, OTHER))
        writer.close()

    listener = await asyncio.start_server(answer, HOST, port)
    try:
        yield
    finally:
        await close_server(listener)


async def test_a_server_in_its_turn_ends_after_it_and_gets_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "TURN_S", 0.5)
    ports = free_ports(3)
    opened = open_identity(None, cluster_name="dev", member_name="m")
    own = settings(ports[0], ports)
    member = NatsServer(own, of_cluster(opened, "dev", OWN).identity)
    async with one_that_waits(own, ports[1]):
        await member.start()
        first = member.process_id
        assert first is not None

        async def another() -> bool:
            return member.client_address is not None and member.process_id != first

        await eventually(another)
        assert not lives(first)
        await member.stop()


async def test_the_server_of_who_is_to_go_on_starts_whoever_waits() -> None:
    ports = free_ports(3)
    said: list[str] = []
    opened = open_identity(None, cluster_name="dev", member_name="m")
    own = settings(ports[0], ports)
    member = NatsServer(own, of_cluster(opened, "dev", OWN).identity, said.append)
    async with one_that_waits(own, ports[1]):
        starting = asyncio.ensure_future(member.start())

        async def refused() -> bool:
            return bool(said)

        await eventually(refused)
        assert not starting.done()
        client = connection_to(member, own, USER)
        assert await connect_trusted(lambda: member, lambda: (client,)) == [client]
        await starting
        await client.close()
        await member.stop()


async def test_a_server_that_does_not_run_is_told_with_why_and_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own_server, "REACHED_S", 0.2)
    ports = free_ports(1)
    opened = open_identity(None, cluster_name="dev", member_name="m")
    member = NatsServer(settings(ports[0], ports), opened.identity)
    with pytest.raises(NotYetError, match="not there yet, nothing was done: it is starting; ask"):
        await connect_trusted(lambda: member, lambda: (None,))
    member.failure = "the disk of /d is full: make room on it"
    with pytest.raises(NotYetError, match="nothing was done: the disk of /d is full"):
        await connect_trusted(lambda: member, lambda: (None,))


async def test_servers_of_two_clusters_run_in_turn_and_never_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "TURN_S", 2.0)
    monkeypatch.setattr(discovery, "LOOK_S", 0.1)
    ports = free_ports(3)
    members: list[NatsServer] = []
    clients: list[NatsClient] = []
    for number, cluster in enumerate((OWN, OTHER)):
        opened = open_identity(None, cluster_name="dev", member_name=f"m{number}")
        identity = of_cluster(opened, "dev", cluster).identity
        own = settings(ports[number], ports)
        members.append(NatsServer(own, identity))
        clients.append(connection_to(members[number], own, USER))
        answer_with(clients[number], lambda cluster=cluster: cluster)  # type: ignore[misc]
    starting = [asyncio.ensure_future(member.start()) for member in members]
    ran: set[int] = set()

    async def all_ran() -> bool:
        now = {number for number in (0, 1) if members[number].process_id is not None}
        assert len(now) < 2
        ran.update(now)
        return len(ran) == 2

    await eventually(all_ran)
    for client, member in zip(clients, members, strict=True):
        await client.close()
        await member.stop()
    for start in starting:
        start.cancel()
    await asyncio.gather(*starting, return_exceptions=True)
