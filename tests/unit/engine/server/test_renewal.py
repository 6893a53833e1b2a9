"""Certificates of the members' TLS that are renewed while the members run."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import ssl
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.cluster_settings import ClusterTls
from grid_member.engine.server import tls_files
from tests.unit.engine.server.servers import HOST, client_of, settings, started
from tests.unit.member.security.certificates import Authority
from tests.unit.ports import free_ports
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.member.security.certificates import Pair


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_files, "LOOK_S", 0.05)


def tls_of(pair: Pair, authority: Authority) -> ClusterTls:
    return ClusterTls(pair.certificate, pair.key, authority.file)


async def shown(port: int, known: ClusterTls) -> bytes:
    """Return the certificate that a server shows to another one, in DER."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(known.ca_file)
    context.load_cert_chain(known.certificate_file, known.key_file)
    _, writer = await asyncio.open_connection(HOST, port, ssl=context)
    try:
        certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return certificate
    finally:
        writer.close()


def in_file(pair: Pair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair.certificate.read_text())


async def test_a_renewed_certificate_is_shown_and_nothing_is_cut(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    pair, other = authority.issue("member"), authority.issue("other")
    asking = tls_of(other, authority)
    ports = free_ports(2)
    members = [
        dataclasses.replace(settings(port, ports, name=f"m{port}"), tls=tls_of(pair, authority))
        for port in ports
    ]
    async with (
        started(*members) as servers,
        client_of(servers[0]) as one,
        client_of(servers[1]) as two,
    ):
        first = in_file(pair)
        processes = [server.process_id for server in servers]
        assert [await shown(port, asking) for port in ports] == [first, first]
        heard: list[bytes] = []
        two.subscribe(b"news", lambda came: heard.extend(message.payload for message in came))

        async def passes(text: bytes) -> bool:
            one.publish(b"news", text)
            await asyncio.sleep(0)
            return text in heard

        await eventually(lambda: passes(b"before"))
        authority.issue("member")
        assert in_file(pair) != first

        async def renewed() -> bool:
            return [await shown(port, asking) for port in ports] == [in_file(pair)] * 2

        await eventually(renewed)
        await eventually(lambda: passes(b"after"))
        assert [server.process_id for server in servers] == processes


async def test_files_that_cannot_be_used_leave_the_old_ones_in_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    authority = Authority(tmp_path, "ca")
    pair, other = authority.issue("member"), authority.issue("other")
    asking = tls_of(other, authority)
    (port,) = free_ports(1)
    member = dataclasses.replace(settings(port), tls=tls_of(pair, authority))
    async with started(member) as (server,):
        first = in_file(pair)
        key = pair.key.read_bytes()
        pair.key.write_bytes(other.key.read_bytes())
        await eventually(lambda: told(caplog, "is not the key of the certificate in"))
        assert await shown(port, asking) == first
        pair.key.write_bytes(key)
        authority.reissue(pair, "20200101", "20990101")

        async def renewed() -> bool:
            return await shown(port, asking) == in_file(pair) != first

        await eventually(renewed)
        assert server.failure is None


async def told(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return text in caplog.text


async def test_files_are_left_alone_while_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four looks find each something else, three find one file gone, the others what stays."""
    files = [tmp_path / name for name in ("crt", "key", "ca")]
    for file in files:
        file.write_text("old")
    tls = ClusterTls(*files)
    seen = tls_files.file_signatures(tls)
    look, looks, read = tls_files.file_signatures, 0, []

    def busy(of: ClusterTls) -> tuple[tuple[int, ...], ...]:
        nonlocal looks
        looks += 1
        if looks <= 4:
            files[0].write_text("new" * looks)
        elif looks <= 7:
            files[1].unlink(missing_ok=True)
        elif looks == 8:
            files[1].write_text("new")
        return look(of)

    async def looked_often() -> bool:
        return looks >= 20

    monkeypatch.setattr(tls_files, "file_signatures", busy)
    monkeypatch.setattr(tls_files, "pair_problem", lambda _: None)
    watching = asyncio.ensure_future(tls_files.renewals(tls, seen, lambda: read.append(looks)))
    await eventually(looked_often)
    watching.cancel()
    assert read == [9]
