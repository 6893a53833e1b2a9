"""What is rendered for several members, and what of it a single one does not have."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.api.conditions import (
    ConditionStatus,
    ConditionType,
    SafeToDisruptReason,
    make_condition,
)
from grid_operator.render import desired_state, read_record
from grid_operator.render.disruption_budget import disruption_budget
from tests.unit.operator.api.clusters import CONTEXT, make_cluster, render
from tests.unit.operator.render.configuration.test_member_configuration import ENVIRONMENT, loaded
from tests.unit.operator.render.restoring import COPYING, restoring_cluster

if TYPE_CHECKING:
    from grid_operator.api.desired import Desired
    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.objects import KubeObject

START = datetime(2026, 1, 1, tzinfo=UTC)
ADVANCED = {"advancedNetwork": {"enabled": True, "restPort": 5711}}
MEMBERS = {
    "app.kubernetes.io/name": "grid",
    "app.kubernetes.io/instance": "demo",
    "app.kubernetes.io/component": "member",
}


def three(**spec: Any) -> dict[str, KubeObject]:
    children = render({"size": 3, **spec})
    return {f"{o['kind']} {o['metadata']['name']}": o for o in children}


def pod(**spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = three(**spec)["StatefulSet demo"]["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("file_format", ["Yaml", "Xml"])
@pytest.mark.parametrize("network", [{}, ADVANCED], ids=["network", "advanced"])
def test_members_know_each_other_by_a_name_for_each(
    network: dict[str, Any], file_format: str
) -> None:
    spec = {"size": 3, "security": {"enabled": True}, **network}
    config = loaded(spec, file_format)

    cluster = config.cluster
    assert cluster is not None
    assert cluster.port == 5704
    assert cluster.members == tuple((f"demo-{n}.demo-members.default.svc", 5704) for n in range(3))
    assert config.instance_name == "demo-0"
    other = {**spec, "clusterName": "other"}
    passwords = {loaded(s, file_format).cluster.password for s in (spec, other)}  # type: ignore[union-attr]
    assert len(passwords) == 2
    assert loaded({**spec, "size": 1}, file_format).cluster is None


def test_their_names_are_the_same_in_every_pod() -> None:
    (container,) = pod()["containers"]

    hosts = {v["name"]: v["value"] for v in container["env"] if "MEMBER_" in v["name"]}
    assert hosts == {
        f"GRID_MEMBER_{n}": f"demo-{n}.demo-members.$(POD_NAMESPACE).svc" for n in range(3)
    }
    names = [v["name"] for v in container["env"]]
    assert names.index("POD_NAMESPACE") < names.index("GRID_MEMBER_0"), "expanded from above only"


def test_they_start_at_once_and_are_found_before_they_are_ready() -> None:
    children = three()
    headless = children["Service demo-members"]["spec"]

    assert children["StatefulSet demo"]["spec"]["podManagementPolicy"] == "Parallel"
    assert children["StatefulSet demo"]["spec"]["serviceName"] == "demo-members"
    assert headless["publishNotReadyAddresses"] is True
    assert {p["name"]: p["port"] for p in headless["ports"]}["members"] == 5704


def test_the_members_port_is_for_members_only_and_their_one_way_out() -> None:
    policy = three(exposure={"allowedCidrs": ["192.0.2.0/24"]})["NetworkPolicy demo"]["spec"]
    peer = {"podSelector": {"matchLabels": MEMBERS}}

    to_members = [r for r in policy["ingress"] if any(p["port"] == 5704 for p in r["ports"])]
    assert to_members == [{"from": [peer], "ports": [{"protocol": "TCP", "port": 5704}]}]
    out, dns = policy["egress"]
    assert out == {"to": [peer], "ports": [{"protocol": "TCP", "port": 5704}]}
    assert {(p["protocol"], p["port"]) for p in dns["ports"]} == {("UDP", 53), ("TCP", 53)}


def test_nobody_takes_two_at_once_and_they_rather_run_apart() -> None:
    budget = three()["PodDisruptionBudget demo"]["spec"]
    (apart,) = pod()["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]

    assert budget == {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": MEMBERS},
    }
    assert apart["podAffinityTerm"] == {
        "labelSelector": {"matchLabels": MEMBERS},
        "topologyKey": "kubernetes.io/hostname",
    }
    chosen: dict[str, Any] = {"nodeAffinity": {}}
    assert pod(pod={"affinity": chosen})["affinity"] == chosen


@pytest.mark.parametrize(("said", "allowed"), [("True", 1), ("Unknown", 1), ("False", 0)])
def test_nobody_is_evicted_while_the_cluster_is_not_safe(said: str, allowed: int) -> None:
    cluster = make_cluster({"size": 3})
    kind, status = ConditionType.SAFE_TO_DISRUPT, ConditionStatus(said)
    safe = make_condition((), kind, status, SafeToDisruptReason.UNSAFE, "", 1, START)
    told = cluster.status.model_copy(update={"conditions": (safe,)})

    budget = disruption_budget(cluster.model_copy(update={"status": told}))

    assert budget is not None
    assert budget["spec"]["maxUnavailable"] == allowed


@pytest.mark.parametrize("network", [{}, ADVANCED], ids=["network", "advanced"])
def test_a_single_member_has_nothing_of_it(network: dict[str, Any]) -> None:
    children = render({**network})
    text = json.dumps(children)

    assert "PodDisruptionBudget" not in {o["kind"] for o in children}
    assert not [word for word in ("5704", "GRID_MEMBER_", "tcp-ip", "Affinity") if word in text]


def shrinking(step: str, size: int = 3, **spec: Any) -> GridCluster:
    """Return a cluster of which the last of five is on its way out."""
    operation = {**COPYING, "kind": "Shrink", "step": step, "target": "demo-4"}
    kept = {"persistence": {"enabled": True}}
    return make_cluster({"size": size, **kept, **spec}, status={"operation": operation})


def of_five(cluster: GridCluster, **context: Any) -> Desired:
    """Return what is wanted of a cluster whose pods were made for five."""
    five = render({"size": 5, "persistence": {"enabled": True}})
    recorded = read_record(next(o for o in five if o["kind"] == "StatefulSet"))
    return desired_state(cluster, replace(CONTEXT, recorded=recorded, **context))


def stateful_set(desired: Desired) -> dict[str, Any]:
    found: dict[str, Any] = next(o for o in desired.children if o["kind"] == "StatefulSet")["spec"]
    return found


@pytest.mark.parametrize(
    ("cluster", "size", "claim"),
    [
        (make_cluster({"size": 3, "persistence": {"enabled": True}}), 5, "Retain"),
        (shrinking("Leave"), 5, "Retain"),
        (shrinking("AwaitLeft"), 5, "Retain"),
        (shrinking("RemovePod"), 4, "Delete"),
        (shrinking("Leave", size=5), 5, "Retain"),
        (shrinking("RemovePod", size=5), 4, "Delete"),
        (shrinking("AwaitLeft", runState="Stopped"), 5, "Retain"),
    ],
)
def test_there_is_one_less_once_the_last_has_left(
    cluster: GridCluster, size: int, claim: str
) -> None:
    status = cluster.status.model_copy(update={"size": 5})
    desired = of_five(cluster.model_copy(update={"status": status}))
    spec = stateful_set(desired)

    assert (desired.size, spec["replicas"]) == (size, size)
    (container,) = spec["template"]["spec"]["containers"]
    assert len([v for v in container["env"] if "GRID_MEMBER_" in v["name"]]) == size
    assert spec["persistentVolumeClaimRetentionPolicy"] == {
        "whenDeleted": "Retain",
        "whenScaled": claim,
    }
    assert desired.problem is None


def test_no_claim_is_deleted_but_that_of_the_one_that_goes() -> None:
    """A stop, and a round that saw no pods; a journal of other pods than there are."""
    stopped = of_five(shrinking("RemovePod", runState="Stopped"))
    assert stateful_set(stopped)["replicas"] == 4

    three = render({"size": 3, "persistence": {"enabled": True}})
    recorded = read_record(next(o for o in three if o["kind"] == "StatefulSet"))
    other = desired_state(shrinking("RemovePod"), replace(CONTEXT, recorded=recorded))

    for desired, claim in ((stopped, "Delete"), (other, "Retain")):
        policy = stateful_set(desired)["persistentVolumeClaimRetentionPolicy"]
        assert policy["whenScaled"] == claim


def test_a_lost_record_makes_nobody_leave_at_once() -> None:
    cluster = make_cluster({"size": 3, "persistence": {"enabled": True}})
    context = replace(CONTEXT, recorded={}, replicas=5)

    desired = desired_state(cluster, context)

    assert (desired.size, stateful_set(desired)["replicas"], desired.problem) == (5, 5, None)
    alone = desired_state(make_cluster({"size": 1}), context)
    assert alone.problem is not None


@pytest.mark.parametrize("recorded", [{}, None], ids=["no record", "no StatefulSet"])
@pytest.mark.parametrize(
    ("spec", "size"),
    [
        ({"persistence": {"enabled": True}}, 5),
        ({}, 3),
        ({"persistence": {"enabled": True}, "restoreFrom": {"cluster": "old"}}, 3),
    ],
    ids=["on disk", "in memory", "restored"],
)
def test_without_a_record_and_pods_the_claims_tell_how_many_have_data(
    spec: dict[str, Any], size: int, recorded: dict[str, str] | None
) -> None:
    claims: list[dict[str, Any]] = [
        {"metadata": {"name": f"data-demo-{n}"}, "spec": {}} for n in (0, 4)
    ]
    gone = {"name": "data-demo-6", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    claims.append({"metadata": gone, "spec": {}})
    context = replace(CONTEXT, recorded=recorded, claims=tuple(claims))

    desired = desired_state(make_cluster({"size": 3, **spec}), context)

    assert (desired.size, desired.problem) == (size, None)
    if size == 5:
        alone = desired_state(make_cluster({"size": 1, **spec}), context)
        assert alone.problem is not None


def test_a_claim_that_a_restore_has_filled_makes_no_single_member_of_several() -> None:
    restored = {"restoreFrom": {"cluster": "old"}, "persistence": {"enabled": True}}
    claim = {"metadata": {"name": "data-demo-0"}, "spec": {}}
    cluster = make_cluster({"size": 3, **restored}, status={"restoredFrom": "old"})

    desired = desired_state(cluster, replace(CONTEXT, claims=(claim,)))

    assert (desired.size, desired.problem) == (3, None)


@pytest.mark.parametrize("size", [1, 3])
def test_claims_of_a_former_cluster_are_not_of_one_that_begins_with_a_backup(size: int) -> None:
    restored = {"restoreFrom": {"cluster": "old"}, "persistence": {"enabled": True}}
    claims = tuple({"metadata": {"name": f"data-demo-{n}"}, "spec": {}} for n in range(5))
    copied = {"restoredFrom": "old", **({"importing": True} if size > 1 else {})}
    cluster = make_cluster({"size": size, **restored}, status=copied)

    desired = desired_state(cluster, replace(CONTEXT, claims=claims))

    assert (desired.size, desired.problem) == (size, None)


def test_who_cannot_be_one_member_is_told_of_the_claims_of_several() -> None:
    claims = tuple({"metadata": {"name": f"data-demo-{n}"}, "spec": {}} for n in range(3))
    cluster = make_cluster({"size": 1, "persistence": {"enabled": True}})

    problem = desired_state(cluster, replace(CONTEXT, claims=claims)).problem

    assert problem is not None
    assert "3 members have claims" in problem.message


def test_nobody_else_owns_the_claim_of_a_member_that_has_left() -> None:
    """As long as somebody does, Kubernetes keeps it."""
    owner = {"apiVersion": "v1", "kind": "GridCluster", "name": "demo", "uid": "uid-1"}
    spec = {"accessModes": ["ReadWriteOnce"]}
    claims = tuple(
        {"metadata": {"name": f"data-demo-{n}", "ownerReferences": [owner]}, "spec": spec}
        for n in range(5)
    )

    desired = of_five(shrinking("RemovePod", deletionPolicy="Delete"), claims=claims)

    owners = {
        o["metadata"]["name"]: [found["uid"] for found in o["metadata"]["ownerReferences"]]
        for o in desired.children
        if o["kind"] == "PersistentVolumeClaim"
    }
    kept = {f"data-demo-{n}": ["uid-1"] for n in range(4)}
    assert owners == {**kept, "data-demo-4": []}


@pytest.mark.parametrize("file_format", ["Yaml", "Xml"])
def test_the_newest_backup_is_in_one_place_whoever_made_it(file_format: str) -> None:
    spec = {"persistence": {"enabled": True, "backup": {"claimName": "shared"}}}

    for name in ("demo-0", "demo-2"):
        config = loaded({**spec, "size": 3}, file_format, {**ENVIRONMENT, "POD_NAME": name})
        assert str(config.persistence.backup_directory) == "/backup/demo-0"
    alone = loaded(spec, file_format, ENVIRONMENT)
    assert str(alone.persistence.backup_directory) == "/backup/demo-0"


def test_a_restore_gives_the_first_member_a_copy_to_import() -> None:
    cluster = restoring_cluster({"cluster": "old"}, COPYING, size=3)

    children = desired_state(cluster, CONTEXT).children

    (job,) = (o for o in children if o["kind"] == "Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"] == [
        *("restore", "/backup/old-0", "--newest", "--several", "--once"),
        *("--into", "/data/persistence"),
    ]
    assert "StatefulSet" not in {o["kind"] for o in children}


def test_the_others_wait_for_the_import_and_nobody_restarts_when_it_is_over() -> None:
    cluster = restoring_cluster({"cluster": "old"}, None, size=3)
    restored = cluster.status.model_copy(update={"restored_from": "old-backup/old-0/newest"})
    waiting = restored.model_copy(update={"importing": True})

    importing = desired_state(cluster.model_copy(update={"status": waiting}), CONTEXT)
    made = next(o for o in importing.children if o["kind"] == "StatefulSet")
    context = replace(CONTEXT, recorded=read_record(made))
    over = desired_state(cluster.model_copy(update={"status": restored}), context)

    texts = [
        next(o for o in found.children if o["kind"] == "ConfigMap")["data"]["grid.yaml"]
        for found in (importing, over)
    ]
    assert ["restore-from: ${GRID_DATA_DIR}/" in text for text in texts] == [True, False]
    assert stateful_set(importing)["template"] == stateful_set(over)["template"]
    assert over.changes == ()
