from __future__ import annotations

import asyncio

import pytest

from grid_member.engine.bootstrap import cluster_id, discovery
from grid_member.engine.bootstrap.cluster_id import fix_cluster_id
from grid_member.engine.bootstrap.discovery import AddressPolling, Discovery
from grid_member.engine.bootstrap.identity import open_identity
from grid_member.engine.bootstrap.member_probe import Occupant
from grid_member.engine.nats.admin.streams import NoStreamError
from tests.unit.engine.server.servers import HOST, settings

OTHER = "1" * 16


def serves(cluster: str | None) -> Occupant:
    return Occupant(None, cluster)


async def test_who_falls_silent_is_who_it_was_and_who_never_spoke_is_unknown_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0
    found: Occupant | None = serves(None)

    async def hailed(*_: object) -> Occupant | None:
        return found

    monkeypatch.setattr(discovery, "probe", hailed)
    look = Discovery(settings(1))
    monkeypatch.setattr(look, "_clock", lambda: now_s)
    assert await look._probe(HOST, 1) == serves(None)
    now_s = discovery.SILENT_S
    assert await look._probe(HOST, 1) == serves("")
    found = serves(OTHER)
    assert await look._probe(HOST, 1) == serves(OTHER)
    found = serves(None)
    assert await look._probe(HOST, 1) == serves(OTHER)
    found = None
    assert await look._probe(HOST, 1) is None
    found = serves(None)
    assert await look._probe(HOST, 1) == serves(None)


async def test_who_is_absent_for_long_is_looked_for_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0

    async def nobody(_host: str, _port: int) -> None:
        nonlocal looks
        looks += 1

    monkeypatch.setattr(discovery, "EAGER_S", 0.0)
    async with AddressPolling[bool](settings(1), nobody) as late:
        while not late.is_complete:
            await late.await_change(1.0)
        await late.await_change(10 * discovery.ABSENT_LOOK_S)
    assert looks == 1
    monkeypatch.setattr(discovery, "EAGER_S", 60.0)
    async with AddressPolling[bool](settings(1), nobody) as early:
        await early.await_change(10 * discovery.ABSENT_LOOK_S)
        while looks < 4:
            await early.await_change(discovery.ABSENT_LOOK_S)


async def test_a_stream_that_is_deleted_meanwhile_is_not_asked_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def gone(*_: object) -> dict[str, str]:
        raise NoStreamError

    monkeypatch.setattr(cluster_id, "ask_successfully", gone)
    opened = open_identity(None, cluster_name="dev", member_name="m")
    asking = fix_cluster_id(None, settings(1), "first", opened, lambda _: None)  # type: ignore[arg-type]
    with pytest.raises(NoStreamError):
        await asyncio.wait_for(asking, 10)
