"""Containers that others add to pods, such as a mesh: the operator goes by the member's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.api.conditions import ConditionType, find_condition
from grid_operator.decide.calls import Endpoint
from grid_operator.decide.model import MemberProblem
from grid_operator.decide.pods import has_no_process, pod_problem, serves
from grid_operator.decide.strangers import is_missed
from tests.unit.operator.decide.fake_store import FakeStore, make_pod
from tests.unit.operator.decide.several.test_several import CHANGED, NAMES, SILENT, STARTING, three

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject

SAID = "2026-01-01T00:00:00Z ERROR cannot start: no room"
CREATING = {"waiting": {"reason": "ContainerCreating"}}
INITIALIZING = {"waiting": {"reason": "PodInitializing"}}
CRASH_LOOP = {"waiting": {"reason": "CrashLoopBackOff"}}
NO_IMAGE = {"waiting": {"reason": "ImagePullBackOff"}}
ENDED = {"terminated": {"exitCode": 3, "message": SAID}}


def up(name: str, *, ready: bool = True) -> dict[str, Any]:
    return {"name": name, "ready": ready, "state": {"running": {}}}


def down(name: str, state: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "ready": False, "state": state, **more}


def restarted(name: str) -> dict[str, Any]:
    """Return a container that runs again after it has ended."""
    return up(name) | {"lastState": ENDED}


def pod_with(
    *containers: dict[str, Any], phase: str = "Running", name: str = "demo-0", **status: Any
) -> KubeObject:
    pod = make_pod(name, ready=False)
    pod["status"] |= {"phase": phase, "containerStatuses": list(containers), **status}
    return pod


def initial(*containers: dict[str, Any], sidecars: tuple[str, ...] = ()) -> KubeObject:
    """Return a pod whose member waits for the containers before it."""
    status = list(containers)
    pod = pod_with(down("member", INITIALIZING), phase="Pending", initContainerStatuses=status)
    own = [{"name": s, "restartPolicy": "Always"} for s in sidecars]
    pod["spec"] = {"initContainers": own}
    return pod


CRASHED = down("member", CRASH_LOOP, lastState=ENDED)
WHY_CRASHED = (
    "container member: CrashLoopBackOff; it ended with code 3 before: cannot start: no room"
)


@pytest.mark.parametrize(
    ("pod", "told"),
    [
        (pod_with(up("proxy"), CRASHED), WHY_CRASHED),
        (pod_with(restarted("proxy"), CRASHED), WHY_CRASHED),
        (
            pod_with(down("proxy", CRASH_LOOP), CRASHED),
            f"{WHY_CRASHED}; container proxy: CrashLoopBackOff",
        ),
        (
            pod_with(down("proxy", CRASH_LOOP, lastState=ENDED), up("member")),
            "container proxy: CrashLoopBackOff; it ended with code 3 before: cannot start: no room",
        ),
        (
            pod_with(down("proxy", NO_IMAGE), up("member"), phase="Pending"),
            "container proxy: ImagePullBackOff",
        ),
        (pod_with(up("proxy", ready=False), up("member")), "container proxy is not ready yet"),
        (
            pod_with(down("proxy", {"terminated": {"exitCode": 0}}), up("member")),
            "container proxy ended with code 0",
        ),
        (
            pod_with(up("proxy", ready=False), up("member", ready=False)),
            "is not ready yet: it waits; container proxy is not ready yet",
        ),
        (pod_with(restarted("proxy"), up("member", ready=False)), "is not ready yet: it waits"),
        (
            pod_with(down("proxy", CREATING), down("member", CREATING), phase="Pending"),
            "is not ready yet: it waits",
        ),
        (
            initial(down("setup", CRASH_LOOP, lastState=ENDED)),
            WHY_CRASHED.replace("container member", "init container setup"),
        ),
        (initial(down("setup", NO_IMAGE)), "init container setup: ImagePullBackOff"),
        (initial(up("setup", ready=False)), "init container setup has not ended yet"),
        (
            initial(up("proxy", ready=False), sidecars=("proxy",)),
            "init container proxy is not ready yet",
        ),
        (
            initial(up("proxy"), down("setup", ENDED), sidecars=("proxy",)),
            "init container setup ended with code 3",
        ),
        (initial(up("proxy"), sidecars=("proxy",)), "is not ready yet: it waits"),
    ],
)
def test_the_member_comes_first_and_other_containers_by_name(pod: KubeObject, told: str) -> None:
    assert pod_problem(pod, said="waits" if "it waits" in told else "") == told


def test_a_readiness_gate_that_others_added_is_named() -> None:
    pod = pod_with(up("member"))
    pod["spec"] = {"readinessGates": [{"conditionType": "example.com/balanced"}]}
    assert pod_problem(pod) == "is not ready: its readiness gate example.com/balanced is not True"

    pod["status"]["conditions"].append({"type": "example.com/balanced", "status": "True"})
    assert pod_problem(pod) == "is not ready yet"


def test_an_evicted_pod_says_why() -> None:
    pod = pod_with(phase="Failed", reason="Evicted", message="The node was low on memory.")
    assert pod_problem(pod) == "has failed: Evicted: The node was low on memory."


@pytest.mark.parametrize(
    ("pod", "runs", "can_be_used"),
    [
        (pod_with(up("proxy"), CRASHED), False, False),
        (pod_with(up("proxy"), down("member", ENDED)), False, False),
        # The kubelet calls a pod Pending while the image of any container is missing.
        (pod_with(down("proxy", NO_IMAGE), up("member"), phase="Pending"), True, True),
        (pod_with(down("proxy", CRASH_LOOP), up("member", ready=False)), True, False),
        (initial(up("proxy"), sidecars=("proxy",)), False, False),
        (pod_with(phase="Pending"), False, False),
        (pod_with(), True, False),
        (pod_with(up("member"), phase="Failed"), False, False),
    ],
)
def test_whether_the_member_runs_is_told_by_its_own_container(
    pod: KubeObject, runs: bool, can_be_used: bool
) -> None:
    assert has_no_process(pod) is not runs
    assert serves(pod) is can_be_used


def outdated(store: FakeStore, name: str, pod: KubeObject) -> None:
    """Put a pod of a former template in the place of one of the store's."""
    pod["metadata"]["labels"]["controller-revision-hash"] = "broken"
    store.pods[name] = pod


