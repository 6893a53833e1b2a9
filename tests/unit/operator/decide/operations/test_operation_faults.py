"""Operations that members do not carry out, and those that find the world changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from grid_operator.api.status import OperationKind
from grid_operator.decide import decide
from grid_operator.decide.operations.journal import record_outcome
from tests.unit.operator.decide.state_space import moves
from tests.unit.operator.decide.state_space.journeys import (
    CASES,
    NO_ANSWER,
    REFUSED,
    Told,
    calling,
    decided,
    ended,
    newest,
    refuse,
    run,
    settled,
)
from tests.unit.operator.decide.state_space.moves import at_rest, complete, controllers
from tests.unit.operator.decide.state_space.world import JOINED, START, Spec, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.decide.calls import CallOutcome


@pytest.mark.parametrize(
    ("kind", "answer", "outcome", "seconds"),
    [
        (OperationKind.CHANGE_STATE, NO_ANSWER, "Failed", 120),
        (OperationKind.CHANGE_STATE, REFUSED, "Failed", 120),
        (OperationKind.STOP, NO_ANSWER, "Succeeded", 120),
        (OperationKind.STOP, REFUSED, "Succeeded", 120),
        (OperationKind.RESTART, NO_ANSWER, "Succeeded", 0),
        (OperationKind.RESTART, REFUSED, "Succeeded", 60),
        (OperationKind.APPLY_LIVE, NO_ANSWER, "Failed", 120),
        (OperationKind.APPLY_LIVE, REFUSED, "Failed", 0),
        (OperationKind.BACKUP, NO_ANSWER, "Failed", 3600),
        (OperationKind.BACKUP, REFUSED, "Failed", 3600),
        (OperationKind.FORCE_START, NO_ANSWER, "Failed", 120),
        (OperationKind.FORCE_START, REFUSED, "Failed", 0),
        (OperationKind.PARTIAL_START, NO_ANSWER, "Failed", 120),
        (OperationKind.PARTIAL_START, REFUSED, "Failed", 0),
        (OperationKind.SHUT_DOWN, NO_ANSWER, "Failed", 60),
        (OperationKind.SHUT_DOWN, REFUSED, "Failed", 60),
    ],
)
def test_a_member_that_never_does_it(
    kind: OperationKind, answer: CallOutcome, outcome: str, seconds: float
) -> None:
    world, took_s = refuse(calling(kind)[0], answer)

    assert (newest(world).kind, newest(world).outcome) == (kind, outcome)
    assert took_s == pytest.approx(seconds, abs=4)
    if newest(world).outcome == "Failed" or kind is OperationKind.STOP:
        assert "demo-0: " in newest(world).message


def test_a_start_has_no_deadline_and_says_what_the_member_answers() -> None:
    world = calling(OperationKind.START)[0]
    for _ in range(300):
        decision = decided(world)
        status = decision.status
        if decision.call is not None:
            status = record_outcome(status, decision.call, REFUSED, world.now)
        world = world.with_status(status).later(decision.requeue_after_s)

    assert world.status.operation is not None
    assert world.status.operation.step == "Resume"
    progressing = next(c for c in world.status.conditions if c.type == "Progressing")
    assert (progressing.status, progressing.reason) == ("True", "Start")
    assert "demo-0: answered 409: not now" in progressing.message


def test_an_operation_that_failed_begins_again_after_a_minute_and_says_when() -> None:
    world, _ = refuse(calling(OperationKind.CHANGE_STATE)[0], REFUSED)

    progressing = next(c for c in world.status.conditions if c.type == "Progressing")
    assert (progressing.status, progressing.reason) == ("True", "Retrying")
    assert "begins again at 2026-01-01T00:03:" in progressing.message
    failed = newest(world)
    world, _ = run(world.later(2), lambda w: w.status.operation is not None)
    began = world.status.operation
    assert began is not None
    assert began.id != failed.id
    assert began.started >= "2026-01-01T00:03:"


def test_another_spec_is_not_made_to_wait() -> None:
    world, _ = refuse(calling(OperationKind.CHANGE_STATE)[0], REFUSED)

    world, _ = run(moves.spec_edit(cluster_state="Passive")(world), lambda w: True)

    assert world.status.operation is not None
    assert world.status.operation.target == "Passive"


# What an operation finds changed in the meantime


def test_stop_of_a_member_that_is_parked_already_tells_nobody() -> None:
    parked = settled().with_pod(process="parked")

    world, told = run(moves.STOP(parked), ended(OperationKind.STOP))

    assert told == [Told("ScaleDown", "StatefulSet 0")]
    assert world.status.stopped


def test_stop_never_deletes_the_pod_of_a_parked_member_itself() -> None:
    world = moves.STOP(settled())
    while world.status.stopped is not True:
        decision = decided(at_rest(world))
        assert decision.delete_pods == ()
        world = complete(at_rest(world), decision).later(1)


def test_a_parked_member_that_nobody_wants_parked_gets_a_new_pod() -> None:
    decision = decided(settled().with_pod(process="parked"))

    assert [pod["metadata"]["uid"] for pod in decision.delete_pods] == ["pod-1"]


def test_a_restart_never_deletes_the_pod_that_came_after() -> None:
    world = calling(OperationKind.RESTART)[0]
    world = complete(world, decided(world))
    assert world.status.operation is not None
    assert world.status.operation.step == "DeletePod"
    assert world.pod is not None
    another = replace(world, pod=replace(world.pod, uid=7, process=JOINED))

    decision = decided(another)

    assert decision.delete_pods == ()
    assert decision.status.operation is not None
    assert decision.status.operation.step == "AwaitReady"


def test_a_restart_waits_behind_the_gate_in_its_middle_too() -> None:
    world = calling(OperationKind.RESTART)[0].with_pod(hangs=True)

    decision = decided(world)

    assert decision.call is None
    progressing = next(c for c in decision.status.conditions if c.type == "Progressing")
    assert progressing.reason == "Restart"
    assert "until it is safe: demo-0 does not answer" in progressing.message


def test_a_forced_start_is_not_repeated_in_another_pod() -> None:
    world = calling(OperationKind.FORCE_START)[0]
    decision = decided(world)
    world = world.with_status(decision.status).with_pod(uid=9).later(60)

    after = decided(world)

    assert after.call is None
    assert after.status.last_operations[0].outcome == "Failed"
    assert "replaced" in after.status.last_operations[0].message


def test_a_member_that_joins_by_itself_loses_nothing() -> None:
    world = calling(OperationKind.FORCE_START)[0].with_pod(process=JOINED)

    after = decided(world)

    assert after.call is None
    assert after.status.last_operations[0].outcome == "Failed"


def test_live_content_that_changes_in_between_begins_anew() -> None:
    world = calling(OperationKind.APPLY_LIVE)[0]
    live = replace(world.desired().live, digest="d2")

    after = decide(world.observe(), replace(world.desired(), live=live), world.now)

    assert after.call is None
    assert after.status.last_operations[0].outcome == "Interrupted"
    assert after.status.operation is not None
    assert after.status.operation.digest == "d2"


def test_a_member_with_another_identity_is_given_everything_again() -> None:
    world, _ = run(moves.GIVE(settled()), ended(OperationKind.APPLY_LIVE))
    assert [m.live_digest for m in world.status.members] == ["d1"]

    other = decided(world.with_disk(uuid=5))

    assert other.status.operation is not None
    assert other.status.operation.kind is OperationKind.APPLY_LIVE
    assert [m.live_digest for m in other.status.members] == [""]


def test_a_member_that_was_started_anew_in_between_has_not_taken_it() -> None:
    world = calling(OperationKind.APPLY_LIVE)[0]
    world = complete(world, decided(world)).with_disk(uuid=5)

    after = decided(world)

    assert after.status.last_operations[0].outcome == "Interrupted"
    assert [m.live_digest for m in after.status.members] == [""]


def test_a_member_that_does_not_answer_for_a_while_is_given_nothing_again() -> None:
    world, _ = run(moves.GIVE(settled()), ended(OperationKind.APPLY_LIVE))
    hanging = world.with_pod(hangs=True)
    world = complete(hanging, decided(hanging)).with_pod(hangs=False)

    assert decided(world).status.operation is None


def test_a_restore_that_failed_makes_no_member_and_tries_again_later() -> None:
    world = World(spec=Spec(restores=True))
    for _ in range(3):
        world = complete(world, decided(world)).later(1)
    world = replace(world, job="Failed")
    world = complete(world, decided(world))
    for _ in range(3):
        world = complete(world, decided(world)).later(1)

    assert world.statefulset is None
    assert world.job is None
    found = {c.type: c for c in world.status.conditions}
    assert (found["Ready"].reason, found["Restored"].reason) == ("RestoreFailed", "RestoreFailed")
    assert "checksum" in found["Ready"].message
    assert world.status.operation is None
    again = complete(world.later(300), decided(world.later(300)))
    assert again.status.operation is not None
    assert again.status.operation.kind is OperationKind.RESTORE


def test_a_restore_never_replaces_the_data_of_members_that_are_there() -> None:
    world = settled()
    world = replace(world, spec=Spec(restores=True), status=type(world.status)())

    decision = decided(world)

    assert decision.delete == ()
    assert decision.status.operation is None
    assert decision.status.restored_from == "source-backup/source-0/newest"


@pytest.mark.parametrize(
    "obstacle",
    [
        moves.PAUSE,
        lambda world: replace(world, terminating=True),
        lambda world: world.with_pod(hangs=True),
        lambda world: replace(world, pod=None),
    ],
)
def test_a_deletion_is_held_up_by_nothing(obstacle: Callable[[World], World]) -> None:
    world = obstacle(moves.delete(settled(may_hold=True)))
    assert world.finalizer

    decision = decided(world)

    assert decision.finalizers == ()
    assert decision.call is None


def test_an_unknown_step_in_the_journal_ends_the_operation() -> None:
    world = calling(OperationKind.BACKUP)[0]
    assert world.status.operation is not None
    strange = world.status.operation.model_copy(update={"step": "Dance"})
    world = world.with_status(world.status.model_copy(update={"operation": strange}))

    after = decided(world)

    assert after.status.last_operations[0].outcome == "Failed"


def test_a_start_brings_back_the_state_from_before_the_stop() -> None:
    start, _ = CASES[OperationKind.START]
    assert (start.disk.state, start.status.resume_state) == ("PASSIVE", "Frozen")

    world, _ = run(start, ended(OperationKind.START))

    assert (world.disk.state, world.status.resume_state) == ("FROZEN", None)


def test_no_start_brings_back_a_state_that_there_is_not() -> None:
    world, _ = run(moves.STOP(settled().with_disk(state="DANCING")), ended(OperationKind.STOP))
    assert world.status.resume_state is None

    world, told = run(moves.RUN(world), ended(OperationKind.START))

    assert told == [Told("ScaleUp", "StatefulSet 1")]


def test_a_start_that_is_interrupted_does_not_forget_the_state() -> None:
    start, _ = CASES[OperationKind.START]
    world = complete(start, decided(start))
    assert world.status.operation is not None

    world, _ = run(moves.STOP(world), lambda w: bool(w.status.stopped))
    assert newest(world).kind is OperationKind.STOP
    world, _ = run(moves.RUN(world), lambda w: w.status.resume_state is None)

    assert world.disk.state == "FROZEN"


def damaged_on_start(world: World) -> World:
    """Return the world in which the member that starts finds its data damaged."""
    while world.pod is None or world.pod.process != "damaged":
        world = at_rest(world.with_disk(damaged=True))
        world = complete(world, decided(world)).later(1)
    return world


@pytest.mark.parametrize("kind", [OperationKind.START, OperationKind.RESTART])
def test_a_member_with_damaged_data_holds_up_no_request_about_it(kind: OperationKind) -> None:
    world = CASES[kind][0]
    while world.status.operation is None or world.status.operation.step != "AwaitReady":
        world = complete(world, decided(world)).later(1)
        world = replace(world, pod=None) if world.pod and world.pod.terminating else world
    world = damaged_on_start(world)
    assert world.status.operation is not None
    assert world.status.operation.kind is kind

    world, told = run(moves.FORCE(world), ended(OperationKind.FORCE_START))

    assert Told("Call", "FORCE_START") in told
    outcomes = {f.kind: f.outcome for f in world.status.last_operations}
    assert (outcomes[kind], outcomes[OperationKind.FORCE_START]) == ("Interrupted", "Succeeded")


def test_the_state_from_before_a_stop_returns_after_a_forced_start_too() -> None:
    world = CASES[OperationKind.START][0]
    while world.status.operation is None or world.status.operation.step != "AwaitReady":
        world = complete(world, decided(world)).later(1)
    world = moves.FORCE(damaged_on_start(world))

    world, _ = run(world, lambda w: w.status.resume_state is None)

    assert world.disk.state == "FROZEN"
    assert not world.disk.damaged


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "until the pods are gone: demo-0 is being deleted"),
        (
            90,
            "until the pods are gone: demo-0 is being deleted and should have been gone at "
            "2026-01-01T00:00:00Z: look whether node n1 works",
        ),
    ],
)
def test_a_pod_that_does_not_go_is_looked_for_at_its_node(seconds: float, told: str) -> None:
    world = moves.STOP(settled())
    while world.pod is None or not world.pod.terminating:
        world = complete(world, decided(world)).later(0.1)
        world = controllers(world) or world
    observed = world.observe()
    pod = {**observed.pods[0], "spec": {"nodeName": "n1"}}

    decision = decide(
        replace(observed, pods=(pod,)), world.desired(), START + timedelta(seconds=seconds)
    )

    conditions = {c.type: c.message for c in decision.status.conditions}
    assert conditions["Progressing"] == f"ScaleDown Active: {told}"


def test_a_stop_is_over_when_the_controller_has_seen_it() -> None:
    world = moves.STOP(settled())
    while world.status.operation is None or world.status.operation.step != "ScaleDown":
        world = complete(world, decided(world)).later(1)
    world = replace(complete(world, decided(world)), pod=None)
    assert world.statefulset is not None
    assert not world.statefulset.seen

    decision = decided(world)

    assert decision.status.stopped is None
    progressing = next(c for c in decision.status.conditions if c.type == "Progressing")
    assert "StatefulSet controller has seen that demo has no replicas" in progressing.message
    assert decided(at_rest(world)).status.stopped
