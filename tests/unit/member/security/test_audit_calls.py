"""The audit lines of calls over the wire: what was asked, and whether it was done."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest

from grid_member.security.audit import LOGGER
from grid_member.telemetry.logs import JsonLines
from tests.unit.member.security.test_listeners import (
    ADA,
    CLUSTER,
    IN_BODY,
    OP,
    Secured,
    configuration,
    connected,
)
from tests.unit.member.wire import request
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.member.running import RunningMember

MAP = "/grid/rest/maps/default"
PATTERN = "/grid/rest/maps/{name}"
TOLD = (
    *("listener", "user", "endpoint", "outcome", "status"),
    *("state", "version", "log_level", "map", "group", "member"),
)


@pytest.fixture
async def running(start_member: Callable[..., RunningMember]) -> RunningMember:
    return await start_member(configuration(protected="DATA")).start()


@pytest.fixture
def member(running: RunningMember) -> Secured:
    return Secured(running, None)


@pytest.fixture(autouse=True)
def audited(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    shown = [json.loads(JsonLines().format(r)) for r in caplog.records if r.name == LOGGER]
    return [{k: line[k] for k in TOLD if k in line} for line in shown]


async def test_a_line_tells_what_was_asked_and_whether_it_was_done(
    member: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    for path, parameter in (
        (f"{CLUSTER}/changeState", b"Frozen"),
        (f"{CLUSTER}/changeState", b"frozen"),
        (f"{CLUSTER}/changeState", b"Hidden"),
        (f"{CLUSTER}/changeState", b"active"),
        (f"{CLUSTER}/version", b"99.0"),
        ("/grid/rest/log-level", b"info"),
    ):
        await member.rest("POST", path, IN_BODY + b"&" + parameter)
    await member.rest("DELETE", "/grid/rest/log-level", IN_BODY)
    told = [{k: v for k, v in line.items() if k not in TOLD[:3]} for line in lines(caplog)]
    assert told == [
        {"outcome": "done", "status": 200, "state": "frozen"},
        {"outcome": "refused", "status": 200, "state": "frozen"},
        {"outcome": "refused", "status": 400},
        {"outcome": "done", "status": 200, "state": "active"},
        {"outcome": "refused", "status": 409, "version": "99.0"},
        {"outcome": "done", "status": 200, "log_level": "INFO"},
        {"outcome": "done", "status": 200},
    ]


async def test_a_write_of_a_user_of_the_management_listener_has_a_line(
    member: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    body = b'{"status":"fail"}'
    for method, path, sent in (
        ("POST", f"{MAP}/Hidden", body),
        ("GET", f"{MAP}/Hidden", None),
        ("DELETE", f"{MAP}/Hidden", None),
        ("DELETE", MAP, None),
        ("DELETE", f"{MAP}/", None),
        ("POST", "/grid/rest/queues/default", body),
        ("DELETE", "/grid/rest/queues/default/0", None),
    ):
        await member.management(method, path, sent, Authorization=OP)
    common = {"listener": "management", "user": "op", "status": 200, "outcome": "done"}
    in_map = common | {"map": "default"}
    assert lines(caplog) == [
        in_map | {"endpoint": f"POST {PATTERN}/{{key...}}"},
        in_map | {"endpoint": f"DELETE {PATTERN}/{{key...}}"},
        in_map | {"endpoint": f"DELETE {PATTERN}"},
        in_map | {"endpoint": f"DELETE {PATTERN}", "outcome": "refused", "status": 400},
        common | {"endpoint": "POST /grid/rest/queues/{name}"},
        common | {"endpoint": "DELETE /grid/rest/queues/{name}/{seconds}"},
    ]


async def test_on_the_rest_listener_clearing_a_map_has_a_line_and_an_entry_has_none(
    member: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    await member.rest("POST", f"{MAP}/k", b"v", Authorization=ADA)
    await member.rest("DELETE", f"{MAP}/k", Authorization=ADA)
    await member.rest("DELETE", MAP, Authorization=ADA)
    assert [(s["user"], s["endpoint"], s["map"]) for s in lines(caplog)] == [
        ("ada", f"DELETE {PATTERN}", "default")
    ]


async def test_ipv4_clients_have_one_address_whatever_the_port_is_for(
    start_member: Callable[..., RunningMember], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "grid.http")
    on_all = configuration().replace("{enabled: true, interfaces: [127.0.0.1]}", "{enabled: false}")
    member = Secured(await start_member(on_all).start(), None)
    await member.rest("POST", f"{CLUSTER}/state", IN_BODY)
    await member.rest("POST", f"{CLUSTER}/state", b"ada&wrong")
    await member.rest("POST", f"{CLUSTER}/changeState", IN_BODY + b"&none")
    remotes = [
        json.loads(JsonLines().format(record)).get("remote")
        for record in caplog.records
        if record.name == LOGGER or "refused" in record.message
    ]
    assert remotes == ["127.0.0.1"] * 4


async def test_a_call_whose_client_leaves_has_a_line(
    running: RunningMember, caplog: pytest.LogCaptureFixture
) -> None:
    async with await connected(running.management_port, None) as wire:
        path = "/grid/rest/queues/default/60"
        wire.send(request("DELETE", path, Authorization=OP))
        factories = [opened.factory for opened in running.listeners._open]
        await until(
            lambda: any(c._current_request is not None for f in factories for c in f.connections)
        )
    await until(lambda: bool(lines(caplog)))
    assert [line["outcome"] for line in lines(caplog)] == ["unanswered"]


async def test_a_call_that_is_refused_before_it_is_carried_out_has_a_line(
    member: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    state = f"{CLUSTER}/changeState"
    for path, body in (
        (state, b"ada&s3cret"),
        (state, b"ada&%ZZ&active"),
        (state, b"ada&\xff&active"),
        (f"{CLUSTER}/changeState", IN_BODY + b"&s3cret"),
        ("/grid/rest/cp-subsystem/groups/Metadata/remove", IN_BODY),
        ("/grid/rest/wan/sync/allmaps", IN_BODY + b"&s3cret&s3cret"),
    ):
        await member.rest("POST", path, body)
    common = {"listener": "rest", "outcome": "refused", "status": 400}
    early = common | {"endpoint": f"POST {state}"}
    groups = "POST /grid/rest/cp-subsystem/groups/{name}/remove"
    assert lines(caplog) == [
        early,
        early,
        early,
        early | {"user": "ada"},
        common | {"user": "ada", "endpoint": groups, "status": 409, "group": "METADATA"},
        common | {"user": "ada", "endpoint": "POST /grid/rest/wan/sync/allmaps", "status": 409},
    ]
    assert "s3cret" not in caplog.text


async def test_on_the_management_listener_every_write_has_a_line(
    member: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    state = f"{CLUSTER}/changeState"
    for method, path, body in (
        ("POST", state, b"&"),
        ("DELETE", state, None),
        ("POST", "/grid/rest/s3cret", b""),
        ("GET", state, None),
        ("GET", "/grid/rest/s3cret", None),
        ("POST", "/grid/rest/maps/default//", b"v"),
    ):
        await member.management(method, path, body, Authorization=OP)
    common = {"listener": "management", "user": "op", "outcome": "refused"}
    assert lines(caplog) == [
        common | {"endpoint": f"POST {state}", "status": 400},
        common | {"endpoint": f"DELETE {state}", "status": 405},
        common | {"endpoint": "POST unknown path", "status": 404},
        common | {"endpoint": f"POST {PATTERN}/{{key...}}", "status": 400, "map": "default"},
    ]


async def test_a_call_whose_first_answer_is_given_again_says_so(
    member: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    for body in (b"&frozen", b"&active", b"&frozen"):
        key = {"Idempotency_Key": "one"} if body == b"&frozen" else {}
        reply = await member.rest("POST", f"{CLUSTER}/changeState", IN_BODY + body, **key)
        assert reply.status == 200
    assert [(line["outcome"], line["state"]) for line in lines(caplog)] == [
        ("done", "frozen"),
        ("done", "active"),
        ("repeated", "frozen"),
    ]
