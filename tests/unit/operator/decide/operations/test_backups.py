"""Backups that end otherwise than they should, and what a stop does about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grid_operator.api.status import OperationKind
from tests.unit.operator.decide.state_space import moves
from tests.unit.operator.decide.state_space.journeys import calling, decided, effect_of, newest
from tests.unit.operator.decide.state_space.moves import complete

if TYPE_CHECKING:
    from tests.unit.operator.decide.state_space.world import World


def begun() -> World:
    """Return a cluster whose member makes a backup."""
    world = calling(OperationKind.BACKUP)[0]
    return complete(world, decided(world))


def test_a_backup_that_the_member_does_not_know_has_failed() -> None:
    world = begun().with_disk(backups=())

    after = decided(world)

    assert after.status.last_operations[0].outcome == "Failed"
    assert "demo-0 does not know it" in after.status.last_operations[0].message
    failed = next(c for c in after.status.conditions if c.type == "BackupSucceeded")
    assert (failed.status, failed.reason) == ("False", "Failed")


def test_a_backup_is_interrupted_on_request() -> None:
    world = moves.INTERRUPT(begun())
    told = []
    while world.status.operation is not None:
        decision = decided(world)
        told.append(effect_of(decision))
        world = complete(world, decision).later(1)

    assert "BACKUP_INTERRUPT" in told
    assert newest(world).outcome == "Interrupted"
    handled = {h.annotation: h.outcome for h in world.status.handled_requests}
    assert handled == {"backup": "Interrupted", "backup-interrupt": "Succeeded"}


@pytest.mark.parametrize(
    ("mine", "told"), [((("b0", "FAILED"),), "interrupted"), ((), "does not know it")]
)
def test_an_interrupt_never_ends_the_backup_of_somebody_else(
    mine: tuple[tuple[str, str], ...], told: str
) -> None:
    world = moves.INTERRUPT(begun())
    assert world.disk.backups == (("b0", "STARTED"),)
    world = complete(world, decided(world))
    assert world.status.operation is not None
    assert world.status.operation.step == "Interrupt"
    world = world.with_disk(backups=(*mine, ("b9", "STARTED")))

    for _ in range(4):
        decision = decided(world)
        assert decision.call is None
        world = complete(world, decision).later(1)

    assert newest(world).outcome == "Failed"
    assert told in newest(world).message
    assert ("b9", "STARTED") in world.disk.backups


def test_an_interrupt_whose_answer_was_lost_is_one() -> None:
    world = moves.INTERRUPT(begun())
    world = complete(world, decided(world))
    decision = decided(world)
    assert decision.call is not None
    world, _ = world.with_status(decision.status).called(decision.call)
    world = world.with_disk(backups=(("b0", "FAILED"), ("b9", "STARTED")))

    decision = decided(world)

    assert decision.call is None
    assert decision.status.last_operations[0].outcome == "Interrupted"


def test_a_stop_waits_for_the_backup_and_says_how_to_end_it() -> None:
    world = moves.STOP(begun())

    decision = decided(world)

    progressing = next(c for c in decision.status.conditions if c.type == "Progressing")
    assert progressing.reason == "Backup"
    assert "gridcluster.io/backup-interrupt" in progressing.message


@pytest.mark.parametrize("process", ["damaged", "parked"])
def test_a_backup_ends_with_the_process_that_makes_it(process: str) -> None:
    after = decided(begun().with_pod(process=process))

    assert after.status.last_operations[0].outcome == "Failed"
    assert "did not stay until its end" in after.status.last_operations[0].message


def test_a_member_that_hangs_may_still_be_at_it() -> None:
    after = decided(begun().with_pod(hangs=True))

    assert after.status.operation is not None
    assert after.status.operation.step == "AwaitFinish"


def test_a_backup_that_is_complete_before_it_is_interrupted_has_succeeded() -> None:
    world = moves.INTERRUPT(begun())
    while world.status.operation is not None and world.status.operation.step != "Finish":
        world = complete(world, decided(world)).later(1)
    ((key, _),) = world.disk.backups

    world = world.with_disk(backups=((key, "FINISHED"),))

    assert decided(world).status.last_operations[0].outcome == "Succeeded"
