"""`grid-member client` with one member: what it asks, what it says, and how it ends."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web

from tests.unit.member.client.running import AT_ONCE
from tests.unit.member.running import configuration
from tests.unit.member.security.certificates import Authority
from tests.unit.serving import HOST, listening, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.unit.member.client.running import Command
    from tests.unit.member.running import MemberProcess, RunningMember


def url(member: RunningMember) -> str:
    return f"http://127.0.0.1:{member.port}"


def credentials(directory: Path, password: str = "s3cret") -> Path:
    (directory / "username").write_text("op")
    (directory / "password").write_text(password)
    return directory


def durable(directory: Path, backups: bool = True) -> str:
    where = f", backup-dir: {directory / 'backups'}" if backups else ""
    extra = f"  persistence: {{enabled: true, base-dir: {directory / 'data'}{where}}}\n"
    return configuration(extra=extra)


async def test_wait_says_what_is_true(command: Command, member: RunningMember) -> None:
    found = await command.run("wait", "--url", url(member), "--size", 1)
    assert (found.code, found.told) == (0, "")
    assert found.said == f"ready and safe of a cluster of 1: 127.0.0.1:{member.port}\n"


async def test_wait_ends_with_what_was_waited_for(command: Command, member: RunningMember) -> None:
    found = await command.run("wait", "--url", url(member), "--size", 3, *AT_ONCE)
    assert (found.code, found.said) == (1, "")
    text = f"127.0.0.1:{member.port} sees 1 members, 3 are wanted"
    assert found.told.splitlines()[-1] == f"grid-member client: not within 0 s: {text}"


async def test_wait_goes_on_when_the_member_is_ready(
    command: Command, start_member: Callable[..., RunningMember]
) -> None:
    member = await start_member().open()
    waiting = asyncio.create_task(command.run("wait", "--url", url(member), "--size", 1))
    found = await command.run("wait", "--url", url(member), "--ready-only", *AT_ONCE)
    assert found.code == 1
    assert "is not ready" in found.told
    await member.member.join()
    assert (await waiting).code == 0


async def test_drain_goes_on_when_it_is_safe(command: Command, member: RunningMember) -> None:
    found = await command.run("drain", "--url", url(member))
    text = f"every copy is current, as 127.0.0.1:{member.port} says"
    assert (found.code, found.said) == (0, f"the stop goes on: {text}\n")


async def test_drain_does_not_wait_for_a_member_that_has_not_joined(
    command: Command, start_member: Callable[..., RunningMember]
) -> None:
    member = await start_member().open()
    found = await command.run("drain", "--url", url(member), "--timeout", "600")
    assert found.code == 0
    assert found.said.endswith("has not joined the cluster\n")


async def test_drain_does_not_wait_for_a_member_that_is_parked(
    command: Command, member_process: Callable[..., MemberProcess], tmp_path: Path
) -> None:
    """One that has left for good never calls itself safe, and its pod is about to go."""
    parked = tmp_path / "parked"
    parked.touch()
    member = member_process(configuration(extra=f"  shutdown: {{parked-file: {parked}}}\n"))
    member.wait_for("parked")
    port = next(e["port"] for e in member.log if e.get("listener") == "rest")
    found = await command.run("drain", "--url", f"http://127.0.0.1:{port}", *AT_ONCE)
    assert found.code == 0
    assert found.said.endswith("is parked or stops already\n")


async def test_all_may_stay_when_the_other_listener_says_so(
    command: Command, member: RunningMember
) -> None:
    """The management listener, enabled by the upgrade that asks, is not asked in vain."""
    asked = list[object]()

    async def note(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(writer)
        writer.close()

    member.member.address = f"127.0.0.1:{member.port}"
    async with listening(note) as port:
        words = ("leave", "--url", f"http://127.0.{{ordinal}}.1:{port}", "--allow-silence")
        rest = ("--rest-url", f"http://127.0.{{ordinal}}.1:{member.port}", "--size", 2)
        for more in (["--refuse"], []):
            found = await command.run(*words, *rest, *more)
            assert (found.code, found.said) == (0, "no member above a size of 2 is known\n")
    assert asked == []


@asynccontextmanager
async def answering(status: int, body: str = "", text: str = "") -> AsyncIterator[str]:
    """A listener that answers everything the same."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, body=body, headers={"X-Grid-Error": text})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with serving(app) as place:
        yield f"http://127.0.0.1:{str(place).rpartition(':')[2].rstrip('/')}"


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (503, '{"nodeState": "ACTIVE"}', "not within 0 s"),
        (403, '{"message": "endpoint group HEALTH_CHECK is disabled"}', "group HEALTH_CHECK is"),
        (500, "", "answered 500: copies"),
    ],
)
async def test_drain_never_fails_a_hook(
    command: Command, status: int, body: str, reason: str
) -> None:
    async with answering(status, body, "copies") as place:
        found = await command.run("drain", "--url", place, *AT_ONCE)
    assert found.code == 0
    assert reason in found.said


