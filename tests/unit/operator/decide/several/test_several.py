"""Several members: one at a time, and only while the others are enough."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.api.conditions import ConditionType, find_condition
from grid_operator.decide.calls import CallOutcome, CallRefused, CallUnknown, Endpoint
from grid_operator.decide.model import MemberProblem
from tests.unit.operator.decide.fake_store import WELL, FakeStore, make_pod

if TYPE_CHECKING:
    from grid_operator.api.conditions import Condition
    from grid_operator.decide.model import MemberView

NAMES = ("demo-0", "demo-1", "demo-2")
OF_THREE = replace(WELL, cluster_size=3)
UNSAFE = replace(OF_THREE, cluster_safe=False)
SILENT = MemberProblem("gave no complete answer within 3 s")
STARTING = MemberProblem("cannot read its configuration", node_state="STARTING")
PARKED = MemberProblem("was shut down", node_state="PASSIVE")
NO_MAJORITY = "no majority of the members answers"
BUSY = CallRefused("answered 409: another change is being made", conflict=True)
RUNNING: dict[str, Any] = {
    "phase": "Running",
    "containerStatuses": [{"name": "member", "state": {"running": {}}}],
}
ENDED: dict[str, Any] = {
    "phase": "Running",
    "containerStatuses": [{"name": "member", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
}
UNSTARTED: dict[str, Any] = {"phase": "Pending"}
CHANGED: dict[str, Any] = {"logging": {"format": "Text"}}
"""What members take one after the other."""


def three(**spec: Any) -> FakeStore:
    store = FakeStore({"size": 3, **spec})
    store.views = dict.fromkeys(NAMES, OF_THREE)
    store.settle()
    return store


def told_to_stop(answer: CallOutcome) -> FakeStore:
    """Return three that are restarted; one of them has answered so to that."""
    store = three()
    store.change_spec({"size": 3, **CHANGED})
    store.answer = answer
    while not store.calls:
        store.step()
    return store


def condition(store: FakeStore, kind: ConditionType) -> Condition:
    found = find_condition(store.cluster.status.conditions, kind)
    assert found is not None
    return found


def test_ready_is_when_all_are() -> None:
    store = three()
    assert condition(store, ConditionType.READY).message == "3 of 3 members are ready"
    assert (store.cluster.status.size, store.cluster.status.ready_members) == (3, 3)

    store.views = {**store.views, "demo-1": replace(OF_THREE, ready=False)}
    store.settle()

    told = condition(store, ConditionType.READY)
    assert (told.status, told.reason) == ("False", "MembersNotReady")
    assert told.message.startswith("demo-1 ")
    assert store.cluster.status.ready_members == 2


def test_what_a_member_says_itself_is_in_the_conditions() -> None:
    store = three()
    disk, copies = "its disk is full", "some copies of the data are missing"
    told = replace(UNSAFE, ready=False, problem=disk, unsafe=copies)
    store.views = {**store.views, "demo-1": told}
    store.settle()

    assert condition(store, ConditionType.READY).message.startswith(
        f"demo-1 says that it is not ready (node state ACTIVE): {disk}"
    )
    safe = condition(store, ConditionType.SAFE_TO_DISRUPT)
    assert safe.message == f"demo-1 says that the cluster is not safe: {copies}"


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (replace(OF_THREE, ready=False, problem=NO_MAJORITY), f": it says: {NO_MAJORITY}"),
        (MemberProblem(NO_MAJORITY, own_words=True), f": it says: {NO_MAJORITY}"),
        (STARTING, ": it waits: cannot read its configuration"),
        (OF_THREE, ""),
        (SILENT, ""),
    ],
)
def test_a_pod_that_is_not_ready_is_told_with_what_its_member_says(
    view: MemberView | MemberProblem, said: str
) -> None:
    store = three()
    store.pods["demo-1"] = make_pod("demo-1", revision(store), ready=False)
    store.views = {**store.views, "demo-1": view}
    store.step()
    assert condition(store, ConditionType.READY).message == f"demo-1 is not ready yet{said}"


def test_a_change_takes_one_after_the_other_and_each_is_told_first() -> None:
    store = three()
    store.change_spec({"size": 3, **CHANGED})

    store.settle()

    assert store.replaced == ["demo-2", "demo-1", "demo-0"]
    told = [(c.pod["metadata"]["name"], c.endpoint) for c in store.calls]
    assert told == [(name, Endpoint.MEMBER_SHUTDOWN) for name in reversed(NAMES)]


@pytest.mark.parametrize("says", [UNSAFE, replace(OF_THREE, cluster_size=2), SILENT])
def test_the_next_waits_until_every_member_says_that_it_is_safe(
    says: MemberView | MemberProblem,
) -> None:
    store = three()
    store.change_spec({"size": 3, **CHANGED})
    while not store.replaced:
        store.step()
    store.views = {**store.views, "demo-0": says}

    for _ in range(20):
        store.step()
    assert store.replaced == ["demo-2"]
    assert len(store.calls) == 1, "nobody else is told anything"

    store.views = dict.fromkeys(NAMES, OF_THREE)
    store.settle()
    assert store.replaced == ["demo-2", "demo-1", "demo-0"]


@pytest.mark.parametrize(
    ("unready", "view", "status", "replaced"),
    [
        ((1,), STARTING, {}, True),
        ((0, 1, 2), STARTING, {}, True),
        ((0, 1), STARTING, {}, False),
        ((1,), PARKED, {}, True),
        ((1,), SILENT, ENDED, True),
        ((0, 1, 2), SILENT, UNSTARTED, True),
        ((1,), SILENT, {}, False),
        ((1,), SILENT, RUNNING, False),
        ((0, 1, 2), SILENT, RUNNING, False),
        ((1,), UNSAFE, RUNNING, False),
        ((0, 1, 2), UNSAFE, RUNNING, False),
    ],
)
@pytest.mark.parametrize("kept", [False, True])
def test_an_outdated_pod_goes_ungated_only_if_its_member_says_or_cannot_have_joined(
    unready: tuple[int, ...],
    view: MemberView | MemberProblem,
    status: dict[str, Any],
    replaced: bool,
    kept: bool,
) -> None:
    """One that does not answer may be the only one that has all the data."""
    store = three(**({"persistence": {"enabled": True}} if kept else {}))
    for ordinal in unready:
        name = f"demo-{ordinal}"
        store.pods[name] = make_pod(
            name, "broken" if ordinal == 1 else revision(store), ready=False
        )
        store.pods[name]["status"] |= status
        store.views = {**store.views, name: view}

    store.step()

    assert store.replaced == (["demo-1"] if replaced else [])


def test_a_stalled_member_is_told_nothing_while_another_copies() -> None:
    """The one that was replaced is not safe yet: what the stalled one has may be nowhere else."""
    store = three()
    store.change_spec({"size": 3, **CHANGED})
    while not store.replaced:
        store.step()
    pod = make_pod("demo-1", "old", ready=False)
    pod["status"] |= RUNNING
    store.pods["demo-1"] = pod
    store.views = {"demo-0": UNSAFE, "demo-1": SILENT, "demo-2": UNSAFE}

    for _ in range(20):
        store.step()

    assert (store.replaced, len(store.calls)) == (["demo-2"], 1)
    store.pods["demo-1"] = make_pod("demo-1", "old")
    store.views = dict.fromkeys(NAMES, OF_THREE)
    store.settle()
    assert store.replaced == ["demo-2", "demo-1", "demo-0"]


@pytest.mark.parametrize("answer", [CallUnknown("gave no complete answer in time"), BUSY])
def test_who_was_told_to_stop_and_goes_on_is_taken_only_while_that_is_safe(
    answer: CallOutcome,
) -> None:
    store = told_to_stop(answer)
    store.views = {**store.views, "demo-0": SILENT}

    for _ in range(20):
        store.step()

    assert store.replaced == []
    store.views = dict.fromkeys(NAMES, OF_THREE)
    store.settle()
    assert store.replaced == ["demo-2", "demo-1", "demo-0"]


def test_who_refused_to_stop_is_asked_again_only_while_that_is_safe() -> None:
    store = told_to_stop(BUSY)
    store.views = {**store.views, "demo-0": UNSAFE}

    for _ in range(20):
        store.step()

    assert (store.replaced, len(store.calls)) == ([], 1)


def test_who_has_said_that_it_stops_is_not_waited_for() -> None:
    """It is parked already, or soon: only its pod's end brings it back."""
    store = three()
    store.change_spec({"size": 3, **CHANGED})
    while not store.calls:
        store.step()
    store.views = {**store.views, "demo-2": SILENT, "demo-0": UNSAFE}

    store.step()

    assert store.replaced == ["demo-2"]


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1)])
def test_another_size_is_refused_and_changes_nothing(before: int, after: int) -> None:
    store = FakeStore({"size": before})
    store.views = {f"demo-{n}": replace(WELL, cluster_size=before) for n in range(before)}
    store.settle()
    pods = dict(store.pods)

    store.change_spec({"size": after})
    store.settle()

    told = condition(store, ConditionType.CONFIG_VALID)
    assert (told.status, told.reason) == ("False", "ImmutableSize")
    assert f"set it back to {before}" in told.message
    assert (store.pods, store.replaced, store.calls) == (pods, [], [])

    store.change_spec({"size": before})
    store.settle()
    assert condition(store, ConditionType.READY).status == "True"
    assert (store.pods, store.replaced) == (pods, [])


