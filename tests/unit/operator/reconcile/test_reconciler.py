from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from grid_operator.api.objects import KubeObject, ObjectRef
from grid_operator.ports.api import MemberAccess
from grid_operator.ports.errors import Conflict, NotReady, Rejected, Unavailable
from grid_operator.reconcile.reconciler import (
    REFUSED_REQUEUE_S,
    ClusterKey,
    Reconciler,
    Surroundings,
)
from tests.unit.operator.fake_kube import FakeKube, FakeMembers, cluster_object

if TYPE_CHECKING:
    from grid_operator.decide.model import MemberProblem, MemberView

KEY = ClusterKey("grids", "demo")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def make(kube: FakeKube, members: FakeMembers | None = None) -> Reconciler:
    passwords = itertools.count(1)
    surroundings = Surroundings(
        "grid-system",
        now=lambda: NOW,
        steady_s=lambda: 0.0,
        make_password=lambda: f"password-{next(passwords)}",
    )
    return Reconciler(kube, members or FakeMembers(), surroundings)


async def settle(reconciler: Reconciler, rounds: int = 4) -> float | None:
    delay: float | None = None
    for _ in range(rounds):
        delay = await reconciler.reconcile(KEY)
    return delay


async def test_creates_every_child_and_becomes_ready() -> None:
    kube = FakeKube(cluster_object())
    delay = await settle(make(kube))
    kinds = sorted(ref.kind for ref in kube.objects)
    assert kinds == [
        "ConfigMap",
        "GridCluster",
        "NetworkPolicy",
        "Pod",
        "Secret",
        "Service",
        "Service",
        "StatefulSet",
    ]
    assert kube.condition("Ready")["status"] == "True"
    assert delay == 10.0


async def test_unchanged_cluster_costs_no_write() -> None:
    kube = FakeKube(cluster_object())
    await settle(make(kube))
    kube.writes.clear()
    await settle(make(kube), rounds=5)
    assert kube.writes == []


async def test_hand_edit_of_an_owned_field_is_reverted_and_then_nothing_is_written() -> None:
    kube = FakeKube(cluster_object())
    reconciler = make(kube)
    await settle(reconciler)
    kube.get("ConfigMap", "demo-config")["data"]["grid.yaml"] = "grid: {}"
    kube.writes.clear()
    await reconciler.reconcile(KEY)
    assert "apply ConfigMap" in kube.writes
    assert kube.get("ConfigMap", "demo-config")["data"]["grid.yaml"] != "grid: {}"
    await settle(reconciler)
    kube.writes.clear()
    await settle(reconciler)
    assert kube.writes == []


async def test_unowned_field_is_kept() -> None:
    kube = FakeKube(cluster_object())
    await settle(make(kube))
    kube.get("Service")["metadata"]["annotations"]["example.com/mine"] = "kept"
    kube.writes.clear()
    await settle(make(kube))
    assert kube.writes == []
    assert kube.get("Service")["metadata"]["annotations"]["example.com/mine"] == "kept"


async def test_password_is_made_once_and_used_for_members() -> None:
    kube, members = FakeKube(cluster_object()), FakeMembers()
    reconciler = make(kube, members)
    await reconciler.reconcile(KEY)
    secret = kube.get("Secret", "demo-management")["data"]
    await settle(reconciler)
    assert kube.get("Secret", "demo-management")["data"] == secret
    assert members.accesses == {MemberAccess("grid-operator", "password-1")}


async def test_a_restored_secret_keeps_its_content() -> None:
    kube = FakeKube(cluster_object())
    data = {"username": "YWRtaW4=", "password": "c2VjcmV0"}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "demo-management",
            "namespace": "grids",
            "uid": "u",
            "labels": {"gridcluster.io/cluster": "demo"},
        },
        "data": data,
    }
    kube.objects[ObjectRef.of(secret)] = secret
    await settle(make(kube))
    assert kube.get("Secret", "demo-management")["data"] == data


async def test_no_such_cluster_is_forgotten() -> None:
    assert await make(FakeKube()).reconcile(KEY) is None


async def test_cluster_deleted_while_it_is_reconciled_is_a_conflict_then_forgotten() -> None:
    kube = FakeKube(cluster_object())

    def vanish() -> None:
        kube.objects = {r: o for r, o in kube.objects.items() if r.kind != "GridCluster"}

    kube.before_status = vanish
    with pytest.raises(Conflict):
        await make(kube).reconcile(KEY)
    assert await make(kube).reconcile(KEY) is None


