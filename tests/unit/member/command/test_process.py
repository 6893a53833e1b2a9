"""`grid-member` as a process: start, refusal to start, stop, crash."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.unit.member.running import configuration
from tests.unit.member.wire import Wire, once
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.member.running import MemberProcess

    Start = Callable[[str], MemberProcess]

MAP = "/grid/rest/maps/default"
QUEUE = "/grid/rest/queues/default"


def durable(directory: Path) -> str:
    return configuration(extra=f"  persistence: {{enabled: true, base-dir: {directory}/data}}\n")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "grid_member", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_version() -> None:
    done = run("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"grid-member \d+\.\d+\.\d+\n", done.stdout)


def test_bad_configuration_is_exit_code_2(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("grid:\n  netwrk: {}\n  network: {port: {port: many}}\n")
    done = run("--config", str(file))
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"{file}:2:3: netwrk: unknown element, perhaps network is meant",
        f"{file}:3:20: network.port.port: must be an integer",
    ]


async def test_the_environment_overrides_the_defaults(
    member_process: Callable[[str, dict[str, str]], MemberProcess],
) -> None:
    variables = {
        "GRID_MEMBER_LOGGING_FORMAT": "json",
        "GRID_MEMBER_NETWORK_PORT_PORT": "0",
        "GRID_MEMBER_NETWORK_RESTAPI_ENDPOINTGROUPS_CLUSTER_READ_ENABLED": "false",
        **{f"GRID_{name}": "9" for name in ("CACHE_SIZE", "LIST", "QUEUE", "REST_URL")},
        "GRID_MEMBER_PORT": "tcp://10.0.0.1:5701",
        "GRID_MEMBER_X": "1",
    }
    process = member_process("", variables)
    process.wait_for("ready")
    (told,) = [line["message"] for line in process.log if "are ignored" in line["message"]]
    assert told.endswith(": GRID_MEMBER_X, GRID_QUEUE (queue must hold further elements, no value)")
    assert (await once(process.port, "POST", f"{MAP}/k", b"v")).status == 200
    assert (await once(process.port, "GET", "/grid/rest/cluster")).status == 403


def test_a_taken_port_is_exit_code_3(tmp_path: Path) -> None:
    file = tmp_path / "grid.yaml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = configuration().replace("{port: 0}", f"{{port: {port}, auto-increment: false}}", 1)
        file.write_text(text)
        done = run("--config", str(file))
    assert done.returncode == 3
    assert f"port {port} is taken" in done.stderr


async def test_auto_increment_takes_the_next_port(member_process: Start) -> None:
    first = member_process(configuration())
    first.wait_for("ready")
    text = configuration().replace("{port: 0}", f"{{port: {first.port}, port-count: 20}}", 1)
    second = member_process(text)
    second.wait_for("ready")
    assert first.port < second.port < first.port + 20


async def test_two_members_on_one_directory(member_process: Start, tmp_path: Path) -> None:
    first = member_process(durable(tmp_path))
    first.wait_for("ready")
    assert (await once(first.port, "POST", f"{MAP}/k", b"v")).status == 200
    second = member_process(durable(tmp_path))
    assert second.end() == 3
    assert "cannot start" in second.log[-1]["message"]
    assert (await once(first.port, "GET", f"{MAP}/k")).body == b"v"


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "REST"])
async def test_graceful_stop(member_process: Start, tmp_path: Path, how: str) -> None:
    process = member_process(durable(tmp_path))
    process.wait_for("ready")
    async with await Wire.connect(process.port) as poll:
        poll.send(b"DELETE /grid/rest/queues/default/60 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await once(process.port, "POST", f"{MAP}/k", b"v")).status == 200
        if how == "REST":
            path = "/grid/rest/management/cluster/memberShutdown"
            assert (await once(process.port, "POST", path, b"dev&")).status == 200
        else:
            process.process.send_signal(getattr(signal, how))
        assert (await poll.reply()).status == 204
    assert await asyncio.to_thread(process.end) == 0
    assert process.log[-1]["message"] == "stopped"
    again = member_process(durable(tmp_path))
    again.wait_for("ready")
    assert (await once(again.port, "GET", f"{MAP}/k")).body == b"v"


@pytest.mark.parametrize("signals", [1, 2])
def test_a_signal_while_starting(member_process: Start, tmp_path: Path, signals: int) -> None:
    for _ in range(3):
        process = member_process(durable(tmp_path))
        process.wait_for("listening")
        for _ in range(signals):
            process.process.send_signal(signal.SIGTERM)
        assert process.end() == 0
        assert process.log[-1]["message"] == "stopped"


async def test_a_second_signal_hurries(member_process: Start) -> None:
    process = member_process(configuration())
    process.wait_for("ready")
    await once(process.port, "POST", QUEUE, bytes(8 << 20))
    with socket.create_connection(("127.0.0.1", process.port)) as stalled:
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stalled.sendall(b"DELETE /grid/rest/queues/default/0 HTTP/1.1\r\nHost: a\r\n\r\n")
        async with asyncio.timeout(20):
            while (await once(process.port, "GET", f"{QUEUE}/size")).body != b"0":
                pass
        process.process.send_signal(signal.SIGTERM)
        process.wait_for("stopping")
        process.process.send_signal(signal.SIGTERM)
        assert process.end() == 0
    assert process.log[-1]["message"] == "stopped"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_behind_the_stop_changes_nothing(
    member_process: Start, number: signal.Signals
) -> None:
    for _ in range(3):
        member = member_process(configuration())
        member.wait_for("ready")
        member.process.send_signal(number)
        member.wait_for("stopped")
        while member.process.poll() is None:
            member.process.send_signal(number)
        assert member.end() == 0
        assert member.log[-1]["message"] in ("stopped", "signal")


async def write_until_it_dies(port: int, writer: int, answered: dict[str, bytes]) -> None:
    try:
        async with await Wire.connect(port) as wire:
            for n in range(1_000_000):
                key, value = f"{writer}-{n}", b"%d" % n
                reply = await wire.call("POST", f"{MAP}/{key}", value)
                assert reply.status == 200
                answered[key] = value
    except (ConnectionError, asyncio.IncompleteReadError):
        pass


async def offer_until_it_dies(port: int, answered: list[int]) -> None:
    try:
        async with await Wire.connect(port) as wire:
            for n in range(1_000_000):
                assert (await wire.call("POST", QUEUE, b"%d" % n)).status == 200
                answered.append(n)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass


async def test_a_crash_loses_nothing_that_was_answered(
    member_process: Start, tmp_path: Path
) -> None:
    process = member_process(durable(tmp_path))
    process.wait_for("ready")
    answered: dict[str, bytes] = {}
    offered: list[int] = []
    writers = [
        asyncio.create_task(write_until_it_dies(process.port, w, answered)) for w in range(4)
    ]
    writers.append(asyncio.create_task(offer_until_it_dies(process.port, offered)))
    await until(lambda: len(answered) >= 300 and len(offered) >= 50)
    process.kill()
    await asyncio.gather(*writers)
    again = member_process(durable(tmp_path))
    again.wait_for("ready")
    async with await Wire.connect(again.port) as wire:
        for key, value in answered.items():
            assert (await wire.call("GET", f"{MAP}/{key}")).body == value
        for n in offered:
            assert (await wire.call("DELETE", f"{QUEUE}/0")).body == b"%d" % n


async def test_the_log_tells_no_secret(member_process: Start, tmp_path: Path) -> None:
    process = member_process(durable(tmp_path))
    process.wait_for("ready")
    management = next(e["port"] for e in process.log if e.get("listener") == "management")
    secret = "Basic b3A6dG9wc2VjcmV0"  # op:topsecret
    await once(process.port, "POST", f"{MAP}/hushkey", b"hushvalue")
    await once(process.port, "POST", f"{MAP}/hushkey%zz", b"hushvalue")
    await once(process.port, "GET", "/grid/rest/maps/nowhere%ff/hushkey")
    await once(management, "GET", "/grid/rest/cluster", Authorization=secret)
    await once(process.port, "POST", "/grid/rest/management/cluster/state", b"hushname&hushword")
    process.process.send_signal(signal.SIGTERM)
    assert process.end() == 0
    text = str(process.log)
    assert "authentication failed" in text
    for word in ("hush", "topsecret", "s3cret", "b3A6"):
        assert word not in text
