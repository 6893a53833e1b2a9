"""`grid-member client drain`: a preStop hook that holds a pod's stop back until it is safe.

A hook that fails is an event on the pod and stops the member all the same, so whatever members say
ends with exit code 0; only a wrong command line does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.client.errors import ClientError, NoListenerError, PassingError

if TYPE_CHECKING:
    from grid_member.client.deadline import Deadline
    from grid_member.client.member import MemberClient

STARTING: Final = "STARTING"
PASSIVE: Final = "PASSIVE"
ACTIVE: Final = "ACTIVE"


def drain(member: MemberClient, deadline: Deadline) -> str:
    """Wait until the cluster can do without the member; return why the stop goes on."""
    try:
        deadline.until(lambda: _require_dispensable(member))
    except ClientError as error:
        return f"the stop goes on: {error}"
    return f"the stop goes on: every copy is current, as {member.name} says"


def _require_dispensable(member: MemberClient) -> None:
    try:
        member.require_safe()
    except NoListenerError as error:
        raise _NothingToLoseError(str(error)) from None
    except PassingError:
        health = member.health()
        node = health.get("nodeState")
        # A member that has not joined serves nobody. Its pod is often replaced because of that.
        if node == STARTING:
            raise _NothingToLoseError(f"{member.name} has not joined the cluster") from None
        # Nor does one that is parked, as one that has left for good: it never calls itself safe.
        if node == PASSIVE and health.get("clusterState") == ACTIVE:
            raise _NothingToLoseError(f"{member.name} is parked or stops already") from None
        raise


class _NothingToLoseError(ClientError):
    """There is nothing to wait for."""
