"""What the API server keeps otherwise than it was applied, and what somebody else changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.ports.errors import Conflict, Rejected
from grid_operator.reconcile.admissions import PROBE_PERIOD_S
from grid_operator.reconcile.reconciler import Reconciler, Surroundings
from tests.unit.operator.fake_kube import FakeKube, FakeMembers, cluster_object
from tests.unit.operator.reconcile.test_reconciler import KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grid_operator.api.objects import KubeObject

MIRROR = "mirror.example/"
IMAGE = "StatefulSet demo: spec.template.spec.containers[member].image"


class Operator:
    """A reconciler with a clock of its own; `restart` makes another one."""

    def __init__(self, kube: FakeKube) -> None:
        self.kube = kube
        self.now_s = 0.0
        self.restart()

    def restart(self) -> None:
        where = Surroundings("grid-system", steady_s=lambda: self.now_s, make_password=lambda: "p")
        self._reconciler = Reconciler(self.kube, FakeMembers(), where)

    async def settle(self, rounds: int = 6) -> None:
        for _ in range(rounds):
            await self._reconciler.reconcile(KEY)

    async def writes(self, rounds: int = 6) -> list[str]:
        """Return what is written in some rounds."""
        self.kube.writes.clear()
        await self.settle(rounds)
        return [*self.kube.writes]

    def told(self, reason: str) -> list[str]:
        return [event.message for event in self.kube.events if event.reason == reason]


def mirrored(obj: KubeObject) -> None:
    """Rewrite the image of pod templates, as a platform does that has a mirror."""
    for container in pod_spec(obj).get("containers", ()):
        if not container["image"].startswith(MIRROR):
            container["image"] = MIRROR + container["image"]


def pod_spec(obj: KubeObject) -> dict[str, Any]:
    found: dict[str, Any] = obj.get("spec", {}).get("template", {}).get("spec", {})
    return found


def image(kube: FakeKube) -> str:
    return str(pod_spec(kube.get("StatefulSet"))["containers"][0]["image"])


async def admitted(admission: Callable[[KubeObject], None] = mirrored) -> Operator:
    kube = FakeKube(cluster_object())
    kube.admission = admission
    operator = Operator(kube)
    await operator.settle()
    return operator


async def test_a_rewritten_image_is_admitted_and_told_once_and_costs_nothing_more() -> None:
    operator = await admitted()
    kube = operator.kube
    assert image(kube).startswith(MIRROR)
    assert kube.condition("Ready")["status"] == "True"
    assert kube.condition("Progressing")["status"] == "False"
    match = kube.condition("ChildrenMatch")
    assert (match["status"], match["reason"]) == ("False", "Admitted")
    assert IMAGE in match["message"]
    assert MIRROR not in match["message"]
    assert operator.told("Admitted") == [match["message"]]
    assert operator.told("DriftReverted") == []
    assert await operator.writes() == []

    operator.restart()

    assert await operator.writes() == []
    assert len(operator.told("Admitted")) == 1
    assert operator.told("ReplacingPod") == []


async def test_a_later_change_of_the_spec_rolls_once_and_is_admitted_again() -> None:
    operator = await admitted()
    uid = operator.kube.get("Pod", "demo-0")["metadata"]["uid"]

    operator.kube.edit(image="other:2")
    await operator.settle(12)

    assert image(operator.kube) == f"{MIRROR}other:2"
    assert operator.kube.get("Pod", "demo-0")["metadata"]["uid"] != uid
    assert operator.kube.condition("Ready")["status"] == "True"
    assert operator.kube.condition("ChildrenMatch")["reason"] == "Admitted"
    assert operator.told("DriftReverted") == []
    assert await operator.writes() == []


async def test_what_somebody_changes_in_an_admitted_field_is_drift() -> None:
    operator = await admitted()
    pod_spec(operator.kube.get("StatefulSet"))["containers"][0]["image"] = f"{MIRROR}evil"

    for _ in range(6):
        await operator.settle(1)
        assert operator.kube.condition("ChildrenMatch")["reason"] == "Admitted"

    assert image(operator.kube) == f"{MIRROR}grid-member:0.2.0"
    assert operator.told("DriftReverted") == [IMAGE]
    assert len(operator.told("Admitted")) == 1
    assert await operator.writes() == []


async def test_drift_elsewhere_names_no_admitted_field() -> None:
    operator = await admitted()
    operator.kube.get("StatefulSet")["spec"]["replicas"] = 0

    await operator.settle()

    assert operator.kube.get("StatefulSet")["spec"]["replicas"] == 1
    assert operator.told("DriftReverted") == ["StatefulSet demo: spec.replicas"]


async def test_when_the_policy_goes_away_the_field_heals_once() -> None:
    operator = await admitted()
    operator.kube.admission = lambda _: None
    assert await operator.writes() == []

    operator.now_s += PROBE_PERIOD_S
    await operator.settle(12)

    assert image(operator.kube) == "grid-member:0.2.0"
    assert operator.kube.condition("ChildrenMatch")["status"] == "True"
    assert "admitted" not in operator.kube.get("GridCluster")["status"]
    assert operator.kube.condition("Ready")["status"] == "True"
    operator.now_s += PROBE_PERIOD_S
    assert await operator.writes() == []


async def test_while_the_policy_stays_it_is_asked_without_a_write() -> None:
    operator = await admitted()
    for _ in range(3):
        operator.now_s += PROBE_PERIOD_S
        assert await operator.writes() == []
    assert operator.kube.dry_runs == 3
    operator.now_s += PROBE_PERIOD_S / 2
    await operator.settle()
    assert operator.kube.dry_runs == 3


def labelled(obj: KubeObject) -> None:
    """Add what no child may have: a label that selects, a label of pods, a sidecar."""
    if obj["kind"] in ("Service", "PodDisruptionBudget"):
        obj["spec"].setdefault("selector", {})["tenant"] = "a"
    if obj["kind"] == "StatefulSet":
        obj["spec"]["template"]["metadata"]["labels"]["tenant"] = "a"
        names = [c["name"] for c in pod_spec(obj)["containers"]]
        if "proxy" not in names:
            pod_spec(obj)["containers"].append({"name": "proxy", "image": "proxy"})


async def test_what_admission_adds_is_admitted_and_goes_with_it() -> None:
    operator = await admitted(labelled)
    message = operator.kube.condition("ChildrenMatch")["message"]
    assert "Service demo: spec.selector.tenant" in message
    assert "StatefulSet demo: spec.template.metadata.labels.tenant" in message
    assert "spec.template.spec.containers[proxy]" in message
    assert await operator.writes() == []

    operator.now_s += PROBE_PERIOD_S
    assert await operator.writes() == []
    operator.kube.admission = lambda _: None
    operator.now_s += PROBE_PERIOD_S
    await operator.settle(12)

    assert operator.kube.condition("ChildrenMatch")["status"] == "True"
    assert len(pod_spec(operator.kube.get("StatefulSet"))["containers"]) == 1
    assert "tenant" not in operator.kube.get("Service")["spec"]["selector"]


async def test_a_webhook_that_answers_otherwise_each_time_makes_no_loop() -> None:
    calls = iter(range(1_000))

    def flipping(obj: KubeObject) -> None:
        if obj["kind"] == "StatefulSet":
            pod_spec(obj)["terminationGracePeriodSeconds"] = 100 + next(calls)

    operator = await admitted(flipping)
    assert await operator.writes() == []
    operator.now_s += PROBE_PERIOD_S
    assert await operator.writes() == []
    assert len(operator.told("Admitted")) == 1


async def test_a_status_that_was_not_written_costs_no_second_write() -> None:
    kube = FakeKube(cluster_object())
    kube.admission = mirrored
    operator = Operator(kube)

    def edited() -> None:
        kube.before_status = lambda: None
        kube.edit(deletionPolicy="Delete")

    kube.before_status = edited
    with pytest.raises(Conflict):
        await operator.settle(1)
    kube.writes.clear()
    await operator.settle()
    assert kube.writes.count("apply StatefulSet") == 0
    assert operator.told("DriftReverted") == []
    assert kube.condition("ChildrenMatch")["reason"] == "Admitted"


async def test_a_refusal_of_another_child_does_not_lose_what_was_admitted() -> None:
    kube = FakeKube(cluster_object(size=3))
    kube.admission = lambda obj: (
        obj["spec"].update(sessionAffinity="ClientIP") if (obj["kind"] == "Service") else None
    )
    kube.fail["apply StatefulSet"] = Rejected("exceeded quota", "Forbidden")
    operator = Operator(kube)
    await operator.settle()
    assert await operator.writes() == []
    assert operator.told("DriftReverted") == []
    assert len(operator.told("Admitted")) == 1


async def test_a_field_that_cannot_be_taken_away_is_told_and_keeps_no_other() -> None:
    kube = FakeKube(cluster_object())
    operator = Operator(kube)
    await operator.settle()
    service = kube.get("Service")
    service["spec"] |= {"loadBalancerClass": "cloud", "externalIPs": ["192.0.2.1"]}
    patch = kube.patch

    async def checked(
        obj: KubeObject, operations: Sequence[KubeObject], *, dry_run: bool = False
    ) -> KubeObject:
        if "/spec/loadBalancerClass" in [operation["path"] for operation in operations]:
            raise Rejected("may not change once set", "Invalid")
        return await patch(obj, operations, dry_run=dry_run)

    kube.patch = checked  # type: ignore[method-assign]
    await operator.settle()

    assert "externalIPs" not in kube.get("Service")["spec"]
    message = kube.condition("ChildrenMatch")["message"]
    assert message.endswith("Service demo: spec.loadBalancerClass")
    assert await operator.writes() == []


async def test_an_admitted_storage_class_is_no_other_storage() -> None:
    def classed(obj: KubeObject) -> None:
        for template in obj.get("spec", {}).get("volumeClaimTemplates", ()):
            template["spec"]["storageClassName"] = "fast"

    kube = FakeKube(cluster_object(persistence={"enabled": True}))
    kube.admission = classed
    operator = Operator(kube)
    await operator.settle()
    assert kube.condition("ConfigValid")["status"] == "True"
    assert "storageClassName" in kube.condition("ChildrenMatch")["message"]
    # The policy may be about new objects only: what is applied later keeps what there is.
    kube.admission = lambda _: None
    kube.edit(image="other:2")
    await operator.settle(12)
    claims = kube.get("StatefulSet")["spec"]["volumeClaimTemplates"]
    assert [claim["spec"]["storageClassName"] for claim in claims] == ["fast"]
    assert image(kube) == "other:2"
    assert await operator.writes() == []
