from __future__ import annotations

import asyncio
import base64
import gzip
import json
import logging
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from grid_operator.decide.model import (
    MemberOperation,
    MemberProblem,
    MemberView,
    StructureUse,
    WanPublisherView,
)
from grid_operator.ports.api import MemberAccess
from grid_operator.ports.members import wire as member_wire
from grid_operator.ports.members.breaker import TRIPPED_AFTER
from grid_operator.ports.members.client import MemberClient
from grid_operator.ports.members.wire import BODY_LIMIT_BYTES
from tests.unit.serving import listening

PASSWORD = "pass:wörd-that-nobody-may-see"
POD = {"metadata": {"name": "demo-0"}, "status": {"podIP": "127.0.0.1"}}
DOCUMENTS: dict[str, object] = {
    "/grid/health": {
        "nodeState": "ACTIVE",
        "clusterState": "ACTIVE",
        "clusterSafe": True,
        "migrationQueueSize": 0,
        "clusterSize": 1,
    },
    "/grid/rest/cluster": {
        "members": [
            {"address": "b:5701", "localMember": False, "uuid": "other", "memberVersion": "0.2.0"},
            {"address": "a:5701", "localMember": True, "uuid": "mine", "memberVersion": "0.2.0"},
        ]
    },
    "/grid/rest/management/cluster/version": {"status": "success", "version": "0.1"},
    "/grid/health/ready": {},
    "/grid/rest/management/cluster/operations": [
        {"id": "op-1", "kind": "backup", "stage": "FAILED", "progress": 7, "error": "full"},
        {"id": "op-2", "kind": "backup", "stage": "STARTED", "progress": 0, "error": None},
    ],
    "/grid/rest/management/cluster/usage": {
        "structures": [{"kind": "map", "name": "m", "entries": 3, "bytes": 9, "limits": {}}],
        "members": [],
    },
}

Serve = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


