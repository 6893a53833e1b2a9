"""Data requests to a member whose engine is ready before it has joined the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grid_member.cluster.member.member import Phase
from tests.unit.member.running import configuration
from tests.unit.member.wire import Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.unit.member.cluster.several import Several
    from tests.unit.member.running import RunningMember

CALLS = {
    "write": ("POST", "/grid/rest/maps/m/k", b"v", 200),
    "read": ("GET", "/grid/rest/maps/m/k", None, 204),
    "poll": ("DELETE", "/grid/rest/queues/q/0", None, 204),
    "size": ("GET", "/grid/rest/queues/q/size", None, 200),
}


@pytest.fixture(params=["true", "false"], ids=["fast-path", "aiohttp"])
async def joining(
    request: pytest.FixtureRequest, start_member: Callable[..., RunningMember], several: Several
) -> AsyncIterator[RunningMember]:
    """A member that waits for its join, on either path of data."""
    extra = f"  http: {{lane: {{enabled: {request.param}}}}}"
    one = await start_member(configuration(extra=extra)).open()
    await one.engine.start(lambda: None)
    one.member.membership = several.add().membership
    one.member.membership._wait_for("the cluster state is being changed")
    yield one
    one.member.membership = None


@pytest.mark.parametrize("call", CALLS)
async def test_data_waits_for_the_join(joining: RunningMember, call: str) -> None:
    method, path, body, status = CALLS[call]
    async with await Wire.connect(joining.port) as wire:
        for _ in range(2):
            reply = await wire.call(method, path, body)
            assert (reply.status, reply.header("Retry-After")) == (503, "1")
            assert reply.header("X-Grid-Error") == "the cluster state is being changed"
        joining.member.phase = Phase.RUNNING
        assert (await wire.call(method, path, body)).status == status
