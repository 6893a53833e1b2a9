"""Scheduled backups in a cluster: begun once, told in the status, awaited to the second."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grid_operator.api.status import OperationKind
from tests.unit.operator.decide.state_space import moves
from tests.unit.operator.decide.state_space.journeys import decided, effect_of, newest, settled
from tests.unit.operator.decide.state_space.moves import at_rest, complete
from tests.unit.operator.decide.state_space.world import Spec, World

DAILY = Spec(cron="0 3 * * *")
HOUR_S = 3600.0


def waiting() -> World:
    """Return a cluster at midnight whose backup is due at three."""
    return settled(DAILY)


def after(world: World, rounds: int = 12) -> tuple[World, list[str]]:
    """Return the world some rounds later, and what was done."""
    done = []
    for _ in range(rounds):
        decision = decided(world)
        done.append(effect_of(decision))
        world = at_rest(complete(world, decision)).later(1)
    return world, [effect for effect in done if effect]


def test_status_tells_the_next_time_and_the_next_look_is_then() -> None:
    world = waiting()

    assert world.status.backup is not None
    assert world.status.backup.next_scheduled_time == "2026-01-01T03:00:00Z"
    nearly = world.later(3 * HOUR_S - 4)
    assert decided(nearly).requeue_after_s == pytest.approx(4)
    assert decided(nearly).status == world.status


def test_a_backup_begins_at_its_time_once() -> None:
    world, done = after(waiting().later(3 * HOUR_S))

    assert done == ["BACKUP"]
    assert (newest(world).kind, newest(world).outcome) == (OperationKind.BACKUP, "Succeeded")
    assert newest(world).request == "2026-01-01T03:00:00Z"
    known = world.status.backup
    assert known is not None
    assert known.last_scheduled_time == "2026-01-01T03:00:00Z"
    assert known.next_scheduled_time == "2026-01-02T03:00:00Z"
    assert known.last_successful_time is not None
    assert [c.status for c in world.status.conditions if c.type == "BackupSucceeded"] == ["True"]
    assert after(world)[1] == []


def test_the_time_is_dealt_with_in_the_write_that_begins_the_backup() -> None:
    decision = decided(waiting().later(3 * HOUR_S))

    assert decision.call is None
    assert decision.status.operation is not None
    assert decision.status.backup is not None
    assert decision.status.backup.last_scheduled_time == decision.status.operation.request


@pytest.mark.parametrize("back_s", [1.0, HOUR_S, 100 * HOUR_S])
def test_a_clock_that_is_set_back_runs_no_time_again(back_s: float) -> None:
    world, _ = after(waiting().later(3 * HOUR_S))
    world = world.later(-back_s)

    for _ in range(3):
        world, done = after(world.later(back_s / 3))
        assert done == []


def test_a_status_that_was_lost_does_not_make_the_member_do_it_twice() -> None:
    first = decided(waiting().later(3 * HOUR_S)).status.operation
    again = decided(waiting().later(3 * HOUR_S + 50)).status.operation

    assert first is not None
    assert again is not None
    assert first.id == again.id


def test_times_that_pass_while_paused_are_made_up_for_once() -> None:
    world, done = after(moves.PAUSE(waiting()).later(80 * HOUR_S))
    assert done == []

    world, done = after(moves.RESUME(world))

    assert done == ["BACKUP"]
    assert newest(world).request == "2026-01-04T03:00:00Z"


def test_no_backup_of_a_stopped_cluster() -> None:
    world, _ = after(moves.STOP(waiting()))
    assert world.status.stopped

    _, done = after(world.later(30 * HOUR_S))

    assert done == []


def test_a_second_backup_waits_for_the_end_of_the_first() -> None:
    world = moves.BACKUP(waiting().later(3 * HOUR_S - 2))
    for _ in range(3):
        world = complete(world, decided(world)).later(1)
    assert world.status.operation is not None
    assert world.status.operation.step == "AwaitFinish"

    during, _ = complete(world, decided(world.later(5))), None
    assert during.status.operation == world.status.operation

    ended, done = after(at_rest(world.later(5)))
    assert done == ["BACKUP"]
    requests = [f.request for f in ended.status.last_operations]
    assert requests == ["2026-01-01T03:00:00Z", "b1"]


def test_a_schedule_that_is_taken_away_promises_nothing() -> None:
    world = waiting()
    world = replace(world, spec=Spec(), generation=2)

    world, _ = after(world)

    assert world.status.backup is not None
    assert world.status.backup.next_scheduled_time is None
