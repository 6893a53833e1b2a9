from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import signal
import socket
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grid_member.engine.api import EngineError
from grid_member.engine.bootstrap import staggered_start
from grid_member.engine.bootstrap.identity import open_identity
from grid_member.engine.server import config, process
from grid_member.engine.server.binary import find_server
from grid_member.engine.server.config import SYSTEM_USER
from grid_member.engine.server.process import NatsServer
from tests.unit.engine.server.servers import (
    HOST,
    all_servers,
    asked,
    client_of,
    formed,
    lives,
    server_of,
    settings,
    started,
)
from tests.unit.ports import free_ports
from tests.unit.waiting import eventually, until

MEMBER_PROCESS = """
import asyncio, sys
from tests.unit.engine.server.servers import server_of, settings

async def main() -> None:
    port, other = map(int, sys.argv[1:])
    server = server_of(settings(port, [port]))
    await server.start()
    print(server.process_id, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where servers keep what is private to them."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def left_in(directory: Path) -> list[Path]:
    return list(directory.iterdir())


async def test_three_that_start_together_have_streams_everywhere() -> None:
    ports = free_ports(3)
    members = [settings(port, ports, name=f"m{port}") for port in ports]
    async with started(*members) as servers:
        await formed(servers)
        async with client_of(servers[0], SYSTEM_USER) as client:
            names = await all_servers(client, 3)
        assert {name.split("-")[0] for name in names} == {f"m{port}" for port in ports}
        async with client_of(servers[1]) as client:
            made = {"name": "s", "subjects": ["s"], "num_replicas": 3, "storage": "memory"}
            answer = await client.request(
                b"$JS.API.STREAM.CREATE.s", json.dumps(made).encode(), timeout_s=10
            )
            assert len(json.loads(answer.payload)["cluster"]["replicas"]) == 2


async def test_a_lite_member_asks_the_others() -> None:
    ports = free_ports(3)
    data = [settings(port, ports) for port in ports[:2]]
    async with (
        started(*data, settings(ports[2], ports, lite=True)) as servers,
        client_of(servers[2]) as client,
    ):
        found = await eventually(lambda: asked(client, "$JS.API.INFO"))
        assert found["api"]["level"] > 0


async def test_who_shows_something_else_never_joins(caplog: pytest.LogCaptureFixture) -> None:
    ports = free_ports(3)
    members = [settings(port, ports) for port in ports[:2]]
    stranger = settings(ports[2], ports, password="guessed")
    async with started(*members, stranger) as servers:
        await until(lambda: "Authorization" in caplog.text or "authentication" in caplog.text)
        async with client_of(servers[0], SYSTEM_USER) as client:
            assert len(await all_servers(client, 2)) == 2
        async with client_of(servers[2], SYSTEM_USER) as client:
            assert len(await all_servers(client, 1)) == 1
    assert "guessed" not in caplog.text


async def test_files_are_private_and_gone_after_the_stop(temporary: Path) -> None:
    (port,) = free_ports(1)
    async with started(settings(port)) as (one,):
        (runtime,) = left_in(temporary)
        assert runtime.stat().st_mode & 0o777 == 0o700
        assert (runtime / "nats.conf").stat().st_mode & 0o777 == 0o600
        process_id = one.process_id
        assert process_id is not None
        assert lives(process_id)
    assert not lives(process_id)
    assert one.client_address is None
    assert not left_in(temporary)
    await one.stop()


async def test_only_the_member_is_known_to_its_server() -> None:
    (port,) = free_ports(1)
    async with started(settings(port)) as (one,):
        other = server_of(settings(port))
        assert other.token != one.token
        assert one.client_address is not None
        reader, writer = await asyncio.open_connection(*one.client_address)
        await reader.readline()
        stranger = json.dumps({"user": "grid", "pass": other.token, "verbose": False})
        writer.write(f"CONNECT {stranger}\r\nPING\r\n".encode())
        assert b"Authorization Violation" in await reader.readline()
        writer.close()


async def test_a_server_that_dies_is_started_again(caplog: pytest.LogCaptureFixture) -> None:
    (port,) = free_ports(1)
    async with started(settings(port)) as (one,):
        first = one.process_id
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: one.process_id not in (first, None) and one.client_address is not None)
        assert one.failure is None
        async with client_of(one) as client:
            assert client.connected
    assert "nats-server ended with status -9 and is started again" in caplog.text
    assert one.token not in caplog.text


async def test_the_data_of_a_member_is_there_after_a_restart(tmp_path: Path) -> None:
    ports = free_ports(2)
    members = [settings(port, ports, directory=tmp_path / f"m{port}") for port in ports]
    made = {"name": "s", "subjects": ["s"], "num_replicas": 2, "storage": "file"}
    for start in (1, 2):
        opened = [open_identity(member.directory, cluster_name="dev", member_name="m")
                  for member in members]  # fmt: skip
        assert {each.identity.incarnation for each in opened} == {start}
        servers = [
            NatsServer(member, each.identity) for member, each in zip(members, opened, strict=True)
        ]
        await asyncio.gather(*(each.start() for each in servers))
        await formed(servers)
        async with client_of(servers[0]) as client:
            if start == 1:
                created = await client.request(
                    b"$JS.API.STREAM.CREATE.s", json.dumps(made).encode(), timeout_s=10
                )
                assert "error" not in json.loads(created.payload)
                await client.request(b"s", b"value", timeout_s=10)
            info = await eventually(lambda client=client: asked(client, "$JS.API.STREAM.INFO.s"))  # type: ignore[misc]
            assert info["state"]["messages"] == 1
        await asyncio.gather(*(each.stop() for each in servers))
        for each in opened:
            each.close()


async def test_the_server_dies_with_a_member_that_is_killed() -> None:
    (port,) = free_ports(1)
    member = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", MEMBER_PROCESS, str(port), "0"),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[4],
    )
    assert member.stdout is not None
    process_id = int(await member.stdout.readline())
    assert lives(process_id)
    member.kill()
    await member.wait()
    await until(lambda: not lives(process_id))


async def test_the_server_gets_no_secrets_of_the_member_and_its_share_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text("1073741824\n", encoding="ascii")
    monkeypatch.setattr(config, "_MEMORY_LIMIT", limit)
    monkeypatch.setenv("SOME_PASSWORD", "hunter2-hunter2")
    monkeypatch.setenv("GOGC", "123")
    (port,) = free_ports(1)
    async with started(settings(port)) as (one,):
        with open(f"/proc/{one.process_id}/environ", "rb") as file:  # noqa: ASYNC230
            variables = file.read().split(b"\0")
        with open(f"/proc/{one.process_id}/cmdline", "rb") as file:  # noqa: ASYNC230
            assert one.token.encode() not in file.read()
    assert not [each for each in variables if b"hunter2" in each]
    assert b"GOGC=123" in variables
    assert b"GOMEMLIMIT=536870912" in variables


@pytest.mark.parametrize(("available", "given"), [(1, "1"), (2, "1"), (3, "2"), (64, "2")])
def test_on_a_small_machine_the_server_leaves_the_member_a_processor(
    monkeypatch: pytest.MonkeyPatch, available: int, given: str
) -> None:
    monkeypatch.delenv("GOMAXPROCS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(available)))
    assert config.server_environment()["GOMAXPROCS"] == given
    monkeypatch.setenv("GOMAXPROCS", "7")
    assert config.server_environment()["GOMAXPROCS"] == "7"


@pytest.mark.parametrize("limit", ["max\n", "999999999999999999\n", None])
async def test_without_a_limit_the_memory_is_that_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str | None
) -> None:
    path = tmp_path / "memory.max"
    if limit is not None:
        path.write_text(limit, encoding="ascii")
    monkeypatch.setattr(config, "_MEMORY_LIMIT", path)
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert config._memory_bytes() == machine


async def test_ctrl_c_is_for_the_member_alone() -> None:
    (port,) = free_ports(1)
    async with started(settings(port)) as (one,):
        assert one.process_id is not None
        assert os.getpgid(one.process_id) == one.process_id


async def test_timers_of_the_server_may_be_late() -> None:
    (port,) = free_ports(1)
    async with started(settings(port)) as (one,):
        slack = Path(f"/proc/{one.process_id}/timerslack_ns").read_text()  # noqa: ASYNC240
    assert int(slack) == 2_000_000


async def test_a_taken_port_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    monkeypatch.setattr(process, "START_S", 0.1)
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        one = server_of(settings(port))
        with pytest.raises(EngineError, match=f"port {HOST}:{port} is taken: stop what listens"):
            await one.start()
    assert one.process_id is None
    assert not left_in(temporary)


async def test_a_port_that_is_freed_in_time_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "START_S", 600.0)
    with socket.create_server((HOST, 0)) as taken:
        one = server_of(settings(taken.getsockname()[1]))
        starting = asyncio.ensure_future(one.start())
        await until(lambda: one.failure is not None)
        assert "is taken" in str(one.failure)
    await starting
    assert one.failure is None
    assert one.client_address is not None
    await one.stop()


async def test_a_machine_that_has_no_room_for_a_process_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    monkeypatch.setattr(process, "START_S", 600.0)
    failures = [OSError(errno.EAGAIN, "too many processes"), RuntimeError("unforeseen")]
    create = asyncio.create_subprocess_exec

    async def crowded(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        if failures:
            raise failures.pop()
        return await create(*arguments, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", crowded)
    async with started(settings(free_ports(1)[0])) as (one,):
        assert one.failure is None
        assert not failures
    assert not left_in(temporary)


async def test_a_machine_that_never_has_room_for_a_process_is_an_error(
    monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    monkeypatch.setattr(process, "START_S", 0.0)

    async def full(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, "too many processes")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", full)
    with pytest.raises(EngineError, match=r"could not be run .too many processes.$"):
        await server_of(settings(free_ports(1)[0])).start()
    assert not left_in(temporary)


async def test_an_old_program_is_refused_before_anything_is_written(
    tmp_path: Path, temporary: Path
) -> None:
    path = tmp_path / "nats-server"
    path.write_text("#!/bin/sh\necho nats-server: v2.9.0\n", encoding="utf-8")
    path.chmod(0o755)
    with pytest.raises(EngineError, match=r"2\.9\.0"):
        await server_of(settings(1, server=path)).start()
    assert not left_in(temporary)


async def test_a_program_that_only_knows_its_version_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    monkeypatch.setattr(process, "START_S", 0.0)
    path = tmp_path / "nats-server"
    text = "#!/bin/sh\n[ $1 = --version ] && echo v2.15.1 && exit\necho gone wrong >&2; exit 7\n"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    with pytest.raises(EngineError, match="ended with status 7: gone wrong"):
        await server_of(settings(free_ports(1)[0], server=path)).start()
    assert not left_in(temporary)


async def test_a_server_that_stores_nothing_any_more_is_started_again(tmp_path: Path) -> None:
    count = tmp_path / "count"
    path = tmp_path / "nats-server"
    path.write_text(
        f"#!/bin/sh\n[ $1 = --version ] && exec {find_server(None)} --version\n"
        f"echo x >> {count}\n"
        f"[ $(wc -l < {count}) = 1 ] && "
        "echo '[1] [ERR] JetStream out of space, will be DISABLED' >&2\n"
        f'exec {find_server(None)} "$@"\n',
        encoding="utf-8",
    )
    path.chmod(0o755)
    async with started(settings(free_ports(1)[0], server=path)) as (one,):
        await until(lambda: one.client_address is not None and one.failure is None)
        assert count.read_text(encoding="utf-8") == "x\nx\n"


async def test_one_that_does_not_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process, "STOP_S", 0.05)
    (port,) = free_ports(1)
    async with started(settings(port)) as (one,):
        process_id = one.process_id
        assert process_id is not None
        os.kill(process_id, signal.SIGSTOP)
    assert not lives(process_id)
    assert "did not end within" in caplog.text


async def test_a_start_that_is_given_up_leaves_nothing(temporary: Path) -> None:
    ports = free_ports(2)
    one = server_of(settings(ports[0], ports))
    starting = asyncio.ensure_future(one.start())
    await until(lambda: left_in(temporary))
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not left_in(temporary)
    with socket.create_server((HOST, ports[0])):
        pass


async def test_a_missing_member_is_told_and_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(staggered_start, "STAGGER_S", 0.1)
    ports = free_ports(3)
    async with started(settings(ports[0], ports)) as (one,):
        await until(lambda: f"{HOST}:{ports[1]}" in caplog.text)
        assert one.client_address is not None
        assert one.failure is None


async def test_bad_tls_files_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from grid_member.engine.cluster_settings import ClusterTls

    monkeypatch.setattr(process, "START_S", 0.0)
    tls = ClusterTls(tmp_path / "crt", tmp_path / "key", tmp_path / "ca")
    with pytest.raises(EngineError, match=r"TLS cannot be used \(.*/crt: no .*\): correct"):
        await server_of(replace(settings(free_ports(1)[0]), tls=tls)).start()


async def test_the_log_of_the_server_is_quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    (port,) = free_ports(1)
    async with started(settings(port)):
        pass
    assert caplog.text == ""
