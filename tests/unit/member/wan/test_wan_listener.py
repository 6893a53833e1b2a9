"""Promise: the WAN listener lets in those of its realm, and answers its two paths alone."""

from __future__ import annotations

import base64
import json
import logging
import socket
from typing import TYPE_CHECKING, Final

import pytest

from grid_member.engine.wan.agreement import PublisherName
from grid_member.http.server.wan_service import WanService
from grid_member.security.audit import LOGGER, endpoint
from grid_member.security.credentials import NOT_ASKED
from grid_member.telemetry.logs import JsonLines
from grid_member.wan.answers import MapAnswer
from grid_member.wan.comparison.messages import (
    KeysQuestion,
    MapQuestion,
    read_digests_answer,
    read_keys_answer,
    write_digests_question,
    write_keys_question,
)
from grid_member.wan.hello import Began, Hello, read_welcome, write_hello
from grid_member.wan.link import CHANGES_PATH, DIGESTS_PATH, HELLO_PATH, KEYS_PATH
from grid_member.wan.protocol import CONTENT_TYPE, checked_answer, seal, seal_compressed
from tests.unit.member.wan.batches import HEADER, SOURCE, body, put
from tests.unit.member.wan.pairs import Site
from tests.unit.member.wire import Reply, Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grid_member.security.credentials import LoginAttempt, LoginVerdict

RIGHT: Final = ("peer", "shown")
HELLO: Final = Hello((1,), "tokyo", SOURCE, "london", "r", "p", "uuid", "0.2.0", Began.EMPTY)


@pytest.fixture
async def london() -> AsyncIterator[Site]:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        site = Site("london", 0, "tokyo", closed.getsockname()[1])
        await site.start()
        yield site
        await site.stop()


async def call(
    site: Site,
    path: str,
    content: bytes = b"",
    user: tuple[str, str] | None = RIGHT,
    method: str = "POST",
    more: str = "",
) -> Reply:
    assert site.handle is not None
    assert site.handle.wan_port is not None
    async with await Wire.connect(site.handle.wan_port) as wire:
        head = f"{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(content)}\r\n{more}"
        if user is not None:
            pair = base64.b64encode(":".join(user).encode()).decode()
            head += f"Authorization: Basic {pair}\r\n"
        wire.send(head.encode() + b"\r\n" + content)
        return await wire.reply(method)


def batch(*keys: str, target: bytes) -> bytes:
    changes = [put("orders", key, 2**40) for key in keys]
    return body(*changes, header=HEADER._replace(target=target))


async def test_a_hello_and_a_batch(london: Site) -> None:
    reply = await call(london, HELLO_PATH, write_hello(HELLO))
    assert reply.status == 200
    assert reply.header("Content-Type") == "application/json"
    welcome = read_welcome(reply.body)
    assert (welcome.cluster_name, welcome.cluster_id) == ("london", london.cluster_id)
    message = seal(batch("ada", target=london.cluster_id))
    reply = await call(london, CHANGES_PATH, message)
    assert (reply.status, checked_answer(reply.body, message)) == (200, b"\x00")
    assert reply.header("Content-Type") == CONTENT_TYPE
    assert await london.get("orders", "ada") == b"value"
    many = batch(*(f"key-{number}" for number in range(1000)), target=london.cluster_id)
    assert len(seal_compressed(many)) < len(many) // 2
    message = seal_compressed(many)
    reply = await call(london, f"{CHANGES_PATH}/", message)
    assert (reply.status, checked_answer(reply.body, message)) == (200, b"\x00")
    assert await london.get("orders", "key-999") == b"value"


@pytest.mark.parametrize(
    "path",
    [HELLO_PATH, CHANGES_PATH, DIGESTS_PATH, KEYS_PATH, "/", "/grid/health/ready", "/grid/wan"],
)
async def test_every_path_asks_first(london: Site, path: str) -> None:
    for user in (None, ("peer", "wrong"), ("other", "shown")):
        reply = await call(london, path, seal(batch("ada", target=london.cluster_id)), user)
        assert (reply.status, reply.body) == (401, b"")
        assert reply.header("WWW-Authenticate") == 'Basic realm="wan", charset="UTF-8"'
    assert await london.get("orders", "ada") is None


