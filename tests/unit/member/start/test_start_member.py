"""The Python API: members started and stopped inside a running event loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import logging
import math
import re
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import grid_member
from grid_member import (
    Config,
    ConfigError,
    EngineError,
    MemberHandle,
    PortError,
    start_member,
)
from grid_member.cluster.member.member import Member
from grid_member.command import member as command
from grid_member.start import ports
from tests.unit.engine.drive import condition
from tests.unit.member.start.handles import config, is_free, is_ready, port_of
from tests.unit.member.wire import once
from tests.unit.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAP = "/grid/rest/maps/default"
BASE = "/grid/rest/management/cluster"


@pytest.fixture
def free_port() -> int:
    return free_ports(1)[0]


async def test_a_member_from_start_to_stop() -> None:
    member = await start_member(config(management_port=0))
    assert is_ready(member)
    assert member.management_port is not None
    assert member.address == f"127.0.0.1:{member.rest_port}"
    (shown,) = (await once(port_of(member), "GET", "/grid/rest/cluster")).json["members"]
    assert (shown["address"], shown["uuid"]) == (member.address, member.uuid)
    assert (await once(member.management_port, "GET", "/grid/health/ready")).status == 200
    assert (await once(port_of(member), "POST", f"{MAP}/k", b"v")).status == 200
    assert (await once(port_of(member), "GET", f"{MAP}/k")).body == b"v"
    await member.stop()
    assert not is_ready(member)
    assert is_free(port_of(member))
    assert is_free(member.management_port)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("stopped", [False, True])
async def test_a_start_is_over_when_the_member_can_be_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, stopped: bool
) -> None:
    """Of several members one has joined before it has its copies of the data."""
    usable = asyncio.Event()
    monkeypatch.setattr(Member, "ready", property(lambda _: usable.is_set()))
    caplog.set_level(logging.INFO)
    member = MemberHandle(config())
    starting = asyncio.create_task(member.start())

    async def joined() -> bool:
        if member.rest_port is None:
            await asyncio.sleep(0)
            return False
        return b"ACTIVE" in (await once(port_of(member), "GET", "/grid/health/node-state")).body

    while not await joined():
        pass
    assert (await once(port_of(member), "GET", "/grid/health/ready")).status == 503
    assert "ready" not in caplog.messages
    if stopped:
        await member.stop()
    else:
        usable.set()
    await starting
    assert ("ready" in caplog.messages) is not stopped
    await member.stop()


async def test_a_block_stops_its_member() -> None:
    async with await start_member(config()) as member:
        assert (await once(port_of(member), "GET", "/grid/health/ready")).status == 200
    assert is_free(port_of(member))
    with pytest.raises(ZeroDivisionError):
        async with await start_member(config()) as member:
            raise ZeroDivisionError
    assert is_free(port_of(member))


async def test_a_member_without_listeners() -> None:
    async with await start_member(Config({}, environment={})) as member:
        assert member.ready
        assert (member.rest_port, member.management_port) == (None, None)


async def test_two_members_in_one_process(tmp_path: Path) -> None:
    one = await start_member(config(directory=tmp_path / "one"))
    other = await start_member(config(directory=tmp_path / "other"))
    assert one.uuid != other.uuid
    assert (await once(port_of(one), "POST", f"{MAP}/k", b"one")).status == 200
    assert (await once(port_of(other), "GET", f"{MAP}/k")).status == 204
    await one.stop()
    assert (await once(port_of(other), "POST", f"{MAP}/k", b"other")).status == 200
    again = await start_member(config(directory=tmp_path / "one"))
    assert again.uuid == one.uuid
    assert (await once(port_of(again), "GET", f"{MAP}/k")).body == b"one"
    await asyncio.gather(again.stop(), other.stop())


async def test_a_taken_port_releases_the_other_and_the_directory(
    tmp_path: Path, free_port: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortError, match=f"port {port} is taken"):
            await start_member(config(free_port, port, directory=tmp_path))
    assert is_free(free_port)
    async with await start_member(config(free_port, directory=tmp_path)) as member:
        assert member.ready


async def test_a_port_of_a_former_process_that_ends_is_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    with socket.create_server(("127.0.0.1", 0)) as former:
        port = former.getsockname()[1]
        starting = asyncio.create_task(start_member(config(port)))
        await condition(lambda: f"waiting for a port: port {port} is taken" in caplog.text)
        assert not starting.done()
    async with await starting as member:
        assert member.rest_port == port
        assert is_ready(member)


async def waiting_start(
    member: MemberHandle, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> asyncio.Task[None]:
    """Start a member that waits for a port, for ever."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(ports, "PORT_PATIENCE_S", math.inf)
    starting = asyncio.create_task(member.start())
    await condition(lambda: "waiting for a port" in caplog.text)
    return starting


