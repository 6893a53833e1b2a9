"""TLS over real sockets: versions, certificates, their rotation."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import warnings
from typing import TYPE_CHECKING

import pytest

from grid_member.config.model.security import ClientCertificates
from tests.unit.member.http.routes.test_polls import stalled
from tests.unit.member.security.certificates import Authority, Pair, common_name
from tests.unit.member.wire import Wire, request
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.member.security.tls.tls_port import Port


READY = request("GET", "/grid/health/ready")
MAP = "/grid/rest/maps/default/k"
QUEUE = "/grid/rest/queues/default"


def seen(wire: Wire) -> str:
    """Return the name in the certificate that the member showed."""
    return common_name(wire.writer.get_extra_info("peercert"))


# Requests


async def test_requests_are_answered_as_without_tls(port: Port) -> None:
    async with await port.connect() as wire, await Wire.connect(port.member.port) as plain:
        for call in (
            ("GET", "/grid/health/ready"),
            ("POST", MAP, b"value"),
            ("GET", MAP),
            ("HEAD", MAP),
            ("GET", "/grid/rest/instance"),
            ("GET", "/nowhere"),
            ("PATCH", MAP),
        ):
            ours, theirs = await wire.call(*call), await plain.call(*call)
            assert (ours.status, ours.body) == (theirs.status, theirs.body)
            without_date = [h for h in ours.headers if h[0] != "Date"]
            assert without_date == [h for h in theirs.headers if h[0] != "Date"]


async def test_large_values_go_both_ways(port: Port) -> None:
    value = bytes(range(256)) * (8 << 12)
    async with await port.connect() as wire:
        assert (await wire.call("POST", MAP, value)).status == 200
        assert (await wire.call("GET", MAP)).body == value


async def test_pipelined_requests_are_answered_in_order(port: Port) -> None:
    async with await port.connect() as wire:
        for n in range(200):
            wire.send(request("POST", f"/grid/rest/maps/default/{n}", b"%d" % n * 100))
            wire.send(request("GET", f"/grid/rest/maps/default/{n}"))
        for n in range(200):
            assert (await wire.reply()).status == 200
            assert (await wire.reply()).body == b"%d" % n * 100


async def test_the_last_answer_arrives_before_the_connection_closes(port: Port) -> None:
    async with await port.connect() as wire:
        # The rest of the body is never read: closing must not reset what was answered.
        wire.send(request("POST", MAP, Content_Length="999999999") + b"x" * 100_000)
        assert (await wire.reply()).status == 413
        assert await wire.ended()


async def test_connection_close_is_kept(port: Port) -> None:
    async with await port.connect() as wire:
        assert (await wire.call("GET", MAP, Connection="close")).status == 204
        assert await wire.ended()


async def test_a_polled_item_comes_back_when_its_answer_does_not_get_through(port: Port) -> None:
    async with await Wire.connect(port.member.port) as producer:
        item = b"i" * (8 << 20)
        assert (await producer.call("POST", QUEUE, item)).status == 200
        wire = await port.connect()
        raw: socket.socket = wire.writer.get_extra_info("socket")
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire.send(request("DELETE", f"{QUEUE}/0"))
        await until(lambda: stalled(port.member))
        assert (await producer.call("GET", f"{QUEUE}/size")).body == b"0"
        wire.writer.transport.abort()
        await until(lambda: port.member.listeners.counts().clients == 1)
        assert (await producer.call("DELETE", f"{QUEUE}/5")).body == item


# Certificates


async def test_new_handshakes_see_the_new_certificate_and_open_connections_stay(
    port: Port, authority: Authority, pair: Pair
) -> None:
    async with await port.connect() as before:
        assert (await before.call("POST", MAP, b"v")).status == 200
        before.send(request("DELETE", f"{QUEUE}/60"))
        second = authority.issue("second")
        second.certificate.replace(pair.certificate)
        second.key.replace(pair.key)
        assert port.tls.refresh()
        async with await port.connect() as after:
            assert (seen(before), seen(after)) == ("first", "second")
            assert (await after.call("POST", QUEUE, b"item")).status == 200
        assert (await before.reply()).body == b"item"
        assert (await before.call("GET", MAP)).body == b"v"


async def test_a_broken_file_disturbs_nobody(port: Port, pair: Pair) -> None:
    async with await port.connect() as before:
        pair.key.write_text("garbage")
        assert not port.tls.refresh()
        assert (await before.call("GET", MAP)).status == 204
        async with await port.connect() as after:
            assert seen(after) == "first"


async def test_ten_rotations_under_load_drop_nothing(
    port: Port, authority: Authority, pair: Pair
) -> None:
    rotating = True
    served = 0

    async def load() -> None:
        nonlocal served
        async with await port.connect() as kept:
            while rotating:
                assert (await kept.call("POST", MAP, b"v")).status == 200
                assert await port.answers()
                served += 1

    clients = [asyncio.create_task(load()) for _ in range(4)]
    for n in range(10):
        before = served
        issued = await asyncio.to_thread(authority.issue, f"n{n}")
        pair.certificate.write_bytes(issued.certificate.read_bytes())
        assert not await asyncio.to_thread(port.tls.refresh)
        pair.key.write_bytes(issued.key.read_bytes())
        assert await asyncio.to_thread(port.tls.refresh)
        await until(lambda before=before: served > before)  # type: ignore[misc]
    rotating = False
    await asyncio.gather(*clients)
    async with await port.connect() as last:
        assert seen(last) == "n9"


# Client certificates


@pytest.fixture
def clients(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "clients")


def with_pair(authority: Authority, pair: Pair) -> ssl.SSLContext:
    context = authority.client()
    context.load_cert_chain(pair.certificate, pair.key)
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_required_client_certificate_is_required(
    version: ssl.TLSVersion,
    open_port: Callable[..., Port],
    authority: Authority,
    clients: Authority,
) -> None:
    required = ClientCertificates.REQUIRED
    port = await open_port(client_certificates=required, client_ca=clients.file).open()
    known = with_pair(authority, clients.issue("known"))
    async with await port.connect(known) as wire:
        assert (await wire.call("GET", "/grid/health/ready")).status == 200
    for refused in (authority.client(), with_pair(authority, authority.issue("stranger"))):
        refused.maximum_version = version
        with pytest.raises((ssl.SSLError, ConnectionError)) as raised:
            async with await port.connect(refused) as wire:
                await wire.call("GET", "/grid/health/ready")
        # The alert says why, in either version.
        assert isinstance(raised.value, ssl.SSLError)
        assert "ALERT" in str(raised.value.reason)
    await until(lambda: port.listener.handshaking == 0)


async def test_an_optional_client_certificate_must_be_a_known_one(
    open_port: Callable[..., Port], authority: Authority, clients: Authority
) -> None:
    optional = ClientCertificates.OPTIONAL
    port = await open_port(client_certificates=optional, client_ca=clients.file).open()
    for accepted in (authority.client(), with_pair(authority, clients.issue("known"))):
        async with await port.connect(accepted) as wire:
            assert (await wire.call("GET", "/grid/health/ready")).status == 200
    with pytest.raises(ssl.SSLError):
        async with await port.connect(with_pair(authority, authority.issue("stranger"))) as wire:
            await wire.call("GET", "/grid/health/ready")


# Versions


def limited(authority: Authority, version: ssl.TLSVersion) -> ssl.SSLContext:
    """Return a client that speaks one version only, however old."""
    context = authority.client()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = version
        context.maximum_version = version
    return context


@pytest.mark.parametrize(
    ("minimum", "version", "served"),
    [
        ("TLSv1.2", ssl.TLSVersion.TLSv1, False),
        ("TLSv1.2", ssl.TLSVersion.TLSv1_1, False),
        ("TLSv1.2", ssl.TLSVersion.TLSv1_2, True),
        ("TLSv1.2", ssl.TLSVersion.TLSv1_3, True),
        ("TLSv1.3", ssl.TLSVersion.TLSv1_1, False),
        ("TLSv1.3", ssl.TLSVersion.TLSv1_2, False),
        ("TLSv1.3", ssl.TLSVersion.TLSv1_3, True),
    ],
)
async def test_versions_below_the_minimum_are_refused(
    minimum: str,
    version: ssl.TLSVersion,
    served: bool,
    open_port: Callable[..., Port],
    authority: Authority,
) -> None:
    port = await open_port(minimum_version=minimum).open()
    context = limited(authority, version)
    if served:
        async with await port.connect(context) as wire:
            assert (await wire.call("GET", "/grid/health/ready")).status == 200
    else:
        with pytest.raises(ssl.SSLError) as raised:
            await port.connect(context)
        assert raised.value.reason == "TLSV1_ALERT_PROTOCOL_VERSION"
    assert await port.answers()


async def test_http_1_1_is_what_is_agreed_on(port: Port, authority: Authority) -> None:
    context = authority.client()
    context.set_alpn_protocols(["h2", "http/1.1"])
    async with await port.connect(context) as wire:
        assert wire.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
