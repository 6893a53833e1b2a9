"""What is wanted again and again, what is not wanted any more, and what fails every minute."""

from __future__ import annotations

from datetime import timedelta

import pytest

from grid_operator.api.conditions import timestamp
from grid_operator.api.status import FinishedOperation, OperationKind, OperationOutcome
from grid_operator.decide.operations.journal import filed
from tests.unit.operator.decide.state_space import moves
from tests.unit.operator.decide.state_space.journeys import (
    calling,
    decided,
    ended,
    newest,
    run,
    settled,
)
from tests.unit.operator.decide.state_space.moves import at_rest, complete
from tests.unit.operator.decide.state_space.world import JOINED, START, Spec, World

MINUTE_S = 60


def kept_frozen(world: World, seconds: int) -> tuple[World, int]:
    """Have somebody freeze the cluster again and again; return how many rounds wrote anything."""
    end, writes = world.now + timedelta(seconds=seconds), 0
    while world.now < end:
        if world.status.operation is None:
            world = world.with_disk(state="FROZEN")
        decision = decided(world)
        writes += decision.status != world.status
        world = complete(world, decision).later(max(decision.requeue_after_s, 0.25))
    return world, writes


def test_a_fight_about_the_cluster_state_is_fought_once_in_a_while() -> None:
    world = settled(Spec(cluster_state="Active", drift_policy="Correct"))

    world, writes = kept_frozen(world, 10 * MINUTE_S)

    assert 10 * 3 <= writes <= 10 * 20
    done = [f for f in world.status.last_operations if f.kind is OperationKind.CHANGE_STATE]
    assert len(done) >= 3
    while decided(world).status.operation is not None:
        world, _ = kept_frozen(world, 1)
    progressing = next(c for c in decided(world).status.conditions if c.type == "Progressing")
    assert (progressing.status, progressing.reason) == ("True", "Retrying")
    assert "ChangeState of Active ended 3 times within 60 s" in progressing.message
    assert "look who undoes it" in progressing.message


def test_a_backup_begins_in_the_pauses_of_a_fight() -> None:
    world = settled(Spec(cluster_state="Active", drift_policy="Correct"))
    world, _ = kept_frozen(world, MINUTE_S)

    world, _ = kept_frozen(moves.BACKUP(world), 2 * MINUTE_S)

    kinds = {f.kind for f in world.status.last_operations}
    operation = world.status.operation
    assert OperationKind.BACKUP in kinds or (
        operation is not None and operation.kind is OperationKind.BACKUP
    )


def test_a_member_that_is_another_each_time_is_not_given_things_all_the_time() -> None:
    world = moves.GIVE(settled())
    calls = 0
    for number in range(400):
        world = world.with_disk(uuid=number)
        decision = decided(world)
        calls += decision.call is not None
        world = complete(world, decision).later(max(decision.requeue_after_s, 0.25))

    seconds = (world.now - settled().now).total_seconds()
    assert calls <= 3 * (seconds / MINUTE_S + 2)


def test_a_restart_that_the_spec_does_not_ask_for_any_more_is_not_made() -> None:
    world = moves.ROLL(settled().later(5))
    while world.status.operation is None:
        world = at_rest(complete(world, decided(world))).later(1)
    assert world.status.operation.kind is OperationKind.RESTART
    world = world.with_pod(hangs=True)  # the gate holds it up
    world = complete(world, decided(world)).later(10)
    assert world.status.operation is not None

    back = moves.spec_edit(template=1)(world).with_pod(hangs=False)
    back, told = run(back, ended(OperationKind.RESTART))

    assert [one.effect for one in told] == ["StatefulSet 1"]
    assert (newest(back).outcome, back.pod) == ("Interrupted", world.with_pod(hangs=False).pod)
    assert "as the spec says again" in newest(back).message


