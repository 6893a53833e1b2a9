"""A user's Secret that changes, or is lost, at each step of a restart."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from grid_operator.api.objects import ObjectRef
from grid_operator.decide.calls import Endpoint
from tests.unit.operator.fake_kube import FakeKube, FakeMembers, cluster_object
from tests.unit.operator.reconcile.test_reconciler import KEY, make, settle

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject

ROTATED = "rotated-and-nobody-may-see"
STEPS = ("ShutDownMember", "DeletePod", "AwaitReady")


async def restarting(step: str) -> tuple[FakeKube, FakeMembers]:
    """Return a cluster in the middle of a restart that was asked for."""
    users = [{"name": "ada", "secretName": "ada"}]
    cluster = cluster_object(
        persistence={"enabled": True}, security={"enabled": True, "users": users}
    )
    kube, members = FakeKube(cluster), FakeMembers()
    await settle(make(kube, members), 6)
    kube.annotate(restart="r1")
    while kube.get("GridCluster")["status"].get("operation", {}).get("step") != step:
        await make(kube, members).reconcile(KEY)
    return kube, members


def digest(obj: KubeObject) -> str:
    found: str = obj["metadata"]["annotations"]["gridcluster.io/config-hash"]
    return found


async def is_well(kube: FakeKube, members: FakeMembers) -> None:
    await settle(make(kube, members), 20)
    status = kube.get("GridCluster")["status"]
    assert "operation" not in status
    assert kube.condition("Ready")["status"] == "True"
    assert digest(kube.get("Pod", "demo-0")) == digest(kube.get("StatefulSet")["spec"]["template"])
    asked = next(h for h in status["handledRequests"] if h["annotation"] == "restart")
    assert asked["outcome"] == "Succeeded"
    told = [call for call in members.calls if call.endpoint is Endpoint.MEMBER_SHUTDOWN]
    assert len({call.pod["metadata"]["uid"] for call in told}) == len(told)
    kube.writes.clear()
    await settle(make(kube, members))
    assert kube.writes == []


@pytest.mark.parametrize("step", STEPS)
async def test_a_secret_that_is_rotated_reaches_the_member_and_restarts_no_pod_twice(
    step: str,
) -> None:
    kube, members = await restarting(step)
    before = digest(kube.get("StatefulSet")["spec"]["template"])
    secret = kube.get("Secret", "ada")
    secret["data"]["password"] = base64.b64encode(ROTATED.encode()).decode()

    await is_well(kube, members)

    assert digest(kube.get("Pod", "demo-0")) != before
    assert base64.b64decode(kube.get("Secret", "ada")["data"]["password"]).decode() == ROTATED
    assert ROTATED not in str(kube.get("GridCluster")) + str(kube.events)


@pytest.mark.parametrize("step", STEPS)
async def test_a_secret_that_is_lost_holds_the_restart_where_it_is(step: str) -> None:
    kube, members = await restarting(step)
    secret = kube.get("Secret", "ada")
    pod = kube.get("Pod", "demo-0")
    del kube.objects[ObjectRef.of(secret)]
    calls = list(members.calls)

    await settle(make(kube, members), 5)

    assert kube.get("GridCluster")["status"]["operation"]["step"] == step
    assert (members.calls, kube.get("Pod", "demo-0")) == (calls, pod)
    assert kube.condition("ConfigValid")["reason"] == "SecretMissing"
    assert "Secret ada" in kube.condition("Progressing")["message"]
    assert kube.condition("Progressing")["message"].endswith(f"Restart stays at {step} demo-0")
    kube.objects[ObjectRef.of(secret)] = secret
    await is_well(kube, members)
