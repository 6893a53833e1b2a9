"""A member that drains answers everything, closes each connection behind it, and is not ready."""

from __future__ import annotations

import asyncio
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from grid_member import Config, MemberHandle, start_member
from grid_member.config.load import parse_config
from grid_member.config.tree import ConfigError
from grid_member.config.xml.forms import TOP_ELEMENT
from tests.unit.member.running import configuration
from tests.unit.member.security.certificates import Authority
from tests.unit.member.start.handles import LOOPBACK, config, is_free, port_of
from tests.unit.member.wire import Reply, Wire, once, request
from tests.unit.waiting import eventually, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.unit.member.running import MemberProcess

    Start = Callable[[str], MemberProcess]

MAP: Final = "/grid/rest/maps/default"
QUEUE: Final = "/grid/rest/queues/default"
READY: Final = "/grid/health/ready"
LONG_S: Final = 60
"""No test waits for the end of this drain."""
LONG: Final = f"  shutdown: {{drain-seconds: {LONG_S}}}\n"
REASON: Final = "the member drains: it answers for a while, then it stops"
BOTH_PATHS: Final = pytest.mark.parametrize(
    "fast_path", [True, False], ids=["fast-path", "no-fast-path"]
)
REQUESTS: Final = (
    ("GET", f"{MAP}/there", None, 200, b"kept"),
    ("GET", f"{MAP}/missing", None, 204, b""),
    ("POST", f"{MAP}/new", b"value", 200, b""),
    ("DELETE", f"{MAP}/new", None, 200, b""),
    ("POST", QUEUE, b"another", 200, b""),
    ("GET", f"{QUEUE}/size", None, 200, b"1"),
    ("DELETE", f"{QUEUE}/0", None, 200, b"item"),
    ("DELETE", "/grid/rest/queues/default/7/", None, 200, b"item"),
    ("DELETE", MAP, None, 200, b""),
    ("GET", "/grid/health/node-state", None, 200, b'"ACTIVE"'),
    ("GET", READY, None, 503, b""),
    ("GET", "/grid/nothing", None, 404, b""),
    ("POST", "/grid/health", b"", 405, b""),
    ("DELETE", f"{QUEUE}/soon", None, 400, b""),
)
"""A request, and status and body of its answer by a member that has one entry and one item."""


def draining_config(fast_path: bool = True, seconds: int = LONG_S, **extra: Any) -> Config:
    settings = {
        "shutdown": {"drain-seconds": seconds},
        "http": {"lane": {"enabled": fast_path}},
    }
    return config(**settings, **extra)


@asynccontextmanager
async def running(fast_path: bool = True, **extra: Any) -> AsyncIterator[MemberHandle]:
    """Run a member that drains when it is told to stop; end it without waiting for that."""
    member = await start_member(draining_config(fast_path, **extra))
    try:
        yield member
    finally:
        member.request_stop(drain=False)
        await member.wait_stopped()


async def fill(member: MemberHandle) -> None:
    async with await Wire.connect(port_of(member)) as wire:
        assert (await wire.call("POST", f"{MAP}/there", b"kept")).status == 200
        assert (await wire.call("POST", QUEUE, b"item")).status == 200


async def expect_closing(wire: Wire, reply: Reply) -> None:
    assert reply.header("Connection") == "close"
    assert await wire.ended()
    await wire.close()


@BOTH_PATHS
@pytest.mark.parametrize("kept", [False, True], ids=["new connection", "kept connection"])
@pytest.mark.parametrize(
    ("method", "path", "body", "status", "answer"), REQUESTS, ids=lambda value: str(value)[-20:]
)
async def test_every_request_is_answered_and_its_connection_closes(
    method: str,
    path: str,
    body: bytes | None,
    status: int,
    answer: bytes,
    kept: bool,
    fast_path: bool,
) -> None:
    async with running(fast_path) as member:
        await fill(member)
        wire = await Wire.connect(port_of(member))
        if kept:
            assert (await wire.call("GET", READY)).status == 200
        else:
            await wire.close()
        member.request_stop()
        if not kept:
            wire = await Wire.connect(port_of(member))
        reply = await wire.call(method, path, body)
        assert (reply.status, reply.body) == (status, answer)
        await expect_closing(wire, reply)


