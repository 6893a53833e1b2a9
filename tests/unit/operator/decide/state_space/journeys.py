"""Ways of a small world through an operation, and where they call a member."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from grid_operator.api.status import FinishedOperation, OperationKind
from grid_operator.decide import decide
from grid_operator.decide.calls import CallOutcome, CallRefused, CallUnknown
from grid_operator.decide.operations.journal import record_outcome
from tests.unit.operator.decide.state_space import moves
from tests.unit.operator.decide.state_space.moves import at_rest, complete, controllers
from tests.unit.operator.decide.state_space.world import Spec, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.decide.calls import MemberCall
    from grid_operator.decide.model import Decision

NO_ANSWER = CallUnknown("gave no complete answer")
REFUSED = CallRefused("answered 409: not now")
MAX_ROUNDS = 60


def settled(spec: Spec | None = None, *, may_hold: bool = False) -> World:
    """Return a cluster in which nothing is to be done."""
    world = World(spec=spec or Spec(), may_hold=may_hold)
    for _ in range(12):
        world = at_rest(complete(world, decided(world)))
    return world


def decided(world: World) -> Decision:
    return decide(world.observe(), world.desired(), world.now)


DAMAGED = replace(settled().with_disk(damaged=True).with_pod(process="damaged"))
STOPPED_FROZEN = settled().with_disk(state="FROZEN")


@dataclass(frozen=True, slots=True)
class Told:
    """What a round did: the journal's step as it was stored before, and its effect."""

    step: str
    effect: str


def effect_of(decision: Decision) -> str:
    if decision.call is not None:
        return decision.call.endpoint.name
    if decision.delete_pods:
        return "delete pod"
    applied = [f"{o['kind']} {o.get('spec', {}).get('replicas', '')}" for o in decision.apply]
    return ", ".join(applied).strip()


def run(world: World, until: Callable[[World], bool]) -> tuple[World, list[Told]]:
    """Go on until the condition holds; return what every round with an effect did."""
    told = []
    for _ in range(MAX_ROUNDS):
        world = at_rest(world)
        decision = decided(world)
        operation = world.status.operation
        effect = effect_of(decision)
        if effect:
            told.append(Told(operation.step if operation is not None else "", effect))
        world = complete(world, decision).later(max(decision.requeue_after_s, 0.1))
        if until(world):
            return world, told
    raise AssertionError(f"it does not come to that: {world}")


def ended(kind: OperationKind) -> Callable[[World], bool]:
    return lambda world: any(f.kind is kind for f in world.status.last_operations)


def newest(world: World) -> FinishedOperation:
    return world.status.last_operations[0]


def stopped(start: World) -> World:
    return moves.RUN(run(moves.STOP(start), ended(OperationKind.STOP))[0])


CASES = {
    OperationKind.CHANGE_STATE: (
        moves.FREEZE(settled()),
        [Told("Call", "CHANGE_STATE")],
    ),
    OperationKind.STOP: (
        moves.STOP(settled()),
        [
            Told("Passive", "CHANGE_STATE"),
            Told("Shutdown", "CLUSTER_SHUTDOWN"),
            Told("ScaleDown", "StatefulSet 0"),
        ],
    ),
    OperationKind.START: (
        stopped(STOPPED_FROZEN),
        [Told("ScaleUp", "StatefulSet 1"), Told("Resume", "CHANGE_STATE")],
    ),
    OperationKind.RESTART: (
        moves.RESTART(settled().later(5)),
        [Told("ShutDownMember", "MEMBER_SHUTDOWN"), Told("DeletePod", "delete pod")],
    ),
    OperationKind.APPLY_LIVE: (moves.GIVE(settled()), [Told("Upload", "CONFIG_UPLOAD")]),
    OperationKind.BACKUP: (moves.BACKUP(settled()), [Told("Begin", "BACKUP")]),
    OperationKind.FORCE_START: (moves.FORCE(DAMAGED), [Told("Call", "FORCE_START")]),
    OperationKind.PARTIAL_START: (moves.PARTIAL(DAMAGED), [Told("Call", "PARTIAL_START")]),
    OperationKind.RESTORE: (World(spec=Spec(restores=True)), [Told("Copy", "Job")]),
    OperationKind.SHUT_DOWN: (
        moves.delete(settled(may_hold=True)),
        [Told("Passive", "CHANGE_STATE"), Told("Shutdown", "CLUSTER_SHUTDOWN")],
    ),
}


def calling(kind: OperationKind) -> list[World]:
    """Return the worlds of a case in which the next round calls a member."""
    world, found = CASES[kind][0], []
    for _ in range(MAX_ROUNDS):
        world = at_rest(world)
        decision = decided(world)
        if decision.call is not None:
            found.append(world)
        world = complete(world, decision).later(max(decision.requeue_after_s, 0.1))
        if ended(kind)(world):
            return found
    raise AssertionError(kind)


def called(decision: Decision) -> MemberCall:
    assert decision.call is not None
    return decision.call


def next_call(world: World) -> MemberCall:
    """Return the next call without anything else happening but time."""
    for _ in range(MAX_ROUNDS):
        decision = decided(world)
        if decision.call is not None:
            return decision.call
        world = world.with_status(decision.status).later(decision.requeue_after_s)
    raise AssertionError("no call")


def refuse(world: World, outcome: CallOutcome) -> tuple[World, float]:
    """Answer every call in the same way until the operation is over; return how long it took."""
    assert world.status.operation is not None
    operation, begun = world.status.operation, world.now
    for _ in range(2000):
        decision = decided(world)
        status = decision.status
        if decision.call is not None:
            status = record_outcome(status, decision.call, outcome, world.now)
        world = world.with_objects(decision).with_status(status)
        while (after := controllers(world)) is not None:
            world = after
        present = world.status.operation
        if present is None or present.id != operation.id:
            return world, (world.now - begun).total_seconds()
        world = world.later(decision.requeue_after_s)
    raise AssertionError("it has no end")
