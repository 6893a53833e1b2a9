"""Every operation: its steps in order, and what becomes of it wherever it is cut off."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from grid_operator.api.status import OperationKind
from grid_operator.decide.calls import CallRefused, Endpoint
from grid_operator.decide.operations.journal import record_outcome
from tests.unit.operator.decide.state_space import moves
from tests.unit.operator.decide.state_space.journeys import (
    CASES,
    NO_ANSWER,
    REFUSED,
    called,
    calling,
    decided,
    ended,
    newest,
    next_call,
    run,
    settled,
)
from tests.unit.operator.decide.state_space.moves import at_rest, complete
from tests.unit.operator.decide.state_space.world import Spec

if TYPE_CHECKING:
    from tests.unit.operator.decide.state_space.world import World


def test_every_kind_has_a_case() -> None:
    """But for those of several members, which `test_shrinking.py` and `test_wan.py` have."""
    elsewhere = {OperationKind.SHRINK, OperationKind.WAN_PUBLISHER, OperationKind.WAN_STATE}
    assert set(CASES) == set(OperationKind) - elsewhere


@pytest.mark.parametrize("kind", CASES)
def test_steps_in_order(kind: OperationKind) -> None:
    start, steps = CASES[kind]

    world, told = run(start, ended(kind))

    assert told == steps
    finished = next(f for f in world.status.last_operations if f.kind is kind)
    assert (finished.outcome, finished.message) == ("Succeeded", "")


@pytest.mark.parametrize("kind", CASES)
def test_what_is_written_first_has_no_effect_yet(kind: OperationKind) -> None:
    world = CASES[kind][0]
    while world.status.operation is None:
        decision = decided(world)
        assert (decision.call, decision.delete_pods) == (None, ())
        world = complete(world, decision)

    assert world.status.operation.attempts == 0
    events = [event.reason for event in decision.events]
    assert f"{kind.value}Started" in events


STEPS = [
    pytest.param(world, id=f"{kind.value}-{world.status.operation.step}")
    for kind in CASES
    for world in calling(kind)
    if world.status.operation is not None
]
"""One for every step of every operation that calls a member."""


@pytest.mark.parametrize("world", STEPS)
def test_a_call_is_counted_before_it_is_sent(world: World) -> None:
    decision = decided(world)

    before, written = world.status.operation, decision.status.operation
    assert before is not None
    assert written is not None
    assert (before.attempts, written.attempts) == (0, 1)
    assert (written.id, written.step) == (before.id, before.step)
    assert called(decision).key.startswith(f"{before.id}.{before.step}")


@pytest.mark.parametrize("world", STEPS)
def test_an_operator_that_dies_before_the_call_makes_the_same_call_again(world: World) -> None:
    decision = decided(world)
    dead = world.with_status(decision.status)

    assert next_call(dead) == called(decision)


@pytest.mark.parametrize("world", STEPS)
def test_an_operator_that_dies_before_the_write_decides_the_same_again(world: World) -> None:
    assert decided(world) == decided(world)


@pytest.mark.parametrize("world", STEPS)
def test_an_answer_that_is_lost_leads_on_without_a_second_effect(world: World) -> None:
    decision = decided(world)
    assert world.status.operation is not None
    kind = world.status.operation.kind
    done, _ = world.with_status(decision.status).called(called(decision))

    # A second effect of one step raises in the world.
    after, _ = run(done.later(3), ended(kind))

    finished = next(f for f in after.status.last_operations if f.kind is kind)
    assert finished.outcome == "Succeeded"


@pytest.mark.parametrize("world", STEPS)
def test_an_attempt_without_an_answer_is_repeated_under_the_same_key(world: World) -> None:
    decision = decided(world)
    status = record_outcome(decision.status, called(decision), NO_ANSWER, world.now)
    assert status.operation is not None
    if status.operation.step != decision.status.operation.step:  # type: ignore[union-attr]
        assert status.operation.step == "DeletePod"
        return

    assert decided(world.with_status(status)).call is None
    assert next_call(world.with_status(status)) == called(decision)


@pytest.mark.parametrize("policy", ["Report", "Correct", "Adopt"])
def test_what_a_stop_and_a_start_do_to_the_cluster_state_is_no_drift(policy: str) -> None:
    world = moves.STOP(settled(Spec(cluster_state="Active", drift_policy=policy)))
    reasons = set()
    for wish in (lambda w: w, moves.RUN):
        world = wish(world)
        for _ in range(12):
            decision = decided(at_rest(world))
            reasons |= {e.reason for e in decision.events}
            world = complete(at_rest(world), decision).later(1)
            found = {c.type: c.reason for c in decision.status.conditions}
            assert found["ClusterStateAsDesired"] not in ("Drifted", "Adopted")

    assert {"StopSucceeded", "StartSucceeded"} <= reasons
    assert "Drifted" not in reasons
    assert not any(f.kind is OperationKind.CHANGE_STATE for f in world.status.last_operations)


def test_an_outcome_of_another_operation_is_not_recorded() -> None:
    world = calling(OperationKind.BACKUP)[0]
    decision = decided(world)
    other = replace(called(decision), key="backup-00000000.Begin")

    assert record_outcome(decision.status, other, REFUSED, world.now) is decision.status
    assert called(decision).endpoint is Endpoint.BACKUP


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (CallRefused("answered 409: another change is under way", conflict=True), "Succeeded"),
        (CallRefused("answered 400: no such setting"), "Failed"),
    ],
)
def test_an_addition_waits_for_another_change_of_the_cluster(
    answer: CallRefused, outcome: str
) -> None:
    world = calling(OperationKind.APPLY_LIVE)[0]
    decision = decided(world)
    status = record_outcome(decision.status, called(decision), answer, world.now)

    world, _ = run(world.with_status(status).later(2), ended(OperationKind.APPLY_LIVE))

    assert (newest(world).kind, newest(world).outcome) == (OperationKind.APPLY_LIVE, outcome)
