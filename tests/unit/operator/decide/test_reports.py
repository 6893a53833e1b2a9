"""Events about pods that cannot be made and volumes that cannot be bound."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.api.conditions import ConditionType, find_condition
from grid_operator.decide.reports import PATIENCE_S, asked_about, read_events
from tests.unit.operator.decide.fake_store import START, FakeStore, make_pod
from tests.unit.operator.decide.several.test_several import three
from tests.unit.operator.decide.test_sidecars import CREATING, down, pod_with

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject
    from grid_operator.decide.model import Observed

SET: KubeObject = {"kind": "StatefulSet", "metadata": {"name": "demo"}}
JOB: KubeObject = {"kind": "Job", "metadata": {"name": "demo-restore"}}
CLAIM: KubeObject = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data-demo-0"}}
POD: KubeObject = {"kind": "Pod", "metadata": {"name": "demo-0"}}
DENIED = (
    "ValidatingAdmissionPolicy 'require-team' with binding 'require-team' denied request: every "
    "pod must carry the label team"
)
FORBIDDEN = f'pods "demo-0" is forbidden: {DENIED}'
REFUSED = f"create Pod demo-0 in StatefulSet demo failed error: {FORBIDDEN}"
MADE = "create Pod demo-0 in StatefulSet demo successful"
QUOTA = 'persistentvolumeclaims "data-demo-1" is forbidden: exceeded quota: small'
NO_CLASS = 'storageclass.storage.k8s.io "nope" not found'

NORMAL = ("SuccessfulCreate", "FailedBinding", "Waiting", "Scheduled")


def event(reason: str, message: str, second: int = 0, **more: Any) -> KubeObject:
    kind = (
        "Normal"
        if reason in ("SuccessfulCreate", "FailedBinding", "Waiting", "Scheduled")
        else "Warning"
    )
    time = f"2026-01-01T00:00:{second:02}Z"
    told = {"reason": reason, "message": message, "type": kind, "lastTimestamp": time}
    return {"metadata": {"name": "e"}, **told, **more}


def refused(second: int = 0, message: str = REFUSED, **more: Any) -> KubeObject:
    return event("FailedCreate", message, second, **more)


def made(second: int = 0, message: str = MADE) -> KubeObject:
    return event("SuccessfulCreate", message, second)


OF_POD = {"demo-0": FORBIDDEN}
OTHER_FORM: dict[str, Any] = {"lastTimestamp": None, "eventTime": "2026-01-01T00:00:09.123456Z"}
CLAIM_MADE = "create Claim data-demo-0 Pod demo-0 in StatefulSet demo success"
CLAIM_REFUSED = "create Claim data-demo-1 for Pod demo-1 in StatefulSet demo failed error: "
OF_JOB = "Error creating: " + FORBIDDEN.replace("demo-0", "demo-restore-b2x5z")
NO_CLASS_SET = "no persistent volumes available for this claim and no storage class is set"


@pytest.mark.parametrize(
    ("obj", "events", "told"),
    [
        (SET, [refused()], OF_POD),
        (SET, [refused(), made(1)], {}),
        (SET, [made(), refused(1)], OF_POD),
        # A pod that was made and is missing in the same second was refused after that.
        (SET, [refused(), made()], OF_POD),
        (SET, [made(9, CLAIM_MADE), refused()], OF_POD),
        (SET, [refused(0, CLAIM_REFUSED + QUOTA)], {"demo-1": QUOTA}),
        # Kubernetes 1.36 writes the first letter large.
        (SET, [refused(0, "C" + REFUSED[1:])], OF_POD),
        (SET, [refused(), made(1, "C" + MADE[1:])], {}),
        (SET, [made(9, "C" + CLAIM_MADE[1:]), refused(0, "C" + REFUSED[1:])], OF_POD),
        (SET, [refused(0, "(combined from similar events): " + REFUSED)], OF_POD),
        (SET, [event("FailedDelete", "delete Pod demo-0 in StatefulSet demo failed")], {}),
        (SET, [refused(**OTHER_FORM), made(5)], OF_POD),
        (JOB, [refused(0, OF_JOB)], {"demo-restore": FORBIDDEN.replace("demo-0", "demo-restore")}),
        (JOB, [refused(0, OF_JOB), made(3, "Created pod: demo-restore-b2x5z")], {}),
        (CLAIM, [event("ProvisioningFailed", NO_CLASS)], {"data-demo-0": NO_CLASS}),
        (CLAIM, [event("FailedBinding", NO_CLASS_SET)], {"data-demo-0": NO_CLASS_SET}),
        (CLAIM, [event("Waiting", "for the first consumer")], {}),
        (
            POD,
            [event("FailedCreatePodSandBox", "network for 0123456789abcdef: no\naddress")],
            {"demo-0": "network for …: no address"},
        ),
        (POD, [event("FailedScheduling", "no node"), event("Scheduled", "to n1", 1)], {}),
        (POD, [], {}),
    ],
)
def test_what_events_report(
    obj: KubeObject, events: list[KubeObject], told: dict[str, str]
) -> None:
    assert read_events(obj, events) == told


def asked(observed: Observed, seconds: float = PATIENCE_S + 60) -> list[str]:
    found = asked_about(observed, START + timedelta(seconds=seconds))
    return [obj["metadata"]["name"] for obj in found]


def without_pod(name: str = "demo-1") -> FakeStore:
    store = three()
    store.quota = 1
    del store.pods[name]
    store.step()
    return store


def test_events_of_a_cluster_that_is_well_are_not_asked_for() -> None:
    assert asked(three().observe(), 1e6) == []


def test_events_are_asked_for_when_something_is_missing_for_a_while() -> None:
    store = without_pod()
    early = (store.now - START).total_seconds() + PATIENCE_S - 1
    assert asked(store.observe(), early) == []
    assert asked(store.observe(), early + 1) == ["demo"]


def test_the_events_of_claims_and_pods_that_are_stuck_are_asked_for() -> None:
    store = without_pod("demo-2")
    store.quota = 3
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "unbound claims"}
    store.pods["demo-1"]["status"] = {"phase": "Pending", "conditions": [unscheduled]}
    store.pods["demo-2"] = pod_with(down("member", CREATING), name="demo-2")
    claims = tuple({**CLAIM, "status": {"phase": phase}} for phase in ("Bound", "Pending"))

    found = asked(replace(store.observe(), claims=claims), 1e6)

    assert found == ["data-demo-0", "demo-2"]


def test_a_missing_pod_is_told_with_what_forbids_it_and_one_event() -> None:
    store = without_pod()
    store.events.clear()
    store.reports = {"demo-1": FORBIDDEN}

    store.settle()

    for kind in (ConditionType.READY, ConditionType.PROGRESSING):
        found = find_condition(store.cluster.status.conditions, kind)
        assert found is not None
        assert f"demo-1 does not exist yet: {FORBIDDEN}" in found.message
    assert store.events == ["PodRefused"]


def test_an_unscheduled_pod_is_told_with_what_its_claim_waits_for() -> None:
    store = FakeStore({"persistence": {"enabled": True}})
    store.settle()
    pod = make_pod(ready=False)
    pod["spec"] = {
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-demo-0"}}]
    }
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "unbound claims"}
    pod["status"] = {"phase": "Pending", "conditions": [unscheduled]}
    pod["metadata"]["labels"] = store.pods["demo-0"]["metadata"]["labels"]
    store.pods["demo-0"] = pod
    store.reports = {"data-demo-0": NO_CLASS}

    store.settle()

    found = find_condition(store.cluster.status.conditions, ConditionType.READY)
    assert found is not None
    assert found.message == (
        f"demo-0 cannot be scheduled: unbound claims; claim data-demo-0: {NO_CLASS}"
    )
