"""Several members become fewer: one after the other leaves, and only then its pod goes."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from grid_operator.api.conditions import ConditionType
from grid_operator.decide.calls import CallUnknown, Endpoint
from tests.unit.operator.decide.fake_store import WELL
from tests.unit.operator.decide.several.leaving import (
    DEATHS,
    JOINED,
    LEFT,
    NEW,
    SILENT,
    STARTING,
    Leavers,
    condition,
    ended,
    names,
    step_of,
)

if TYPE_CHECKING:
    from grid_operator.decide.model import MemberProblem


def test_five_become_three_one_after_the_other() -> None:
    store = Leavers(5)
    store.spec(size=3)

    store.settle()

    assert store.begun == names(4, 3)
    assert sorted(store.pods) == store.joined == names(0, 1, 2)
    assert store.volumes == {}, "what those that left had is of no use to anybody"
    assert ended(store) == [("demo-4", "Succeeded"), ("demo-3", "Succeeded")]
    told = [c for c in store.calls if c.forever]
    assert [(c.pod["metadata"]["name"], c.endpoint) for c in told] == [
        ("demo-4", Endpoint.MEMBER_SHUTDOWN),
        ("demo-3", Endpoint.MEMBER_SHUTDOWN),
    ]
    assert store.replaced == names(2, 1, 0), "then the others get the shorter list"
    assert condition(store, ConditionType.READY).message == "3 of 3 members are ready"
    assert condition(store, ConditionType.PROGRESSING).status == "False"


@pytest.mark.parametrize("death", DEATHS)
def test_an_operator_killed_at_any_moment_leaves_one_that_resumes(death: str) -> None:
    """In every round of the whole way; the store itself fails when a member is lost by it."""
    calm = Leavers(4)
    calm.spec(size=2)
    rounds = 0
    while condition(calm, ConditionType.PROGRESSING).status == "True" or not ended(calm):
        store = copy.deepcopy(calm)
        store.step(death)
        store.settle()
        assert store.begun == names(3, 2), f"round {rounds}"
        assert (sorted(store.pods), store.volumes) == (names(0, 1), {}), f"round {rounds}"
        assert condition(store, ConditionType.READY).status == "True", f"round {rounds}"
        calm.step()
        rounds += 1
    assert rounds > 15


def test_the_status_says_what_a_leaving_member_waits_for() -> None:
    store = Leavers(3)
    store.spec(size=2)
    store.until(lambda: step_of(store) == "AwaitLeft")
    store.step()

    told = condition(store, ConditionType.PROGRESSING)

    assert (told.status, told.reason) == ("True", "Shrink")
    assert told.message == "AwaitLeft demo-2: demo-2 says IN_PROGRESS, 5 %"
    assert condition(store, ConditionType.READY).message == "2 of 2 members are ready"


@pytest.mark.parametrize(
    "says",
    [
        replace(WELL, cluster_size=5, cluster_safe=False),
        replace(WELL, cluster_size=4),
        replace(WELL, cluster_size=5, migration_queue_size=1),
        SILENT,
        STARTING,
    ],
)
def test_nobody_is_told_to_leave_while_it_is_not_safe(says: object) -> None:
    store = Leavers(5)
    store.shown = {"demo-1": says}  # type: ignore[dict-item]
    store.spec(size=3)
    for _ in range(20):
        store.step()

    assert (store.begun, sorted(store.pods)) == ([], names(0, 1, 2, 3, 4))
    told = condition(store, ConditionType.PROGRESSING)
    assert (told.reason, "demo-4 is to leave" in told.message) == ("WaitingForSafety", True)

    store.shown = {}
    store.settle()
    assert store.begun == names(4, 3)


def test_the_next_waits_until_the_others_are_safe_without_the_last() -> None:
    store = Leavers(5)
    store.spec(size=3)
    store.until(lambda: "demo-4" not in store.pods)
    store.shown = {"demo-0": replace(WELL, cluster_size=4, cluster_safe=False)}
    for _ in range(20):
        store.step()
    assert store.begun == names(4)

    store.shown = {}
    store.settle()
    assert store.begun == names(4, 3)


def test_who_has_left_stays_parked_until_the_others_are_safe_without_it() -> None:
    """Its pod made anew would start on what it had."""
    store = Leavers(3)
    store.spec(size=2)
    store.until(lambda: store.members.get("demo-2") == LEFT)
    store.shown = {"demo-0": replace(WELL, cluster_size=2, cluster_safe=False)}
    for _ in range(20):
        store.step()
    assert sorted(store.pods) == names(0, 1, 2)

    store.shown = {}
    store.settle()
    assert (sorted(store.pods), store.volumes) == (names(0, 1), {})


def test_new_pods_for_which_there_is_no_room_are_taken_away_again() -> None:
    store = Leavers(3)
    store.room = 3
    store.spec(size=5)
    for _ in range(10):
        store.step()
    assert store.joined == names(0, 1, 2)
    assert len(store.pods) == 5

    store.spec(size=3)
    store.settle()

    assert (sorted(store.pods), store.volumes) == (names(0, 1, 2), {})
    assert store.begun == []
    assert condition(store, ConditionType.READY).status == "True"


def test_who_joins_at_the_last_moment_is_not_taken_away_but_leaves() -> None:
    """The operator was held up between its decision and what it does."""
    store = Leavers(3)
    store.room = 3
    store.spec(size=4)
    store.until(lambda: "demo-3" in store.pods)
    store.spec(size=3)
    store.until(lambda: step_of(store) == "RemovePod")
    store.room, store.members["demo-3"] = 4, JOINED

    store.settle()

    assert store.begun == names(3)
    assert sorted(store.pods) == names(0, 1, 2)


@pytest.mark.parametrize("member", [STARTING, SILENT])
def test_who_was_lost_is_missed_and_stays(member: MemberProblem) -> None:
    """Its vote counts, and it may have what others lack."""
    store = Leavers(3)
    unsafe = replace(WELL, cluster_size=2, cluster_safe=False)
    store.shown = {"demo-2": member, "demo-0": unsafe, "demo-1": unsafe}
    store.spec(size=2)
    for _ in range(20):
        store.step()

    assert (store.begun, sorted(store.pods)) == ([], names(0, 1, 2))


def test_a_wish_that_is_taken_back_in_time_changes_nothing() -> None:
    store = Leavers(5)
    store.spec(size=4)
    store.until(lambda: step_of(store) == "Leave")
    store.spec(size=5)
    store.settle()

    assert (store.begun, sorted(store.pods)) == ([], names(0, 1, 2, 3, 4))
    assert ended(store) == [("demo-4", "Interrupted")]


def test_who_was_told_leaves_and_comes_back_as_somebody_new() -> None:
    store = Leavers(5)
    store.spec(size=4)
    store.until(lambda: step_of(store) == "AwaitLeft")
    store.spec(size=5)
    store.settle()

    assert store.begun == names(4)
    assert store.joined == names(0, 1, 2, 3, 4)
    assert condition(store, ConditionType.READY).status == "True"


def test_a_member_that_gives_up_is_asked_again_a_minute_later() -> None:
    store = Leavers(3)
    store.fails = "the disk is full"
    store.spec(size=2)
    store.until(lambda: ended(store) == [("demo-2", "Failed")])
    failed = store.now
    assert "demo-2: the disk is full" in store.cluster.status.last_operations[0].message

    store.until(lambda: len(store.begun) == 2)
    assert (store.now - failed).total_seconds() >= 60
    store.settle()
    assert store.joined == names(0, 1)


@pytest.mark.parametrize("leaves_anyway", [False, True])
def test_a_member_whose_answer_was_lost_is_asked_again_under_the_same_key(
    leaves_anyway: bool,
) -> None:
    store = Leavers(3)
    store.spec(size=2)
    answer = store._told
    lost: list[str] = []

    def losing(call: object) -> object:
        outcome = answer(call) if leaves_anyway or lost else None  # type: ignore[arg-type]
        lost.append(call.key)  # type: ignore[attr-defined]
        return CallUnknown("gave no answer in time") if len(lost) == 1 else outcome

    store._told = losing  # type: ignore[method-assign, assignment]
    store.until(lambda: bool(ended(store)))
    assert len(set(lost)) == 1
    assert store.begun == names(2)
    assert ended(store) == [("demo-2", "Succeeded")]


def test_members_leave_only_while_the_cluster_is_active() -> None:
    store = Leavers(3)
    store.state = "FROZEN"
    store.spec(size=2)
    for _ in range(10):
        store.step()
    assert store.begun == []
    assert "the cluster state is FROZEN" in condition(store, ConditionType.PROGRESSING).message

    store.state = "ACTIVE"
    store.settle()
    assert store.joined == names(0, 1)


def test_who_wants_the_cluster_active_again_does_not_wait_for_the_leaving_one() -> None:
    store = Leavers(3, clusterState="Active", clusterStateDriftPolicy="Correct")
    wish = {"clusterState": "Active", "clusterStateDriftPolicy": "Correct"}
    store.spec(size=2, **wish)
    store.until(lambda: step_of(store) == "AwaitLeft")
    store.state = "FROZEN"

    store.settle()

    assert ("Active", "Succeeded") in ended(store, "ChangeState")
    assert store.joined == names(0, 1)
    assert store.begun == names(2), "it goes on with the same"


def test_a_stop_comes_first_and_the_rest_when_the_members_are_back() -> None:
    store = Leavers(5)
    store.spec(size=3)
    store.until(lambda: step_of(store) == "AwaitLeft")
    store.spec(runState="Stopped")
    store.settle()
    assert store.pods == {}
    assert sorted(store.volumes) == names(0, 1, 2, 3, 4), "nothing is deleted"
    assert ended(store) == [("demo-4", "Interrupted")]

    store.spec()
    store.settle()
    assert store.joined == names(0, 1, 2)
    assert condition(store, ConditionType.READY).status == "True"


def test_who_left_just_when_the_stop_began_does_not_hold_up_the_start() -> None:
    store = Leavers(3)
    store.spec(size=2)
    store.until(lambda: step_of(store) == "AwaitLeft")
    store.spec(size=2, runState="Stopped")
    store.members["demo-2"] = LEFT
    store.shown = {n: replace(WELL, cluster_size=3) for n in names(0, 1)}
    store.until(lambda: step_of(store) == "Passive")
    store.shown = {}
    store.settle()
    assert store.volumes["demo-2"] == LEFT

    store.spec(size=2)
    store.settle()

    assert (store.joined, store.state, store.volumes) == (names(0, 1), "ACTIVE", {})


def test_a_stop_while_new_members_come_lets_them_join_after_the_start() -> None:
    """They cannot join before the cluster is active again, and it must not wait for them."""
    store = Leavers(3)
    store.room = 3
    store.spec(size=5)
    for _ in range(5):
        store.step()
    store.spec(runState="Stopped")
    store.settle()
    assert store.pods == {}
    assert {store.volumes[name] for name in names(3, 4)} == {NEW}

    store.room = 5
    store.spec()
    store.settle()

    assert (store.joined, store.state) == (names(0, 1, 2, 3, 4), "ACTIVE")
    assert condition(store, ConditionType.READY).status == "True"


def test_a_start_waits_for_those_that_are_missed() -> None:
    store = Leavers(3)
    store.spec(runState="Stopped")
    store.settle()
    unsafe = replace(WELL, cluster_size=2, cluster_safe=False, cluster_state="PASSIVE")
    store.shown = {"demo-2": STARTING, "demo-0": unsafe, "demo-1": unsafe}
    store.spec()
    for _ in range(20):
        store.step()
    assert (step_of(store), store.state) == ("AwaitReady", "PASSIVE")


def test_the_last_two_stay() -> None:
    store = Leavers(3)
    store.spec(size=1)
    store.settle()

    told = condition(store, ConditionType.CONFIG_VALID)
    assert (told.status, told.reason) == ("False", "ImmutableSize")
    assert "set it back to 3" in told.message
    assert (store.begun, sorted(store.pods)) == ([], names(0, 1, 2))
