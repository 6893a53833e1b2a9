"""What metrics tell of the cluster, and of certificates."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from grid_member import Config, start_member
from grid_member.config.model.cluster import ClusterConfig
from grid_member.config.model.member import ListenerConfig, MemberConfig
from grid_member.config.model.security import ClientCertificates, TlsConfig
from grid_member.http.metrics.cluster import certificate_ends
from tests.unit.member.http.metrics.scraped import Scraped, configured
from tests.unit.member.security.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    Start = Callable[..., Awaitable[Scraped]]

BEGINS = "20260101"
EXPIRY = "grid_certificate_expiry_timestamp_seconds"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def at(year: int) -> float:
    return datetime(year, 1, 1, tzinfo=UTC).timestamp()


async def test_a_member_that_is_alone_tells_of_its_cluster(start: Start) -> None:
    member = await start()
    told = await member.figures()
    assert told.value("grid_cluster_safe") == told.value("grid_cluster_members") == 1
    assert told.value("grid_cluster_state", state="active") == 1
    assert told.value("grid_cluster_state", state="passive") == 0
    assert len(told.labels("grid_cluster_state")) == 5
    for of_several in ("grid_majority", "grid_copies", "grid_copies_not_current"):
        assert told.labels(of_several) == []
    await member.ask("POST", "/grid/rest/management/cluster/changeState", b"dev&&PASSIVE")
    told = await member.figures()
    assert told.value("grid_cluster_state", state="active") == 0
    assert told.value("grid_cluster_state", state="passive") == 1


async def test_it_is_told_when_certificates_end(start: Start, authority: Authority) -> None:
    pair = authority.issue("member")
    authority.reissue(pair, BEGINS, "20300101")
    files = f"enabled: true, certificate-file: {pair.certificate}, key-file: {pair.key}"
    text = configured().replace("  network:\n", f"  network:\n    ssl: {{{files}}}\n")
    async with await start_member(Config.from_text(text, environment={})) as started:
        member = Scraped(started)
        assert (await member.figures()).value(EXPIRY, use="rest", file="certificate") == at(2030)
        authority.reissue(pair, BEGINS, "20310101")
        told = await member.figures()
        assert told.value(EXPIRY, use="rest", file="certificate") == at(2031)
        assert len(told.labels(EXPIRY)) == 1
        pair.certificate.unlink()
        assert (await member.figures()).labels(EXPIRY) == []
    assert (await (await start()).figures()).labels(EXPIRY) == []


def test_the_end_of_each_use_is_that_of_the_first_certificate_and_the_last_authority(
    authority: Authority, tmp_path: Path
) -> None:
    pair = authority.issue("member")
    authority.reissue_own(BEGINS, "20320101")
    authority.reissue(pair, BEGINS, "20300101")
    other = Authority(tmp_path, "successor")
    other.reissue_own(BEGINS, "20350101")
    both = tmp_path / "both.crt"
    both.write_bytes(authority.file.read_bytes() + other.file.read_bytes())
    chain = tmp_path / "chain.crt"
    chain.write_bytes(authority.file.read_bytes() + pair.certificate.read_bytes())
    tls = TlsConfig("ssl", chain, pair.key)
    asked = TlsConfig("ssl", pair.certificate, pair.key, client_ca=both)
    known = replace(asked, client_certificates=ClientCertificates.REQUIRED)
    config = MemberConfig(
        rest=ListenerConfig(0, tls=tls),
        management=ListenerConfig(0, users=(), tls=asked),
        cluster=ClusterConfig(0, (), "", "", tls=known),
    )
    assert certificate_ends(config) == {
        ("rest", "certificate"): at(2030),
        ("management", "certificate"): at(2030),
        ("management", "ca"): at(2035),  # whoever issued a client's, one that can go on is enough
        ("members", "certificate"): at(2030),
        ("members", "ca"): at(2032),
    }
    assert certificate_ends(MemberConfig()) == {}