async def test_edit_during_a_reconcile_does_not_overwrite_the_newer_object() -> None:
    kube = FakeKube(cluster_object())

    def edit() -> None:
        kube.get("GridCluster")["metadata"]["resourceVersion"] = "2"

    kube.before_status = edit
    with pytest.raises(Conflict):
        await make(kube).reconcile(KEY)
    assert "status" not in kube.get("GridCluster")


@pytest.mark.parametrize("error", [Unavailable("429"), Unavailable("500"), NotReady("soon", 1.0)])
async def test_an_api_server_that_fails_is_left_to_the_queue(
    error: Unavailable | NotReady,
) -> None:
    kube = FakeKube(cluster_object())
    kube.fail["apply StatefulSet"] = error
    with pytest.raises(type(error)):
        await make(kube).reconcile(KEY)
    kube.fail.clear()
    await settle(make(kube))
    assert kube.condition("Ready")["status"] == "True"


async def test_invalid_refusal_shows_in_conditions_and_costs_one_status_write() -> None:
    kube = FakeKube(cluster_object())
    kube.fail["apply StatefulSet"] = Rejected("spec.template: Invalid value", "Invalid")
    reconciler = make(kube)
    assert await reconciler.reconcile(KEY) == REFUSED_REQUEUE_S
    assert kube.condition("ConfigValid")["status"] == "False"
    assert kube.condition("Progressing")["reason"] == "ApiRefused"
    assert "Invalid value" in kube.condition("ConfigValid")["message"]
    assert kube.condition("Stalled")["reason"] == "ApiRefused"
    assert kube.condition("Reconciling") == {}
    kube.writes.clear()
    await settle(reconciler)
    assert [w for w in kube.writes if w == "status" or w.startswith("event")] == []


async def test_forbidden_refusal_does_not_blame_the_spec() -> None:
    kube = FakeKube(cluster_object())
    kube.fail["apply StatefulSet"] = Rejected("exceeded quota", "Forbidden")
    await make(kube).reconcile(KEY)
    assert kube.condition("ConfigValid")["status"] == "True"
    assert kube.condition("Progressing")["status"] == "False"
    # A quota may be raised: tools that wait go on.
    assert kube.condition("Reconciling")["reason"] == "ApiRefused"
    assert kube.condition("Stalled") == {}


async def test_a_refusal_leaves_no_word_about_a_former_spec() -> None:
    kube = FakeKube(cluster_object(size="many"))
    reconciler = make(kube)
    await reconciler.reconcile(KEY)
    assert kube.condition("Stalled")["reason"] == "InvalidSpec"
    kube.edit(size=1)
    kube.fail["fetch Secret"] = Rejected("exceeded quota", "Forbidden")

    await reconciler.reconcile(KEY)

    assert kube.condition("Reconciling")["reason"] == "ApiRefused"
    assert kube.condition("Stalled") == {}


async def test_refusal_that_goes_away_clears_the_conditions() -> None:
    kube = FakeKube(cluster_object())
    kube.fail["apply StatefulSet"] = Rejected("Invalid value", "Invalid")
    reconciler = make(kube)
    await reconciler.reconcile(KEY)
    kube.fail.clear()
    await settle(reconciler)
    assert kube.condition("ConfigValid")["status"] == "True"
    assert kube.condition("Ready")["status"] == "True"
    assert kube.condition("Stalled") == kube.condition("Reconciling") == {}


async def test_spec_that_the_schema_refuses_shows_in_a_condition_and_applies_nothing() -> None:
    kube = FakeKube(cluster_object(size="many"))
    assert await make(kube).reconcile(KEY) == REFUSED_REQUEUE_S
    assert kube.writes == ["status"]
    assert "spec.size" in kube.condition("ConfigValid")["message"]
    assert kube.condition("Stalled")["reason"] == "InvalidSpec"
    await make(kube).reconcile(KEY)
    assert kube.writes == ["status"]


