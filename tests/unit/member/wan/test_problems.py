"""Promise: what a status shows as the problem of a publisher names what has to be changed."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from aiohttp import web

from grid_member.config.model.member import User
from grid_member.wan.answers import MapAnswer, reason_of
from grid_member.wan.client import ClientSettings, HttpTransport, words_of
from grid_member.wan.endpoints import Address
from grid_member.wan.ports import TargetError
from tests.unit.member.security.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

USER: Final = User("tokyo", "shown")
BODY: Final = bytes(1000)
REFUSES_TLS: Final = "the target refuses TLS or the certificate that the publisher shows"
PORT: Final = "target-endpoints must name the port of the target's network.wan"


@asynccontextmanager
async def answering(
    answer: Callable[[], web.Response], context: ssl.SSLContext | None = None
) -> AsyncIterator[Address]:
    """Have a server in place of the target that answers everything so."""

    async def handle(_: web.BaseRequest) -> web.StreamResponse:
        return answer()

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield Address("127.0.0.1", "127.0.0.1", int(runner.addresses[0][1]))
    finally:
        await runner.cleanup()


async def problem(settings: ClientSettings, address: Address) -> str:
    """Return why a request has no answer."""
    transport = HttpTransport(settings)
    try:
        with pytest.raises(TargetError) as refused:
            await transport.post(address, "/grid/wan/hello", BODY, "application/json")
    finally:
        await transport.close()
    return str(refused.value)


@pytest.mark.parametrize(
    ("status", "identity", "shown"),
    [
        (
            401,
            USER,
            "the target refuses the name and password: the publisher's realm must show a user of "
            "the realm of the target's network.wan",
        ),
        (
            401,
            None,
            "the target asks for a name and password: give the publisher a realm that shows a "
            "user of the realm of the target's network.wan",
        ),
        # What a REST listener answers depends on its groups.
        (403, USER, f"no WAN listener answers there (403): {PORT}"),
        (404, USER, f"no WAN listener answers there (404): {PORT}"),
        (405, USER, f"no WAN listener answers there (405): {PORT}"),
        (413, USER, "the target or a proxy before it refuses so large a request (413)"),
        (400, USER, "the target answers 400: no reason is given"),
    ],
)
async def test_a_refusal_says_what_to_change(
    status: int, identity: User | None, shown: str
) -> None:
    async with answering(lambda: web.Response(status=status)) as address:
        assert await problem(ClientSettings(5, identity), address) == shown


async def test_the_reason_of_the_target_is_shown() -> None:
    def refuse() -> web.Response:
        return web.json_response({"status": "fail", "message": "no"}, status=409)

    async with answering(refuse) as address:
        assert await problem(ClientSettings(5, USER), address) == "the target answers 409: no"


async def test_a_target_that_speaks_no_tls_is_told() -> None:
    settings = ClientSettings(5, USER, ssl.create_default_context)
    async with answering(web.Response) as address:
        shown = await problem(settings, address)
    assert shown == "TLS failed: what answers there speaks no TLS"


async def test_a_target_that_refuses_a_certificate_is_told(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    own, foreign = authority.issue("london"), other.issue("tokyo")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.file))
    server.load_cert_chain(own.certificate, own.key)
    server.verify_mode = ssl.CERT_REQUIRED
    # TLS 1.3 lets the client write before the refusal comes.
    server.maximum_version = ssl.TLSVersion.TLSv1_2
    client = authority.client()
    client.load_cert_chain(foreign.certificate, foreign.key)
    async with answering(web.Response, server) as address:
        found = await problem(ClientSettings(5, USER, lambda: client), address)
    # By the version of Python the server tells why, or only ends the connection.
    assert found in (
        f"{REFUSES_TLS}: TLSV1_ALERT_UNKNOWN_CA",
        "the target closed the connection",
        "Connection reset by peer",
    )


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        (
            "TLSV13_ALERT_CERTIFICATE_REQUIRED",
            "the target asks for a certificate: the publisher's ssl needs a certificate-file",
        ),
        ("TLSV1_ALERT_UNKNOWN_CA", f"{REFUSES_TLS}: TLSV1_ALERT_UNKNOWN_CA"),
        ("DECRYPTION_FAILED", "TLS failed: DECRYPTION_FAILED"),
    ],
)
def test_numbers_of_openssl_are_none_of_the_system(reason: str, shown: str) -> None:
    """On a connection that is open aiohttp makes such an error of the number 1, which is EPERM."""
    assert words_of(aiohttp.ClientOSError(1, f"[SSL: {reason}] words (_ssl.c:2580)")) == shown


@pytest.mark.parametrize(
    ("code", "setting"),
    [
        (MapAnswer.NOT_CONFIGURED, "configure it there"),
        (MapAnswer.TOO_LARGE, "raise limits.key-bytes or limits.value-bytes there"),
        (MapAnswer.CLOCK_AHEAD, "set the clocks"),
    ],
)
def test_the_reason_of_a_blocked_map_says_what_to_change(code: MapAnswer, setting: str) -> None:
    assert reason_of(code).endswith(f": {setting}")
