"""Objects that were there before the GridCluster: orphans, and claims made beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.api.objects import ObjectRef
from grid_operator.ports.kube import is_child
from tests.unit.operator.fake_kube import FakeKube, cluster_object
from tests.unit.operator.reconcile.test_reconciler import make, settle

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject

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
