"""A member with security on and TLS on both listeners, over the wire."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from typing import TYPE_CHECKING

import pytest

from grid_member import Config, TlsError
from grid_member.http.table import ROUTES
from grid_member.security.audit import LOGGER
from grid_member.start import start_member as start
from grid_member.telemetry.logs import JsonLines
from tests.unit.member.running import ALL_GROUPS
from tests.unit.member.security.certificates import common_name
from tests.unit.member.wire import Wire, request

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from tests.unit.member.running import MemberProcess, RunningMember
    from tests.unit.member.security.certificates import Authority
    from tests.unit.member.wire import Reply

    Secure: TypeAlias = Callable[..., Awaitable["Secured"]]

CLUSTER = "/grid/rest/management/cluster"
PROBES = ("/grid/health/ready", "/grid/health/node-state")


def configuration(tls: str = "", protected: str = "") -> str:
    enabled = ", ".join(f"{group}: {{enabled: true}}" for group in ALL_GROUPS)
    return f"""grid:
  network:
    port: {{port: 0}}
    interfaces: {{enabled: true, interfaces: [127.0.0.1]}}
    {tls}
    rest-api: {{enabled: true, endpoint-groups: {{{enabled}}}}}
    management:
      enabled: true
      port: {{port: 0}}
      realm: ops
      {tls}
  security:
    enabled: true
    member-authentication: {{realm: members}}
    rest: {{protected: [{protected}]}}
    realms:
      - {{name: ops, authentication: {{simple: {{users: [{{username: op, password: s3cret}}]}}}}}}
      - name: members
        authentication: {{simple: {{users: [{{username: ada, password: "p&w:\u00fc"}}]}}}}
  map: {{default: {{}}}}
  queue: {{default: {{}}}}
  logging: {{format: json}}
