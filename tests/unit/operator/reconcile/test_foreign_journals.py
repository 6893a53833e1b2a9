"""A status that another version of the operator wrote, or somebody edited, is never lost."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.ports.errors import Rejected
from tests.unit.operator.fake_kube import FakeKube, FakeMembers, cluster_object
from tests.unit.operator.reconcile.test_reconciler import KEY, make, settle

if TYPE_CHECKING:
    from collections.abc import Callable

TIME = "2026-01-01T00:00:00Z"
MIGRATION = {
    "id": "migrate-1",
    "kind": "Migrate",
    "step": "Pack",
    "started": TIME,
    "stepStarted": TIME,
    "attempts": 2,
}
TOLD: dict[str, Any] = {
    "handledRequests": [
        {"annotation": "force-start", "request": "f1", "outcome": "Succeeded", "message": ""}
    ],
    "stopped": False,
    "resumeState": "Frozen",
    "appliedClusterState": "Frozen",
    "restoredFrom": "source-backup/source-0/newest",
    "backup": {"lastScheduledTime": TIME},
    "fieldOfTomorrow": {"a": 1},
}


def newer(status: dict[str, Any]) -> dict[str, Any]:
    return {**status, **copy.deepcopy(TOLD), "operation": copy.deepcopy(MIGRATION)}


def edited(status: dict[str, Any]) -> dict[str, Any]:
    return {**status, **copy.deepcopy(TOLD), "lastOperations": "none of your business"}


def with_conditions_of_tomorrow(status: dict[str, Any]) -> dict[str, Any]:
    return {**newer(status), "conditions": [{"type": "Tomorrow", "state": 1}, "no condition"]}


@pytest.mark.parametrize("change", [newer, edited, with_conditions_of_tomorrow])
async def test_a_status_that_cannot_be_read_is_kept_and_nothing_is_done(
    change: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:
    kube, members = FakeKube(cluster_object()), FakeMembers()
    await settle(make(kube, members))
    cluster = kube.get("GridCluster")
    cluster["status"] = before = change(cluster["status"])
    kube.edit(clusterState="Passive", maps=[{"name": "m"}])
    kube.annotate(force_start="f1,acknowledge-data-loss=uid-demo", restart="r1")
    kube.writes.clear()

    await settle(make(kube, members))

    assert set(kube.writes) == {"status"}
    kube.writes.clear()
    await settle(make(kube, members))
    assert kube.writes == []
    assert members.calls == []
    after = kube.get("GridCluster")["status"]
    told = ("conditions", "observedGeneration")
    assert {k: v for k, v in after.items() if k not in told} == {
        k: v for k, v in before.items() if k not in told
    }


async def test_it_says_what_cannot_be_read_and_what_to_do() -> None:
    kube = FakeKube(cluster_object())
    await settle(make(kube))
    kube.get("GridCluster")["status"] = newer(kube.get("GridCluster")["status"])

    await make(kube).reconcile(KEY)

    for kind, status in (("ConfigValid", "False"), ("Ready", "False"), ("Progressing", "True")):
        condition = kube.condition(kind)
        assert condition["status"] == status
        assert "status.operation.kind: " in condition["message"]
        assert "run the version that wrote it" in condition["message"]
    assert kube.condition("Stopped")["status"] == "False"


async def test_the_operator_that_can_read_it_goes_on() -> None:
    kube = FakeKube(cluster_object())
    await settle(make(kube))
    known = copy.deepcopy(kube.get("GridCluster")["status"])
    kube.get("GridCluster")["status"] = newer(known)
    await settle(make(kube))

    del kube.get("GridCluster")["status"]["operation"]
    await settle(make(kube))

    assert kube.condition("Ready")["status"] == "True"
    assert kube.condition("ConfigValid")["status"] == "True"
    assert kube.get("GridCluster")["status"]["handledRequests"] == TOLD["handledRequests"]


async def test_a_spec_that_the_schema_refuses_in_the_middle_of_an_operation() -> None:
    kube, members = FakeKube(cluster_object()), FakeMembers()
    await settle(make(kube, members))
    kube.edit(runState="Stopped")
    await make(kube, members).reconcile(KEY)
    operation = kube.get("GridCluster")["status"]["operation"]
    kube.edit(size="many")

    await make(kube, members).reconcile(KEY)

    assert kube.get("GridCluster")["status"]["operation"] == operation
    progressing = kube.condition("Progressing")
    assert (progressing["status"], progressing["reason"]) == ("True", "Blocked")


async def test_a_former_request_is_refused_whatever_went_wrong_at_first() -> None:
    """The first rounds see a spec that cannot be read, then an API server that refuses objects."""
    kube, members = FakeKube(cluster_object()), FakeMembers()
    kube.edit(size="many")
    kube.annotate(restart="r1")
    await settle(make(kube, members))
    kube.edit(size=1)
    kube.fail["apply StatefulSet"] = Rejected("exceeded quota", "Forbidden")
    await settle(make(kube, members))
    kube.fail.clear()

    await settle(make(kube, members))

    assert members.calls == []
    (handled,) = kube.get("GridCluster")["status"]["handledRequests"]
    assert (handled["request"], handled["outcome"]) == ("r1", "Refused")
    assert [e.reason for e in kube.events].count("RequestRefused") == 1
