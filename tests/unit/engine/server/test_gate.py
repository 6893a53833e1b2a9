from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.cluster_settings import ClusterTls
from grid_member.engine.nats import gate
from grid_member.engine.nats.gate import Verdict, admitted, verdict
from grid_member.engine.nats.hail import Present, answer_with, hail
from grid_member.engine.nats.identity import of_cluster, open_identity
from grid_member.engine.nats.server import NatsServer
from tests.unit.engine.server.servers import (
    HOST,
    client_of,
    free_ports,
    lives,
    settings,
    started,
    until_async,
)
from tests.unit.member.security.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

OWN, OTHER = "0" * 16, "1" * 16
GO, WAIT = Verdict(True), Verdict(False)


def waits(cluster: str = OWN) -> Present:
    return Present("ab" * 8, cluster)


def serves(cluster: str = OWN) -> Present:
    return Present(None, cluster)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([None, None], WAIT),
        ([serves(), None], GO),
        ([serves(""), None], GO),
        ([waits(), None], GO),
        ([waits(""), None], GO),
        ([serves(OTHER), None], Verdict(False, ("a1", OTHER))),
        ([serves(), serves(OTHER)], Verdict(False, ("a2", OTHER))),
        ([waits(), waits(OTHER)], GO),
        ([serves(), waits(OTHER)], GO),
        ([None, waits(OTHER)], Verdict(False, ("a2", OTHER))),
        ([waits(OTHER), serves(OTHER)], Verdict(False, ("a2", OTHER))),
        ([waits(OTHER), waits(OTHER), waits(), None], Verdict(False, ("a1", OTHER))),
    ],
)
def test_a_server_is_started_among_its_own_only(
    seen: Sequence[Present | None], expected: Verdict
) -> None:
    addresses = {f"a{number}": found for number, found in enumerate(seen, 1)}
    assert verdict(OWN, len(seen) + 1, addresses) == expected


class Gate:
    """A member of a list that waits to be let in."""

    def __init__(self, port: int, ports: Sequence[int], cluster: str) -> None:
        self.said: list[str] = []
        member = settings(port, ports)
        self.task = asyncio.ensure_future(admitted(member, cluster, self.said.append))

    async def refused(self) -> str:
        """Return what it says as it is not let in."""

        async def told() -> bool:
            return bool(self.said)

        await until_async(told)
        assert not self.task.done()
        return self.said[0]

    async def let_in(self) -> None:
        await asyncio.wait_for(asyncio.shield(self.task), 30)

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


async def test_who_met_a_stranger_once_waits_for_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "ALONE_S", 0.0)
    ports = free_ports(3)
    first, stranger = Gate(ports[0], ports, OWN), Gate(ports[1], ports, OTHER)
    await first.refused()
    await stranger.refused()
    await stranger.end()
    done, _ = await asyncio.wait([first.task], timeout=3 * gate.FIRST_LOOK_S)
    assert not done
    second = Gate(ports[2], ports, OWN)
    await first.let_in()
    await second.end()


async def test_who_is_alone_starts_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "ALONE_S", 0.2)
    ports = free_ports(3)
    await Gate(ports[0], ports, OWN).let_in()


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
        assert await hail(asking, HOST, ports[2]) is None
        answer_with(client, lambda: OWN)

        async def answered() -> bool:
            return await hail(asking, HOST, ports[0]) == Present(None, OWN)

        await until_async(answered)
        assert await hail(asking, HOST, ports[1]) == Present(None, "")
        stranger = dataclasses.replace(asking, password="another")
        assert await hail(stranger, HOST, ports[0]) == Present(None, "")


def tls_of(authority: Authority) -> ClusterTls:
    pair = authority.issue("member")
    return ClusterTls(pair.certificate, pair.key, authority.file)


@pytest.mark.parametrize("joined", [False, True], ids=["alone", "joined"])
async def test_a_server_that_was_started_alone_gives_way_to_another_cluster(
    monkeypatch: pytest.MonkeyPatch, joined: bool
) -> None:
    monkeypatch.setattr(gate, "ALONE_S", 0.2)
    ports = free_ports(3)
    said: list[str] = []
    opened = open_identity(None, cluster_name="dev", member_name="m")
    lonely = NatsServer(
        settings(ports[0], ports), of_cluster(opened, "dev", OWN).identity, said.append
    )
    await lonely.start()
    if joined:
        lonely.joined()
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
    await lonely.stop()
    for stranger in strangers:
        await stranger.end()
