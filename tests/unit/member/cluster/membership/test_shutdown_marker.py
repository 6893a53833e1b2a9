"""Promise: a member that was shut down over REST takes no write when it is started again."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grid_member import Config, start_member
from grid_member.cluster.membership.shutdown_marker import ShutdownMarker
from grid_member.config import config_from, parse_config
from grid_member.config.xml.forms import TOP_ELEMENT
from grid_member.engine.api import EngineError
from tests.unit.member.durable import MAP, QUEUE, READY
from tests.unit.member.running import configuration
from tests.unit.member.wire import once

if TYPE_CHECKING:
    from tests.unit.member.durable import Start
    from tests.unit.member.running import MemberProcess
    from tests.unit.member.wire import Reply

CLUSTER = "/grid/rest/management/cluster"
CALLS = ("memberShutdown", "clusterShutdown")
NOW_MS = 1_700_000_000_000
WITH_CREDENTIALS = (
    *((f"{CLUSTER}/{name}", b"dev&") for name in (*CALLS, "state", "nodes", "backup")),
    *((f"{CLUSTER}/{name}", b"dev&") for name in ("forceStart", "partialStart")),
    (f"{CLUSTER}/changeState", b"dev&&active"),
    ("/grid/rest/config/upload", b"dev&&grid: {map: {more: {}}}"),
    ("/grid/rest/license", b"dev&&KEY"),
    ("/grid/rest/log-level", b"dev&&FINE"),
)


def text(place: Path, persistent: bool, parked: Path | None = None) -> str:
    settings = {"shutdown": {"parked-file": str(parked or place / "parked")}}
    if persistent:
        settings["persistence"] = {"enabled": True, "base-dir": str(place / "data")}  # type: ignore[dict-item]
    lines = (f"  {name}: {json.dumps(below)}\n" for name, below in settings.items())
    return configuration(extra="".join(lines))


def contents(place: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


async def shut_down(member: MemberProcess, call: str, **headers: str) -> Reply:
    return await once(member.port, "POST", f"{CLUSTER}/{call}", b"dev&", **headers)


async def ended(member: MemberProcess) -> None:
    assert await asyncio.to_thread(member.end) == 0
    assert member.log[-1]["message"] == "stopped"


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("call", CALLS)
async def test_a_member_that_was_shut_down_stays_parked(
    member_process: Start, tmp_path: Path, call: str, persistent: bool
) -> None:
    config = text(tmp_path, persistent)
    first = member_process(config)
    first.wait_for("ready")
    assert (await once(first.port, "POST", f"{MAP}/k", b"v")).status == 200
    assert (await shut_down(first, call)).status == 200
    noted = json.loads((tmp_path / "parked").read_text())
    assert noted["reason"] == call
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", noted["time"])
    await ended(first)
    before = contents(tmp_path)

    parked = member_process(config)
    assert call in parked.wait_for("parked")["reason"]
    await says_parked(parked, call)
    parked.process.send_signal(signal.SIGTERM)
    await ended(parked)
    assert before.items() <= contents(tmp_path).items(), "a parked member writes nothing"

    (tmp_path / "parked").unlink()
    again = member_process(config)
    again.wait_for("ready")
    kept = await once(again.port, "GET", f"{MAP}/k")
    assert (kept.status, kept.body) == ((200, b"v") if persistent else (204, b""))
    assert (await once(again.port, "POST", f"{MAP}/k", b"w")).status == 200


async def says_parked(member: MemberProcess, call: str) -> None:
    async def asked(method: str, path: str, body: bytes | None = None) -> Reply:
        return await once(member.port, method, path, body)

    alive = await asked("GET", "/grid/health/node-state")
    assert (alive.status, alive.body) == (200, b'"PASSIVE"')
    health = json.loads((await asked("GET", "/grid/health")).body)
    assert (health["nodeState"], health["clusterSafe"]) == ("PASSIVE", False)
    version = json.loads((await asked("GET", f"{CLUSTER}/version")).body)
    assert version["version"] == "0.0"
    requests: list[tuple[str, str, bytes | None]] = [
        *(("GET", READY, None), ("GET", "/grid/rest/cluster", None)),
        *(("GET", f"{CLUSTER}/operations", None), ("GET", f"{CLUSTER}/usage", None)),
        *(("POST", f"{MAP}/k", b"v"), ("GET", f"{MAP}/k", None), ("DELETE", f"{MAP}/k", None)),
        *(("DELETE", MAP, None), ("POST", QUEUE, b"i"), ("DELETE", f"{QUEUE}/0", None)),
        ("GET", f"{QUEUE}/size", None),
    ]
    for method, path, body in requests:
        reply = await asked(method, path, body)
        reason = reply.header("X-Grid-Error") or ""
        assert (reply.status, reply.body) == (503, b""), (method, path)
        assert reason.startswith(f"parked: {call} stopped the member at "), (method, path)
        assert "delete the pod, or remove" in reason
    for path, body in WITH_CREDENTIALS:
        reply = await asked("POST", path, body)
        found = json.loads(reply.body)
        assert (reply.status, found["status"]) == (409, "fail"), path
        assert found["message"].startswith("parked: "), path
    assert (await asked("POST", f"{CLUSTER}/memberShutdown", b"other&")).status == 403


async def test_the_metrics_of_a_parked_member(member_process: Start, tmp_path: Path) -> None:
    (tmp_path / "parked").touch()
    config = text(tmp_path, persistent=True) + "  metrics: {enabled: true, port: {port: 0}}\n"
    parked = member_process(config)
    parked.wait_for("parked")
    port = next(e["port"] for e in parked.log if e.get("listener") == "metrics")
    shown = (await once(port, "GET", "/metrics")).body
    assert b"grid_ready 0.0" in shown
    assert b"grid_structures" not in shown
    assert not (tmp_path / "data").exists()


async def test_inside_of_a_program(tmp_path: Path) -> None:
    (tmp_path / "parked").touch()
    config = Config.from_text(text(tmp_path, persistent=True), environment={})
    async with await start_member(config) as member:
        assert not member.ready
        reply = await once(member.rest_port or 0, "POST", f"{MAP}/k", b"v")
        assert (reply.status, (reply.header("X-Grid-Error") or "")[:7]) == (503, "parked:")
    assert os.listdir(tmp_path) == ["parked"]


async def test_a_shutdown_sent_again_under_its_key_parks_once_more(
    member_process: Start, tmp_path: Path
) -> None:
    config = text(tmp_path, persistent=True)
    first = member_process(config)
    first.wait_for("ready")
    assert (await shut_down(first, "memberShutdown", **{"Idempotency-Key": "a"})).status == 200
    await ended(first)
    parked = member_process(config)
    parked.wait_for("parked")
    reply = await shut_down(parked, "memberShutdown", **{"Idempotency-Key": "a"})
    assert (reply.status, b"parked" in reply.body) == (409, True)


@pytest.mark.parametrize("call", CALLS)
async def test_nothing_is_stopped_when_the_file_cannot_be_written(
    member_process: Start, tmp_path: Path, call: str
) -> None:
    parked = tmp_path / "none" / "parked"
    member = member_process(text(tmp_path, persistent=False, parked=parked))
    member.wait_for("ready")
    reply = await shut_down(member, call)
    found = json.loads(reply.body)
    assert (reply.status, found["status"]) == (409, "fail")
    assert str(parked) in found["message"]
    assert found["message"].endswith("nothing is stopped")
    assert (await once(member.port, "GET", READY)).status == 200
    assert (await once(member.port, "POST", f"{MAP}/k", b"v")).status == 200
    parked.parent.mkdir()
    assert (await shut_down(member, call)).status == 200
    await ended(member)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_does_not_park(
    member_process: Start, tmp_path: Path, number: signal.Signals
) -> None:
    member = member_process(text(tmp_path, persistent=False))
    member.wait_for("ready")
    member.process.send_signal(number)
    assert member.end() == 0
    assert not (tmp_path / "parked").exists()
    member_process(text(tmp_path, persistent=False)).wait_for("ready")


async def test_without_the_setting_nothing_parks(member_process: Start, tmp_path: Path) -> None:
    member = member_process(configuration())
    member.wait_for("ready")
    assert (await shut_down(member, "memberShutdown")).status == 200
    await ended(member)
    member_process(configuration()).wait_for("ready")


def test_the_setting() -> None:
    yaml = parse_config("grid: {shutdown: {parked-file: '${P:/tmp/p}'}}", "f.yaml", {})
    document = f"{TOP_ELEMENT}<shutdown><parked-file>/tmp/p</parked-file></shutdown></grid>"
    xml = parse_config(document, "f.xml", {})
    python = config_from({"shutdown": {"parked-file": "/tmp/p"}}, {})
    overridden = parse_config("grid: {}", "f.yaml", {"GRID_MEMBER_SHUTDOWN_PARKEDFILE": "/tmp/p"})
    assert yaml.parked_file == xml.parked_file == python.parked_file == Path("/tmp/p")
    assert overridden.parked_file == Path("/tmp/p")
    assert config_from({}, {}).parked_file is None


def test_what_the_file_says_is_told_only_as_a_member_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / "parked"
    parking = ShutdownMarker(path, lambda: NOW_MS)
    assert parking.find() is None
    assert ShutdownMarker(path / "below" / "it", lambda: NOW_MS).find() is None
    path.write_bytes(b"")
    what_to_do = f": delete the pod, or remove {path} and restart the member"
    for content in (b"", b"{", b"7", b"[" * 5000, b'{"reason": "x"}', b'{"reason": 1, "time": 2}',
                    b'{"reason": "a b", "time": "2"}', b'{"reason": "a", "time": "<>"}',
                    b"\xff" * 9000):  # fmt: skip
        path.write_bytes(content)
        assert parking.find() == f"parked: its file is there{what_to_do}"
    parking.write("memberShutdown")
    told = "parked: memberShutdown stopped the member at 2023-11-14T22:13:20Z"
    assert parking.find() == told + what_to_do
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["parked"]


def test_whatever_is_there_parks(tmp_path: Path) -> None:
    directory, link, pipe = tmp_path / "directory", tmp_path / "link", tmp_path / "pipe"
    directory.mkdir()
    link.symlink_to(tmp_path / "nowhere")
    os.mkfifo(pipe)
    for path in (directory, link, pipe):
        assert (ShutdownMarker(path, lambda: NOW_MS).find() or "").startswith(
            "parked: its file is there"
        )


def test_what_cannot_be_told_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"cannot use shutdown\.parked-file"):
        ShutdownMarker(tmp_path / ("x" * 300), lambda: NOW_MS).find()


def test_a_link_in_the_place_of_the_draft_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("kept")
    (tmp_path / "parked.creating").symlink_to(target)
    with pytest.raises(EngineError, match="nothing is stopped"):
        ShutdownMarker(tmp_path / "parked", lambda: NOW_MS).write("memberShutdown")
    assert target.read_text() == "kept"