async def test_it_is_not_ready_at_once_and_says_why() -> None:
    async with running() as member:
        member.request_stop()
        assert (member.draining, member.ready) == (True, False)
        for path in (READY, "/grid/health/cluster-safe"):
            reply = await once(port_of(member), "GET", path)
            assert (reply.status, REASON in str(reply.header("X-Grid-Error"))) == (503, True)


@BOTH_PATHS
async def test_pipelined_requests_are_all_answered(fast_path: bool) -> None:
    async with running(fast_path) as member:
        wire = await Wire.connect(port_of(member))
        member.request_stop()
        wire.send(b"".join(request("POST", f"{MAP}/{n}", b"%d" % n) for n in range(20)))
        wire.send(request("GET", f"{MAP}/7") + request("GET", f"{QUEUE}/size"))
        replies = [await wire.reply() for _ in range(22)]
        assert [reply.status for reply in replies] == [200] * 22
        assert replies[-2].body == b"7"
        assert [reply.header("Connection") for reply in replies] == [None] * 21 + ["close"]
        await expect_closing(wire, replies[-1])


@BOTH_PATHS
async def test_a_body_that_comes_in_parts_is_taken(fast_path: bool) -> None:
    async with running(fast_path) as member:
        wire = await Wire.connect(port_of(member))
        begun = request("POST", f"{MAP}/large", bytes(1 << 20))
        wire.send(begun[:-1])
        member.request_stop()
        wire.send(begun[-1:])
        reply = await wire.reply("POST")
        assert reply.status == 200
        await expect_closing(wire, reply)
        assert len((await once(port_of(member), "GET", f"{MAP}/large")).body) == 1 << 20


@BOTH_PATHS
async def test_polls_that_wait_end_at_once_and_later_ones_wait_for_nothing(fast_path: bool) -> None:
    async with running(fast_path) as member:
        wires = [await Wire.connect(port_of(member)) for _ in range(20)]
        for wire in wires:
            wire.send(request("DELETE", f"{QUEUE}/3600"))
        assert (await once(port_of(member), "GET", READY)).status == 200
        member.request_stop()
        for wire in wires:
            reply = await wire.reply()
            assert reply.status == 204
            await expect_closing(wire, reply)
        assert (await once(port_of(member), "DELETE", f"{QUEUE}/3600")).status == 204
        assert (await once(port_of(member), "POST", QUEUE, b"item")).status == 200
        assert (await once(port_of(member), "DELETE", f"{QUEUE}/3600")).body == b"item"


async def test_a_queue_that_none_polled_before_is_not_waited_on() -> None:
    async with running() as member:
        member.request_stop()
        assert (await once(port_of(member), "DELETE", f"{QUEUE}/3600")).status == 204