@pytest.mark.parametrize("path", [HELLO_PATH, CHANGES_PATH, DIGESTS_PATH, KEYS_PATH])
async def test_a_path_that_does_not_ask_is_caught(
    london: Site, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: one path lets everybody in."""

    def enter(service: WanService, attempt: LoginAttempt) -> LoginVerdict:
        asks = attempt.endpoint != endpoint("POST", path)
        return original(service, attempt) if asks else NOT_ASKED

    original = WanService._enter
    monkeypatch.setattr(WanService, "_enter", enter)
    with pytest.raises(AssertionError):
        await test_every_path_asks_first(london, path)


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/",
            "/grid/wan",
            "/grid/wan/2/changes",
            "/grid/wan/1/changes/more",
            "/grid/health/ready",
        ),
        *("/grid/rest/maps/orders/ada", "/grid/rest/management/cluster/state"),
    ],
)
async def test_nothing_else_is_there(london: Site, path: str) -> None:
    reply = await call(london, path)
    assert (reply.status, reply.body) == (404, b"")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
async def test_only_post_is_known(london: Site, method: str) -> None:
    reply = await call(london, CHANGES_PATH, method=method)
    assert (reply.status, reply.header("Allow")) == (405, "POST")


async def test_what_is_no_batch_is_refused_whole(london: Site) -> None:
    right = seal(batch("ada", target=london.cluster_id))
    for content in (b"", b"{}", right[:-1], right + b"\x00", right[:40] + b"\xff" + right[41:]):
        reply = await call(london, CHANGES_PATH, content)
        assert (reply.status, reply.body) == (400, b"")
        assert reply.header("X-Grid-Error")
    for content in (b"", b"[]", b"{}"):
        assert (await call(london, HELLO_PATH, content)).status == 400
    assert await london.get("orders", "ada") is None


async def test_a_batch_for_another_cluster_is_a_conflict(london: Site) -> None:
    reply = await call(london, CHANGES_PATH, seal(batch("ada", target=bytes(16))))
    assert reply.status == 409
    assert reply.json["status"] == "fail"
    assert await london.get("orders", "ada") is None


def question(target: bytes, name: str = "orders") -> MapQuestion:
    return MapQuestion(SOURCE, target, PublisherName("r", "p"), bytes(16), name, (), (), 0)


async def test_digests_and_keys_of_a_map_are_told(london: Site) -> None:
    for key in ("ada", "grace"):
        await call(london, CHANGES_PATH, seal(batch(key, target=london.cluster_id)))
    about = question(london.cluster_id)
    message = write_digests_question(about)
    reply = await call(london, DIGESTS_PATH, message)
    assert reply.header("Content-Type") == CONTENT_TYPE
    answer = read_digests_answer(checked_answer(reply.body, message))
    assert [*answer.digests.counts] == [2]
    message = write_keys_question(KeysQuestion(about, (0,), "ada"))
    reply = await call(london, KEYS_PATH, message)
    page = read_keys_answer(checked_answer(reply.body, message))
    assert [(row.key, row.stamp, row.removed) for row in page.rows] == [("grace", 2**40, False)]

    unknown = write_digests_question(question(london.cluster_id, "unknown"))
    reply = await call(london, DIGESTS_PATH, unknown)
    found = read_digests_answer(checked_answer(reply.body, unknown))
    assert found.code is MapAnswer.NOT_CONFIGURED
    for path in (DIGESTS_PATH, KEYS_PATH):
        assert (await call(london, path, b"")).status == 400
    elsewhere = write_digests_question(question(bytes(16)))
    assert (await call(london, DIGESTS_PATH, elsewhere)).status == 409


async def test_a_body_has_a_limit(london: Site) -> None:
    limit = london.wan.receiver.settings.batch_bytes
    head = f"POST {CHANGES_PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: {limit + 1}\r\n"
    assert london.handle is not None
    assert london.handle.wan_port is not None
    async with await Wire.connect(london.handle.wan_port) as wire:
        pair = base64.b64encode(":".join(RIGHT).encode()).decode()
        wire.send(f"{head}Authorization: Basic {pair}\r\n\r\n".encode())
        assert (await wire.reply()).status == 413
    async with await Wire.connect(london.handle.wan_port) as wire:
        wire.send(f"{head}\r\n".encode())
        assert (await wire.reply()).status == 401, "nobody unknown learns what is too large"


async def test_guesses_are_slowed_down_and_counted(london: Site) -> None:
    for _ in range(10):
        assert (await call(london, HELLO_PATH, user=("peer", "wrong"))).status == 401
    reply = await call(london, HELLO_PATH, user=("peer", "wrong"))
    assert (reply.status, reply.header("Retry-After")) == (401, "1")
    assert london.handle is not None
    figures = {each.kind: each for each in london.handle._listeners.figures()}
    assert figures["wan"].slowed_logins == 1


async def test_hellos_and_refusals_are_audited_and_batches_are_not(
    london: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    await call(london, HELLO_PATH, write_hello(HELLO))
    await call(london, CHANGES_PATH, seal(batch("ada", target=london.cluster_id)))
    await call(
        london, CHANGES_PATH, seal(batch("ada", target=london.cluster_id)), user=("peer", "wrong")
    )
    shown = [json.loads(JsonLines().format(r)) for r in caplog.records if r.name == LOGGER]
    told = [
        (line["message"], line["endpoint"], line.get("user"), line["listener"]) for line in shown
    ]
    assert told == [
        ("management call", f"POST {HELLO_PATH}", "peer", "wan"),
        ("authentication failed", f"POST {CHANGES_PATH}", "peer", "wan"),
    ]