def test_several_become_more_before_any_of_them_restarts() -> None:
    """The new ones are in the list of all others only when those were replaced."""
    store = three()
    five = tuple(f"demo-{ordinal}" for ordinal in range(5))
    store.change_spec({"size": 5})
    store.step()
    assert sorted(store.pods) == list(five)
    store.views = {**dict.fromkeys(NAMES, OF_THREE), **dict.fromkeys(five[3:], STARTING)}
    for _ in range(5):
        store.step()
    assert (store.replaced, store.calls) == ([], []), "they have to join first"

    store.views = dict.fromkeys(five, replace(WELL, cluster_size=5))
    store.settle()

    assert store.replaced == ["demo-2", "demo-1", "demo-0"]
    assert condition(store, ConditionType.READY).message == "5 of 5 members are ready"


@pytest.mark.parametrize("asked", [False, True], ids=["outdated", "on request"])
def test_nobody_restarts_before_there_are_pods_for_all(asked: bool) -> None:
    """A quota lets no more in; who is restarted might not come back either."""
    store = three()
    store.quota = 3
    store.change_spec({"size": 5})
    if asked:
        store.annotate(restart="r1")
    for _ in range(10):
        store.step()

    assert (store.replaced, store.calls) == ([], [])
    assert "demo-3 does not exist yet" in condition(store, ConditionType.PROGRESSING).message
    safe = condition(store, ConditionType.SAFE_TO_DISRUPT)
    assert (safe.status, safe.message) == ("False", "demo-3 does not exist yet")

    store.quota = 5
    store.step()
    five = tuple(f"demo-{ordinal}" for ordinal in range(5))
    store.views = dict.fromkeys(five, replace(WELL, cluster_size=5))
    store.settle()
    assert store.replaced[-3:] == ["demo-2", "demo-1", "demo-0"]