async def test_a_member_that_hangs_holds_a_stop_back_for_its_time_alone(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a request takes longer than the hook would be missing from the grace period."""
    allowed = list[float]()
    former = socket.create_connection

    def noted(place: tuple[str, int], timeout: float) -> socket.socket:
        allowed.append(timeout)
        return former(place, timeout)

    monkeypatch.setattr("grid_member.client.wire.LAST_LOOK_S", 0.05)
    monkeypatch.setattr("grid_member.client.wire.socket.create_connection", noted)
    ended = asyncio.Event()

    async def hang(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    async with listening(hang) as port:
        found = await command.run("drain", "--url", f"http://{HOST}:{port}", "--timeout", 0.2)
        ended.set()
    assert found.code == 0
    assert "gives no answer: timed out" in found.said
    assert max(allowed) <= 0.2


STRANGE = ["", "x", "[]", "{", "3", '{"status": 1}', "[" * 100_000]


@pytest.mark.parametrize("body", STRANGE, ids=[body[:9] or "empty" for body in STRANGE])
async def test_answers_of_something_else_are_told(command: Command, body: str) -> None:
    async with answering(200, body) as place:
        group = place.replace("127.0.0.1", "127.0.0.{ordinal}")
        for words in (
            ("wait", "--url", place, "--size", 1),
            ("leave", "--url", group.replace("{ordinal}", "1{ordinal}"), "--size", 2),
            ("backup", "--url", place),
            ("check", "--url", place, "--map", "default"),
        ):
            found = await command.run(*words, *AT_ONCE)
            assert found.code == 1, words


async def test_backup_is_made_once_for_a_key(
    command: Command, start_member: Callable[..., RunningMember], tmp_path: Path
) -> None:
    member = await start_member(durable(tmp_path)).start()
    words = ("backup", "--url", url(member), "--key", "job-1")
    first = await command.run(*words)
    again = await command.run(*words)
    assert (first.code, first.said) == (0, again.said)
    assert [path.name for path in (tmp_path / "backups").iterdir()] == ["backup-1"]
    assert (await command.run("backup", "--url", url(member))).code == 0
    assert len(list((tmp_path / "backups").iterdir())) == 2


async def test_backup_says_why_it_cannot_be_made(
    command: Command, start_member: Callable[..., RunningMember], tmp_path: Path
) -> None:
    member = await start_member(durable(tmp_path, backups=False)).start()
    found = await command.run("backup", "--url", url(member))
    assert (found.code, found.said) == (1, "")
    assert "backup-dir" in found.told


async def test_backup_is_made_by_a_member_that_can(
    command: Command, start_member: Callable[..., RunningMember], tmp_path: Path
) -> None:
    starting = await start_member().open()
    member = await start_member(durable(tmp_path)).start()
    found = await command.run(
        *("backup", "--url", "http://127.0.0.1:1", "--url", url(starting), "--url", url(member))
    )
    assert found.code == 0, found


async def test_management_asks_for_credentials(
    command: Command, start_member: Callable[..., RunningMember], tmp_path: Path
) -> None:
    member = await start_member(durable(tmp_path)).start()
    words = ("backup", "--url", f"http://127.0.0.1:{member.management_port}")
    known = credentials(tmp_path)
    assert (await command.run(*words, "--credentials", known)).code == 0
    refused = await command.run(*words)
    assert refused.code == 1
    assert "--credentials DIR holds username and password" in refused.told
    refused = await command.run(*words, "--credentials", credentials(tmp_path, "wr0ng"))
    assert refused.code == 1
    assert "wr0ng" not in refused.told


async def test_a_password_is_sent_as_it_is_but_for_the_end_of_its_line(
    command: Command, start_member: Callable[..., RunningMember], tmp_path: Path
) -> None:
    text = durable(tmp_path).replace("password: s3cret", 'password: "s3:cr€t "')
    member = await start_member(text).start()
    words = ("backup", "--url", f"http://127.0.0.1:{member.management_port}")
    found = await command.run(*words, "--credentials", credentials(tmp_path, "s3:cr€t \n"))
    assert found.code == 0, found
    assert (await command.run(*words, "--credentials", credentials(tmp_path, "s3:cr€t"))).code == 1


async def test_the_name_of_the_cluster_stands_for_credentials(
    command: Command, start_member: Callable[..., RunningMember], tmp_path: Path
) -> None:
    text = durable(tmp_path).replace("grid:", "grid:\n  cluster-name: 'a+b %'", 1)
    member = await start_member(text).start()
    words = ("backup", "--url", url(member))
    assert (await command.run(*words, "--cluster-name", "a+b %")).code == 0
    assert "--cluster-name NAME" in (await command.run(*words)).told


async def test_check_tells_each_thing_in_a_line(
    command: Command, start_member: Callable[..., RunningMember]
) -> None:
    member = await start_member(configuration(["DATA", "CLUSTER_READ", "HEALTH_CHECK"])).start()
    off = ("--off", "CLUSTER_WRITE", "--off", "PERSISTENCE", "--off", "WAN", "--off", "CP")
    words = ("check", "--url", url(member), "--size", 1, "--map", "default", *off)
    found = await command.run(*words, *AT_ONCE)
    lines = found.said.splitlines()
    assert (found.code, found.told) == (0, "")
    assert [line.split(":")[0] for line in lines] == [
        *("passed  ready", "passed  size", "passed  safe", "passed  version", "passed  data"),
        *("passed  CLUSTER_WRITE", "passed  PERSISTENCE", "passed  WAN", "passed  CP"),
    ]
    assert await keys_of(member) == 0


async def keys_of(member: RunningMember) -> int:
    place = f"{url(member)}/grid/rest/management/cluster/usage"
    async with aiohttp.ClientSession() as session, session.get(place) as reply:
        return sum(one["entries"] for one in (await reply.json())["structures"])


async def test_check_looks_at_everything_and_fails_for_one(
    command: Command, member: RunningMember
) -> None:
    every = ("CLUSTER_READ", "CLUSTER_WRITE", "PERSISTENCE", "WAN", "DATA", "CP")
    off = [word for group in every for word in ("--off", group)]
    words = ("check", "--url", url(member), "--size", 3, "--map", "none.such", *off)
    found = await command.run(*words, *AT_ONCE)
    failed = [line.split()[1] for line in found.said.splitlines() if line.startswith("FAILED")]
    assert found.code == 1
    assert failed == ["size:", *(f"{group}:" for group in every)]  # a default map takes any name
    assert member.member.cluster_state.name == "ACTIVE"


@pytest.mark.parametrize("trusted", [True, False])
async def test_tls_is_checked_against_the_host_of_the_url(
    command: Command,
    start_member: Callable[..., RunningMember],
    tmp_path: Path,
    trusted: bool,
) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("member", names="DNS:demo-0.demo-members.grids.svc")
    ssl = f"ssl: {{enabled: true, certificate-file: {pair.certificate}, key-file: {pair.key}}}"
    text = configuration().replace("rest-api:", f"{ssl}\n    rest-api:")
    member = await start_member(text).start()
    ca = authority.file if trusted else Authority(tmp_path, "other").file
    place = f"https://${{HOST}}:{member.port}"
    words = ("wait", "--url", place, "--connect", "127.0.0.1", "--ca", ca, *AT_ONCE)
    found = await command.run(*words, HOST="demo-0.demo-members.grids.svc")
    assert found.code == (0 if trusted else 1)
    assert trusted or "shows a certificate that is not trusted" in found.told
    found = await command.run(*words, HOST="localhost")
    assert found.code == 1
    itself = ("wait", "--url", place, "--connect", "127.0.0.1", "--ca", pair.certificate, *AT_ONCE)
    found = await command.run(*itself, HOST="demo-0.demo-members.grids.svc")
    assert found.code == 0, found


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_members_that_refuse_to_tell_keep_nobody_from_an_upgrade(
    command: Command, status: int
) -> None:
    """It may be the one that turns the endpoint group on, or gives members the new password."""
    async with answering(status, text="not for you") as place:
        leave = ("leave", "--url", place.replace("0.1:", "0.{ordinal}:"), "--size", 2)
        for more in (["--refuse"], []):
            found = await command.run(*leave, *more, "--allow-silence")
            assert (found.code, found.said) == (0, "no member above a size of 2 is known\n")
            assert f"answered {status}: " in found.told
            assert (await command.run(*leave, *more)).code == 1


@pytest.mark.parametrize("missing", ["--ca", "--credentials"])
async def test_no_member_runs_with_a_secret_that_is_not_there(
    command: Command, tmp_path: Path, missing: str
) -> None:
    place = "https://127.0.0.1{ordinal}:1"
    words = ("leave", "--url", place, "--size", 2, missing, tmp_path / "none")
    found = await command.run(*words, "--allow-silence")
    assert found.code == 0
    assert str(tmp_path / "none") in found.told
    assert (await command.run(*words)).code == 2