@pytest.mark.parametrize(
    ("pod", "replaced"),
    [
        (pod_with(up("proxy"), CRASHED, name="demo-2"), ["demo-2"]),
        (pod_with(up("proxy"), up("member", ready=False), name="demo-2"), []),
        (pod_with(down("proxy", NO_IMAGE), up("member"), phase="Pending", name="demo-2"), []),
    ],
)
def test_a_mended_spec_reaches_a_member_that_crashes_beside_a_healthy_sidecar(
    pod: KubeObject, replaced: list[str]
) -> None:
    store = three(persistence={"enabled": True})
    outdated(store, "demo-2", pod)
    store.views = {**store.views, "demo-2": SILENT}

    store.step()

    assert store.replaced == replaced


def test_a_member_beside_a_sidecar_without_an_image_is_missed() -> None:
    """It may hold what no other member has."""
    store = three()
    store.pods["demo-2"] = pod_with(
        down("proxy", NO_IMAGE), up("member"), phase="Pending", name="demo-2"
    )
    store.views = {**store.views, "demo-2": SILENT}
    assert is_missed(store.observe(), "demo-2")


def test_a_spec_that_mends_the_sidecars_reaches_all_members_one_by_one() -> None:
    store = three()
    for name in NAMES:
        outdated(
            store,
            name,
            pod_with(down("proxy", NO_IMAGE), up("member"), phase="Pending", name=name),
        )
    store.change_spec({"size": 3, **CHANGED})

    store.settle()

    assert store.replaced == ["demo-2", "demo-1", "demo-0"]
    assert [c.endpoint for c in store.calls] == [Endpoint.MEMBER_SHUTDOWN] * 3


def test_a_start_does_not_wait_for_pods_that_a_newer_spec_may_mend() -> None:
    store = three()
    store.change_spec({"size": 3, "runState": "Stopped"})
    store.settle()
    store.change_spec({"size": 3})
    while len(store.pods) < len(NAMES):
        store.step()
    for name in NAMES:
        held = pod_with(down("proxy", NO_IMAGE), up("member"), phase="Pending", name=name)
        outdated(store, name, held)

    store.settle()

    assert store.replaced[-3:] == ["demo-2", "demo-1", "demo-0"]
    ready = find_condition(store.cluster.status.conditions, ConditionType.READY)
    assert ready is not None
    assert ready.status == "True"


def test_a_single_member_beside_a_broken_sidecar_is_stopped_gently() -> None:
    store = FakeStore()
    store.settle()
    outdated(store, "demo-0", pod_with(down("proxy", CRASH_LOOP), up("member")))

    store.settle()

    assert [c.endpoint for c in store.calls] == [Endpoint.MEMBER_SHUTDOWN]
    assert store.replaced == ["demo-0"]


def test_members_that_only_sidecars_hold_unready_count_as_serving() -> None:
    """One that has not joined is needed while those that serve are no majority without it."""
    store = three()
    outdated(store, "demo-2", pod_with(up("proxy"), up("member", ready=False), name="demo-2"))
    store.pods["demo-0"] = pod_with(down("proxy", CRASH_LOOP), up("member"), name="demo-0")
    store.pods["demo-1"] = pod_with(up("member", ready=False), name="demo-1")
    for name in ("demo-0", "demo-1"):
        revision = next(o for o in store.objects.values() if o["kind"] == "StatefulSet")
        labels = store.pods[name]["metadata"]["labels"]
        labels["controller-revision-hash"] = revision["status"]["updateRevision"]
    store.views = {**store.views, "demo-1": SILENT, "demo-2": STARTING}

    store.step()

    assert store.replaced == []


def test_a_cluster_is_not_ready_because_of_a_sidecar_and_says_which() -> None:
    store = three()
    store.pods["demo-1"] = pod_with(down("proxy", CRASH_LOOP), up("member"), name="demo-1")
    store.step()

    found = find_condition(store.cluster.status.conditions, ConditionType.READY)
    assert found is not None
    assert found.message == "demo-1 container proxy: CrashLoopBackOff"


def test_a_forced_start_waits_for_a_member_whose_sidecar_has_no_image() -> None:
    """It may serve, and would lose everything."""
    store = three()
    for name in NAMES:
        store.pods[name] = pod_with(up("member", ready=False), name=name)
    store.pods["demo-2"] = pod_with(
        down("proxy", NO_IMAGE), up("member", ready=False), phase="Pending", name="demo-2"
    )
    waits = MemberProblem("damaged data", node_state="STARTING")
    store.views = {"demo-0": waits, "demo-1": waits, "demo-2": SILENT}
    uid = store.cluster.metadata.uid
    store.annotate(force_start=f"f1,acknowledge-data-loss={uid}")

    for _ in range(5):
        store.step()

    assert [c.endpoint for c in store.calls] == []