def test_a_restart_that_was_asked_for_is_made_whatever_the_template() -> None:
    world, told = run(moves.RESTART(settled().later(5)), ended(OperationKind.RESTART))

    assert [one.effect for one in told] == ["MEMBER_SHUTDOWN", "delete pod"]
    assert world.pod is not None
    assert world.pod.process == JOINED


def end(
    name: str, kind: OperationKind, outcome: OperationOutcome, **more: str
) -> FinishedOperation:
    time = timestamp(START)
    return FinishedOperation(
        id=name, kind=kind, outcome=outcome, started=time, finished=time, **more
    )


def test_what_fails_every_minute_pushes_nothing_else_out() -> None:
    force = end("f", OperationKind.FORCE_START, OperationOutcome.SUCCEEDED, request="f1")
    known: tuple[FinishedOperation, ...] = (force,)
    for number in range(20):
        failed = end(
            f"a{number}", OperationKind.APPLY_LIVE, OperationOutcome.FAILED, target="demo-0"
        )
        known = filed(known, failed)

    assert [one.id for one in known] == ["a19", "f"]


def test_what_gave_up_data_is_remembered_longest() -> None:
    known: tuple[FinishedOperation, ...] = ()
    for number in range(12):
        kind = OperationKind.FORCE_START if number % 6 == 0 else OperationKind.BACKUP
        done = end(f"o{number}", kind, OperationOutcome.SUCCEEDED, request=f"r{number}")
        known = filed(known, done)
    for number in range(100, 130):
        done = end(f"o{number}", OperationKind.RESTART, OperationOutcome.SUCCEEDED)
        known = filed(known, done)

    assert [one.id for one in known] == [f"o{n}" for n in range(129, 121, -1)] + ["o6", "o0"]


def test_a_forced_start_is_once_whatever_was_done_since() -> None:
    damaged = settled().with_disk(damaged=True).with_pod(process="damaged")
    world, _ = run(moves.FORCE(damaged), ended(OperationKind.FORCE_START))
    world = moves.FORCE_AGAIN(world)
    for number in range(15):
        world = moves.annotate("restart", f"r{number}")(world.later(5))
        world, _ = run(world, lambda w: w.status.operation is None)
    assert {f.kind for f in world.status.last_operations[1:9]} == {OperationKind.RESTART}

    world = moves.FORCE(world.with_disk(damaged=True).with_pod(process="damaged"))
    for _ in range(5):
        decision = decided(world)
        assert decision.call is None
        world = complete(world, decision).later(5)

    assert world.disk.damaged
    assert world.forced == ("f1",)


@pytest.mark.parametrize(
    "other",
    [
        end("b", OperationKind.BACKUP, OperationOutcome.FAILED, request="b2"),
        end("b", OperationKind.BACKUP, OperationOutcome.SUCCEEDED),
        end("b", OperationKind.CHANGE_STATE, OperationOutcome.FAILED),
        end("b", OperationKind.BACKUP, OperationOutcome.FAILED, target="op-7"),
    ],
)
def test_other_ends_are_all_kept(other: FinishedOperation) -> None:
    first = end("a", OperationKind.BACKUP, OperationOutcome.FAILED)

    assert filed((first,), other) == (other, first)


@pytest.mark.parametrize("kind", OperationKind)
def test_a_step_of_another_kind_of_operation_ends_it_before_anything_is_done(
    kind: OperationKind,
) -> None:
    """Another version of the operator may have written it."""
    foreign = "Begin" if kind is not OperationKind.BACKUP else "Copy"
    world = calling(OperationKind.CHANGE_STATE)[0]
    assert world.status.operation is not None
    strange = world.status.operation.model_copy(update={"kind": kind, "step": foreign})
    world = world.with_status(world.status.model_copy(update={"operation": strange}))

    after = decided(world)

    assert (after.call, after.delete_pods, after.apply) == (None, (), ())
    assert after.status.last_operations[0].outcome == "Failed"
    assert f"no step {foreign} of {kind.value}" in after.status.last_operations[0].message
