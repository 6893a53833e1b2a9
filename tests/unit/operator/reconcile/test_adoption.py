"""Objects that were there before the GridCluster: orphans, and claims made beforehand."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.api.names import MANAGED_BY_LABEL
from grid_operator.api.objects import ObjectRef
from grid_operator.ports.errors import NotReady
from grid_operator.ports.kubernetes.client import is_child
from grid_operator.reconcile.reconciler import REFUSED_REQUEUE_S
from tests.unit.operator.fake_kube import FakeKube, cluster_object
from tests.unit.operator.reconcile.test_reconciler import KEY, NOW, make, settle

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject

CLAIMS = ("PersistentVolumeClaim",)
BACKED_UP = {
    "enabled": True,
    "backup": {"volume": {"size": "1Gi", "accessMode": "ReadWriteMany"}},
}
OWNER = {"kind": "GridCluster", "name": "demo", "uid": "uid-demo"}
FORMER = {"kind": "GridCluster", "name": "demo", "uid": "uid-before"}


@pytest.mark.parametrize(
    ("kind", "metadata", "expected"),
    [
        ("Service", {"name": "demo", "ownerReferences": [OWNER]}, True),
        ("Service", {"name": "demo", "ownerReferences": [FORMER]}, False),
        ("StatefulSet", {"name": "demo"}, True),
        ("StatefulSet", {"name": "demo", "ownerReferences": []}, True),
        ("StatefulSet", {"name": "demo", "ownerReferences": [FORMER]}, False),
        ("StatefulSet", {"name": "other"}, False),
        ("StatefulSet", {"name": "demo", "labels": {MANAGED_BY_LABEL: "grid-operator"}}, True),
        ("StatefulSet", {"name": "demo", "labels": {MANAGED_BY_LABEL: "Helm"}}, False),
        ("StatefulSet", {"name": "demo", "deletionTimestamp": "2026-01-01T00:00:00Z"}, False),
        # A child that is not rendered is deleted: nothing else without an owner may count as one.
        ("Service", {"name": "demo"}, False),
        ("Secret", {"name": "demo"}, False),
    ],
)
def test_what_is_a_child(kind: str, metadata: dict[str, Any], expected: bool) -> None:
    assert is_child({"kind": kind, "metadata": metadata}, cluster_object()) is expected


async def test_an_orphaned_statefulset_is_adopted_with_its_record_and_its_pods() -> None:
    """`kubectl delete --cascade=orphan`, then the saved text again: members keep what they hold."""
    kube = FakeKube(cluster_object(maps=[{"name": "default"}]))
    reconciler = make(kube)
    await settle(reconciler)
    kube.edit(maps=[{"name": "default"}, {"name": "extra"}])
    await settle(reconciler)
    pod = kube.get("Pod", "demo-0")["metadata"]["uid"]
    fresh = kube.recreate()
    kube.writes.clear()

    await settle(make(kube))

    (owner,) = kube.get("StatefulSet")["metadata"]["ownerReferences"]
    assert owner["uid"] == fresh["metadata"]["uid"]
    assert kube.get("Pod", "demo-0")["metadata"]["uid"] == pod
    assert not [write for write in kube.writes if write.startswith("delete")]
    assert kube.condition("Ready")["status"] == "True"


async def test_the_record_of_an_orphaned_statefulset_fixes_the_kind_of_cluster() -> None:
    kube = FakeKube(cluster_object())
    await settle(make(kube))
    kube.recreate()["spec"]["size"] = 3

    await settle(make(kube))

    assert kube.condition("ConfigValid")["reason"] == "ImmutableSize"
    assert kube.get("StatefulSet")["spec"]["replicas"] == 1


async def test_a_restore_does_not_replace_what_an_orphaned_statefulset_holds() -> None:
    kube = FakeKube(cluster_object(persistence={"enabled": True}))
    await settle(make(kube))
    kube.recreate()["spec"]["restoreFrom"] = {"cluster": "other"}
    kube.writes.clear()

    await settle(make(kube))

    assert "apply Job" not in kube.writes
    assert kube.get("GridCluster")["status"]["restoredFrom"]
    assert kube.get("StatefulSet")["spec"]["replicas"] == 1


def former_member(**metadata: Any) -> KubeObject:
    """Return a pod of a StatefulSet that is gone."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "demo-0",
            "namespace": "grids",
            "uid": "uid-of-pod",
            "labels": {"gridcluster.io/cluster": "demo"},
            **metadata,
        },
        "spec": {"containers": []},
    }


