"""CP on one member: what is there is shown, and nothing ever touches a map or a queue."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from grid_member.cluster.values.system_store import start
from grid_member.http.routes.cp import (
    cp_group,
    cp_group_remove,
    cp_groups,
    cp_member_local,
    cp_member_remove,
    cp_members,
    cp_promote,
    cp_reset,
    cp_session_remove,
    cp_sessions,
)
from tests.unit.member.cluster.managed import content, reason, short

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.engine.api import Done, Entry
    from grid_member.http.routes.calls import HttpCall
    from grid_member.http.wire.answers import Answer
    from tests.unit.member.cluster.managed import Managed

    Operation = Callable[[HttpCall], Awaitable[Answer]]

OPERATIONS: list[Operation] = [
    *(cp_groups, cp_group, cp_group_remove, cp_sessions, cp_session_remove),
    *(cp_members, cp_promote, cp_member_local, cp_member_remove, cp_reset),
]
HUGE = "x" * 100_000
OTHER = str(uuid.UUID(int=1))
CASES: list[tuple[Operation, dict[str, str], int]] = [
    (cp_groups, {}, 200),
    (cp_group, {"name": "METADATA"}, 200),
    (cp_group, {"name": "default"}, 200),
    *((cp_group, {"name": n}, 404) for n in ("metadata", "Default", "m1", "", "default/", HUGE)),
    *((cp_group_remove, {"name": n}, 400) for n in ("METADATA", "metadata", "m1", "", "\0", HUGE)),
    (cp_group_remove, {"name": "default"}, 409),
    (cp_sessions, {"name": "default"}, 200),
    (cp_sessions, {"name": "METADATA"}, 409),
    *((cp_sessions, {"name": n}, 404) for n in ("m1", "", "\0", HUGE)),
    *(
        (cp_session_remove, {"name": "default", "id": n}, 400)
        for n in ("1", "", "-1", "x", "\u0661", "\u00b2", "9" * 10_000, HUGE)
    ),
    (cp_session_remove, {"name": "METADATA", "id": "1"}, 400),
    (cp_session_remove, {"name": "m1", "id": "1"}, 400),
    (cp_members, {}, 200),
    (cp_promote, {}, 200),
    (cp_member_local, {}, 200),
    *((cp_member_remove, {"uuid": u}, 400) for u in (OTHER, "", "x", "\0", HUGE)),
    (cp_reset, {}, 409),
]


def name(case: tuple[Operation, dict[str, str], int]) -> str:
    operation, names, status = case
    return "-".join([operation.__name__, *(str(short(n)) for n in names.values()), str(status)])


async def data(managed: Managed) -> tuple[object, ...]:
    def entry(done: Done[Entry | None]) -> None:
        managed.engine.map_get("m1", "k", done)

    def size(done: Done[int]) -> None:
        managed.engine.queue_size("q1", done)

    return (
        await start(entry),
        await start(size),
        managed.everything(),
        managed.engine.cluster_state,
    )


async def filled(managed: Managed) -> Managed:
    def put(done: Done[None]) -> None:
        managed.engine.map_put("m1", "k", b"v", None, done)

    def offer(done: Done[bool]) -> None:
        managed.engine.queue_offer("q1", b"item", None, done)

    await start(put)
    await start(offer)
    return managed


@pytest.mark.parametrize(
    ("operation", "names", "status"), [pytest.param(*case, id=name(case)) for case in CASES]
)
async def test_every_call_leaves_maps_and_queues_alone(
    managed: Managed, operation: Operation, names: dict[str, str], status: int
) -> None:
    await filled(managed)
    before = await data(managed)
    answer = await managed.call(operation, names=names)
    assert answer.status == status
    if status in (400, 404):
        assert reason(answer)
    elif status == 409:
        assert content(answer)["status"] == "fail"
    assert await data(managed) == before


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_without_the_subsystem_every_call_is_409(
    make: Callable[..., Managed], operation: Operation
) -> None:
    managed = make(cp=False)
    for _ in range(2):
        names = {"name": "default", "id": "1", "uuid": OTHER}
        answer = await managed.call(operation, names=names)
        expected = {"status": "fail", "message": "cp-subsystem is not configured"}
        assert (answer.status, content(answer)) == (409, expected)
        await managed.join() if not managed.member.joined else None


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_before_the_join_every_call_is_409(
    make: Callable[..., Managed], operation: Operation
) -> None:
    answer = await make().call(operation, names={"name": "default", "id": "1", "uuid": OTHER})
    assert (answer.status, content(answer)["status"]) == (409, "fail")


async def test_what_is_shown(managed: Managed) -> None:
    member = {"uuid": managed.engine.member_uuid, "address": "[10.0.0.7]:5701"}
    assert (await managed.call(cp_groups)).body == (
        b'[{"name":"METADATA","id":0},{"name":"default","id":1}]'
    )
    assert content(await managed.call(cp_group, names={"name": "default"})) == {
        "id": {"name": "default", "id": 1},
        "status": "ACTIVE",
        "members": [member],
    }
    assert content(await managed.call(cp_members)) == [member]
    assert content(await managed.call(cp_member_local)) == member
    assert content(await managed.call(cp_sessions, names={"name": "default"})) == []
    promoted = await managed.call(cp_promote)
    assert (promoted.body, promoted.content_type) == (b"", None)


@pytest.mark.parametrize("form", [str.lower, str.upper])
async def test_the_last_member_cannot_be_removed(
    managed: Managed, form: Callable[[str], str]
) -> None:
    names = {"uuid": form(managed.engine.member_uuid)}
    answer = await managed.call(cp_member_remove, names=names)
    message = "the last CP member cannot be removed"
    assert (answer.status, content(answer)) == (409, {"status": "fail", "message": message})


@pytest.mark.parametrize(
    ("operation", "names"), [(cp_group_remove, {"name": "default"}), (cp_reset, {})]
)
async def test_the_group_that_holds_maps_and_queues_is_shown_only(
    managed: Managed, operation: Operation, names: dict[str, str]
) -> None:
    answer = await managed.call(operation, names=names)
    message = "group default holds maps and queues: it is shown only"
    assert (answer.status, content(answer)) == (409, {"status": "fail", "message": message})