"""


def tls_of(authority: Authority, name: str = "member") -> str:
    pair = authority.issue(name)
    return f"ssl: {{enabled: true, certificate-file: {pair.certificate}, key-file: {pair.key}}}"


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


ADA = basic("ada", "p&w:\u00fc")
OP = basic("op", "s3cret")
IN_BODY = b"ada&p%26w%3A%C3%BC"


class Secured:
    """A running member, its listeners plain or over TLS."""

    def __init__(self, member: RunningMember, context: ssl.SSLContext | None) -> None:
        self._member = member
        self._context = context

    async def rest(self, method: str, path: str, body: bytes | None = None, **h: str) -> Reply:
        return await self._call(self._member.port, method, path, body, h)

    async def management(
        self, method: str, path: str, body: bytes | None = None, **h: str
    ) -> Reply:
        return await self._call(self._member.management_port, method, path, body, h)

    async def _call(
        self, port: int, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> Reply:
        async with await connected(port, self._context) as wire:
            return await wire.call(method, path, body, **headers)


async def connected(port: int, context: ssl.SSLContext | None) -> Wire:
    return Wire(*await asyncio.open_connection("127.0.0.1", port, ssl=context))


@pytest.fixture(params=["plain", "tls"])
async def secured(
    request: pytest.FixtureRequest,
    start_member: Callable[..., RunningMember],
    authority: Authority,
) -> Secure:
    """Give a function that starts a member with what is protected."""
    over_tls = request.param == "tls"

    async def make(protected: str = "") -> Secured:
        text = configuration(tls_of(authority) if over_tls else "", protected)
        return Secured(await start_member(text).start(), authority.client() if over_tls else None)

    return make


async def test_calls_are_for_users_of_the_member_realm(secured: Secure) -> None:
    member = await secured()
    for body, headers, status in (
        (b"ada", {}, 400),
        (b"dev&", {}, 403),
        (b"&", {}, 403),
        (b"ada&p%26w", {}, 403),
        (IN_BODY, {}, 200),
        (b"&", {"Authorization": ADA}, 200),
        (b"&", {"Authorization": OP}, 403),
    ):
        reply = await member.rest("POST", f"{CLUSTER}/state", body, **headers)
        assert reply.status == status, body
        if status == 403:
            assert reply.json == {"status": "fail", "message": "unauthenticated"}
    assert (await member.rest("GET", "/grid/rest/cluster")).status == 200
    assert (await member.rest("GET", "/grid/rest/maps/default/k")).status == 204


async def test_every_call_with_credentials_refuses_wrong_ones(
    secured: Secure,
) -> None:
    member = await secured()
    rows = [row for row in ROUTES if row.parameters is not None]
    assert len(rows) >= 22
    for row in rows:
        path = row.path.replace("{", "").replace("}", "")
        assert row.parameters is not None
        missing = await member.rest(row.methods[0], path, b"&" * (row.parameters - 1))
        assert (missing.status, missing.json["message"]) == (403, "unauthenticated"), row
        few = await member.rest(row.methods[0], path, b"ada")
        assert (few.status, few.body) == (400, b""), row


async def test_what_is_protected_asks_for_basic(secured: Secure) -> None:
    member = await secured("DATA, HEALTH_CHECK, /grid/rest/cluster")
    for method, path in (
        ("GET", "/grid/rest/maps/default/k"),
        ("PATCH", "/grid/rest/maps/default/k"),
        ("GET", "/grid/rest/cluster/"),
        ("GET", "/grid/health/cluster-state"),
        ("HEAD", "/grid/health"),
    ):
        for given in ({}, {"Authorization": OP}):
            reply = await member.rest(method, path, None, **given)
            assert (reply.status, reply.body) == (401, b""), path
            assert reply.header("WWW-Authenticate") == 'Basic realm="members", charset="UTF-8"'
        assert (await member.rest(method, path, Authorization=ADA)).status != 401
    assert (await member.rest("GET", "/grid/rest/instance")).status == 200
    for path in PROBES:
        assert (await member.rest("GET", path, Authorization="Basic wrong")).status == 200


KEY = "/grid/rest/maps/default/private/k"


@pytest.mark.parametrize(
    "path",
    [
        KEY,
        "/grid/rest/maps/default/private",
        "/grid/rest/maps/default/private%2Fk",
        "/grid/rest/maps/default/private%2fk",
        "/grid/rest/maps/default/%70rivate%2F/k",
        "/grid/rest/maps/default/private%2F",
    ],
)
async def test_a_protected_key_is_protected_however_it_is_written(
    secured: Secure, path: str
) -> None:
    member = await secured("/grid/rest/maps/default/private")
    for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH"):
        body = b"v" if method in ("POST", "PUT") else None
        assert (await member.rest(method, path, body)).status == 401, method
        assert (await member.rest(method, path, body, Authorization=ADA)).status != 401, method


async def test_clearing_a_map_asks_for_what_its_keys_ask_for(secured: Secure) -> None:
    member = await secured("/grid/rest/maps/default/private")
    assert (await member.rest("POST", KEY, b"v", Authorization=ADA)).status == 200
    for path in ("/grid/rest/maps/default", "/grid/rest/maps/d%65fault/"):
        assert (await member.rest("DELETE", path)).status == 401
    assert (await member.rest("GET", KEY, Authorization=ADA)).body == b"v"
    assert (await member.rest("DELETE", "/grid/rest/maps/default", Authorization=ADA)).status == 200
    assert (await member.rest("GET", KEY, Authorization=ADA)).status == 204


@pytest.mark.parametrize(
    "path",
    [
        "/grid/rest/maps/default/privates",
        "/grid/rest/maps/default/x%2Fprivate",
        "/grid/rest/maps/default%2Fprivate/k",
        "/grid/rest/maps/another",
    ],
)
async def test_what_only_resembles_a_protected_path_is_open(secured: Secure, path: str) -> None:
    member = await secured("/grid/rest/maps/default/private")
    assert (await member.rest("DELETE", path)).status != 401


async def test_the_management_listener_has_its_own_users(secured: Secure) -> None:
    member = await secured()
    state = f"{CLUSTER}/state"
    assert (await member.management("POST", state, b"&")).status == 401
    assert (await member.management("POST", state, IN_BODY)).status == 401
    assert (await member.management("POST", state, b"&", Authorization=ADA)).status == 401
    assert (await member.management("POST", state, b"&", Authorization=OP)).status == 200
    assert (await member.management("POST", state, IN_BODY, Authorization=OP)).status == 200
    assert (await member.management("POST", state, b"dev&", Authorization=OP)).status == 403
    for path in PROBES:
        assert (await member.management("GET", path)).status == 200


async def test_guessing_is_slowed_down_and_probes_are_not(secured: Secure) -> None:
    member = await secured()
    state = f"{CLUSTER}/state"
    replies = [await member.rest("POST", state, b"ada&guess") for _ in range(15)]
    assert {reply.status for reply in replies} == {403}
    assert replies[0].header("Retry-After") is None
    assert replies[-1].header("Retry-After") is not None
    refused = await member.rest("POST", state, IN_BODY)
    assert (refused.status, refused.header("Retry-After") is None) == (403, False)
    for path in (*PROBES, "/grid/rest/maps/default/k"):
        assert (await member.rest("GET", path)).status in (200, 204)
    assert (await member.management("POST", state, b"&", Authorization=OP)).status == 200
    guesses = [
        await member.management("GET", "/grid/rest/cluster", Authorization=basic("op", "guess"))
        for _ in range(15)
    ]
    assert {reply.status for reply in guesses} == {401}
    assert guesses[-1].header("Retry-After") is not None
    assert guesses[-1].header("WWW-Authenticate") == 'Basic realm="ops", charset="UTF-8"'


async def test_audit_lines_say_who_did_what(
    secured: Secure, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    member = await secured()
    await member.rest("POST", "/grid/rest/license", IN_BODY + b"&Hidden-license")
    await member.rest("POST", f"{CLUSTER}/changeState", b"ada&Hidden-pw&frozen")
    await member.management("POST", f"{CLUSTER}/state", b"&", Authorization=OP)
    lines = [JsonLines().format(r) for r in caplog.records if r.name == LOGGER]
    shown = [json.loads(line) for line in lines]
    assert [(s["listener"], s["remote"], s["user"], s["endpoint"]) for s in shown] == [
        ("rest", "127.0.0.1", "ada", "POST /grid/rest/license"),
        ("rest", "127.0.0.1", "ada", f"POST {CLUSTER}/changeState"),
        ("management", "127.0.0.1", "op", f"POST {CLUSTER}/state"),
    ]
    assert shown[1]["reason"] == "wrong credentials"
    assert shown[2]["outcome"] == "done"
    assert not any(secret in "".join(lines) for secret in ("Hidden", "s3cret", "p&w"))


async def test_a_certificate_that_cannot_be_read_ends_the_start(authority: Authority) -> None:
    pair = authority.issue("member")
    tls = f"ssl: {{enabled: true, certificate-file: {pair.certificate}, key-file: /no/such}}"
    config = Config.from_text(configuration(tls))
    with pytest.raises(TlsError, match=r"network\.ssl\.key-file: /no/such: No such file"):
        await start(config)


async def test_a_process_takes_new_certificates_by_itself(
    member_process: Callable[..., MemberProcess], authority: Authority
) -> None:
    process = member_process(configuration(tls_of(authority)))
    await asyncio.to_thread(process.wait_for, "ready")
    context = authority.client()
    async with await connected(process.port, context) as before:
        assert (await before.call("GET", PROBES[0])).status == 200
        old, new = authority.directory / "member", authority.issue("second")
        new.certificate.replace(old.with_suffix(".crt"))
        new.key.replace(old.with_suffix(".key"))
        await asyncio.to_thread(process.wait_for, "certificate reloaded")
        async with await connected(process.port, context) as after:
            assert common_name(after.writer.get_extra_info("peercert")) == "second"
        before.send(request("POST", f"{CLUSTER}/state", IN_BODY))
        assert (await before.reply()).status == 200
    line = await asyncio.to_thread(process.wait_for, "management call")
    assert (line["user"], line["logger"]) == ("ada", LOGGER)
