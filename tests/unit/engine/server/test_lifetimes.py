"""Certificates of the members' TLS that are out of their time."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.cluster_settings import ClusterTls
from grid_member.engine.log.log import wall_clock_ms
from grid_member.engine.replicated.engine import ClusterEngine
from grid_member.engine.replicated.replicated_shards import ReplicatedShards
from grid_member.engine.server import tls_files
from grid_member.engine.server.tls_files import Lifetimes
from tests.unit.engine.drive import FixedStructures
from tests.unit.engine.replicated.faults.test_rescue import until_waiting
from tests.unit.engine.server.servers import settings
from tests.unit.member.security.certificates import EXPIRED, Authority
from tests.unit.ports import free_ports
from tests.unit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.member.security.certificates import Pair


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ca")


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.issue("member")


@pytest.fixture
def tls(authority: Authority, pair: Pair) -> ClusterTls:
    return ClusterTls(pair.certificate, pair.key, authority.file)


async def test_it_is_told_each_day_and_what_is_over_as_long_as_it_is(
    tls: ClusterTls,
    authority: Authority,
    pair: Pair,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(tls_files, "LOOK_S", 0.01)
    authority.reissue(pair, "20260101", "20270101")
    authority.reissue_own("20250101", "20280101")
    looks, now = 0, datetime(2026, 12, 10, tzinfo=UTC)

    def clock() -> datetime:
        nonlocal looks
        looks += 1
        return now

    async def looked() -> None:
        before = looks
        await until(lambda: looks > before + 2)

    known = Lifetimes(tls, clock)
    watching = asyncio.ensure_future(known.watch())
    await looked()
    name = f"certificate-file of the members' TLS, {pair.certificate}: the certificate"
    soon = f"{name} expires on 2027-01-01 00:00 UTC, in"
    assert caplog.messages == [f"{soon} 22 days: renew it"]
    assert not known.over
    now += timedelta(days=1)
    await looked()
    assert caplog.messages[1:] == [f"{soon} 21 days: renew it"]
    now += timedelta(days=30)
    await looked()
    assert known.over == f"{name} expired on 2027-01-01 00:00 UTC: renew it"
    assert caplog.messages[2:] == [known.over]
    authority.reissue(pair, "20270101", "20280101")
    await until(lambda: known.over is None)
    watching.cancel()


async def test_a_member_that_waits_says_that_its_authority_has_expired(
    tls: ClusterTls, authority: Authority
) -> None:
    authority.reissue_own(*EXPIRED)
    ports = free_ports(2)
    members = [dataclasses.replace(settings(port, ports), tls=tls) for port in ports]
    engines = [
        ClusterEngine(FixedStructures(), ReplicatedShards(one), wall_clock_ms) for one in members
    ]
    starts = [asyncio.ensure_future(engine.start()) for engine in engines]
    told = f"ca-file of the members' TLS, {authority.file}: the certificate expired on 2020-01-02"
    try:
        for engine in engines:
            await until_waiting(engine, told)
        await until_waiting(engines[0], "do not take each other: a certificate of one of them")
    finally:
        for engine in engines:
            engine.end_waiting()
        await asyncio.gather(*starts, return_exceptions=True)


async def test_members_in_plain_text_have_none() -> None:
    none = Lifetimes(None)
    await asyncio.wait_for(none.watch(), 10)
    assert none.over is None
