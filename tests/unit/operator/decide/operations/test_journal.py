"""The journal's own rules: ids, times of attempts, what is kept of operations that ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from grid_operator.api.conditions import timestamp
from grid_operator.api.status import (
    MAX_LAST_OPERATIONS,
    FinishedOperation,
    OperationKind,
    OperationOutcome,
    OperationStatus,
)
from grid_operator.decide.calls import CallDone, CallRefused, CallUnknown, Endpoint, MemberCall
from grid_operator.decide.operations.journal import (
    attempt,
    filed,
    next_attempt,
    operation_id,
    record_outcome,
)
from grid_operator.decide.roll import Roll
from grid_operator.decide.situation import Situation
from tests.unit.operator.decide.state_space import moves
from tests.unit.operator.decide.state_space.journeys import calling, decided
from tests.unit.operator.decide.state_space.world import START, World


def situation(world: World | None = None) -> Situation:
    found = world or World()
    return Situation(found.observe(), found.desired(), Roll(), found.now)


def entry(kind: OperationKind = OperationKind.STOP, step: str = "Passive") -> OperationStatus:
    time = timestamp(START)
    return OperationStatus(id="one", kind=kind, step=step, started=time, step_started=time)


@pytest.mark.parametrize(
    ("attempts", "wait_s"), [(1, 2), (2, 4), (3, 8), (4, 16), (5, 32), (6, 60), (7, 60), (99, 60)]
)
def test_attempts_come_ever_later(attempts: int, wait_s: int) -> None:
    tried = entry().model_copy(update={"attempts": attempts, "last_attempt": timestamp(START)})

    assert next_attempt(tried, START) == START + timedelta(seconds=wait_s)
    assert next_attempt(tried, START + timedelta(seconds=wait_s)) is None


def test_a_clock_that_was_set_back_delays_no_attempt() -> None:
    tried = entry().model_copy(update={"attempts": 9, "last_attempt": timestamp(START)})

    assert next_attempt(tried, START - timedelta(days=1)) is None


def test_a_clock_that_was_set_back_moves_the_deadline_with_it() -> None:
    world = calling(OperationKind.CHANGE_STATE)[0].later(-86_400)

    decision = decided(world)

    assert decision.status.operation is not None
    assert decision.status.operation.step_started == timestamp(world.now)


def test_a_clock_that_was_set_back_lengthens_no_deletion() -> None:
    world = calling(OperationKind.SHUT_DOWN)[0].later(-86_400)
    begun = world.now
    while not world.gone:
        decision = decided(world)
        status = decision.status
        if decision.call is not None:
            status = record_outcome(status, decision.call, CallRefused("not now"), world.now)
        world = world.with_status(status).with_finalizers(decision)
        world = world.later(max(decision.requeue_after_s, 0.1))

    assert (world.now - begun).total_seconds() <= 70


@pytest.mark.parametrize("kind", OperationKind)
def test_ids_fit_and_differ(kind: OperationKind) -> None:
    here = situation()
    later = situation(World().later(1))
    again = situation(moves.PAUSE(World()))

    ids = {operation_id(s, kind, "demo-0", "") for s in (here, later, again)}
    ids |= {operation_id(here, kind, "demo-1", ""), operation_id(here, kind, "demo-0", "", "d")}
    ids |= {operation_id(here, kind, "demo-0", "r1"), operation_id(here, kind, "demo-0", "r2")}

    assert len(ids) == 7
    assert all(len(i) <= 64 and i.startswith(f"{kind.value.lower()}-") for i in ids)
    assert operation_id(here, kind, "", "r1") == operation_id(later, kind, "", "r1")


def test_two_operations_of_one_second_have_two_ids() -> None:
    first = operation_id(situation(), OperationKind.RESTART, "demo-0", "")
    done = replace(
        World(), status=World().status.model_copy(update={"last_operations": (end(first),)})
    )

    assert operation_id(situation(done), OperationKind.RESTART, "demo-0", "") != first


def end(name: str) -> FinishedOperation:
    return FinishedOperation(
        id=name,
        kind=OperationKind.STOP,
        outcome=OperationOutcome.SUCCEEDED,
        started=timestamp(START),
        finished=timestamp(START),
    )


def test_the_newest_operations_are_kept_each_once() -> None:
    known: tuple[FinishedOperation, ...] = ()
    for number in (*range(20), 15):
        known = filed(known, end(f"o{number}"))

    assert len(known) == MAX_LAST_OPERATIONS
    assert [f.id for f in known[:3]] == ["o15", "o19", "o18"]
    assert len({f.id for f in known}) == len(known)


def test_a_call_of_a_restart_is_told_apart_by_its_pod() -> None:
    world = calling(OperationKind.RESTART)[0]
    pod = world.pod_object()
    other = {**pod, "metadata": {**pod["metadata"], "uid": "pod-8"}}
    operation = entry(OperationKind.RESTART, "ShutDownMember")

    keys = {
        move.call.key
        for p in (pod, other)
        if (move := attempt(situation(world), operation, p, Endpoint.MEMBER_SHUTDOWN)).call
    }

    assert keys == {"one.ShutDownMember.pod-1", "one.ShutDownMember.pod-8"}


@pytest.mark.parametrize(
    ("outcome", "step", "error"),
    [
        (CallDone(), "Shutdown", ""),
        (CallRefused("not now"), "Passive", "demo-0: not now"),
        (CallUnknown("no answer"), "Passive", "demo-0: no answer"),
    ],
)
def test_the_outcome_of_a_call_is_written_down(
    outcome: CallDone | CallRefused | CallUnknown, step: str, error: str
) -> None:
    tried = entry().model_copy(update={"attempts": 1, "last_attempt": timestamp(START)})
    status = World().status.model_copy(update={"operation": tried})
    pod = {"metadata": {"name": "demo-0", "uid": "u"}}
    call = MemberCall(pod, Endpoint.CHANGE_STATE, "one.Passive", "passive")

    operation = record_outcome(status, call, outcome, START + timedelta(seconds=1)).operation

    assert operation is not None
    assert (operation.step, operation.last_error) == (step, error)
    assert operation.attempts == (0 if step == "Shutdown" else 1)


def test_a_long_error_is_cut() -> None:
    status = World().status.model_copy(update={"operation": entry()})
    call = MemberCall({"metadata": {"name": "demo-0"}}, Endpoint.CHANGE_STATE, "one.Passive")

    operation = record_outcome(status, call, CallUnknown("x" * 5000), START).operation

    assert operation is not None
    assert len(operation.last_error) == 1024


def test_the_parameter_of_a_call_is_not_shown() -> None:
    call = MemberCall({}, Endpoint.LICENSE, "one.License", "a-licence")

    assert "a-licence" not in repr(call)
