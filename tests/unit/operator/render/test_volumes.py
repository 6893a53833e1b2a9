from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.render import render_children
from tests.unit.operator.api.clusters import CONTEXT, make_cluster
from tests.unit.operator.render.restoring import COPYING, restore_children, restoring_cluster

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject

CLEANING = {**COPYING, "step": "CleanUp"}
OWNER = {
    "apiVersion": "gridcluster.io/v1alpha1",
    "kind": "GridCluster",
    "name": "demo",
    "uid": "uid-1",
    "controller": False,
    "blockOwnerDeletion": False,
}


def claim(name: str, size: str = "2Gi", **metadata: Any) -> KubeObject:
    """Return a claim as the StatefulSet controller made it and the API server holds it."""
    labels = {"gridcluster.io/cluster": "demo"}
    known = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {**known, **metadata},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": size}},
            "storageClassName": "chosen",
            "volumeName": "pv-1",
        },
    }


def claims(spec: dict[str, Any], *live: KubeObject) -> dict[str, KubeObject]:
    children = render_children(make_cluster(spec), replace(CONTEXT, claims=live))
    return {c["metadata"]["name"]: c for c in children if c["kind"] == "PersistentVolumeClaim"}


def kept(policy: str, **backup: Any) -> dict[str, Any]:
    persistence = {"enabled": True, "size": "1Gi", **({"backup": backup} if backup else {})}
    return {"persistence": persistence, "deletionPolicy": policy}


def test_data_claims_are_left_to_kubernetes_by_default() -> None:
    assert claims(kept("Retain"), claim("data-demo-0")) == {}
    assert claims(kept("Delete")) == {}


def test_a_claim_made_beforehand_gets_the_label_and_follows_the_policy() -> None:
    live = (claim("data-demo-0", labels={}), claim("data-demo-7", labels={"mine": "x"}))

    kept_claim = claims(kept("Retain"), *live)
    owned_claim = claims(kept("Delete"), *live)

    assert list(kept_claim) == list(owned_claim) == ["data-demo-0"]
    metadata = kept_claim["data-demo-0"]["metadata"]
    assert metadata["labels"]["gridcluster.io/cluster"] == "demo"
    assert metadata["ownerReferences"] == []
    assert owned_claim["data-demo-0"]["metadata"]["ownerReferences"] == [OWNER]


def test_with_delete_the_cluster_owns_its_data_claims_and_no_others() -> None:
    live = (
        claim("data-demo-0"),
        claim("data-demo-1"),
        claim("data-other-0"),
        claim("demo-backup"),
    )

    found = claims(kept("Delete"), *live)

    assert set(found) == {"data-demo-0"}
    assert found["data-demo-0"]["metadata"]["ownerReferences"] == [OWNER]


def test_the_live_claims_own_request_is_kept() -> None:
    found = claims(kept("Delete"), claim("data-demo-0", "7Gi"))["data-demo-0"]

    assert found["spec"]["resources"] == {"requests": {"storage": "7Gi"}}
    assert found["spec"]["storageClassName"] == "chosen"
    assert "volumeName" not in found["spec"]


def test_with_retain_ownership_is_given_up_once() -> None:
    owned = claim("data-demo-0", ownerReferences=[OWNER])

    assert claims(kept("Retain"), owned)["data-demo-0"]["metadata"]["ownerReferences"] == []
    assert claims(kept("Retain"), claim("data-demo-0")) == {}


def test_a_claim_on_its_way_out_is_left_alone() -> None:
    going = claim("data-demo-0", deletionTimestamp="2026-01-01T00:00:00Z")

    assert claims(kept("Delete"), going) == {}


def test_backup_claim_outlives_the_cluster() -> None:
    found = claims(kept("Delete", volume={"size": "3Gi", "storageClassName": "slow"}))

    made = found["demo-backup"]
    assert "ownerReferences" not in made["metadata"]
    assert made["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": "3Gi"}},
        "storageClassName": "slow",
    }


@pytest.mark.parametrize(
    ("live", "wanted", "rendered"),
    [("5Gi", "3Gi", "5Gi"), ("3072Mi", "3Gi", "3Gi"), ("1Gi", "3Gi", "3Gi")],
)
def test_backup_claim_never_shrinks(live: str, wanted: str, rendered: str) -> None:
    found = claims(kept("Retain", volume={"size": wanted}), claim("demo-backup", live))

    assert found["demo-backup"]["spec"]["resources"]["requests"]["storage"] == rendered


def test_a_claim_of_ones_own_is_mounted_and_not_made() -> None:
    spec = kept("Retain", claimName="shared")
    assert claims(spec) == {}

    children = render_children(make_cluster(spec), CONTEXT)
    pod = next(c for c in children if c["kind"] == "StatefulSet")["spec"]["template"]["spec"]
    assert {"name": "backup", "persistentVolumeClaim": {"claimName": "shared"}} in pod["volumes"]


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_the_statefulset_never_deletes_a_claim(policy: str) -> None:
    children = render_children(make_cluster(kept(policy)), CONTEXT)
    spec = next(c for c in children if c["kind"] == "StatefulSet")["spec"]

    assert set(spec["persistentVolumeClaimRetentionPolicy"].values()) == {"Retain"}


