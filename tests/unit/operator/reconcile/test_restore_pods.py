"""The pods of the restoring Job, with containers that others add: what ends, and what is mended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.unit.operator.fake_kube import FakeKube, cluster_object
from tests.unit.operator.reconcile.test_hindrances import RESTORING, job_pod
from tests.unit.operator.reconcile.test_reconciler import KEY, make, settle

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject

PROXY: dict[str, Any] = {"name": "proxy", "ready": True, "state": {"running": {}}}
FAILED = {"type": "Failed", "status": "True", "message": "reached the backoff limit"}


def beside_a_proxy(state: dict[str, Any], phase: str = "Running") -> dict[str, Any]:
    """Return the status of a pod of which one container runs on, whatever the restore does."""
    own = {"name": "restore", "ready": "running" in state, "state": state}
    return {"phase": phase, "containerStatuses": [PROXY, own]}


def ended(code: int, said: str = "") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "message": said}}


async def restoring(**spec: Any) -> FakeKube:
    kube = FakeKube(cluster_object(**RESTORING, **spec))
    kube.job_condition = ""
    await settle(make(kube), 3)
    return kube


def job(kube: FakeKube) -> KubeObject:
    return kube.get("Job", "demo-restore")


def names(kube: FakeKube, kind: str) -> list[str]:
    return [ref.name for ref in kube.objects if ref.kind == kind]


async def test_a_pod_that_a_sidecar_keeps_running_has_restored() -> None:
    kube = await restoring()
    job_pod(kube, beside_a_proxy({"running": {}}))
    await settle(make(kube), 3)
    assert names(kube, "StatefulSet") == [], "the copy is not complete"

    job_pod(kube, beside_a_proxy(ended(0)))
    await settle(make(kube), 5)

    assert names(kube, "Job") == []
    assert names(kube, "StatefulSet") == ["demo"]
    assert kube.condition("Restored")["status"] == "True"


async def test_a_job_that_failed_by_its_sidecar_only_has_restored() -> None:
    kube = await restoring()
    job_pod(kube, beside_a_proxy(ended(0), "Failed"))
    job(kube)["status"] = {"conditions": [FAILED], "failed": 3}

    await settle(make(kube), 5)

    assert kube.condition("Restored")["status"] == "True"


async def test_a_restore_that_failed_beside_a_sidecar_is_tried_as_often_as_any_other() -> None:
    kube = await restoring()
    limit = job(kube)["spec"]["backoffLimit"]
    for number in range(limit):
        job_pod(kube, beside_a_proxy(ended(1, "the checksum differs")), number)
        job(kube)["status"] = {"failed": number}
        kube.writes.clear()
        await make(kube).reconcile(KEY)
        assert "delete Pod" in kube.writes
        assert f"demo-restore-{number}" not in names(kube, "Pod")
        assert kube.condition("Restored")["reason"] == "Restoring"

    job_pod(kube, beside_a_proxy(ended(1, "the checksum differs")), limit)
    job(kube)["status"] = {"failed": limit}
    await settle(make(kube), 2)

    told = kube.condition("Restored")
    assert told["reason"] == "RestoreFailed"
    assert told["message"].endswith("Job demo-restore failed: the checksum differs")
    assert names(kube, "Job") == []


async def test_a_pod_that_ends_by_itself_is_left_to_the_job() -> None:
    kube = await restoring()
    status = {"phase": "Failed", "containerStatuses": [{"name": "restore", "state": ended(1)}]}
    job_pod(kube, status)

    await settle(make(kube), 2)

    assert names(kube, "Pod") == ["demo-restore-0"]


async def test_a_label_that_a_policy_asks_for_reaches_a_job_that_got_no_pod() -> None:
    kube = await restoring()
    before = job(kube)["spec"]["template"]["metadata"]["labels"]
    kube.edit(pod={"labels": {"team": "x"}, "annotations": {"note": "y"}})

    await settle(make(kube), 3)

    made = job(kube)["spec"]["template"]["metadata"]
    assert made == {"labels": {"team": "x", **before}, "annotations": {"note": "y"}}


async def test_a_job_whose_pod_works_or_has_worked_is_left_alone() -> None:
    states: tuple[dict[str, Any], ...] = ({"running": {}}, ended(1))
    for state in states:
        kube = await restoring()
        job_pod(kube, beside_a_proxy(state, "Failed" if "terminated" in state else "Running"))
        before = job(kube)["metadata"]["resourceVersion"]
        kube.edit(pod={"labels": {"team": "x"}})

        await settle(make(kube), 3)

        assert job(kube)["metadata"]["resourceVersion"] == before


async def test_a_job_without_its_digest_is_not_made_again_and_again() -> None:
    kube = await restoring()
    del job(kube)["metadata"]["annotations"]
    kube.writes.clear()

    await settle(make(kube), 3)

    assert "delete Job" not in kube.writes


async def test_a_job_whose_pod_cannot_start_is_made_again_of_the_mended_spec() -> None:
    kube = await restoring()
    waiting = {"waiting": {"reason": "ImagePullBackOff"}}
    job_pod(kube, beside_a_proxy(waiting, "Pending"))
    kube.edit(image="mended:2")

    await settle(make(kube), 3)

    (container,) = job(kube)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "mended:2"
