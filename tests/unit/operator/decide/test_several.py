"""Several members: one at a time, and only while the others are enough."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.api.conditions import ConditionType, find_condition
from grid_operator.decide.calls import Endpoint
from grid_operator.decide.model import MemberProblem
from tests.unit.operator.decide.fake_store import WELL, FakeStore, make_pod

if TYPE_CHECKING:
    from grid_operator.api.conditions import Condition
    from grid_operator.decide.model import MemberView

NAMES = ("demo-0", "demo-1", "demo-2")
OF_THREE = replace(WELL, cluster_size=3)
UNSAFE = replace(OF_THREE, cluster_safe=False)
SILENT = MemberProblem("connection refused")


def three(**spec: Any) -> FakeStore:
    store = FakeStore({"size": 3, **spec})
    store.views = dict.fromkeys(NAMES, OF_THREE)
    store.settle()
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


def test_a_change_takes_one_after_the_other_and_each_is_told_first() -> None:
    store = three()
    store.change_spec({"size": 3, "clusterName": "other"})

    store.settle()

    assert store.replaced == ["demo-2", "demo-1", "demo-0"]
    told = [(c.pod["metadata"]["name"], c.endpoint) for c in store.calls]
    assert told == [(name, Endpoint.MEMBER_SHUTDOWN) for name in reversed(NAMES)]


@pytest.mark.parametrize("says", [UNSAFE, replace(OF_THREE, cluster_size=2), SILENT])
def test_the_next_waits_until_every_member_says_that_it_is_safe(
    says: MemberView | MemberProblem,
) -> None:
    store = three()
    store.change_spec({"size": 3, "clusterName": "other"})
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
    ("unready", "view", "replaced"),
    [
        ((1,), SILENT, True),
        ((0, 1, 2), SILENT, True),
        ((1, 2), SILENT, False),
        ((1,), UNSAFE, False),
        ((0, 1, 2), UNSAFE, False),
    ],
)
def test_an_outdated_pod_that_is_not_ready_goes_while_the_others_are_enough(
    unready: tuple[int, ...], view: MemberView | MemberProblem, replaced: bool
) -> None:
    """Two that are not ready are not taken both: what they hold in memory would be lost."""
    store = three()
    for ordinal in unready:
        name = f"demo-{ordinal}"
        store.pods[name] = make_pod(
            name, "broken" if ordinal == 1 else _revision(store), ready=False
        )
        store.views = {**store.views, name: view}

    store.step()

    assert store.replaced == (["demo-1"] if replaced else [])


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (3, 5)])
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


def _revision(store: FakeStore) -> str:
    return str(store.pods["demo-0"]["metadata"]["labels"]["controller-revision-hash"])
