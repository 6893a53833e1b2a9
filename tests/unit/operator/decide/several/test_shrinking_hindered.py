"""Several members become fewer although some do not run, or pods and claims are in the way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from grid_operator.api.conditions import ConditionType
from grid_operator.api.names import STRUCTURES_ANNOTATION
from tests.unit.operator.api.clusters import make_cluster
from tests.unit.operator.decide.fake_store import WELL
from tests.unit.operator.decide.several.leaving import (
    JOINED,
    LEFT,
    PARKED,
    SILENT,
    Leavers,
    condition,
    ended,
    names,
    step_of,
    unsafe,
)

if TYPE_CHECKING:
    from grid_operator.decide.model import MemberProblem

UNSAFE = replace(WELL, cluster_size=4, cluster_safe=False)


@pytest.mark.parametrize(("room", "says"), [(4, SILENT), (5, PARKED)])
def test_who_was_not_told_and_is_missed_is_replaced_so_that_it_can_leave(
    room: int, says: MemberProblem
) -> None:
    """Its image was broken, or somebody has shut it down: it has what others lack."""
    store = Leavers(5)
    store.room = room
    store.shown = {**dict.fromkeys(names(0, 1, 2, 3), UNSAFE), "demo-4": says}
    store.spec(size=3, image="registry.example/grid-member:mended")

    store.until(lambda: bool(store.replaced))
    assert store.replaced == names(4)

    store.room, store.shown = 5, {}
    store.settle()
    assert store.begun == names(4, 3)
    assert store.joined == names(0, 1, 2)


def test_who_stays_parked_is_in_nobody_elses_way() -> None:
    store = Leavers(3)
    store.spec(size=2)
    store.until(lambda: store.members.get("demo-2") == LEFT)
    store.pods["demo-2"]["metadata"]["labels"] = {"controller-revision-hash": "older"}
    store.shown = {"demo-0": PARKED, "demo-1": unsafe(store, "demo-1")}

    store.until(lambda: bool(store.replaced))
    assert store.replaced == names(0)

    store.shown = {}
    store.settle()
    assert (sorted(store.pods), store.volumes) == (names(0, 1), {})


def test_who_has_left_goes_even_when_it_is_missed_and_wanted_again_meanwhile() -> None:
    store = Leavers(3)
    store.spec(size=2)
    store.until(lambda: step_of(store) == "RemovePod")
    store.shown = {"demo-0": unsafe(store, "demo-0")}
    store.step()
    assert step_of(store) == "Leave"
    store.spec(size=3)
    for _ in range(10):
        store.step()
    assert store.replaced == []

    store.shown = {}
    store.settle()
    assert (store.begun, store.joined) == (names(2), names(0, 1, 2))


@pytest.mark.parametrize("stage", ["IN_PROGRESS", "FAILED"])
def test_who_is_shut_down_while_it_leaves_has_not_left_and_is_replaced(stage: str) -> None:
    store = Leavers(3)
    store.spec(size=2)
    store.until(lambda: step_of(store) == "AwaitLeft")
    store.end(stage)
    store.shown = {"demo-2": PARKED, **{name: unsafe(store, name) for name in names(0, 1)}}
    store.members["demo-2"] = JOINED

    store.until(lambda: bool(ended(store)))

    assert ended(store) == [("demo-2", "Failed")]
    text = "demo-2 is parked and did not leave; its pod will be replaced"
    assert store.cluster.status.last_operations[0].message == text
    store.until(lambda: bool(store.replaced))
    assert store.replaced == names(2)

    store.shown = {}
    store.settle()
    assert store.begun == names(2, 2)
    assert store.joined == names(0, 1)


def test_a_pod_that_cannot_even_be_made_is_wanted_no_more() -> None:
    """As with a quota for pods."""
    store = Leavers(3)
    store.room = 3
    store.spec(size=4)
    store.step()
    made = store.run_controller

    def without_the_last() -> None:
        made()
        store.pods.pop("demo-3", None)
        store.members.pop("demo-3", None)

    store.run_controller = without_the_last  # type: ignore[method-assign]
    store.step()
    store.spec(size=3)
    store.settle()

    assert ended(store) == [("demo-3", "Succeeded")]
    message = store.cluster.status.last_operations[-1].message
    assert "delete claim data-demo-3" in message, "nobody else does"
    assert condition(store, ConditionType.READY).status == "True"


@pytest.mark.parametrize(
    "metadata",
    [
        {"ownerReferences": [{"kind": "Pod", "uid": "uid-pod", "name": "demo-2"}]},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    ],
)
def test_a_claim_that_goes_is_waited_for_but_not_by_a_stop(metadata: dict[str, object]) -> None:
    store = Leavers(3)
    store.spec(size=2)
    store.until(lambda: step_of(store) == "RemovePod")
    claim = store.claims["demo-2"]
    store.step()
    assert "demo-2" not in store.pods
    store.claims["demo-2"] = {**claim, "metadata": {**claim["metadata"], **metadata}}
    for _ in range(10):
        store.step()
    assert step_of(store) == "RemovePod"
    told = condition(store, ConditionType.PROGRESSING).message
    assert "until claim data-demo-2 is gone" in told

    store.spec(size=2, runState="Stopped")
    store.settle()

    assert (store.pods, sorted(store.volumes)) == ({}, names(0, 1))
    assert ended(store) == [("demo-2", "Succeeded")]
    assert "claim data-demo-2" in store.cluster.status.last_operations[-1].message


def test_a_stop_that_sees_no_pods_while_one_is_taken_away_deletes_nothing_else() -> None:
    store = Leavers(3)
    store.spec(size=2)
    store.until(lambda: step_of(store) == "RemovePod")
    store.spec(size=2, runState="Stopped")
    store.change_status(size=0)

    store.settle()

    assert store.pods == {}
    assert sorted(store.volumes) == sorted(store.claims) == names(0, 1)


def test_a_record_that_somebody_took_away_makes_nobody_leave_untold() -> None:
    store = Leavers(5)
    (live,) = (o for o in store.objects.values() if o["kind"] == "StatefulSet")
    del live["metadata"]["annotations"][STRUCTURES_ANNOTATION]
    store.spec(size=3)

    store.settle()

    assert (store.begun, store.joined) == (names(4, 3), names(0, 1, 2))


def test_a_cluster_made_anew_with_a_smaller_size_starts_all_and_lets_them_leave() -> None:
    """Its claims were retained: any two of five may have what the other three have not."""
    store = Leavers(5)
    store.lose_pods()
    store.objects.clear()
    kept = {"size": 3, "persistence": {"enabled": True}}
    store.cluster = make_cluster(kept, uid="uid-2")

    store.step()
    assert sorted(store.pods) == names(0, 1, 2, 3, 4)
    store.settle()

    assert store.begun == names(4, 3)
    assert (sorted(store.pods), sorted(store.claims)) == (names(0, 1, 2), names(0, 1, 2))


@pytest.mark.parametrize(("step", "begun"), [("Leave", (4, 3)), ("AwaitLeft", (4, 4, 3))])
def test_a_stateful_set_that_is_deleted_while_members_leave_comes_back_with_all(
    step: str, begun: tuple[int, ...]
) -> None:
    store = Leavers(5)
    store.spec(size=3)
    store.until(lambda: step_of(store) == step)
    store.lose_pods()

    store.step()
    assert sorted(store.pods) == names(0, 1, 2, 3, 4)
    store.until(lambda: len(store.pods) == 3)
    store.settle()

    assert store.begun == names(*begun)
    assert (sorted(store.pods), store.volumes) == (names(0, 1, 2), {})


def test_a_record_lost_while_the_cluster_is_stopped_leaves_nobody_behind() -> None:
    store = Leavers(5)
    store.spec(runState="Stopped")
    store.settle()
    (live,) = (o for o in store.objects.values() if o["kind"] == "StatefulSet")
    del live["metadata"]["annotations"][STRUCTURES_ANNOTATION]
    store.spec(size=3)
    store.until(lambda: len(store.pods) > 0)
    assert sorted(store.pods) == names(0, 1, 2, 3, 4)
    store.settle()

    assert store.begun == names(4, 3)


def test_nobody_leaves_while_the_pod_of_another_is_not_made_anew() -> None:
    store = Leavers(5)
    store.quota = 3
    del store.pods["demo-3"]
    store.volumes["demo-3"] = store.members.pop("demo-3")
    store.spec(size=4)
    for _ in range(10):
        store.step()
    assert store.begun == []
    assert "demo-3 does not exist yet" in condition(store, ConditionType.PROGRESSING).message

    store.quota = 5
    store.settle()
    assert store.begun == names(4)
