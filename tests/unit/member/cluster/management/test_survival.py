"""What management calls did is there after a kill, and what they said is answered again."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import pytest

from tests.unit.member.running import configuration
from tests.unit.member.wire import Reply, Wire, once, request

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.member.running import MemberProcess

    Start = Callable[..., MemberProcess]

REST = "/grid/rest"
CLUSTER = f"{REST}/management/cluster"
LICENSE = f"{REST}/license"
LEVEL = f"{REST}/log-level"
LIST = f"{REST}/config/tcp-ip/member-list"
UPLOAD = f"{REST}/config/upload"
RELOAD = f"{REST}/config/reload"
JOIN = "    join: {tcp-ip: {enabled: true, member-list: [a]}}\n"


def text(directory: Path, extra: str = "") -> str:
    """Return a configuration with persistence and the TCP/IP join."""
    base = configuration(extra=f"  persistence: {{enabled: true, base-dir: {directory}}}\n{extra}")
    return base.replace("  network:\n", f"  network:\n{JOIN}")


def started(start: Start, configured: str) -> MemberProcess:
    process = start(configured)
    process.wait_for("ready")
    return process


async def called(process: MemberProcess, path: str, third: str | None = None, **h: str) -> Reply:
    more = "" if third is None else f"&{quote_plus(third)}"
    return await once(process.port, "POST", path, f"dev&{more}".encode(), **h)


async def succeeded(process: MemberProcess, path: str, third: str | None = None, **h: str) -> Any:
    reply = await called(process, path, third, **h)
    assert reply.status == 200, reply
    return reply.json


async def test_what_was_answered_survives_a_kill(member_process: Start, tmp_path: Path) -> None:
    configured = text(tmp_path / "data")
    first = started(member_process, configured)
    await succeeded(first, f"{CLUSTER}/changeState", "frozen", Idempotency_Key="state")
    license_info = await succeeded(first, LICENSE, "sesame", Idempotency_Key="license")
    members = await succeeded(first, LIST, "b:1 c", Idempotency_Key="list")
    upload = await succeeded(
        first, UPLOAD, "grid: {queue: {up: {max-size: 1}}}", Idempotency_Key="upload"
    )
    level = await succeeded(first, LEVEL, "WARNING", Idempotency_Key="level")
    first.kill()

    second = started(member_process, configured)
    state = await succeeded(second, f"{CLUSTER}/state")
    assert state == {"status": "success", "state": "frozen"}
    shown = await once(second.port, "GET", LICENSE)
    assert shown.json["licenseInfo"] == license_info["licenseInfo"]
    assert (await once(second.port, "GET", LIST)).json["member-list"] == ["b:1", "c"]
    assert (await once(second.port, "POST", f"{REST}/queues/up", b"1")).status == 200
    assert (await once(second.port, "POST", f"{REST}/queues/up", b"2")).status == 503
    # The level is this life's, and was no part of what survives.
    assert (await once(second.port, "GET", LEVEL)).json == {"logLevel": None}

    # The same calls under their keys: the first answers, and no effect.
    await succeeded(second, f"{CLUSTER}/changeState", "active")
    await succeeded(second, LICENSE, "other")
    await succeeded(second, LIST, "d")
    for path, third, key, answer in (
        (f"{CLUSTER}/changeState", "frozen", "state", state),
        (LICENSE, "sesame", "license", license_info),
        (LIST, "b:1 c", "list", members),
        (UPLOAD, "grid: {queue: {up: {max-size: 1}}}", "upload", upload),
        (LEVEL, "WARNING", "level", level),
    ):
        assert await succeeded(second, path, third, Idempotency_Key=key) == answer
    assert (await succeeded(second, f"{CLUSTER}/state"))["state"] == "active"
    assert (await once(second.port, "GET", LICENSE)).json != shown.json
    assert (await once(second.port, "GET", LIST)).json["member-list"] == ["d"]
    assert (await once(second.port, "GET", LEVEL)).json == {"logLevel": None}
    assert (await called(second, LICENSE, "third", Idempotency_Key="license")).status == 409


@pytest.mark.parametrize("persistent", ["true", "false"])
async def test_a_map_that_was_uploaded_has_its_data_by_its_own_settings(
    member_process: Start, tmp_path: Path, persistent: str
) -> None:
    configured = text(tmp_path / "data")
    first = started(member_process, configured)
    block = f"{{data-persistence: {{enabled: {persistent}}}}}"
    await succeeded(first, UPLOAD, f"grid: {{map: {{up: {block}}}}}")
    assert (await once(first.port, "POST", f"{REST}/maps/up/k", b"v")).status == 200
    assert (await once(first.port, "POST", f"{REST}/maps/other/k", b"w")).status == 200
    first.kill()
    for _ in range(2):
        process = started(member_process, configured)
        kept = await once(process.port, "GET", f"{REST}/maps/up/k")
        assert (kept.status, kept.body) == ((200, b"v") if persistent == "true" else (204, b""))
        assert (await once(process.port, "GET", f"{REST}/maps/other/k")).body == b"w"
        process.kill()


async def test_data_is_not_forgotten_where_only_an_added_map_keeps_it(
    member_process: Start, tmp_path: Path
) -> None:
    # By the file alone the map is not persistent, so its data would go when it is replayed.
    volatile = "  map: {default: {data-persistence: {enabled: false}}}\n"
    configured = text(tmp_path / "data").replace("  map: {default: {}, ", f"{volatile[:-2]}, ")
    first = started(member_process, configured)
    await succeeded(first, UPLOAD, "grid: {map: {up: {}}}")
    assert (await once(first.port, "POST", f"{REST}/maps/up/k", b"v")).status == 200
    assert (await once(first.port, "POST", f"{REST}/maps/other/k", b"w")).status == 200
    first.kill()
    second = started(member_process, configured)
    assert (await once(second.port, "GET", f"{REST}/maps/up/k")).body == b"v"
    assert (await once(second.port, "GET", f"{REST}/maps/other/k")).status == 204


async def test_a_block_that_would_move_data_is_409(member_process: Start, tmp_path: Path) -> None:
    process = started(member_process, text(tmp_path / "data"))
    assert (await once(process.port, "POST", f"{REST}/maps/held/k", b"v")).status == 200
    reply = await called(
        process, UPLOAD, "grid: {map: {held: {data-persistence: {enabled: false}}}}"
    )
    assert reply.status == 409
    assert "map held holds data" in reply.json["message"]
    assert (await once(process.port, "GET", f"{REST}/maps/held/k")).body == b"v"


async def test_a_reload_adds_what_the_file_has_by_now(
    member_process: Start, tmp_path: Path
) -> None:
    configured = text(tmp_path / "data")
    process = started(member_process, configured)
    file = tmp_path / "member-0" / "grid.yaml"
    file.write_text(configured.replace("queue: {", "queue: {new: {max-size: 1}, "))
    result = (await succeeded(process, RELOAD))["result"]
    assert result["addedConfigs"] == [{"sectionName": "queue", "configName": "new"}]
    assert {"sectionName": "map", "configName": "short"} in result["ignoredConfigs"]
    assert (await once(process.port, "POST", f"{REST}/queues/new", b"1")).status == 200
    assert (await once(process.port, "POST", f"{REST}/queues/new", b"2")).status == 503
    file.write_text("grid: {map: {broken: {time-to-live-seconds: x}}}")
    reply = await called(process, RELOAD)
    assert reply.status == 400
    assert "map.broken.time-to-live-seconds" in (reply.header("X-Grid-Error") or "")
    file.unlink()
    assert (await called(process, RELOAD)).status == 400


async def test_a_file_that_contradicts_what_was_added_ends_the_start(
    member_process: Start, tmp_path: Path
) -> None:
    configured = text(tmp_path / "data")
    first = started(member_process, configured)
    await succeeded(first, UPLOAD, "grid: {map: {'added*': {}}}")
    first.kill()
    ambiguous = configured.replace("map: {", "map: {'*added': {}, ")
    second = member_process(ambiguous)
    assert second.end() == 2
    told = [entry["message"] for entry in second.log if entry["level"] == "error"]
    assert told == [
        "cannot start: config/00000001: map.added*: matches names that *added matches as well"
    ]
    third = started(member_process, configured)
    assert (await once(third.port, "POST", f"{REST}/maps/added1/k", b"v")).status == 200


@pytest.mark.parametrize("state", ["no_migration", "passive"])
async def test_a_shutdown_leaves_the_state_and_its_answer(
    member_process: Start, tmp_path: Path, state: str
) -> None:
    configured = text(tmp_path / "data")
    process = started(member_process, configured)
    await succeeded(process, f"{CLUSTER}/changeState", state)
    for verb in ("clusterShutdown", "memberShutdown"):
        answer = await succeeded(process, f"{CLUSTER}/{verb}", Idempotency_Key=verb)
        assert answer == {"status": "success"}
        assert await asyncio.to_thread(process.end) == 0
        process = started(member_process, configured)
    # Sent again under their keys, they stop nothing.
    for verb in ("clusterShutdown", "memberShutdown"):
        answer = await succeeded(process, f"{CLUSTER}/{verb}", Idempotency_Key=verb)
        assert answer == {"status": "success"}
    assert (await succeeded(process, f"{CLUSTER}/state"))["state"] == state
    assert (await once(process.port, "GET", "/grid/health/ready")).status == 200


async def test_a_kill_leaves_an_effect_with_its_outcome_or_neither(
    member_process: Start, tmp_path: Path
) -> None:
    configured = text(tmp_path / "data")
    process = started(member_process, configured)
    for life in range(LIVES):
        async with await Wire.connect(process.port) as wire:
            for number in range(CALLS):
                body = f"dev&&{life} {number}".encode()
                wire.send(request("POST", LICENSE, body, Idempotency_Key=f"{life}-{number}"))
            for _ in range(10 + life):
                assert (await wire.reply("POST")).status == 200
            # Not right after an answer: at any moment of the next call.
            await asyncio.sleep(CALL_S * life / LIVES)
            process.kill()
        process = started(member_process, configured)
        shown = (await once(process.port, "GET", LICENSE)).json["licenseInfo"]["keyHash"]
        last = [key_hash(f"{life} {number}") for number in range(CALLS)].index(shown)
        assert 9 + life <= last < CALLS - 1, "the kill came in the middle"
        for number in (0, last - 1, last, last + 1):
            # Only what is remembered contradicts another request.
            reply = await called(process, LICENSE, "other", Idempotency_Key=f"{life}-{number}")
            assert reply.status == (409 if number <= last else 200), (number, last)


LIVES = 8
CALLS = 1000
CALL_S = 0.003
"""About as long as a call takes, or longer."""


def key_hash(key: str) -> str:
    return base64.b64encode(hashlib.sha256(key.encode()).digest()).decode()


async def test_the_log_level_takes_effect(member_process: Start) -> None:
    process = started(member_process, configuration())
    # Refused for different reasons: what is alike is counted.
    marks = iter(("health/unknown", "rest/maps/default/%zz", "rest/maps/default/%ff"))

    async def logged() -> list[str]:
        """Return the messages since the last time, up to a request that is always logged."""
        await succeeded(process, LEVEL, "INFO")
        await once(process.port, "GET", f"/grid/{next(marks)}")
        seen = len(process.log)
        await asyncio.to_thread(process.wait_for, "request refused")
        return [entry["message"] for entry in process.log[seen:]][:-1]

    await succeeded(process, f"{CLUSTER}/state")
    assert await logged() == ["management call", "management call"]
    await succeeded(process, LEVEL, "OFF")
    await succeeded(process, f"{CLUSTER}/state")
    # Audit lines come whatever the level.
    assert await logged() == ["management call"] * 3
    await succeeded(process, LEVEL, "fine")
    await once(process.port, "GET", f"{REST}/maps/default/secret-key")
    assert "request answered" in await logged()
    assert "secret-key" not in str(process.log)


async def test_usage_tells_what_is_there_and_what_the_store_takes(
    member_process: Start, tmp_path: Path
) -> None:
    configured = text(tmp_path / "data")
    first = started(member_process, configured)
    for number in range(3):
        await once(first.port, "POST", f"{REST}/maps/m/{number}", b"x" * 9)
    await once(first.port, "POST", f"{REST}/queues/two", b"item")
    shown = [(await once(first.port, "GET", f"{CLUSTER}/usage")).json]
    first.kill()
    second = started(member_process, configured)
    shown.append((await once(second.port, "GET", f"{CLUSTER}/usage")).json)
    for usage in shown:
        by_name = {(s["kind"], s["name"]): s for s in usage["structures"]}
        assert (by_name["map", "m"]["entries"], by_name["map", "m"]["bytes"]) == (3, 30)
        queue = by_name["queue", "two"]
        assert (queue["entries"], queue["bytes"], queue["limits"]["entries"]) == (1, 4, 2)
        assert by_name["map", "default"]["entries"] == 0
        (member,) = usage["members"]
        on_disk = sum(
            f.stat().st_blocks * 512 for f in (tmp_path / "data").rglob("*") if f.is_file()
        )
        assert 0 < member["storeBytes"] <= on_disk * 2
        assert member["freeBytes"] > 0
    assert shown[0]["members"][0]["uuid"] == shown[1]["members"][0]["uuid"]
