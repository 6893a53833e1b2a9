"""Requests and answers of the interface, row by row, over raw sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grid_member.cluster.values.system_store import start
from grid_member.engine.api import ClusterState, Refused
from grid_member.http.table import ROUTES, Route
from tests.unit.member.running import configuration
from tests.unit.member.wire import Reply, Wire, once

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.member.running import RunningMember

MAP = "/grid/rest/maps/default"
QUEUE = "/grid/rest/queues/default"
CLUSTER = "/grid/rest/management/cluster"


def plain(reply: Reply) -> None:
    """Check what holds for every answer."""
    assert reply.header("Server") is None
    assert reply.header("Date") is not None
    assert reply.header("Access-Control-Allow-Origin") is None
    if reply.status in (400, 404, 405, 413, 414, 431, 500, 503):
        assert reply.body == b""
    if reply.status in (400, 500):
        reason = reply.header("X-Grid-Error")
        assert reason
        assert len(reason) <= 256


CASES = [
    ("POST", f"{MAP}/k", b"v", 200, b""),
    ("PUT", f"{MAP}/k", b"v", 200, b""),
    ("POST", f"{MAP}/k/", b"v", 200, b""),
    ("GET", f"{MAP}/absent", None, 204, b""),
    ("HEAD", f"{MAP}/absent", None, 204, b""),
    ("DELETE", f"{MAP}/absent", None, 200, b""),
    ("DELETE", MAP, None, 200, b""),
    ("DELETE", f"{MAP}/", None, 400, b""),
    ("DELETE", f"{MAP}//", None, 400, b""),
    ("GET", f"{MAP}//", None, 400, b""),
    ("GET", MAP, None, 405, b""),
    ("POST", f"{MAP}/", b"v", 405, b""),
    ("PATCH", f"{MAP}/k", b"v", 405, b""),
    ("OPTIONS", f"{MAP}/k", None, 405, b""),
    ("GET", "/grid/rest/maps/", None, 400, b""),
    ("GET", "/grid/rest/maps//k", None, 400, b""),
    ("GET", "/grid/rest/queues", None, 400, b""),
    ("GET", f"{MAP}/%zz", None, 400, b""),
    ("GET", f"{MAP}/%ff", None, 400, b""),
    ("GET", f"{MAP}/%", None, 400, b""),
    ("GET", f"{MAP}/" + "k" * 8192, None, 204, b""),
    ("GET", f"{MAP}/" + "k" * 8193, None, 414, b""),
    ("GET", f"{MAP}/" + "%C3%A4" * 4096, None, 204, b""),
    ("GET", f"{MAP}/" + "%C3%A4" * 4097, None, 414, b""),
    ("GET", "/grid/rest/maps/" + "n" * 256 + "/k", None, 414, b""),
    ("GET", "/" + "p" * 70_000, None, 414, b""),
    ("POST", QUEUE, b"i", 200, b""),
    ("PUT", f"{QUEUE}/", b"i", 200, b""),
    ("GET", QUEUE, None, 405, b""),
    ("DELETE", QUEUE, None, 405, b""),
    ("GET", f"{QUEUE}/1", None, 405, b""),
    ("POST", f"{QUEUE}/1", b"i", 405, b""),
    ("GET", f"{QUEUE}/size", None, 200, b"0"),
    ("GET", f"{QUEUE}/size/", None, 200, b"0"),
    ("DELETE", f"{QUEUE}/size", None, 405, b""),
    ("DELETE", f"{QUEUE}/0", None, 204, b""),
    ("DELETE", f"{QUEUE}/0/?x=1", None, 204, b""),
    ("DELETE", f"{QUEUE}/-1", None, 400, b""),
    ("DELETE", f"{QUEUE}/%2B1", None, 400, b""),
    ("DELETE", f"{QUEUE}/1.5", None, 400, b""),
    ("DELETE", f"{QUEUE}/2147483648", None, 400, b""),
    ("DELETE", f"{QUEUE}/%D9%A1", None, 400, b""),
    ("GET", "/grid/health/ready", None, 200, b""),
    ("GET", "/grid/health/ready/", None, 200, b""),
    ("HEAD", "/grid/health/ready", None, 405, b""),
    ("POST", "/grid/health/ready", b"", 405, b""),
    ("GET", "/grid/health/node-state", None, 200, b'"ACTIVE"'),
    ("GET", "/grid/health/cluster-state", None, 200, b'"ACTIVE"'),
    ("GET", "/grid/health/cluster-safe", None, 200, b""),
    ("GET", "/grid/health/migration-queue-size", None, 200, b"0"),
    ("GET", "/grid/health/cluster-size", None, 200, b"1"),
    ("GET", "/grid/health/other", None, 400, b""),
    ("GET", "/grid/health/ready/now", None, 400, b""),
    ("GET", "/grid/rest/instance", None, 200, b'{"name":"tester"}'),
    ("POST", "/grid/rest/instance", b"", 405, b""),
    ("GET", "/grid/rest/instance?x=%zz", None, 200, b'{"name":"tester"}'),
    ("GET", "http://member/grid/rest/instance", None, 200, b'{"name":"tester"}'),
    ("GET", f"{CLUSTER}/version", None, 200, b'{"status":"success","version":"1.2"}'),
    ("POST", f"{CLUSTER}/state", b"dev&", 200, b'{"status":"success","state":"active"}'),
    ("PUT", f"{CLUSTER}/state/", b"de%76&x&y", 200, b'{"status":"success","state":"active"}'),
    ("POST", f"{CLUSTER}/state", b"dev", 400, b""),
    ("POST", f"{CLUSTER}/state", None, 400, b""),
    ("POST", f"{CLUSTER}/state", b"%zz&", 400, b""),
    ("POST", f"{CLUSTER}/state", b"\xff&", 400, b""),
    ("POST", f"{CLUSTER}/state", b"Dev&", 403, b'{"status":"fail","message":"unauthenticated"}'),
    ("POST", f"{CLUSTER}/state", b"&", 403, b'{"status":"fail","message":"unauthenticated"}'),
    ("POST", f"{CLUSTER}/state", b" dev&", 403, b'{"status":"fail","message":"unauthenticated"}'),
    ("GET", f"{CLUSTER}/state", None, 405, b""),
    ("GET", "/grid/rest/nothing", None, 404, b""),
    ("GET", "/grid/", None, 404, b""),
    ("GET", "/other", None, 404, b""),
    ("GET", "/", None, 404, b""),
    ("GET", "/Grid/health", None, 404, b""),
]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "answer"),
    CASES,
    ids=[f"{c[0]} {c[1][:48]} {(c[2] or b'')[:12]!r}" for c in CASES],
)
async def test_answers(
    member: RunningMember, method: str, path: str, body: bytes | None, status: int, answer: bytes
) -> None:
    reply = await once(member.port, method, path, body)
    plain(reply)
    assert (reply.status, reply.body) == (status, answer)
    if answer.startswith((b"{", b'"')):
        assert reply.header("Content-Type") == "application/json"


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        (MAP, "DELETE"),
        (f"{QUEUE}/1", "DELETE"),
        (f"{QUEUE}/size", "GET, HEAD"),
        (QUEUE, "POST, PUT"),
        (f"{MAP}/k", "POST, PUT, GET, HEAD, DELETE"),
        ("/grid/health/ready", "GET"),
        (f"{CLUSTER}/version", "GET, HEAD, POST, PUT"),
    ],
)
async def test_wrong_method_names_the_right_ones(
    member: RunningMember, path: str, allow: str
) -> None:
    reply = await once(member.port, "PATCH", path)
    assert (reply.status, reply.header("Allow")) == (405, allow)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_every_key_is_itself(member: RunningMember, method: str) -> None:
    keys = {"a%2Fb": b"1", "a/b/c": b"2", "a+b": b"3", "a%2Bb": b"4", "%C3%A4": b"5", "a%3Fb": b"6"}
    async with await Wire.connect(member.port) as wire:
        for key, value in keys.items():
            assert (await wire.call("POST", f"{MAP}/{key}", value)).status == 200
        assert (await wire.call("GET", f"{MAP}/a%2fb")).body == b"1"
        assert (await wire.call("GET", f"{MAP}/a/b")).body == b"1"
        assert (await wire.call("GET", f"{MAP}/a%20b")).body == b"3"
        assert (await wire.call("GET", f"{MAP}/a%2Bb?query")).body == b"4"
        for key, value in keys.items():
            assert (await wire.call("GET", f"{MAP}/{key}")).body == value
        if method == "DELETE":
            await wire.call("DELETE", f"{MAP}/a+b/")
            assert (await wire.call("GET", f"{MAP}/a+b")).status == 204


@pytest.mark.parametrize(
    "content_type", [None, "text/plain", "Text/Plain; Charset=UTF-8", "x/\xe4", "application/json"]
)
async def test_a_value_comes_back_as_it_was_sent(
    member: RunningMember, content_type: str | None
) -> None:
    value = bytes(range(256))
    headers = {} if content_type is None else {"Content_Type": content_type}
    async with await Wire.connect(member.port) as wire:
        await wire.call("POST", f"{MAP}/k", value, **headers)
        reply = await wire.call("GET", f"{MAP}/k")
        head = await wire.call("HEAD", f"{MAP}/k")
    assert (reply.status, reply.body, reply.header("Content-Type")) == (200, value, content_type)
    assert (head.header("Content-Type"), head.header("Content-Length")) == (content_type, "256")


@pytest.mark.parametrize("body", [None, b""])
async def test_an_empty_value_is_a_value(member: RunningMember, body: bytes | None) -> None:
    await once(member.port, "POST", f"{MAP}/k", body)
    reply = await once(member.port, "GET", f"{MAP}/k")
    assert (reply.status, reply.header("Content-Length")) == (200, "0")
    assert reply.header("Content-Type") is None


@pytest.mark.parametrize(
    ("item", "sent", "returned"),
    [
        (b"text", None, "text/plain"),
        (b"\xff", None, "application/octet-stream"),
        (b"", None, "text/plain"),
        (b"{}", "application/json", "application/json"),
    ],
)
async def test_item_types(
    member: RunningMember, item: bytes, sent: str | None, returned: str
) -> None:
    headers = {} if sent is None else {"Content_Type": sent}
    await once(member.port, "POST", QUEUE, item, **headers)
    reply = await once(member.port, "DELETE", f"{QUEUE}/0")
    assert (reply.status, reply.body, reply.header("Content-Type")) == (200, item, returned)
    assert (await once(member.port, "DELETE", f"{QUEUE}/0")).status == 204


async def test_a_full_queue_refuses(member: RunningMember) -> None:
    answers = [await once(member.port, "POST", "/grid/rest/queues/two", b"i") for _ in range(3)]
    assert [a.status for a in answers] == [200, 200, 503]


async def test_an_unconfigured_structure_is_unknown(
    start_member: Callable[..., RunningMember],
) -> None:
    text = (
        configuration()
        .replace("map: {default: {}, ", "map: {")
        .replace("queue: {default: {}, ", "queue: {")
    )
    member = await start_member(text).start()
    for method, path in [
        ("POST", "maps/default/k"),
        ("GET", "maps/x/k"),
        ("GET", "queues/q/size"),
        ("DELETE", "queues/q/0"),
    ]:
        reply = await once(member.port, method, f"/grid/rest/{path}")
        plain(reply)
        assert reply.status == 404
        assert reply.header("X-Grid-Error")


async def test_documents(member: RunningMember) -> None:
    reply = await once(member.port, "GET", "/grid/rest/cluster")
    uuid = member.engine.member_uuid
    assert reply.body.decode() == (
        f'{{"members":[{{"address":"127.0.0.1:{member.port}","liteMember":false,'
        f'"localMember":true,"uuid":"{uuid}","memberVersion":"1.2.3"}}],'
        '"connectionCount":1,"allConnectionCount":1}'
    )
    health = b'{"nodeState":"ACTIVE","clusterState":"ACTIVE","clusterSafe":true,'
    health += b'"migrationQueueSize":0,"clusterSize":1}'
    assert (await once(member.port, "GET", "/grid/health")).body == health
    head = await once(member.port, "HEAD", "/grid/health")
    assert head.header("Content-Length") == str(len(health))
    assert [(k, v) for k, v in head.headers if k.startswith("Grid-")] == [
        ("Grid-NodeState", "ACTIVE"),
        ("Grid-ClusterState", "ACTIVE"),
        ("Grid-MigrationQueueSize", "0"),
        ("Grid-ClusterSize", "1"),
    ]


def path_of(route: Route) -> str:
    return (
        route.path.replace("{name}", "default")
        .replace("{key...}", "k")
        .replace("{check...}", "x")
        .replace("{seconds}", "0")
        .replace("{uuid}", "0")
        .replace("{id}", "0")
    )


async def test_every_row_answers_and_asks_for_its_group(
    start_member: Callable[..., RunningMember],
) -> None:
    on = await start_member().start()
    off = await start_member(configuration([])).start()
    for route in ROUTES:
        for method in route.methods:
            body = b"&".join([b"dev", *[b"x"] * ((route.parameters or 1) - 1)])
            if route.operation in ("member_shutdown", "cluster_shutdown"):
                continue
            sent = None if method in ("GET", "HEAD") else body
            reply = await once(on.port, method, path_of(route), sent)
            wanted = (
                409
                if route.operation is None
                else 400
                if route.operation in ("no_name", "health_unknown")
                else None
            )
            assert reply.status == (wanted or reply.status)
            assert reply.status in (200, 204, 400, 404, 409), (method, route.path)
            assert reply.status != 404 or route.operation == "license_get"
            reply = await once(off.port, method, path_of(route), sent)
            group = min(g.value for g in route.groups)
            assert reply.status == 403
            if method != "HEAD":
                message = f"endpoint group {group} is disabled"
                assert reply.json == {"status": "fail", "message": message}


async def test_parameters_then_credentials_then_operation(member: RunningMember) -> None:
    path = f"{CLUSTER}/changeState"
    assert (await once(member.port, "POST", path, b"x&y")).status == 400
    assert (await once(member.port, "POST", path, b"x&y&z")).status == 403
    assert (await once(member.port, "POST", path, b"dev&y&z")).status == 400
    assert (await once(member.port, "POST", path, b"dev&y&Frozen")).status == 200
    assert member.engine.cluster_state is ClusterState.FROZEN


async def test_unknown_paths_belong_to_cluster_write(
    start_member: Callable[..., RunningMember],
) -> None:
    member = await start_member(configuration(["DATA"])).start()
    reply = await once(member.port, "GET", "/grid/rest/nothing")
    assert reply.json["message"] == "endpoint group CLUSTER_WRITE is disabled"
    assert (await once(member.port, "GET", "/nothing")).status == 404


async def test_passive_refuses_writes(member: RunningMember) -> None:
    await once(member.port, "POST", f"{MAP}/k", b"v")
    changed: bool | Refused = await start(
        lambda done: member.engine.change_cluster_state(ClusterState.PASSIVE, done)
    )
    assert changed is True
    for method, path in [
        ("POST", f"{MAP}/k"),
        ("DELETE", f"{MAP}/k"),
        ("DELETE", MAP),
        ("POST", QUEUE),
        ("DELETE", f"{QUEUE}/0"),
    ]:
        reply = await once(member.port, method, path)
        plain(reply)
        assert reply.status == 503
        assert reply.header("X-Grid-Error")
    assert (await once(member.port, "GET", f"{MAP}/k")).body == b"v"
    assert (await once(member.port, "GET", f"{QUEUE}/size")).body == b"0"
    assert (await once(member.port, "GET", "/grid/health/node-state")).body == b'"PASSIVE"'
    assert (await once(member.port, "GET", "/grid/health/ready")).status == 200


async def test_before_the_join(start_member: Callable[..., RunningMember]) -> None:
    member = await start_member().open()
    assert (await once(member.port, "GET", "/grid/health/ready")).status == 503
    assert (await once(member.port, "GET", "/grid/health/node-state")).body == b'"STARTING"'
    assert (await once(member.port, "GET", f"{CLUSTER}/version")).json["version"] == "0.0"
    assert (await once(member.port, "GET", f"{MAP}/k")).status == 503
    assert (await once(member.port, "GET", "/grid/rest/cluster")).status == 503
    state = await once(member.port, "POST", f"{CLUSTER}/state", b"dev&")
    assert state.json == {"status": "success", "state": "active"}
    assert (await once(member.port, "GET", "/grid/health/cluster-state")).body == b'"ACTIVE"'
    reply = await once(member.port, "POST", f"{CLUSTER}/memberShutdown", b"dev&")
    assert reply.status == 409


BASIC = "Basic b3A6czNjcmV0"


async def test_management_listener(member: RunningMember) -> None:
    port = member.management_port
    for wrong in (
        {},
        {"Authorization": "Basic b3A6eA=="},
        {"Authorization": "Bearer x"},
        {"Authorization": "Basic %%"},
    ):
        reply = await once(port, "GET", "/grid/rest/cluster", None, **wrong)
        assert reply.status == 401
        assert reply.header("WWW-Authenticate") == 'Basic realm="ops", charset="UTF-8"'
        assert (await once(port, "GET", "/grid/nothing", None, **wrong)).status == 401
    for probe in ("ready", "node-state"):
        assert (await once(port, "GET", f"/grid/health/{probe}")).status == 200
        wrong_method = await once(port, "POST", f"/grid/health/{probe}", b"")
        assert (wrong_method.status, wrong_method.body) == (405, b"")
        assert (wrong_method.header("Allow") or "").startswith("GET")
    assert (await once(port, "HEAD", "/grid/health/ready")).status == 405
    assert (await once(port, "GET", "/grid/health")).status == 401
    counted = (await once(port, "GET", "/grid/rest/cluster", Authorization=BASIC)).json
    assert (counted["connectionCount"], counted["allConnectionCount"]) == (0, 1)
    state = f"{CLUSTER}/state"
    assert (await once(port, "POST", state, b"&", Authorization=BASIC)).status == 200
    assert (await once(port, "POST", state, b"dev&", Authorization=BASIC)).status == 200
    assert (await once(port, "POST", state, b"other&", Authorization=BASIC)).status == 403
    assert (await once(port, "POST", state, b"", Authorization=BASIC)).status == 400