@pytest.mark.parametrize(
    "metadata",
    [
        {"ownerReferences": [{"kind": "StatefulSet", "name": "demo", "uid": "uid-gone"}]},
        {"deletionTimestamp": (NOW + timedelta(seconds=1)).isoformat()},
    ],
    ids=["owned", "stopping"],
)
async def test_new_members_wait_for_former_ones_to_stop(metadata: dict[str, Any]) -> None:
    """The controller of StatefulSets tries a name that is taken after minutes at last."""
    kube = FakeKube(cluster_object())
    former = former_member(**metadata)
    kube.objects[ObjectRef.of(former)] = former
    with pytest.raises(NotReady):
        await make(kube).reconcile(KEY)
    assert "apply StatefulSet" not in kube.writes
    assert kube.condition("Progressing")["message"] == "until the former Pod grids/demo-0 is gone"
    del kube.objects[ObjectRef.of(former)]

    await settle(make(kube))

    assert kube.condition("Ready")["status"] == "True"


async def test_a_pod_that_does_not_end_in_its_time_holds_up_no_others() -> None:
    kube = FakeKube(cluster_object())
    lost = former_member(deletionTimestamp=(NOW - timedelta(seconds=1)).isoformat())
    kube.objects[ObjectRef.of(lost)] = lost

    await make(kube).reconcile(KEY)

    assert "apply StatefulSet" in kube.writes


def beforehand(**labels: str) -> KubeObject:
    """Return a claim that an administrator made for the first member, to choose its volume."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data-demo-0",
            "namespace": "grids",
            "uid": "uid-of-claim",
            "labels": labels,
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": "chosen",
        },
    }


@pytest.mark.parametrize(("policy", "owners"), [("Delete", ["uid-demo"]), ("Retain", [])])
async def test_a_claim_made_beforehand_follows_the_deletion_policy(
    policy: str, owners: list[str]
) -> None:
    kube = FakeKube(cluster_object(persistence={"enabled": True}, deletionPolicy=policy))
    made = beforehand(mine="yes")
    kube.objects[ObjectRef.of(made)] = made

    await settle(make(kube))

    metadata = kube.get("PersistentVolumeClaim", "data-demo-0")["metadata"]
    assert [owner["uid"] for owner in metadata.get("ownerReferences", [])] == owners
    assert metadata["labels"]["gridcluster.io/cluster"] == "demo"
    kube.writes.clear()
    await settle(make(kube))
    assert kube.writes == []


async def test_a_claim_of_another_cluster_is_left_alone() -> None:
    kube = FakeKube(cluster_object(persistence={"enabled": True}, deletionPolicy="Delete"))
    made = beforehand(**{"gridcluster.io/cluster": "another"})
    kube.objects[ObjectRef.of(made)] = made

    await settle(make(kube))

    metadata = kube.get("PersistentVolumeClaim", "data-demo-0")["metadata"]
    assert "ownerReferences" not in metadata


async def test_what_a_release_still_manages_is_taken_when_that_has_removed_it() -> None:
    """`helm upgrade` makes the GridCluster first, and deletes the members of before afterwards."""
    former = FakeKube(cluster_object(persistence=BACKED_UP))
    await settle(make(former))
    kube = FakeKube(cluster_object(persistence=BACKED_UP))
    for ref, found in former.objects.items():
        if ref.kind not in ("GridCluster", "Secret", "Pod"):
            meta = found["metadata"]
            meta.pop("ownerReferences", None)
            meta.get("annotations", {}).clear()
            meta["labels"][MANAGED_BY_LABEL] = "Helm"
            kube.objects[ref] = found
    taken = {ref for ref in kube.objects if ref.kind not in (*CLAIMS, "GridCluster")}
    before = {ref: kube.objects[ref]["metadata"]["uid"] for ref in taken}

    delay = await settle(make(kube))

    condition = kube.condition("Progressing")
    assert condition["reason"] == "NameTaken"
    assert "is managed by Helm" in condition["message"]
    assert delay == REFUSED_REQUEUE_S
    for ref in taken:
        meta = kube.objects[ref]["metadata"]
        assert (meta["uid"], meta.get("ownerReferences")) == (before[ref], None)

    for ref in taken:
        del kube.objects[ref]
    await settle(make(kube))

    assert kube.condition("Ready")["status"] == "True"
    (owner,) = kube.get("StatefulSet")["metadata"]["ownerReferences"]
    assert owner["kind"] == "GridCluster"