def test_nobody_is_told_to_stop_while_the_pod_of_another_is_not_made_anew() -> None:
    store = three()
    store.change_spec({"size": 3, **CHANGED})
    while store.cluster.status.operation is None:
        store.step()
    store.quota = 1
    del store.pods["demo-1"]
    store.views = dict.fromkeys(("demo-0", "demo-2"), replace(OF_THREE, cluster_size=2))
    for _ in range(5):
        store.step()

    assert (store.replaced, store.calls) == ([], [])


@pytest.mark.parametrize("run_state", ["Stopped", "Running"])
def test_nobody_new_is_made_while_the_cluster_is_stopped(run_state: str) -> None:
    """A stopped cluster is passive until all are back, and new members could not join it."""
    store = three(runState="Stopped")
    assert store.cluster.status.stopped
    store.change_spec({"size": 5, "runState": run_state})
    store.settle()

    told = condition(store, ConditionType.CONFIG_VALID)
    assert (told.status, told.reason) == ("False", "ImmutableSize")
    assert "set it back to 3, start it" in told.message
    assert store.pods == {}


def test_nobody_new_is_made_while_the_cluster_starts_again() -> None:
    store = three(runState="Stopped")
    store.change_spec({"size": 3})
    store.views = {**store.views, "demo-2": STARTING}
    for _ in range(5):
        store.step()
    store.change_spec({"size": 5})
    store.step()
    assert condition(store, ConditionType.CONFIG_VALID).reason == "ImmutableSize"
    assert sorted(store.pods) == list(NAMES)

    store.change_spec({"size": 3})
    store.views = dict.fromkeys(NAMES, OF_THREE)
    store.settle()
    store.change_spec({"size": 5})
    store.step()
    assert len(store.pods) == 5


def test_a_new_pod_for_which_there_is_no_room_is_made_anew_when_the_spec_changes() -> None:
    store = three()
    store.change_spec({"size": 5})
    store.step()
    store.pods["demo-4"]["status"] = {
        **UNSTARTED,
        "conditions": [{"type": "PodScheduled", "status": "False"}],
    }
    of_four = replace(WELL, cluster_size=4)
    store.views = dict.fromkeys((*NAMES, "demo-3"), of_four)
    store.step()
    assert store.replaced == []

    store.change_spec({"size": 5, "pod": {"nodeSelector": {"disk": "ssd"}}})
    for _ in range(5):
        store.step()

    assert (store.replaced, store.calls) == (["demo-4"], [])


def revision(store: FakeStore) -> str:
    return str(store.pods["demo-0"]["metadata"]["labels"]["controller-revision-hash"])