@BOTH_PATHS
async def test_over_tls(fast_path: bool, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("member")
    text = f"ssl: {{enabled: true, certificate-file: {own.certificate}, key-file: {own.key}}}"
    extra = f"{LONG}  http: {{lane: {{enabled: {str(fast_path).lower()}}}}}\n"
    text = configuration(extra=extra).replace("rest-api:", f"{text}\n    rest-api:")
    member = await start_member(Config.from_text(text, name="grid.yaml", environment={}))
    kept = await Wire.connect(port_of(member), context=authority.client())
    assert (await kept.call("POST", f"{MAP}/k", b"value")).status == 200
    member.request_stop()
    fresh = await Wire.connect(port_of(member), context=authority.client())
    for wire in (kept, fresh):
        reply = await wire.call("GET", f"{MAP}/k")
        assert (reply.status, reply.body) == (200, b"value")
        await expect_closing(wire, reply)
    member.request_stop(drain=False)
    await member.wait_stopped()


async def test_the_other_listeners_close_their_connections_too() -> None:
    metrics = {"enabled": True, "port": {"port": 0}, "interfaces": LOOPBACK}
    async with running(management_port=0, metrics=metrics) as member:
        member.request_stop()
        for port, path in ((member.management_port, READY), (member.metrics_port, "/metrics")):
            assert port is not None
            async with await Wire.connect(port) as wire:
                reply = await wire.call("GET", path)
                assert (reply.status in (200, 503), reply.header("Connection")) == (True, "close")


async def test_a_drain_ends_after_its_time() -> None:
    member = await start_member(draining_config(seconds=1))
    member.request_stop()
    assert (await once(port_of(member), "POST", f"{MAP}/k", b"v")).status == 200
    await member.wait_stopped()
    assert not member.draining
    assert is_free(port_of(member))


async def test_all_who_stop_a_member_wait_for_the_same_drain() -> None:
    member = await start_member(draining_config(seconds=1))
    stops = [asyncio.create_task(member.stop()) for _ in range(3)]
    await until(lambda: member.draining)
    assert (await once(port_of(member), "GET", f"{MAP}/k")).status == 204
    await asyncio.gather(*stops)
    assert is_free(port_of(member))


async def test_hurry_ends_a_drain() -> None:
    member = await start_member(draining_config())
    member.request_stop()
    member.hurry()
    assert not member.draining
    await member.wait_stopped()


async def test_without_drain_seconds_a_stop_begins_at_once() -> None:
    member = await start_member(config())
    member.request_stop()
    assert not member.draining
    await member.wait_stopped()


async def test_a_member_that_is_alone_stops_all_while_it_drains() -> None:
    async with running(management_port=0) as member:
        member.request_stop()
        port, path = port_of(member), "/grid/rest/management/cluster/clusterShutdown"
        assert (await once(port, "POST", path, b"dev&")).status == 200
        await member.wait_stopped()


def seconds_of(text: str, name: str = "f.yaml", **environment: str) -> int:
    return parse_config(text, name, environment).drain_s


def test_the_setting() -> None:
    document = f"{TOP_ELEMENT}<shutdown><drain-seconds>9</drain-seconds></shutdown></grid>"
    assert seconds_of(document, "f.xml") == 9
    assert seconds_of("grid: {}") == 0
    assert seconds_of("grid: {shutdown: {drain-seconds: 60}}") == 60
    assert seconds_of("grid: {shutdown: {drain-seconds: '${D:5}'}}") == 5
    assert seconds_of("grid: {}", GRID_MEMBER_SHUTDOWN_DRAINSECONDS="7") == 7
    for wrong in ("61", "-1", "1.5", "soon"):
        with pytest.raises(ConfigError, match=r"shutdown\.drain-seconds"):
            seconds_of(f"grid: {{shutdown: {{drain-seconds: {wrong}}}}}")


def messages(process: MemberProcess) -> list[str]:
    return [entry["message"] for entry in process.log]


async def test_sigterm_drains_and_a_second_one_ends_the_drain(member_process: Start) -> None:
    process = member_process(configuration(extra=LONG))
    process.wait_for("ready")
    process.process.send_signal(signal.SIGTERM)
    process.wait_for("draining")
    assert (await once(process.port, "POST", f"{MAP}/k", b"v")).status == 200
    assert (await once(process.port, "GET", READY)).status == 503
    process.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.end) == 0
    assert messages(process)[-2:] == ["stopping", "stopped"]


async def test_a_signal_after_member_shutdown_leaves_the_drain_alone(member_process: Start) -> None:
    process = member_process(configuration(extra=LONG))
    process.wait_for("ready")
    path = "/grid/rest/management/cluster/memberShutdown"
    assert (await once(process.port, "POST", path, b"dev&")).status == 200
    process.wait_for("draining")
    process.process.send_signal(signal.SIGTERM)  # the kubelet's, once the pod is deleted
    process.wait_for("signal")
    assert (await once(process.port, "POST", f"{MAP}/k", b"v")).status == 200
    assert (await once(process.port, "POST", path, b"dev&")).status == 200
    process.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.end) == 0
    assert messages(process)[-2:] == ["stopping", "stopped"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
async def test_at_a_terminal_a_member_does_not_drain(
    number: signal.Signals, member_process: Start
) -> None:
    process = member_process(configuration(extra=LONG))
    process.wait_for("ready")
    process.process.send_signal(number)
    assert await asyncio.to_thread(process.end) == 0
    assert messages(process)[-2:] == ["stopping", "stopped"]
    assert "draining" not in messages(process)


async def test_a_member_that_only_starts_does_not_drain(tmp_path: Path) -> None:
    parked = tmp_path / "parked"
    parked.write_text("memberShutdown")
    settings = {"shutdown": {"drain-seconds": LONG_S, "parked-file": str(parked)}}
    member = await start_member(config(**settings))
    await eventually(lambda: not_ready(member))
    member.request_stop()
    assert not member.draining
    await member.wait_stopped()


async def not_ready(member: MemberHandle) -> bool:
    return (await once(port_of(member), "GET", READY)).status == 503
