"""WanPublisher: running members are given a publisher, or lose one that left the spec.

Call ──▶ Confirm ──▶ finished, when a member shows the publisher, or shows it no more

What members show decides: a publisher that a member shows already is not added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_operator.api.phase import Step
from grid_operator.api.status import OperationKind, OperationOutcome
from grid_operator.decide.calls import Endpoint
from grid_operator.decide.operations.journal import (
    Move,
    begin,
    finish,
    is_over,
    step_end,
    tell,
    wait,
)
from grid_operator.decide.wan import parameters, publisher_target, shown_publishers, wished

if TYPE_CHECKING:
    from grid_operator.api.status import OperationStatus
    from grid_operator.decide.situation import Situation

LIMIT_S: Final = 120.0
"""For each of the two steps."""
ADD: Final = "Add"
REMOVE: Final = "Remove"


def wanted(situation: Situation) -> tuple[OperationStatus, ...]:
    """Return the operations for the publishers that members lack or should lose.

    None while pods are to be replaced, as new ones begin with the file, and while a member that is
    wanted cannot be used.
    """
    roll = situation.roll
    shown = shown_publishers(situation)
    if shown is None or roll.outdated or roll.unsettled or situation.member_problems():
        return ()
    wish = situation.desired.wan
    changes = [(p.name, ADD) for p in wish.publishers if p.name not in shown]
    changes += [(name, REMOVE) for name in wish.gone if name in shown]
    return tuple(
        begin(
            situation,
            OperationKind.WAN_PUBLISHER,
            Step.CALL,
            target=publisher_target(name),
            digest=change,
        )
        for name, change in changes
    )


def step(situation: Situation, operation: OperationStatus) -> Move:
    """Return the next move."""
    now, adds = situation.now, operation.digest == ADD
    wish = wished(situation, operation.target)
    if adds != (wish is not None):
        text = "spec.wan was changed meanwhile"
        return finish(operation, OperationOutcome.INTERRUPTED, now, text)
    shown = shown_publishers(situation)
    if shown is not None and adds == (operation.target in map(publisher_target, shown)):
        return finish(operation, OperationOutcome.SUCCEEDED, now)
    if operation.step == Step.CALL:
        endpoint = Endpoint.WAN_ADD if wish is not None else Endpoint.WAN_REMOVE
        content = parameters(operation.target) if wish is None else wish.definition
        move = tell(situation, operation, endpoint, content, LIMIT_S)
        return move or _failed(situation, operation)
    if is_over(operation, LIMIT_S, now):
        return _failed(situation, operation)
    return wait(operation, _awaited(operation), step_end(operation, LIMIT_S))


def _failed(situation: Situation, operation: OperationStatus) -> Move:
    reason = operation.last_error or _awaited(operation)
    return finish(operation, OperationOutcome.FAILED, situation.now, reason)


def _awaited(operation: OperationStatus) -> str:
    change = "show" if operation.digest == ADD else "stop showing"
    return f"for members to {change} publisher {operation.target}"
