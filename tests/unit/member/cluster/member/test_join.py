"""What a join makes of what the cluster agreed on before, and calls at the wrong moment."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from grid_member import Config, EngineError
from grid_member.cluster.member.member import Phase
from grid_member.cluster.values.operations import OperationStage
from grid_member.cluster.values.system_store import carry_out
from grid_member.http.table import ROUTES
from grid_member.start.parts import make_member
from tests.unit.member.wire import once

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from grid_member.cluster.member.member import Member
    from tests.unit.member.running import RunningMember


class Lives:
    """One member's lives on one directory, each of a version of its own."""

    def __init__(self, directory: Path) -> None:
        tree = {"persistence": {"enabled": True, "base-dir": str(directory)}, "map": {"m": {}}}
        self._config = Config(tree, environment={})
        self._member: Member | None = None

    async def begin(self, version: str) -> Member:
        await self.end()
        self._member = make_member(self._config, "tester", version)
        await self._member.join()
        return self._member

    async def end(self) -> None:
        if self._member is not None and self._member.phase is Phase.RUNNING:
            await self._member.engine.stop()
        self._member = None


@pytest.fixture
async def lives(tmp_path: Path) -> AsyncIterator[Lives]:
    found = Lives(tmp_path / "data")
    yield found
    await found.end()


async def test_a_newer_member_runs_the_cluster_of_the_version_it_has(lives: Lives) -> None:
    assert (await lives.begin("1.1.0")).cluster_version == "1.1"
    newer = await lives.begin("1.2.5")
    assert (newer.version, newer.cluster_version) == ("1.2.5", "1.1")
    versions = newer.management.versions
    put = versions.change(versions.own_version)
    assert await carry_out(put.begin(newer.management.store)) == [None]
    assert newer.cluster_version == "1.2"
    assert (await lives.begin("1.2.0")).cluster_version == "1.2"


@pytest.mark.parametrize("version", ["1.0.9", "1.3.0", "2.1.0"])
async def test_a_member_of_another_version_does_not_start_and_changes_nothing(
    lives: Lives, version: str
) -> None:
    await lives.begin("1.1.0")
    with pytest.raises(EngineError, match=r"cluster has version 1\.1, which a member of version"):
        await lives.begin(version)
    # The data is released and as it was.
    assert (await lives.begin("1.1.0")).cluster_version == "1.1"


async def test_the_operations_of_the_life_before_have_failed(lives: Lives) -> None:
    member = await lives.begin("1.1.0")
    management = member.management
    _, puts = management.operations.begin("backup")
    ended, more = management.operations.begin("restore")
    done = management.operations.finish(ended)
    await carry_out(*(put.begin(management.store) for put in (*puts, *more, done)))
    found = (await lives.begin("1.1.0")).management.operations.documents()
    assert sorted((o["kind"], o["stage"], o["error"]) for o in found) == [
        ("backup", OperationStage.FAILED.value, "the member stopped before the end"),
        ("restore", OperationStage.FINISHED.value, None),
    ]


NEED_NO_JOIN = {
    *("cluster_state", "log_level_set", "log_level_reset"),
    *("force_start", "partial_start", "backup_interrupt", "hot_backup_interrupt"),
}
CALLS = [
    (method, route)
    for route in ROUTES
    for method in route.methods
    if route.operation is not None and route.parameters is not None
]


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.STOPPING])
async def test_calls_at_the_wrong_moment(
    start_member: Callable[..., RunningMember], phase: Phase
) -> None:
    running = await start_member(
        extra="  cp-subsystem: {cp-member-count: 3}\n",
    ).open()
    if phase is Phase.STOPPING:
        await running.member.join()
    running.member.phase = phase
    third = {"change_version": "1.2", "change_state": "passive", "log_level_set": "FINE"}
    for method, route in CALLS:
        path = route.path.replace("{name}", "default").replace("{id}", "1").replace("{uuid}", "u")
        more = [third.get(route.operation or "", "a")] * (route.parameters - 2)  # type: ignore[operator]
        body = "&".join(["dev", "", *more]).encode()
        reply = await once(running.port, method, path, body)
        expected = 200 if route.operation in NEED_NO_JOIN else 409
        assert reply.status == expected, (method, path, reply)
        if expected == 409:
            assert reply.json["status"] == "fail"
            assert "has not joined its cluster or is stopping" in reply.json["message"]
    running.member.management.log_levels.reset()
    assert running.member.phase is phase
    if phase is Phase.STOPPING:
        assert running.engine.cluster_state.value == "active"
        assert running.member.management.store.system_items("") == [("cluster-version", b"1.2")]


async def test_before_the_join_documents_that_are_not_known_yet_are_503(
    start_member: Callable[..., RunningMember],
) -> None:
    running = await start_member().open()
    for path in ("license", "management/cluster/operations", "management/cluster/usage"):
        reply = await once(running.port, "GET", f"/grid/rest/{path}")
        assert (reply.status, reply.header("Retry-After")) == (503, "1")
    reply = await once(running.port, "GET", "/grid/rest/management/cluster/version")
    assert reply.json == {"status": "success", "version": "0.0"}
    await asyncio.wait_for(running.member.join(), 10)
    reply = await once(running.port, "GET", "/grid/rest/management/cluster/version")
    assert reply.json == {"status": "success", "version": "1.2"}