async def test_a_start_that_waits_for_a_port_can_be_cancelled(
    free_port: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        member = MemberHandle(config(free_port, taken.getsockname()[1]))
        starting = await waiting_start(member, caplog, monkeypatch)
        assert is_free(free_port)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    assert is_free(free_port)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_stop_ends_a_start_that_waits_for_a_port(
    free_port: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        member = MemberHandle(config(free_port, taken.getsockname()[1]))
        starting = await waiting_start(member, caplog, monkeypatch)
        await member.stop()
        await starting
    assert not member.ready
    assert "stopped" in [record.message for record in caplog.records]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_taken_directory_releases_the_ports(tmp_path: Path, free_port: int) -> None:
    async with await start_member(config(directory=tmp_path)) as member:
        with pytest.raises(EngineError):
            await start_member(config(free_port, directory=tmp_path))
        assert is_free(free_port)
        assert (await once(port_of(member), "GET", "/grid/health/ready")).status == 200


@pytest.mark.parametrize("steps", range(12))
async def test_a_cancelled_start_leaves_nothing(tmp_path: Path, free_port: int, steps: int) -> None:
    starting = asyncio.create_task(start_member(config(free_port, directory=tmp_path)))
    for _ in range(steps):
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert is_free(free_port)
    async with await start_member(config(free_port, directory=tmp_path)) as member:
        assert member.ready


@pytest.mark.parametrize("steps", range(12))
async def test_a_stop_while_starting(tmp_path: Path, free_port: int, steps: int) -> None:
    member = MemberHandle(config(free_port, directory=tmp_path))
    starting = asyncio.create_task(member.start())
    await asyncio.sleep(0)
    for _ in range(steps):
        await asyncio.sleep(0)
    await member.stop()
    await starting
    assert not member.ready
    assert is_free(free_port)
    async with await start_member(config(free_port, directory=tmp_path)) as again:
        assert again.ready


async def test_a_member_starts_once() -> None:
    async with await start_member(config()) as member:
        with pytest.raises(RuntimeError):
            await member.start()
        assert member.ready
    stopped = MemberHandle(config())
    await stopped.stop()
    with pytest.raises(RuntimeError):
        await stopped.start()


async def test_stop_again_and_at_once() -> None:
    member = await start_member(config())
    interrupted = asyncio.create_task(member.stop())
    await asyncio.sleep(0)
    interrupted.cancel()
    with pytest.raises(asyncio.CancelledError):
        await interrupted
    await asyncio.gather(member.stop(), member.stop(), member.wait_stopped())
    await member.stop()
    assert is_free(port_of(member))


async def test_member_shutdown_over_rest_stops_the_member() -> None:
    member = await start_member(config())
    reply = await once(port_of(member), "POST", f"{BASE}/memberShutdown", b"dev&")
    assert reply.body == b'{"status":"success"}'
    await asyncio.wait_for(member.wait_stopped(), 20)
    assert is_free(port_of(member))


async def test_only_the_command_takes_the_data_from_the_garbage_collector(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = gc.get_freeze_count()
    async with await start_member(config(directory=tmp_path)) as member:
        for number in range(100):
            await once(port_of(member), "POST", f"/grid/rest/maps/default/{number}", b"v" * 100)
    async with await start_member(config(directory=tmp_path)):
        assert gc.get_freeze_count() == before

    members: list[MemberHandle] = []

    @contextlib.contextmanager
    def noted(member: MemberHandle) -> Iterator[None]:
        members.append(member)
        yield

    monkeypatch.setattr(command, "_watch_signals", noted)
    running = asyncio.create_task(command._run(config(directory=tmp_path)))
    try:
        await condition(lambda: gc.get_freeze_count() > before)
    finally:
        gc.unfreeze()
        await members[0].stop()
        await running


def test_all_problems_of_a_tree_are_told() -> None:
    with pytest.raises(ConfigError) as caught:
        Config({"netwrk": {}, "network": {"port": {"port": "many"}}}, environment={})
    assert [str(problem) for problem in caught.value.problems] == [
        "netwrk: unknown element, perhaps network is meant",
        "network.port.port: must be an integer",
    ]


def test_a_tree_a_text_and_a_file_say_the_same(tmp_path: Path) -> None:
    text = "grid: {map: {a: {time-to-live-seconds: 5}}, cluster-name: '${NAME:none}'}"
    made = {"map": {"a": {"time-to-live-seconds": 5}}, "cluster-name": "${NAME:none}"}
    (tmp_path / "grid.yaml").write_text(text)
    for environment in ({}, {"NAME": "some"}, {"GRID_MEMBER_CLUSTERNAME": "other"}):
        models = [
            Config(made, environment=environment).model,
            Config.from_text(text, environment=environment).model,
            Config.from_file(tmp_path / "grid.yaml", environment=environment).model,
            Config.from_file(str(tmp_path / "grid.yaml"), environment=environment).model,
        ]
        assert models == models[:1] * 4
        assert models[0].cluster_name == next(iter(environment.values()), "none")


def test_the_environment_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRID_MEMBER_CLUSTERNAME", "outside")
    assert Config({}).model.cluster_name == "outside"
    assert Config.default().model.cluster_name == "outside"
    assert Config.from_text("grid: {cluster-name: inside}").model.cluster_name == "outside"
    assert Config({}, environment={}).model.cluster_name == "dev"


def test_a_configuration_is_checked_without_server_and_store() -> None:
    program = (
        "import sys; from grid_member import Config, ConfigError; Config.default(environment={});"
        "sys.exit(str({'aiohttp', 'lmdb'} & set(sys.modules) or 0))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.stderr, done.returncode) == ("0\n", 1)


def test_the_names_of_the_api() -> None:
    for name in grid_member.__all__:
        assert getattr(grid_member, name).__module__.startswith("grid_member.")
    with pytest.raises(AttributeError, match="nothing"):
        _ = grid_member.nothing


def test_what_a_start_raises_is_a_name_of_the_api() -> None:
    raised = set(re.findall(r"^ +(\w+Error): ", inspect.getdoc(start_member) or "", re.MULTILINE))
    assert raised >= {"PortError", "TlsError", "EngineError"}
    assert raised <= set(grid_member.__all__)
