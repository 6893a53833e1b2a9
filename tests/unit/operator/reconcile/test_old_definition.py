"""A CustomResourceDefinition that is older than the operator drops fields of the status."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grid_operator.reconcile.pruning import RETRY_PERIOD_S, Pruning
from tests.unit.operator.fake_kube import FakeKube, cluster_object
from tests.unit.operator.reconcile.test_admission import Operator, mirrored

if TYPE_CHECKING:
    from collections.abc import Sequence

OUTDATED = "Outdated"
APPLY = "kubectl apply -f crds/gridcluster.yaml"
NEW = ("admitted", "observedUid")
"""Fields that were added last."""


async def outdated(unknown: Sequence[str], *, rewrites: bool = False) -> Operator:
    kube = FakeKube(cluster_object())
    kube.unknown = set(unknown)
    if rewrites:
        kube.admission = mirrored
    operator = Operator(kube)
    await operator.settle()
    return operator


def conditions(kube: FakeKube) -> set[str]:
    return {condition["type"] for condition in kube.get("GridCluster")["status"]["conditions"]}


@pytest.mark.parametrize("unknown", [NEW, NEW[:1], NEW[1:], (*NEW, "clusterState")])
async def test_dropped_fields_are_told_once_and_cost_no_more_writes(unknown: Sequence[str]) -> None:
    operator = await outdated(unknown, rewrites=True)
    kube = operator.kube
    condition = kube.condition("DefinitionMatches")
    assert (condition["status"], condition["reason"]) == ("False", OUTDATED)
    names = ", ".join(f"status.{field}" for field in sorted(unknown))
    assert f"the API server drops {names}: " in condition["message"]
    assert APPLY in condition["message"]
    assert operator.told(OUTDATED) == [condition["message"]]
    assert kube.condition("Ready")["status"] == "True"
    assert kube.condition("ChildrenMatch")["reason"] == "Admitted"
    # The children that admission changes, and the status, were written in every round.
    assert await operator.writes() == []
    assert len(operator.told(OUTDATED)) == 1


async def test_a_definition_that_has_all_fields_is_not_told_of() -> None:
    operator = await outdated(())
    assert "DefinitionMatches" not in conditions(operator.kube)


@pytest.mark.parametrize("restarts", [False, True])
async def test_the_definition_is_applied_later(restarts: bool) -> None:
    operator = await outdated(NEW, rewrites=True)
    kube = operator.kube
    kube.unknown.clear()
    if restarts:
        operator.restart()
    operator.now_s += RETRY_PERIOD_S

    await operator.settle()

    status = kube.get("GridCluster")["status"]
    assert status["observedUid"] == "uid-demo"
    assert [field["object"] for field in status["admitted"]] == ["StatefulSet demo"]
    assert "DefinitionMatches" not in conditions(kube)
    assert await operator.writes() == []


async def test_a_status_is_sent_again_seldom_and_other_changes_at_once() -> None:
    operator = await outdated(NEW)
    operator.now_s += RETRY_PERIOD_S
    assert await operator.writes() == ["status"]
    operator.kube.edit(clusterState="Passive")
    assert "status" in await operator.writes()
    assert operator.kube.condition("ClusterStateAsDesired")["type"]


async def test_a_restart_of_the_operator_tells_nothing_again() -> None:
    operator = await outdated(NEW, rewrites=True)
    operator.restart()
    written = await operator.writes()
    # It has to find out, and what admission makes of children was known to its predecessor only.
    assert written.count("status") <= 2
    assert len(operator.told(OUTDATED)) == 1
    assert await operator.writes() == []


def test_what_is_dropped_further_down_is_named_and_not_sent_again() -> None:
    pruning = Pruning(lambda: 0.0)
    cluster = {**cluster_object(), "status": {}}
    sent = {"members": [{"pod": "p", "zone": 1}, {"pod": "q", "zone": 2}], "a": {"b": 1, "c": {}}}
    assert not pruning.is_written(cluster, sent)
    assert pruning.dropped(cluster) is None
    cluster["status"] = {"members": [{"pod": "p"}, {"pod": "q"}], "a": {"b": 1}}

    pruning.note(cluster, sent)

    assert pruning.dropped(cluster) == ("status.a.c", "status.members[].zone")
    assert pruning.is_written(cluster, sent)
    sent["members"] = [{"pod": "p", "zone": 3}, {"pod": "q", "zone": 2}]
    assert pruning.is_written(cluster, sent)
    sent["members"] = [{"pod": "r", "zone": 1}, {"pod": "q", "zone": 2}]
    assert not pruning.is_written(cluster, sent)


async def test_a_request_is_refused_once_and_the_message_says_why() -> None:
    operator = await outdated(NEW)
    operator.kube.annotate(restart="r1")
    operator.kube.get("GridCluster")["metadata"]["resourceVersion"] = "77"

    await operator.settle()

    (told,) = operator.told("RequestRefused")
    assert "the API server drops status.observedUid" in told
    assert APPLY in told
    assert await operator.writes() == []

    operator.kube.unknown.clear()
    operator.now_s += RETRY_PERIOD_S
    await operator.settle()
    operator.kube.annotate(restart="r2")
    await operator.settle(12)
    assert any(event.reason == "RestartStarted" for event in operator.kube.events)
