"""Promise: the calls begin jobs one at a time, and tell how far they are; here none is sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tests.unit.member.wan.agreement.test_live import EXTRA, agreed, put, status, tell, text
from tests.unit.member.wire import once
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.member.running import RunningMember

UNKNOWN = {"status": "fail", "message": "no synchronisation or check has this uuid"}
COMPARES_NOTHING = EXTRA.replace(
    "realm: to}", "realm: to, sync: {consistency-check-strategy: NONE}}"
)


async def progress(member: RunningMember, uuid: str, status: int = 200) -> Any:
    reply = await once(member.port, "GET", f"/grid/rest/wan/sync/progress/{uuid}")
    assert reply.status == status
    return reply.json


async def begin(member: RunningMember, call: str, *parameters: str, **headers: str) -> str:
    reply = await tell(member, call, *parameters, **headers)
    assert (reply.status, reply.json["status"]) == (200, "success")
    assert list(reply.json) == ["status", "message", "uuid"]
    return str(UUID(reply.json["uuid"]))


async def operations(member: RunningMember) -> list[dict[str, Any]]:
    reply = await once(member.port, "GET", "/grid/rest/management/cluster/operations")
    found: list[dict[str, Any]] = json.loads(reply.body)
    return found


async def test_one_job_a_publisher_at_a_time(
    start_member: Callable[..., RunningMember],
) -> None:
    member = await start_member(text()).start()
    await until(lambda: agreed(member))
    await put(member, "a", "b")
    key = {"Idempotency_Key": "k"}
    uuid = await begin(member, "sync/map", "r", "london", "m", **key)
    assert await begin(member, "sync/map", "r", "london", "m", **key) == uuid
    for call, parameters in (
        ("sync/map", ("r", "", "m")),
        ("sync/allmaps", ("r", "london")),
        ("consistencyCheck/map", ("r", "", "m")),
    ):
        reply = await tell(member, call, *parameters)
        message = f"publisher london of r is being synchronised already: {uuid}"
        assert (reply.status, reply.json["message"]) == (409, message)

    result = (await progress(member, uuid))["result"]
    assert list(result) == [
        *("stage", "progress", "wanReplicationName", "wanPublisherId", "creationTime"),
    ]
    assert (result["progress"], result["wanReplicationName"]) == (0, "r")
    found = await status(member)
    assert (found["job"]["uuid"], found["job"]["maps"]) == (uuid, ["m"])
    (operation,) = await operations(member)
    assert (operation["id"], operation["kind"], operation["stage"]) == (
        *(uuid, "wanSync", "STARTED"),
    )

    assert (await tell(member, "removeWanConfig", "r", "london")).status == 200
    assert (await progress(member, uuid))["result"]["stage"] == "FAILED"
    (operation,) = await operations(member)
    assert (operation["stage"], operation["error"]) == ("FAILED", "the publisher was removed")


async def test_a_check_is_a_job_too(start_member: Callable[..., RunningMember]) -> None:
    member = await start_member(text()).start()
    await until(lambda: agreed(member))
    uuid = await begin(member, "consistencyCheck/map", "r", "", "m")
    reply = await tell(member, "sync/allmaps", "r", "")
    message = f"a consistency check of publisher london of r is under way: {uuid}"
    assert (reply.status, reply.json["message"]) == (409, message)
    assert (await status(member))["job"]["kind"] == "wanConsistencyCheck"


async def test_without_anything_to_do_a_sync_has_finished(
    start_member: Callable[..., RunningMember],
) -> None:
    member = await start_member(text()).start()
    await until(lambda: agreed(member))
    for call, parameters in (("sync/map", ("r", "", "m")), ("sync/allmaps", ("r", ""))):
        uuid = await begin(member, call, *parameters)
        result = (await progress(member, uuid))["result"]
        assert (result["stage"], result["progress"]) == ("FINISHED", 100)


async def test_what_cannot_be_done_is_told(start_member: Callable[..., RunningMember]) -> None:
    member = await start_member(text(COMPARES_NOTHING)).start()
    await until(lambda: agreed(member))
    reply = await tell(member, "consistencyCheck/map", "r", "", "m")
    message = "publisher london of r has consistency-check-strategy NONE"
    assert (reply.status, reply.json["message"]) == (409, message)
    assert await progress(member, "x", 404) == UNKNOWN
    assert (await tell(member, "sync/map", "r", "", "")).status == 404
    assert (await tell(member, "sync/map", "r", "", "plain")).status == 409


async def test_a_job_goes_on_after_a_restart_with_persistence(
    start_member: Callable[..., RunningMember], tmp_path: Path
) -> None:
    extra = EXTRA + f"  persistence: {{enabled: true, base-dir: {tmp_path / 'data'}}}\n"
    member = await start_member(text(extra)).start()
    await until(lambda: agreed(member))
    await put(member, "a")
    uuid = await begin(member, "sync/map", "r", "london", "m")
    await member.stop()
    member = await start_member(text(extra)).start()
    await until(lambda: agreed(member))
    assert (await status(member))["job"]["uuid"] == uuid
    assert (await progress(member, uuid))["result"]["stage"] == "STARTED"
