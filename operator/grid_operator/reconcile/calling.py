"""One call to a member: its intent written first, then sent in time, then its outcome written.

The status that holds the intent names the resourceVersion that it was decided on. So of two
operators at work on one cluster only one gets to its call, and one that was paused since it wrote
its intent sends nothing, because others may have gone on in the meantime.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from grid_operator.api.objects import KubeObject, ObjectRef
from grid_operator.decide.operations.journal import record_outcome
from grid_operator.ports.errors import NotReady

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from grid_operator.api.status import GridClusterStatus
    from grid_operator.decide.calls import MemberCall
    from grid_operator.ports.api import Kube, MemberAccess, Members

LOG: Final = logging.getLogger(__name__)

CALL_START_LIMIT_S: Final = 5.0
"""From before the intent was written to the first byte of the call."""
AFTER_CALL_S: Final = 0.1
"""Until the next look after a call: its step has an outcome, or waits for its next attempt."""
TOO_LATE_DELAY_S: Final = 1.0


class Caller:
    """Sends the calls that decisions ask for."""

    def __init__(
        self,
        kube: Kube,
        members: Members,
        now: Callable[[], datetime],
        steady_s: Callable[[], float],
        may_act: Callable[[], bool],
    ) -> None:
        """Make a caller.

        Args:
            kube: Where outcomes are written.
            members: Who is called.
            now: The clock of statuses.
            steady_s: Seconds that pass while this process, or the machine, is stopped.
            may_act: Whether this operator may change anything now.
        """
        self._kube = kube
        self._members = members
        self._now = now
        self._steady_s = steady_s
        self._may_act = may_act

    async def carry_out(
        self,
        written: KubeObject,
        status: GridClusterStatus,
        call: MemberCall,
        access: MemberAccess,
        intended_s: float,
    ) -> float:
        """Send the call and write down what became of it.

        Args:
            written: The GridCluster as the API server holds it, the intent in its status.
            status: That status.
            call: What to tell whom.
            access: What opens the member's listener.
            intended_s: Steady seconds before the intent was written.

        Returns:
            Seconds until the next look.

        Raises:
            NotReady: It was too late to send the call; nothing was sent.
            OperatorError: The outcome could not be written: the next round sends the same call
                under the same key.
        """

        def may_send() -> bool:
            in_time = self._steady_s() - intended_s <= CALL_START_LIMIT_S
            return in_time and self._may_act()

        outcome = await self._members.call(call, access, may_send)
        name = f"{ObjectRef.of(written)}: {call.endpoint.name} to {call.pod['metadata']['name']}"
        if outcome is None:
            raise NotReady(f"{name} was not sent: too late after its intent", TOO_LATE_DELAY_S)
        LOG.info("%s: %s", name, outcome)
        recorded = record_outcome(status, call, outcome, self._now())
        if recorded != status:
            await self._kube.apply_status(written, recorded.to_kube())
        return AFTER_CALL_S