def http(body: bytes, status: str = "200 OK", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n\r\n".encode() + body


def path_of(head: bytes) -> str:
    return head.split(b" ")[1].decode()


@asynccontextmanager
async def member(serve: Serve, view_timeout_s: float = 0.3) -> AsyncIterator[MemberClient]:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(await reader.readuntil(b"\r\n\r\n"), writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async with listening(connected) as port, MemberClient(port, view_timeout_s) as client:
        yield client


WAN_PATH = "/grid/rest/wan/status"
WAN: dict[str, object] = {
    "status": "success",
    "replications": [
        {
            "name": "r",
            "publishers": [
                {
                    "publisherId": "p",
                    "members": [{"uuid": "mine", "state": "PAUSED", "queued": 3}],
                    "needsSyncReason": "the target may miss changes",
                }
            ],
        }
    ],
    "sources": [],
}


@pytest.mark.parametrize(
    ("status", "document", "wan"),
    [
        (
            "200 OK",
            WAN,
            (WanPublisherView("r", "p", {"mine": "PAUSED"}, "the target may miss changes"),),
        ),
        ("409 Conflict", {"message": "wan-replication is not configured"}, ()),
        ("409 Conflict", {"message": "the cluster version is 0.1"}, None),
        ("503 Unavailable", {}, None),
        ("404 Not Found", {}, None),
    ],
)
@pytest.mark.parametrize("asks", [True, False])
async def test_publishers_are_asked_for_when_there_may_be_any(
    status: str, document: dict[str, object], wan: object, asks: bool
) -> None:
    asked: list[str] = []

    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        path = path_of(head)
        asked.append(path)
        found = document if path == WAN_PATH else DOCUMENTS[path]
        body = json.dumps(found).encode()
        writer.write(http(body, status if path == WAN_PATH else "200 OK"))

    async with member(serve, 3.0) as client:
        access = MemberAccess("operator", PASSWORD, asks_wan=asks)
        view = await client.fetch_view(POD, access)

    assert isinstance(view, MemberView)
    assert (WAN_PATH in asked) is asks
    assert view.wan == (wan if asks else None)


async def ask(client: MemberClient) -> MemberView | MemberProblem:
    return await client.fetch_view(POD, MemberAccess("operator", PASSWORD))


async def test_a_healthy_member_gives_a_view_and_gets_credentials() -> None:
    heads: list[bytes] = []

    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        heads.append(head)
        writer.write(http(json.dumps(DOCUMENTS[path_of(head)]).encode()))

    async with member(serve) as client:
        view = await ask(client)
    assert view == MemberView(
        uuid="mine",
        address="a:5701",
        version="0.2.0",
        cluster_version="0.1",
        node_state="ACTIVE",
        cluster_state="ACTIVE",
        cluster_safe=True,
        migration_queue_size=0,
        cluster_size=1,
        ready=True,
        operations=(
            MemberOperation("op-1", "backup", "FAILED", 7, "full"),
            MemberOperation("op-2", "backup", "STARTED", 0, ""),
        ),
        structures=(StructureUse("map", "m", 3),),
    )
    token = base64.b64encode(f"operator:{PASSWORD}".encode())
    assert all(b"Authorization: Basic " + token in head for head in heads)


async def test_a_member_that_is_not_ready_is_a_view() -> None:
    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        status = "503 Service Unavailable" if path_of(head).endswith("ready") else "200 OK"
        writer.write(http(json.dumps(DOCUMENTS[path_of(head)]).encode(), status))

    async with member(serve) as client:
        view = await ask(client)
    assert isinstance(view, MemberView)
    assert not view.ready


def refusal(reason: str) -> bytes:
    head = f"HTTP/1.1 503 No\r\nContent-Length: 0\r\nX-Grid-Error: {reason}\r\n\r\n"
    return head.encode()


async def test_a_joined_member_tells_why_it_is_not_ready_and_not_safe_without_counts() -> None:
    """What varies from look to look would be written into the status each time."""
    unsafe = {**DOCUMENTS["/grid/health"], "clusterSafe": False}  # type: ignore[dict-item]
    said = {
        "health": unsafe,
        "ready": refusal("the disk of demo-1.members:5704 is full for 17 s"),
        "cluster-safe": refusal("not safe: 12 copies of the data are missing"),
    }
    async with member(answers(**said)) as client:
        view = await ask(client)
    assert isinstance(view, MemberView)
    assert view.problem == "the disk of demo-1.members:5704 is full for some s"
    assert view.unsafe == "some copies of the data are missing"


@pytest.mark.parametrize("answer", [http(b""), http(b"", "404 No"), http(b"x" * 300_000)])
async def test_a_member_need_not_tell_why_it_is_not_safe(answer: bytes) -> None:
    unsafe = {**DOCUMENTS["/grid/health"], "clusterSafe": False}  # type: ignore[dict-item]
    async with member(answers(**{"health": unsafe, "cluster-safe": answer})) as client:
        view = await ask(client)
    assert isinstance(view, MemberView)
    assert (view.cluster_safe, view.unsafe, view.problem) == (False, "", "")


def answers(**changed: object) -> Serve:
    """Return a member whose documents are healthy but for those changed, by their last word."""

    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        path = path_of(head)
        last = path.rpartition("/")[2]
        answer = changed[last] if last in changed else DOCUMENTS[path]
        whole = answer if isinstance(answer, bytes) else http(json.dumps(answer).encode())
        writer.write(whole)

    return serve


async def test_a_member_that_has_not_joined_is_a_problem_with_its_state_and_reason() -> None:
    starting = {**DOCUMENTS["/grid/health"], "nodeState": "STARTING"}  # type: ignore[dict-item]
    waits = b"HTTP/1.1 503 No\r\nContent-Length: 0\r\nX-Grid-Error: checksum mismatch\r\n\r\n"
    early = b"HTTP/1.1 503 No\r\nContent-Length: 0\r\nX-Grid-Error: starting\r\n\r\n"
    async with member(answers(health=starting, ready=waits, cluster=early)) as client:
        problem = await ask(client)
    assert problem == MemberProblem("checksum mismatch", node_state="STARTING")
    parked = {**DOCUMENTS["/grid/health"], "nodeState": "PASSIVE"}  # type: ignore[dict-item]
    async with member(answers(health=parked, ready=waits, cluster=early)) as client:
        found = await ask(client)
    assert isinstance(found, MemberProblem)
    assert found.parked


@pytest.mark.parametrize("kept_back", [True, False], ids=["says nothing", "503"])
async def test_a_member_without_a_majority_is_no_view_and_has_not_said_that_it_did_not_join(
    kept_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps back what only the others know, and answers the rest: it is not silent."""
    monkeypatch.setattr(member_wire, "VERSION_TIMEOUT_S", 0.05)
    unready = b"HTTP/1.1 503 No\r\nContent-Length: 0\r\nX-Grid-Error: no word for 12 s\r\n\r\n"
    version = b"" if kept_back else http(b"", "503 Later")
    asked = 0

    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await answers(ready=unready, version=version)(head, writer)
        if kept_back and path_of(head).endswith("version"):
            await asyncio.sleep(10)

    async with member(serve, view_timeout_s=10) as client:
        for _ in range(TRIPPED_AFTER + 1):
            assert await ask(client) == MemberProblem("no word for some s", own_words=True)
    assert asked == 4 * (TRIPPED_AFTER + 1), "it is asked again each time"


async def test_what_a_member_says_for_people_is_one_line_without_the_password() -> None:
    error = f"the disk\n\ud800 \x1b[31m {PASSWORD}"
    backup = {"id": "1", "kind": "backup", "stage": "FAILED", "progress": 1, "error": error}
    async with member(answers(operations=[backup])) as client:
        view = await ask(client)
    assert isinstance(view, MemberView)
    assert view.operations[0].error == "the disk    [31m ***"
    starting = {**DOCUMENTS["/grid/health"], "nodeState": "STARTING"}  # type: ignore[dict-item]
    waits = f"HTTP/1.1 503 No\r\nContent-Length: 0\r\nX-Grid-Error: {PASSWORD}\r\n\r\n".encode()
    async with member(answers(health=starting, ready=waits, cluster=waits)) as client:
        problem = await ask(client)
    assert problem == MemberProblem("***", node_state="STARTING")


@pytest.mark.parametrize("document", ["health", "usage"])
async def test_what_is_compressed_is_never_inflated(document: str) -> None:
    packed = gzip.compress(b" " * 64_000_000)
    assert len(packed) < BODY_LIMIT_BYTES
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
    tracemalloc.start()
    async with member(answers(**{document: head.encode() + packed}), 10) as client:
        view = await ask(client)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(view, MemberProblem)
    assert "other than JSON" in view.message
    assert peak < 16_000_000


@pytest.mark.parametrize(
    "usage",
    [
        pytest.param(http(b"", "404 No"), id="unknown"),
        pytest.param(http(b" " * 2_000_000), id="too large"),
    ],
)
async def test_usage_is_no_condition_of_a_view(usage: bytes) -> None:
    async with member(answers(usage=usage, operations=http(b"", "404 No"))) as client:
        view = await ask(client)
    assert isinstance(view, MemberView)
    assert (view.structures, view.operations) == ((), ())


@pytest.mark.parametrize(
    "changed",
    [
        {"operations": {}},
        {"operations": [7]},
        {"operations": [{"id": 1}]},
        {"operations": http(b"", "500 Oops")},
        {"usage": {"structures": [{"kind": "map", "name": "m", "entries": "3"}]}},
        {"health": {**DOCUMENTS["/grid/health"], "nodeState": "A" * 33}},  # type: ignore[dict-item]
        {"health": {**DOCUMENTS["/grid/health"], "nodeState": "A\nB"}},  # type: ignore[dict-item]
        # Longer when it is written in capitals: it would not fit into the status.
        {"health": {**DOCUMENTS["/grid/health"], "clusterState": "ß" * 32}},  # type: ignore[dict-item]
    ],
)
async def test_what_is_not_in_the_interface_is_a_problem(changed: dict[str, object]) -> None:
    async with member(answers(**changed)) as client:
        assert isinstance(await ask(client), MemberProblem)


async def hang(_head: bytes, _writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


async def trickle(_head: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


async def endless(_head: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    for _ in range(BODY_LIMIT_BYTES // 1024 + 64):
        writer.write(b" " * 1024)
        await writer.drain()


def fixed(answer: bytes) -> Serve:
    async def serve(_head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    return serve


@pytest.mark.parametrize(
    ("serve", "words"),
    [
        pytest.param(hang, "no complete answer", id="hangs"),
        pytest.param(trickle, "no complete answer", id="trickles"),
        pytest.param(endless, "more than", id="endless"),
        pytest.param(fixed(http(b"", "500 Oops")), "answered 500", id="500"),
        pytest.param(fixed(http(b"", "401 No")), "credentials", id="401"),
        pytest.param(fixed(http(b"", "302 Found")), "answered 302", id="redirect"),
        pytest.param(fixed(http(b'{"a', length=400)), "broke off", id="truncated"),
        pytest.param(fixed(b""), "broke off", id="closed at once"),
        pytest.param(fixed(b"SSH-2.0-OpenSSH\r\n\r\n"), "broke off", id="not HTTP"),
        pytest.param(fixed(http(b"<html>")), "other than JSON", id="HTML"),
        pytest.param(fixed(http(b"\xff\xfe\xfa")), "other than JSON", id="not text"),
        pytest.param(fixed(http(b"[" * 100_000)), "other than JSON", id="deeply nested"),
        pytest.param(fixed(http(b"[]")), "no JSON object", id="a list"),
        pytest.param(fixed(http(b"{}")), "no local member", id="empty object"),
        pytest.param(
            fixed(http(b'{"members": [{"localMember": true, "uuid": 7}]}')),
            "no proper uuid",
            id="wrong type",
        ),
    ],
)
async def test_a_misbehaving_member_is_a_problem_in_words(
    serve: Serve, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with member(serve) as client, asyncio.timeout(5):
        problem = await ask(client)
    assert isinstance(problem, MemberProblem)
    assert words in problem.message
    assert PASSWORD not in problem.message + caplog.text


async def test_a_member_that_is_not_there_is_a_problem() -> None:
    async with member(hang) as client:
        pass
    async with MemberClient(1) as client:
        problem = await ask(client)
    assert isinstance(problem, MemberProblem)
    assert "cannot be reached" in problem.message
