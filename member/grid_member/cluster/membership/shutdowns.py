"""The request that all members stop: which incarnations it is for, and what ends it.

Its value is its id, a space, and JSON: the incarnations by UUID. One that is not in it goes on, so
a member that is started again while others are still stopping does not stop with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from grid_member.cluster.membership.broadcast_barrier import SHUTDOWN
from grid_member.cluster.membership.failure_detector import RENEW_S
from grid_member.cluster.membership.locks import CHANGE, LockedError
from grid_member.cluster.values.system_store import Put, carry_out
from grid_member.engine.api import ClusterState, EngineError
from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_member.cluster.membership.membership import Membership
    from grid_member.cluster.membership.shutdown_marker import ShutdownMarker
    from grid_member.cluster.values.system_store import Begin
    from grid_member.engine.state.system import SystemStore

CLUSTER_STOP_PATIENCE_S: Final = 5.0
"""How long a stop of the cluster waits for the log to take the state that goes before it."""
CLUSTER_STOP_LIMIT_S: Final = 30.0
"""How long a stop of several may take, a new leader of the log included; then this one stops."""
MARKER_PATIENCE_S: Final = 5.0
"""How long a stop of several members waits for the shutdown marker of one of them."""
_log: Final = logging.getLogger("grid.member")


@dataclass(frozen=True, slots=True)
class ShutdownRequest:
    """A request to stop the members that there are."""

    id: str
    incarnations: Mapping[str, str]

    def put(self) -> Put:
        """Return what makes the request."""
        return Put(SHUTDOWN, f"{self.id} {json.dumps(self.incarnations)}".encode())

    def includes(self, uuid: str, incarnation: str) -> bool:
        """Tell whether an incarnation is to end."""
        return self.incarnations.get(uuid) == incarnation


class StoppingMember(Protocol):
    """The member as the stop of all members needs it."""

    @property
    def shutdown_marker(self) -> ShutdownMarker:
        """What keeps the member down when something starts it again."""

    async def wait_for_stop(self) -> None:
        """Return when a stop was requested."""

    def request_stop(self) -> None:
        """Stop the member."""


def shutdown_request(store: SystemStore) -> ShutdownRequest | None:
    """Return the request, None when there is none."""
    value = store.system_get(SHUTDOWN)
    if value is None:
        return None
    name, _, incarnations = value.decode().partition(" ")
    found = {str(uuid): str(incarnation) for uuid, incarnation in json.loads(incarnations).items()}
    return ShutdownRequest(name, found)


async def _request(membership: Membership) -> None:
    """Make the cluster passive for the rest of its life and ask all members to stop.

    Goes on until the log has taken both; the lock is done without after the patience. When this
    member is asked to stop with the others already, nothing is left to do.
    """
    engine = membership.engine
    async with contextlib.AsyncExitStack() as stack:
        with contextlib.suppress(LockedError):
            await stack.enter_async_context(
                membership.locks.hold(CHANGE, "shutdown", CLUSTER_STOP_PATIENCE_S)
            )
        request = shutdown_request(engine)
        if request is not None and request.includes(*membership.own_incarnation()):
            return
        await _insist(
            membership,
            lambda done: engine.change_cluster_state(ClusterState.PASSIVE, done, transient=True),
        )
        # Those that are about to join as well: no other member would be left for them.
        leases = membership.member_table.leases()
        incarnations = {uuid: lease.incarnation for uuid, lease in leases.items()}
        incarnations.update([membership.own_incarnation()])
        made = ShutdownRequest(membership.new_id(), incarnations)
        await _insist(membership, made.put().begin(engine))


async def _insist(membership: Membership, begin: Begin) -> None:
    while not membership.conditions.ended and any(await carry_out(begin)):
        await membership.conditions.until(lambda: False, RENEW_S)


async def stop_all(member: StoppingMember, membership: Membership) -> None:
    """Ask all members to stop; this one stops whatever the others do."""
    asked = False
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLUSTER_STOP_LIMIT_S):
            await _request(membership)
            asked = True
            await member.wait_for_stop()
    if not asked:
        reason = "no majority took the request to stop all of them"
        event(_log, logging.WARNING, "only this member stops", reason=reason)
    member.request_stop()


async def stop_with_all(
    member: StoppingMember, membership: Membership, request: ShutdownRequest
) -> None:
    """Park this member, and stop it as soon as all others have seen the request."""
    event(_log, logging.INFO, "the cluster is to stop")
    try:
        noting = asyncio.to_thread(member.shutdown_marker.write, "clusterShutdown")
        await asyncio.wait_for(noting, MARKER_PATIENCE_S)
    except EngineError as unwritten:
        event(_log, logging.WARNING, "not parked", reason=str(unwritten))
    except TimeoutError:
        event(_log, logging.WARNING, "not parked", reason="the disk does not answer")
    # As long as there is a majority that can tell the others.
    await membership.conditions.until(
        lambda: membership.barriers.is_complete(request.id), CLUSTER_STOP_PATIENCE_S
    )
    member.request_stop()
