"""From what was observed and what is wanted to what is done now."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from grid_operator.api.conditions import ConditionStatus, ConditionType, find_condition
from grid_operator.decide.events import make_events
from grid_operator.decide.model import Decision
from grid_operator.decide.operations.drive import next_look
from grid_operator.decide.plan import make_plan
from grid_operator.decide.status import make_status

if TYPE_CHECKING:
    from datetime import datetime

    from grid_operator.api.status import GridClusterStatus
    from grid_operator.decide.model import Desired, Observed
    from grid_operator.decide.plan import Plan

SETTLED_PERIOD_S: Final = 10.0
"""Between two looks at a cluster in which nothing happens."""
UNSETTLED_PERIOD_S: Final = 2.0
"""Between two looks while something is being waited for."""
SOONEST_S: Final = 0.1
"""Before the next look when the journal moved on."""


def decide(observed: Observed, desired: Desired, now: datetime) -> Decision:
    """Return the writes of this round and the status that tells of them.

    No object is applied or deleted while the cluster is being deleted, is paused, or has a spec
    that cannot work. A call, and the deletion of a pod for an operation, belongs to the step that
    the observed status holds, never to one that is entered now. When nothing changed, the status
    equals the previous one byte for byte.
    """
    plan = make_plan(observed, desired, now)
    status = make_status(plan, now)
    return Decision(
        status=status,
        apply=plan.writes.apply,
        ask_again=plan.ask_again,
        delete=plan.writes.delete,
        delete_pods=plan.delete_pods,
        finalizers=plan.finalizers,
        call=plan.progress.move.call,
        events=make_events(plan, status),
        requeue_after_s=_period_s(plan, status, now),
    )


def _period_s(plan: Plan, status: GridClusterStatus, now: datetime) -> float:
    if status.operation != plan.situation.operation:
        return SOONEST_S
    progressing = find_condition(status.conditions, ConditionType.PROGRESSING)
    moving = progressing is not None and progressing.status is ConditionStatus.TRUE
    period_s = UNSETTLED_PERIOD_S if moving else SETTLED_PERIOD_S
    moment = next_look(plan.progress)
    if moment is None:
        return period_s
    left_s = (moment - now) / timedelta(seconds=1)
    return max(SOONEST_S, min(period_s, left_s))
