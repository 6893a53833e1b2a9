"""What stands in an operator's way: rights that are gone, others that were faster, stuck Jobs."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.api.objects import KubeObject, ObjectRef
from grid_operator.ports.errors import Conflict, Rejected
from tests.unit.operator.fake_kube import FakeKube, FakeMembers, cluster_object
from tests.unit.operator.reconcile.test_reconciler import KEY, make, settle

if TYPE_CHECKING:
    from grid_operator.decide.model import MemberProblem, MemberView
    from grid_operator.ports.api import MemberAccess

RESTORING: dict[str, Any] = {"persistence": {"enabled": True}, "restoreFrom": {"cluster": "source"}}


async def test_without_the_right_to_take_the_finalizer_away_all_else_goes_on() -> None:
    cluster = cluster_object()
    cluster["metadata"]["finalizers"] = ["gridcluster.io/shutdown"]
    kube = FakeKube(cluster)
    kube.fail["set_finalizers"] = Rejected("gridclusters is forbidden", "Forbidden")

    await settle(make(kube))

    assert kube.condition("Ready")["status"] == "True"
    assert "AllMembersReady" in {event.reason for event in kube.events}
    kube.writes.clear()
    await settle(make(kube))
    assert kube.writes == []


async def test_an_operator_that_was_held_up_scales_nothing_down_that_another_one_started() -> None:
    kube = FakeKube(cluster_object())
    await settle(make(kube))
    kube.edit(runState="Stopped")
    while kube.get("GridCluster")["status"].get("operation", {}).get("step") != "ScaleDown":
        await make(kube).reconcile(KEY)
    others = make(kube)

    class HeldUp(FakeMembers):
        """Answers after another operator has ended the stop, and a start."""

        async def fetch_view(
            self, pod: KubeObject, access: MemberAccess
        ) -> MemberView | MemberProblem:
            await settle(others, 6)
            kube.edit(runState="Running")
            await settle(others, 8)
            assert kube.condition("Ready")["status"] == "True"
            return await super().fetch_view(pod, access)

    started = copy.deepcopy(kube.get("Pod", "demo-0")["metadata"]["uid"])
    with pytest.raises(Conflict):
        await make(kube, HeldUp()).reconcile(KEY)
    assert kube.get("StatefulSet")["spec"]["replicas"] == 1
    assert kube.get("Pod", "demo-0")["metadata"]["uid"] != started
    assert kube.condition("Ready")["status"] == "True"


async def test_a_refusal_at_the_end_of_a_restore_tells_of_no_import_of_nothing() -> None:
    cluster = cluster_object(size=3, **RESTORING)
    entry = {"id": "restore-1", "kind": "Restore", "step": "CleanUp", "target": "source-backup"}
    time = "2026-01-01T00:00:00Z"
    cluster["status"] = {"operation": {**entry, "started": time, "stepStarted": time}}
    kube = FakeKube(cluster)
    kube.fail["apply ConfigMap"] = Rejected("exceeded quota", "Forbidden")
    await make(kube).reconcile(KEY)
    status = kube.get("GridCluster")["status"]
    assert status["operation"]["step"] == "CleanUp"
    assert "restoredFrom" not in status
    assert "importing" not in status

    kube.fail.clear()
    await settle(make(kube), 2)
    status = kube.get("GridCluster")["status"]
    assert status["restoredFrom"] == "source-backup"
    assert status["importing"] is True


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
async def test_the_former_address_of_a_pod_that_ended_is_sent_no_credentials(phase: str) -> None:
    kube, members = FakeKube(cluster_object()), FakeMembers()
    await settle(make(kube, members))
    members.accesses.clear()
    evicted = {"phase": phase, "podIP": "10.244.0.7", "reason": "Evicted"}
    kube.get("Pod", "demo-0")["status"] = evicted
    kube.edit(clusterState="Frozen")

    await settle(make(kube, members))

    assert members.accesses == set()
    told = kube.condition("Ready")["message"]
    assert told == (
        "demo-0 has failed: Evicted" if phase == "Failed" else "demo-0 is not ready yet"
    )


def job_pod(kube: FakeKube, status: dict[str, Any], number: int = 0) -> KubeObject:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"demo-restore-{number}",
            "namespace": "grids",
            "uid": f"uid-job-pod-{number}",
            "creationTimestamp": f"2026-01-01T00:00:0{number}Z",
            "labels": {"gridcluster.io/cluster": "demo"},
            "ownerReferences": [
                {"kind": "Job", "uid": kube.get("Job", "demo-restore")["metadata"]["uid"]}
            ],
        },
        "status": status,
    }
    kube.objects[ObjectRef.of(pod)] = pod
    return pod


def ended(code: int, message: str) -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "message": message}}
    return {"phase": "Failed", "containerStatuses": [{"name": "restore", "state": state}]}


async def test_a_restore_that_failed_says_what_the_restore_said() -> None:
    kube = FakeKube(cluster_object(**RESTORING))
    kube.job_condition = ""
    await settle(make(kube), 3)
    said = "passed over backup-3: it is incomplete\ncannot restore: shard-0: \x1b[31mthe checksum"
    job_pod(kube, ended(1, said), 1)
    job_pod(kube, {"phase": "Failed", "reason": "Evicted"}, 2)
    failed = {"type": "Failed", "status": "True", "message": "reached the backoff limit"}
    kube.get("Job", "demo-restore")["status"] = {"conditions": [failed]}

    await make(kube).reconcile(KEY)

    text = "Job demo-restore failed: cannot restore: shard-0:  [31mthe checksum"
    assert text in kube.condition("Restored")["message"]
    assert text in kube.condition("Ready")["message"]


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (
            {
                "phase": "Pending",
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "message": "claim is not found"}
                ],
            },
            "; pod demo-restore-0 cannot be scheduled: claim is not found",
        ),
        (
            {
                "phase": "Pending",
                "containerStatuses": [
                    {"name": "restore", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
                ],
            },
            "; pod demo-restore-0 container restore: ImagePullBackOff",
        ),
        (
            ended(1, "cannot restore: the disk is full"),
            "container restore ended with code 1: cannot restore: the disk is full",
        ),
        ({"phase": "Running"}, "has copied source-backup/source-0/newest"),
    ],
)
async def test_a_restore_that_does_not_get_on_says_why(status: dict[str, Any], told: str) -> None:
    kube = FakeKube(cluster_object(**RESTORING))
    kube.job_condition = ""
    await settle(make(kube), 3)
    job_pod(kube, status)

    await make(kube).reconcile(KEY)

    message = kube.condition("Progressing")["message"]
    assert message.startswith("Copy source-backup/source-0/newest: until Job demo-restore ")
    assert message.endswith(told)
    kube.writes.clear()
    await settle(make(kube))
    assert kube.writes == []


async def test_a_request_behind_an_operation_says_that_it_waits() -> None:
    kube = FakeKube(cluster_object())
    await settle(make(kube))
    kube.edit(runState="Stopped")
    await make(kube).reconcile(KEY)
    kube.annotate(restart="r1")

    await make(kube).reconcile(KEY)

    valid = kube.condition("RequestsValid")
    assert (valid["status"], valid["message"]) == (
        "True",
        "gridcluster.io/restart r1 waits until Stop has ended",
    )


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"paused": True}, "until the pause is over"),
        ({"maps": [{"name": "a**"}]}, "until the spec can work"),
    ],
)
async def test_a_request_that_nobody_looks_at_says_that_it_waits(
    spec: dict[str, Any], text: str
) -> None:
    kube = FakeKube(cluster_object())
    await settle(make(kube))
    kube.edit(**spec)
    kube.annotate(restart="r1")

    await settle(make(kube), 2)

    message = kube.condition("RequestsValid")["message"]
    assert message == f"gridcluster.io/restart r1 waits {text}"


async def test_a_spec_that_cannot_work_does_not_hide_a_member_that_is_down() -> None:
    kube, members = FakeKube(cluster_object()), FakeMembers()
    await settle(make(kube, members))
    kube.edit(maps=[{"name": "a**"}])
    kube.get("Pod", "demo-0")["status"]["conditions"] = [{"type": "Ready", "status": "False"}]

    await settle(make(kube, members), 2)

    message = kube.condition("Ready")["message"]
    assert "spec.maps" in message
    assert message.endswith("; and demo-0 is not ready yet")
