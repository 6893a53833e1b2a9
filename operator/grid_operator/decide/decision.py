"""From what was observed and what is wanted to what is done now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_operator.api.conditions import ConditionStatus, ConditionType, find_condition
from grid_operator.decide.events import make_events
from grid_operator.decide.model import Decision
from grid_operator.decide.plan import make_plan
from grid_operator.decide.status import make_status

if TYPE_CHECKING:
    from datetime import datetime

    from grid_operator.api.gridcluster import GridClusterStatus
    from grid_operator.api.objects import KubeObject
    from grid_operator.decide.model import Observed

SETTLED_PERIOD_S: Final = 10.0
"""Between two looks at a cluster in which nothing happens."""
UNSETTLED_PERIOD_S: Final = 2.0
"""Between two looks while something is being waited for."""


def decide(observed: Observed, desired: tuple[KubeObject, ...], now: datetime) -> Decision:
    """Return the writes of this round and the status that tells of them.

    Nothing is applied or deleted while the cluster is being deleted, is paused, or has a spec
    that cannot work. When nothing changed, the status equals the previous one byte for byte.
    """
    plan = make_plan(observed, desired)
    status = make_status(observed, plan, now)
    return Decision(
        status=status,
        apply=plan.apply,
        delete=plan.delete,
        delete_pods=plan.roll.delete_pods,
        events=make_events(observed, plan, status),
        requeue_after_s=_period_s(status),
    )


def _period_s(status: GridClusterStatus) -> float:
    progressing = find_condition(status.conditions, ConditionType.PROGRESSING)
    moving = progressing is not None and progressing.status is ConditionStatus.TRUE
    return UNSETTLED_PERIOD_S if moving else SETTLED_PERIOD_S
