"""Connections that have not shaken hands count as much as any other."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import pytest

from grid_member.http.server.admission import SPARE_CONNECTIONS
from tests.unit.member.security.test_listeners import configuration, connected, tls_of
from tests.unit.member.wire import Wire, request
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.member.running import RunningMember
    from tests.unit.member.security.certificates import Authority

MAP = "/grid/rest/maps/default/k"
PROBE = "/grid/health/ready"
FEW = 3
ALL = FEW + SPARE_CONNECTIONS // 4


@pytest.fixture(params=[True, False], ids=["fast-path", "no-fast-path"])
async def crowded(
    request: pytest.FixtureRequest,
    start_member: Callable[..., RunningMember],
    authority: Authority,
) -> RunningMember:
    """A member that takes three connections on each of its TLS ports."""
    fast_path = str(request.param).lower()
    http = f"  http: {{max-connections: {FEW}, lane: {{enabled: {fast_path}}}}}\n"
    return await start_member(configuration(tls_of(authority)) + http).start()


def handshaking(member: RunningMember) -> int:
    tls = member.listeners._open[0].tls
    assert tls is not None
    return tls.handshaking


async def silent(member: RunningMember, count: int) -> list[Wire]:
    """Open connections that say nothing; return when the member has all of them."""
    wires = [await Wire.connect(member.port) for _ in range(count)]
    await until(lambda: handshaking(member) == count)
    return wires


async def left(wires: list[Wire]) -> None:
    for wire in wires:
        await wire.close()


async def test_who_shakes_hands_behind_silent_ones_is_told(
    crowded: RunningMember, authority: Authority
) -> None:
    wires = await silent(crowded, FEW)
    for path, status in ((MAP, 503), (PROBE, 200)):
        async with await connected(crowded.port, authority.client()) as wire:
            reply = await wire.call("GET", path)
            assert (reply.status, reply.header("Connection")) == (status, "close")
    await left(wires)
    await until(lambda: handshaking(crowded) == 0)
    async with await connected(crowded.port, authority.client()) as wire:
        assert (await wire.call("GET", MAP)).status == 204


async def test_a_flood_of_silent_ones_is_bounded(
    crowded: RunningMember, authority: Authority
) -> None:
    wires = await silent(crowded, ALL)
    for _ in range(10):
        with pytest.raises((ConnectionError, ssl.SSLError, EOFError)):
            await connected(crowded.port, authority.client())
    assert handshaking(crowded) == ALL
    assert [figures.refused_count for figures in crowded.listeners.figures()] == [10, 0]
    # The other port is not concerned.
    async with await connected(crowded.management_port, authority.client()) as wire:
        assert (await wire.call("GET", PROBE)).status == 200
    await left(wires)
    await until(lambda: handshaking(crowded) == 0)


async def test_those_that_are_served_are_counted_once(
    crowded: RunningMember, authority: Authority
) -> None:
    wires = [await connected(crowded.port, authority.client()) for _ in range(FEW)]
    for wire in wires:
        assert (await wire.call("DELETE", MAP)).status == 200
        # By the complete implementation from here on.
        assert (await wire.call("GET", "/grid/health")).status == 200
        assert (await wire.call("POST", MAP, b"v")).status == 200
    assert crowded.listeners.counts().clients == FEW
    async with await connected(crowded.port, authority.client()) as wire:
        wire.send(request("GET", MAP))
        assert (await wire.reply()).status == 503
    await asyncio.gather(*(wire.close() for wire in wires))
    await until(lambda: crowded.listeners.counts().total == 0)