def kinds(children: tuple[KubeObject, ...]) -> set[str]:
    return {child["kind"] for child in children}


def test_before_and_while_a_restore_runs_there_is_no_member() -> None:
    source = {"cluster": "old"}
    waiting = render_children(restoring_cluster(source, None), CONTEXT)
    copying = restore_children()
    cleaning = render_children(restoring_cluster(source, CLEANING), CONTEXT)

    assert not {"StatefulSet", "Job"} & kinds(waiting)
    assert "StatefulSet" not in kinds(copying)
    assert {"Job", "PersistentVolumeClaim"} <= kinds(copying)
    assert not {"StatefulSet", "Job"} & kinds(cleaning)


def test_after_a_restore_there_are_members_and_no_job() -> None:
    cluster = restoring_cluster({"cluster": "old"}, None)
    status = cluster.status.model_copy(update={"restored_from": "old-backup/old-0"})

    done = render_children(cluster.model_copy(update={"status": status}), CONTEXT)

    assert "StatefulSet" in kinds(done)
    assert "Job" not in kinds(done)


def test_a_restore_takes_nothing_from_a_cluster_that_has_members() -> None:
    context = replace(CONTEXT, recorded={})

    children = render_children(restoring_cluster({"cluster": "old"}, COPYING), context)

    assert "Job" not in kinds(children)
    (stateful_set,) = [c for c in children if c["kind"] == "StatefulSet"]
    assert stateful_set["spec"]["replicas"] == 1


@pytest.mark.parametrize(
    ("source", "claim_name", "arguments"),
    [
        ({"cluster": "old"}, "old-backup", ["/backup/old-0", "--newest"]),
        ({"cluster": "old", "backup": 7}, "old-backup", ["/backup/old-0/backup-7"]),
        ({"cluster": "old", "member": "old-3"}, "old-backup", ["/backup/old-3", "--newest"]),
        ({"claimName": "c", "member": "x-0", "backup": 1}, "c", ["/backup/x-0/backup-1"]),
    ],
)
def test_the_job_copies_the_backup_that_is_named(
    source: dict[str, Any], claim_name: str, arguments: list[str]
) -> None:
    children = restore_children(**source)
    job = next(c for c in children if c["kind"] == "Job")["spec"]
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {m["name"]: m for m in container["volumeMounts"]}
    volumes = {v["name"]: v for v in pod["volumes"]}

    assert container["args"] == [
        "restore",
        *arguments,
        "--once",
        "--into",
        "/data/persistence",
    ]
    assert volumes["backup"]["persistentVolumeClaim"]["claimName"] == claim_name
    assert volumes["data"]["persistentVolumeClaim"]["claimName"] == "data-demo-0"
    assert mounts["backup"].get("readOnly") is True
    assert "readOnly" not in mounts["data"]
    assert "activeDeadlineSeconds" not in job
    assert job["backoffLimit"] <= 3


def test_the_restored_claim_is_what_the_statefulset_would_make() -> None:
    made = next(c for c in restore_children() if c["kind"] == "PersistentVolumeClaim")
    cluster = restoring_cluster({"cluster": "old"}, None)
    status = cluster.status.model_copy(update={"restored_from": "x"})
    after = render_children(cluster.model_copy(update={"status": status}), CONTEXT)
    (template,) = next(c for c in after if c["kind"] == "StatefulSet")["spec"][
        "volumeClaimTemplates"
    ]

    assert made["metadata"]["name"] == f"{template['metadata']['name']}-demo-0"
    assert made["spec"] == template["spec"]
    assert made["metadata"]["labels"] == template["metadata"]["labels"]
    assert "ownerReferences" not in made["metadata"]


def test_the_job_runs_where_members_may_run() -> None:
    pod_fields: dict[str, Any] = {
        "nodeSelector": {"disk": "ssd"},
        "affinity": {"nodeAffinity": {}},
        "tolerations": [{"operator": "Exists"}],
        "imagePullSecrets": [{"name": "r"}],
        "securityContext": {"fsGroup": 77},
    }
    cluster = restoring_cluster({"cluster": "old"}, COPYING, pod=pod_fields)
    job = next(c for c in render_children(cluster, CONTEXT) if c["kind"] == "Job")
    pod = job["spec"]["template"]["spec"]

    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert pod["affinity"] == {"nodeAffinity": {}}
    assert pod["tolerations"][0]["operator"] == "Exists"
    assert pod["imagePullSecrets"] == [{"name": "r"}]
    assert pod["securityContext"]["fsGroup"] == 77
    assert pod["restartPolicy"] == "Never"
