"""What somebody else does to children: edits, deletions and fights, and what the operator does."""

from __future__ import annotations

import pytest

from grid_operator.api.objects import ObjectRef
from grid_operator.reconcile.contests import CALM_S, FREE_REPAIRS, REPAIR_PERIOD_S
from tests.unit.operator.fake_kube import FakeKube, cluster_object
from tests.unit.operator.reconcile.test_admission import Operator, image


async def test_whoever_fights_is_answered_once_a_minute_and_told_of() -> None:
    kube = FakeKube(cluster_object())
    operator = Operator(kube)
    await operator.settle()
    ref = ObjectRef.of(kube.get("Service"))

    async def repairs(rounds: int, seconds: float) -> int:
        kube.writes.clear()
        for _ in range(rounds):
            kube.objects[ref]["spec"]["selector"]["role"] = "leader"
            operator.now_s += seconds
            await operator.settle(1)
        return kube.writes.count("apply Service")

    assert await repairs(100, 1.0) <= FREE_REPAIRS + 100 / REPAIR_PERIOD_S + 1
    contested = kube.condition("ChildrenMatch")
    assert (contested["status"], contested["reason"]) == ("False", "Contested")
    assert "Service demo" in contested["message"]
    assert len(operator.told("Contested")) == 1
    assert await repairs(1, REPAIR_PERIOD_S) == 1
    assert "role" not in kube.objects[ref]["spec"]["selector"]

    operator.now_s += CALM_S
    await operator.settle()
    assert kube.condition("ChildrenMatch")["status"] == "True"
    assert await repairs(5, 1.0) == 5


async def test_a_child_that_somebody_deletes_again_and_again_is_made_once_a_minute() -> None:
    kube = FakeKube(cluster_object())
    operator = Operator(kube)
    await operator.settle()
    ref = ObjectRef.of(kube.get("NetworkPolicy"))
    kube.writes.clear()

    for _ in range(100):
        kube.objects.pop(ref, None)
        operator.now_s += 1.0
        await operator.settle(1)

    assert kube.writes.count("apply NetworkPolicy") <= FREE_REPAIRS + 100 / REPAIR_PERIOD_S + 1
    assert kube.condition("ChildrenMatch")["reason"] == "Contested"
    operator.now_s += REPAIR_PERIOD_S
    await operator.settle(1)
    assert ref in kube.objects


async def test_a_restore_that_somebody_suspended_goes_on() -> None:
    kube = FakeKube(
        cluster_object(persistence={"enabled": True}, restoreFrom={"cluster": "source"})
    )
    kube.job_condition = ""
    operator = Operator(kube)
    await operator.settle()
    job = kube.get("Job", "demo-restore")
    job["spec"] |= {"suspend": True, "ttlSecondsAfterFinished": 1}

    await operator.settle()

    job = kube.get("Job", "demo-restore")
    assert job["spec"]["suspend"] is False
    assert "ttlSecondsAfterFinished" not in job["spec"]
    assert len(operator.told("DriftReverted")) == 1


async def test_a_new_rendering_of_a_contested_child_does_not_wait() -> None:
    kube = FakeKube(cluster_object())
    operator = Operator(kube)
    await operator.settle()
    for _ in range(FREE_REPAIRS + 2):
        kube.get("StatefulSet")["spec"]["replicas"] = 0
        await operator.settle(1)
    assert kube.condition("ChildrenMatch")["reason"] == "Contested"

    kube.edit(image="other:2")
    await operator.settle(12)

    assert image(kube) == "other:2"


async def test_a_configuration_that_was_frozen_is_made_again() -> None:
    kube = FakeKube(cluster_object())
    operator = Operator(kube)
    await operator.settle()
    kube.get("ConfigMap", "demo-config")["immutable"] = True

    await operator.settle()

    assert "immutable" not in kube.get("ConfigMap", "demo-config")
    assert operator.told("DriftReverted") == ["ConfigMap demo-config: immutable"]
    assert await operator.writes() == []


async def test_a_stateful_set_whose_label_was_taken_away_keeps_its_record_and_its_pods() -> None:
    kube = FakeKube(cluster_object())
    operator = Operator(kube)
    await operator.settle()
    kube.edit(maps=[{"name": "orders"}])
    await operator.settle()
    before = kube.get("StatefulSet")["metadata"]["annotations"]
    assert "+" in before["gridcluster.io/structures"]
    uid = kube.get("Pod", "demo-0")["metadata"]["uid"]
    del kube.get("StatefulSet")["metadata"]["labels"]["gridcluster.io/cluster"]

    await operator.settle(1)

    assert kube.get("GridCluster")["status"]["size"] == 1
    await operator.settle(12)
    assert kube.get("StatefulSet")["metadata"]["annotations"] == before
    assert kube.get("Pod", "demo-0")["metadata"]["uid"] == uid
    assert operator.told("DriftReverted") == [
        "StatefulSet demo: metadata.labels.gridcluster.io/cluster"
    ]


@pytest.mark.parametrize("taken", ["labels", "ownerReferences"])
async def test_a_child_whose_label_or_owner_was_taken_away_is_taken_back_and_told(
    taken: str,
) -> None:
    kube = FakeKube(cluster_object())
    operator = Operator(kube)
    await operator.settle()
    meta = kube.get("Service")["metadata"]
    if taken == "labels":
        del meta["labels"]["gridcluster.io/cluster"]
    else:
        del meta["ownerReferences"]

    await operator.settle()

    restored = kube.get("Service")["metadata"]
    assert restored["labels"]["gridcluster.io/cluster"] == "demo"
    assert [owner["uid"] for owner in restored["ownerReferences"]] == ["uid-demo"]
    (told,) = operator.told("DriftReverted")
    assert told.startswith(f"Service demo: metadata.{taken}")
    assert await operator.writes() == []