async def test_deletion_of_what_the_schema_refuses_is_not_held_up() -> None:
    cluster = cluster_object(size="many")
    cluster["metadata"]["finalizers"] = ["example.org/other", "gridcluster.io/shutdown"]
    kube = FakeKube(cluster)
    await make(kube).reconcile(KEY)
    assert len(kube.get("GridCluster")["metadata"]["finalizers"]) == 2

    kube.get("GridCluster")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    await make(kube).reconcile(KEY)
    assert kube.get("GridCluster")["metadata"]["finalizers"] == ["example.org/other"]


async def test_a_lost_event_does_not_fail_the_reconcile() -> None:
    kube = FakeKube(cluster_object())
    kube.fail["record_event"] = Unavailable("503")
    await settle(make(kube))
    assert kube.condition("Ready")["status"] == "True"


async def test_password_is_in_no_status_and_no_event() -> None:
    kube = FakeKube(cluster_object())
    await settle(make(kube))
    shown = str(kube.get("GridCluster")) + str(kube.events)
    assert "password-1" not in shown


def occupant(owners: list[dict[str, object]], **labels: str) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "demo",
            "namespace": "grids",
            "uid": "uid-of-somebody",
            "labels": labels,
            "ownerReferences": owners,
        },
        "spec": {"ports": [{"port": 80}]},
    }


@pytest.mark.parametrize(
    "owners", [[], [{"kind": "Release", "name": "shop", "uid": "u", "controller": True}]]
)
async def test_an_object_of_somebody_else_is_never_taken_over(
    owners: list[dict[str, object]],
) -> None:
    kube = FakeKube(cluster_object())
    foreign = occupant(owners)
    kube.objects[ObjectRef.of(foreign)] = foreign
    delay = await settle(make(kube))
    assert kube.get("Service")["spec"] == {"ports": [{"port": 80}]}
    condition = kube.condition("Progressing")
    assert condition["reason"] == "NameTaken"
    assert "Service grids/demo" in condition["message"]
    assert delay == REFUSED_REQUEUE_S
    del kube.objects[ObjectRef.of(foreign)]
    await settle(make(kube))
    assert kube.condition("Ready")["status"] == "True"


async def test_a_predecessors_object_is_waited_for() -> None:
    kube = FakeKube(cluster_object())
    former = occupant([{"kind": "GridCluster", "name": "demo", "uid": "uid-before"}])
    kube.objects[ObjectRef.of(former)] = former
    with pytest.raises(NotReady, match="former Service"):
        await make(kube).reconcile(KEY)
    assert kube.get("Service")["metadata"]["uid"] == "uid-of-somebody"
    told = kube.condition("Progressing")
    assert (told["status"], told["reason"]) == ("True", "Applying")
    assert told["message"] == "until the former Service grids/demo is gone"


async def test_a_finalizer_that_holds_a_predecessors_object_is_named() -> None:
    kube = FakeKube(cluster_object())
    former = occupant([{"kind": "GridCluster", "name": "demo", "uid": "uid-before"}])
    former["metadata"]["deletionTimestamp"] = "2025-12-31T23:00:00Z"
    former["metadata"]["finalizers"] = ["example.com/balancer"]
    kube.objects[ObjectRef.of(former)] = former
    with pytest.raises(NotReady):
        await make(kube).reconcile(KEY)
    assert kube.condition("Progressing")["message"] == (
        "until the former Service grids/demo is gone: it is being deleted since "
        "2025-12-31T23:00:00Z, and its finalizer example.com/balancer holds it"
    )


async def test_a_labelled_pod_of_somebody_else_is_no_member() -> None:
    kube = FakeKube(cluster_object())
    await settle(make(kube))
    stranger = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "spy",
            "namespace": "grids",
            "uid": "uid-spy",
            "labels": {"gridcluster.io/cluster": "demo"},
            "ownerReferences": [{"kind": "StatefulSet", "name": "demo", "uid": "made-up"}],
        },
        "status": {"podIP": "10.244.0.9"},
    }
    kube.objects[ObjectRef.of(stranger)] = stranger
    asked: list[str] = []

    class Watched(FakeMembers):
        async def fetch_view(
            self, pod: KubeObject, access: MemberAccess
        ) -> MemberView | MemberProblem:
            asked.append(pod["metadata"]["name"])
            return await super().fetch_view(pod, access)

    kube.writes.clear()
    await settle(make(kube, Watched()))
    assert set(asked) == {"demo-0"}
    assert kube.writes == []
    assert kube.get("Pod", "spy")
