"""`gridctl restore`: the manifest of a new cluster made of another one's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from grid_operator.api.gridcluster import GridCluster
from gridctl.restoring import CannotRestoreError, restored_manifest
from tests.unit.gridctl.fake_api import cluster_object, condition

if TYPE_CHECKING:
    from tests.unit.gridctl.conftest import Console

KEPT = {"enabled": True, "size": "2Gi", "backup": {"volume": {"size": "3Gi"}}}
SOURCE = {
    "persistence": KEPT,
    "maps": [{"name": "orders", "timeToLiveSeconds": 60}],
    "runState": "Stopped",
    "clusterState": "Passive",
    "paused": True,
    "exposure": {"type": "NodePort", "nodePort": 30001},
}


async def test_the_manifest_is_the_source_without_its_life(console: Console) -> None:
    console.api.add(cluster_object(**SOURCE))
    shown = await console.run("restore", "copy", "--from", "demo", "--backup", "3")
    assert shown.code == 0
    manifest = yaml.safe_load(shown.out)
    assert manifest == {
        "apiVersion": "gridcluster.io/v1alpha1",
        "kind": "GridCluster",
        "metadata": {"name": "copy", "namespace": "grids"},
        "spec": {
            "persistence": KEPT,
            "maps": [{"name": "orders", "timeToLiveSeconds": 60}],
            "exposure": {"type": "NodePort"},
            "restoreFrom": {"cluster": "demo", "backup": 3},
        },
    }
    GridCluster.from_kube(manifest)
    assert "spec.exposure.nodePort 30001 is left out" in shown.err
    assert "spec.runState of demo is left out" in shown.err
    assert console.api.writes == []


async def test_claims_that_both_clusters_would_mount_are_named(console: Console) -> None:
    volumes = [{"name": "a", "persistentVolumeClaim": {"claimName": "shared"}}, {"name": "b"}]
    console.api.add(cluster_object(**SOURCE, pod={"volumes": volumes}))
    shown = await console.run("restore", "copy", "--from", "demo")
    assert "both clusters mount the claims shared of spec.pod.volumes" in shown.err
    assert yaml.safe_load(shown.out)["spec"]["pod"]["volumes"] == volumes


@pytest.mark.parametrize(
    ("backup", "member", "expected"),
    [
        ({"volume": {}}, None, {"cluster": "demo"}),
        ({"volume": {}}, "demo-1", {"cluster": "demo", "member": "demo-1"}),
        ({"claimName": "shared"}, None, {"claimName": "shared", "member": "demo-0"}),
        ({"claimName": "shared"}, "x-0", {"claimName": "shared", "member": "x-0"}),
    ],
)
def test_where_the_backup_is(
    backup: dict[str, Any], member: str | None, expected: dict[str, Any]
) -> None:
    source = cluster_object(persistence={"enabled": True, "backup": backup})
    found = restored_manifest(source, "copy", None, member)
    assert found.manifest["spec"]["restoreFrom"] == expected
    assert found.notes == ()
    assert "restoreFrom" not in source["spec"]


def test_what_the_api_server_spelled_out_is_no_noise() -> None:
    spec = {"persistence": KEPT, "queues": [], "runState": "Running", "paused": False,
            "rest": {"endpointGroups": []}, "pod": {"env": []}}  # fmt: skip
    found = restored_manifest(cluster_object(**spec), "copy", None, None)
    assert found.notes == ()
    assert found.manifest["spec"] == {
        "persistence": KEPT, "rest": {}, "pod": {}, "restoreFrom": {"cluster": "demo"},
    }  # fmt: skip


def test_a_restored_cluster_can_be_the_source_of_another_one() -> None:
    spec = {"persistence": KEPT, "restoreFrom": {"cluster": "first", "backup": 1}}
    found = restored_manifest(cluster_object(**spec), "copy", None, None)
    assert found.manifest["spec"]["restoreFrom"] == {"cluster": "demo"}


def test_secrets_of_both_are_told_by_name() -> None:
    users = [{"name": "ada", "secretName": "ada-secret"}]
    spec = {"persistence": KEPT, "security": {"enabled": True, "users": users}}
    (note,) = restored_manifest(cluster_object(**spec), "copy", None, None).notes
    assert "ada-secret" in note


@pytest.mark.parametrize(
    ("size", "members", "is_said"), [(3, None, True), (3, False, False), (1, None, False)]
)
def test_members_of_a_copy_speak_tls_with_each_other(
    size: int, members: bool | None, is_said: bool
) -> None:
    """Those of the source may speak plain text, as they were there before."""
    backup = {"enabled": True, "backup": {"claimName": "shared"}}
    tls = {"secretName": "member-tls", **({} if members is None else {"members": members})}
    source = cluster_object(size=size, persistence=backup, tls=tls)
    notes = restored_manifest(source, "copy", None, None).notes
    assert any("for servers and for clients" in note for note in notes) is is_said


def test_a_certificate_is_for_names_that_the_copy_does_not_have() -> None:
    source = cluster_object(persistence=KEPT, tls={"secretName": "member-tls"})
    (note,) = restored_manifest(source, "copy", None, None).notes
    assert "member-tls" in note
    assert "copy.grids.svc and *.copy-members.grids.svc" in note


@pytest.mark.parametrize(
    ("name", "spec", "words"),
    [
        ("copy", {}, "has no spec.persistence.backup"),
        ("copy", {"persistence": {"enabled": True}}, "has no spec.persistence.backup"),
        ("demo", {"persistence": KEPT}, "choose another name"),
        ("Copy", {"persistence": KEPT}, "metadata.name"),
    ],
)
def test_what_cannot_be_restored(name: str, spec: dict[str, Any], words: str) -> None:
    with pytest.raises(CannotRestoreError, match=words):
        restored_manifest(cluster_object(**spec), name, None, None)


async def test_apply_creates_it_once(console: Console) -> None:
    console.api.add(cluster_object(**SOURCE))
    shown = await console.run("restore", "copy", "--from", "demo", "--apply")
    assert (shown.code, shown.out) == (0, "copy was created\n")
    assert console.api.writes == ["create copy"]
    assert console.api.clusters["copy"]["spec"]["restoreFrom"] == {"cluster": "demo"}
    shown = await console.run("restore", "copy", "--from", "demo", "--apply")
    assert (shown.code, "already exists" in shown.err) == (1, True)


async def test_apply_and_wait_until_it_is_ready(console: Console) -> None:
    console.api.add(cluster_object(**SOURCE))

    def ready(_: object) -> None:
        console.api.clusters["copy"]["status"] = {
            "observedGeneration": 1,
            "conditions": [condition("Ready", "True", "AllMembersReady")],
        }

    console.api.script = [lambda _: None, ready]
    shown = await console.run("restore", "copy", "--from", "demo", "--apply", "--wait")
    assert (shown.code, shown.out) == (0, "copy is Ready\n")


async def test_a_restore_that_fails_is_not_waited_for(console: Console) -> None:
    console.api.add(cluster_object(**SOURCE))

    def failed(_: object) -> None:
        message = "cannot restore: the backup /backup/demo-0/backup-3 is damaged"
        console.api.clusters["copy"]["status"] = {
            "observedGeneration": 1,
            "conditions": [condition("Ready", "False", "RestoreFailed", message)],
        }

    console.api.script = [lambda _: None, failed]
    shown = await console.run("restore", "copy", "--from", "demo", "--apply", "--wait")
    assert (shown.code, "RestoreFailed: cannot restore: the backup" in shown.err) == (1, True)


async def test_the_source_may_be_gone(console: Console) -> None:
    text = yaml.safe_dump(cluster_object(**SOURCE))
    shown = await console.run("restore", "copy", "-f", console.write(text))
    assert shown.code == 0
    assert yaml.safe_load(shown.out)["spec"]["restoreFrom"] == {"cluster": "demo"}


@pytest.mark.parametrize(
    ("written", "option", "expected"),
    [
        (None, [], "grids"),
        (None, ["-n", "others"], "others"),
        ("first", [], "first"),
        ("first", ["-n", "others"], "others"),
    ],
)
async def test_the_new_one_is_where_n_says_or_the_file_or_the_context(
    console: Console, written: str | None, option: list[str], expected: str
) -> None:
    source = cluster_object(persistence=KEPT, tls={"secretName": "member-tls"})
    source["metadata"]["namespace"] = written
    file = console.write(yaml.safe_dump(source))
    shown = await console.run("restore", "copy", "-f", file, *option)
    assert shown.code == 0
    assert yaml.safe_load(shown.out)["metadata"]["namespace"] == expected
    assert f"*.copy-members.{expected}.svc" in shown.err


async def test_a_file_that_is_no_cluster_exits_2(console: Console) -> None:
    shown = await console.run("restore", "copy", "-f", console.write("kind: Pod\n"))
    assert (shown.code, shown.out) == (2, "")
    assert "expected apiVersion" in shown.err
