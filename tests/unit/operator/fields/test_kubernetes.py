"""What Kubernetes is told: the fields of a spec that no member reads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.render import render_children
from tests.unit.operator.api.clusters import CONTEXT, make_cluster, render
from tests.unit.operator.api.pods import container, pod
from tests.unit.operator.decide.fake_store import FakeStore
from tests.unit.operator.render.restoring import COPYING, restoring_cluster

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject

POD = ("StatefulSet", "spec", "template", "spec")
POD_META = ("StatefulSet", "spec", "template", "metadata")
CONTAINER = (*POD, "containers", 0)
CLAIM = ("StatefulSet", "spec", "volumeClaimTemplates", 0, "spec")
BACKUP = ("PersistentVolumeClaim", "spec")
SERVICE = ("Service", "spec")
AFFINITY: dict[str, Any] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}
SPREAD = [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
TOLERATION = {
    "key": "grid",
    "operator": "Equal",
    "value": "yes",
    "effect": "NoExecute",
    "tolerationSeconds": 9,
}
ANY = {"operator": "Exists"}


def kept(**fields: Any) -> dict[str, Any]:
    return {"persistence": {"enabled": True, **fields}}


def backup(**volume: Any) -> dict[str, Any]:
    return kept(backup={"volume": volume})


def exposed(**fields: Any) -> dict[str, Any]:
    return {"exposure": {"type": "LoadBalancer", **fields}}


def found(children: tuple[KubeObject, ...], path: tuple[Any, ...]) -> Any:
    """Return what is at a path below the object of a kind; the Service is that of clients."""
    kind, *steps = path
    (value,) = (
        o for o in children if o["kind"] == kind and not o["metadata"]["name"].endswith("-members")
    )
    at: Any = value
    for step in steps:
        if isinstance(at, list) and step >= len(at):
            return None
        at = at.get(step) if isinstance(at, dict) else at[step]
        if at is None:
            return None
    return at


FROM_SECRET = {"secretKeyRef": {"name": "s", "key": "k"}}
FROM_A_SECRET = {"name": "A", "valueFrom": FROM_SECRET}
ENV_FROM = [{"configMapRef": {"name": "c"}, "prefix": "A_"}]
DNS = {"searches": ["a.example"]}
ALIASES = [{"ip": "192.0.2.9", "hostnames": ["a"]}]
EXTRA = container(ports=[{"name": "health", "containerPort": 80}])
MOUNT = {"name": "scratch", "mountPath": "/srv", "subPath": "a"}
SCRATCH = {"name": "scratch", "emptyDir": {"medium": "Memory"}}
MOUNTED = pod(volumes=[SCRATCH], volumeMounts=[MOUNT])
GRACE = (*POD, "terminationGracePeriodSeconds")
DRAINING = {"shutdown": {"drainSeconds": 60}}
CASES = [
    ({"image": "mine:2"}, (*CONTAINER, "image"), "mine:2"),
    ({"imagePullPolicy": "Always"}, (*CONTAINER, "imagePullPolicy"), "Always"),
    (pod(resources={"requests": {"cpu": "2"}}), (*CONTAINER, "resources", "requests", "cpu"), "2"),
    (
        pod(resources={"limits": {"memory": "9Gi"}}),
        (*CONTAINER, "resources", "limits", "memory"),
        "9Gi",
    ),
    (pod(nodeSelector={"disk": "ssd"}), (*POD, "nodeSelector"), {"disk": "ssd"}),
    (pod(tolerations=[TOLERATION]), (*POD, "tolerations", 0), TOLERATION),
    (pod(tolerations=[ANY]), (*POD, "tolerations", 0), ANY),
    (pod(annotations={"a/b": "c"}), (*POD_META, "annotations", "a/b"), "c"),
    (pod(labels={"team": "x"}), (*POD_META, "labels", "team"), "x"),
    (pod(imagePullSecrets=[{"name": "r"}]), (*POD, "imagePullSecrets"), [{"name": "r"}]),
    (pod(affinity=AFFINITY), (*POD, "affinity"), AFFINITY),
    (pod(topologySpreadConstraints=SPREAD), (*POD, "topologySpreadConstraints"), SPREAD),
    (pod(priorityClassName="high"), (*POD, "priorityClassName"), "high"),
    (pod(serviceAccountName="sa"), (*POD, "serviceAccountName"), "sa"),
    (pod(terminationGracePeriodSeconds=99), GRACE, 99),
    (pod(terminationGracePeriodSeconds=30), GRACE, 30),
    ({"size": 3} | pod(terminationGracePeriodSeconds=30), GRACE, 47),
    (DRAINING, GRACE, 102),
    (DRAINING | pod(terminationGracePeriodSeconds=300), GRACE, 300),
    (pod(securityContext={"runAsUser": 7}), (*POD, "securityContext", "runAsUser"), 7),
    (pod(securityContext={"runAsGroup": 8}), (*POD, "securityContext", "runAsGroup"), 8),
    (pod(securityContext={"fsGroup": 9}), (*POD, "securityContext", "fsGroup"), 9),
    (pod(env=[FROM_A_SECRET]), (*CONTAINER, "env", -1), FROM_A_SECRET),
    (pod(envFrom=ENV_FROM), (*CONTAINER, "envFrom"), ENV_FROM),
    (MOUNTED, (*POD, "volumes", -1), SCRATCH),
    (MOUNTED, (*CONTAINER, "volumeMounts", -1), MOUNT),
    (pod(initContainers=[EXTRA]), (*POD, "initContainers"), [EXTRA]),
    (pod(sidecars=[EXTRA]), (*POD, "containers", -1), EXTRA),
    (pod(runtimeClassName="sandboxed"), (*POD, "runtimeClassName"), "sandboxed"),
    (pod(dnsConfig=DNS), (*POD, "dnsConfig"), DNS),
    (pod(hostAliases=ALIASES), (*POD, "hostAliases"), ALIASES),
    (kept(size="7Gi"), (*CLAIM, "resources", "requests", "storage"), "7Gi"),
    (kept(storageClassName="fast"), (*CLAIM, "storageClassName"), "fast"),
    (backup(size="8Gi"), (*BACKUP, "resources", "requests", "storage"), "8Gi"),
    (backup(storageClassName="slow"), (*BACKUP, "storageClassName"), "slow"),
    (backup(accessMode="ReadWriteMany"), (*BACKUP, "accessModes"), ["ReadWriteMany"]),
    (exposed(), (*SERVICE, "type"), "LoadBalancer"),
    ({"exposure": {"type": "NodePort"}}, (*SERVICE, "type"), "NodePort"),
    (exposed(nodePort=30800), (*SERVICE, "ports", 0, "nodePort"), 30800),
    (exposed(loadBalancerClass="a/b"), (*SERVICE, "loadBalancerClass"), "a/b"),
    (exposed(annotations={"a/b": "c"}), ("Service", "metadata", "annotations", "a/b"), "c"),
]


@pytest.mark.parametrize(("spec", "path", "value"), CASES, ids=lambda v: str(v)[:40])
def test_kubernetes_is_told_what_the_spec_says(
    spec: dict[str, Any], path: tuple[Any, ...], value: Any
) -> None:
    assert found(render(spec), path) == value

    assert found(render(backup()), path) != value, "it would be so without the field, too"


RESTORING = [
    ({"image": "mine:2"}, ("containers", 0, "image"), "mine:2"),
    ({"imagePullPolicy": "Never"}, ("containers", 0, "imagePullPolicy"), "Never"),
    (pod(nodeSelector={"a": "b"}), ("nodeSelector",), {"a": "b"}),
    (pod(priorityClassName="high"), ("priorityClassName",), "high"),
    (pod(serviceAccountName="sa"), ("serviceAccountName",), "sa"),
    (pod(runtimeClassName="sandboxed"), ("runtimeClassName",), "sandboxed"),
    (pod(sidecars=[EXTRA], initContainers=[EXTRA | {"name": "b"}]), ("initContainers",), None),
    (pod(sidecars=[EXTRA]), ("containers", 1), None),
    (MOUNTED, ("volumes", 3), None),
    (pod(envFrom=ENV_FROM), ("containers", 0, "envFrom"), None),
    (pod(securityContext={"runAsUser": 7}), ("securityContext", "runAsUser"), 7),
    (
        pod(resources={"limits": {"memory": "9Gi"}}),
        ("containers", 0, "resources", "limits", "memory"),
        "9Gi",
    ),
]


@pytest.mark.parametrize(("spec", "path", "value"), RESTORING, ids=lambda v: str(v)[:40])
def test_the_pod_that_restores_is_made_the_same_way(
    spec: dict[str, Any], path: tuple[Any, ...], value: Any
) -> None:
    children = render_children(restoring_cluster({"cluster": "old"}, COPYING, **spec), CONTEXT)

    assert found(children, ("Job", "spec", "template", "spec", *path)) == value


def test_a_member_for_each_of_the_size_with_a_claim_for_each() -> None:
    kept = {"persistence": {"enabled": True}, "deletionPolicy": "Delete"}
    three = make_cluster({"size": 3, **kept})
    live = tuple(
        {
            "metadata": {"name": f"data-demo-{ordinal}", "namespace": "default"},
            "spec": {"resources": {"requests": {"storage": "1Gi"}}},
        }
        for ordinal in range(4)
    )

    children = render_children(three, replace(CONTEXT, claims=live, recorded={"config/size": "3"}))

    assert found(children, ("StatefulSet", "spec", "replicas")) == 3
    owned = [c["metadata"]["name"] for c in children if c["kind"] == "PersistentVolumeClaim"]
    assert owned == ["data-demo-0", "data-demo-1", "data-demo-2"]


def test_networks_of_the_list_reach_the_rest_port_and_no_others() -> None:
    def reaching(**exposure: Any) -> list[str]:
        rules = found(render({"exposure": exposure}), ("NetworkPolicy", "spec", "ingress"))
        assert [p["port"] for p in rules[0]["ports"]] == [5701]
        assert not [p for p in rules[1]["from"] if "ipBlock" in p], "the management port"
        return [p["ipBlock"]["cidr"] for p in rules[0]["from"] if "ipBlock" in p]

    assert reaching() == []
    assert reaching(allowedCidrs=["192.0.2.0/24", "::/0"]) == ["192.0.2.0/24", "::/0"]


def test_pods_with_the_label_of_clients_reach_the_rest_port() -> None:
    rules = found(render(), ("NetworkPolicy", "spec", "ingress"))

    (client,) = rules[0]["from"]
    assert client == {"podSelector": {"matchLabels": {"gridcluster.io/client": "true"}}}
    assert client not in rules[1]["from"], "the management port"


def test_what_left_the_rendering_is_noticed_by_the_digest() -> None:
    store = FakeStore(exposed(annotations={"a/b": "c", "a/d": "e"}))
    store.settle()

    store.change_spec(exposed(annotations={"a/b": "c"}))
    store.step()

    assert store.decision is not None
    assert [o["kind"] for o in store.decision.apply] == ["Service"]


@pytest.mark.parametrize(
    ("change", "replaced"),
    [
        ({"image": "mine:2"}, True),
        (pod(env=[{"name": "TEAM", "value": "x"}]), True),
        (pod(resources={"limits": {"memory": "9Gi"}}), True),
        (pod(sidecars=[EXTRA]), True),
        (pod(initContainers=[EXTRA]), True),
        (MOUNTED, True),
        ({"exposure": {"type": "NodePort"}}, False),
        ({"deletionProtection": True}, False),
    ],
)
def test_a_change_of_the_pod_replaces_it(change: dict[str, Any], replaced: bool) -> None:
    store = FakeStore()
    store.settle()

    store.change_spec(change)
    store.settle()

    assert store.replaced == (["demo-0"] if replaced else [])
