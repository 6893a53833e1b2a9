"""Replication between clusters: what Kubernetes is told of it, and members that do it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.render import SecretContent, render_children
from tests.unit.gridctl.running import until
from tests.unit.operator.api.clusters import WAN_CONTEXT, WAN_SPEC, make_cluster
from tests.unit.operator.fields.pods import RunningPod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from grid_operator.api.objects import KubeObject

LISTENER = {"username": "lima", "password": "known-to-both"}
SECRETS = {
    "demo-wan": SecretContent(LISTENER),
    "theirs": SecretContent(LISTENER),
    "wrong": SecretContent({**LISTENER, "password": "unknown"}),
}
GROUPS = {"endpointGroups": [{"name": "Data", "enabled": True}, {"name": "Wan", "enabled": True}]}
MAPS = [{"name": "default", "wan": {"replication": "r", "excludeKeys": ["tmp*"]}}]


@pytest.fixture
def other(tmp_path: Path) -> Iterator[RunningPod]:
    directory = tmp_path / "other"
    directory.mkdir()
    running = RunningPod(directory)
    yield running
    running.kill()


def child(kind: str, name: str, **changes: Any) -> KubeObject | None:
    children = render_children(make_cluster({**WAN_SPEC, **changes}), WAN_CONTEXT)
    found = (c for c in children if (c["kind"], c["metadata"]["name"]) == (kind, name))
    return next(found, None)


def listener(**fields: Any) -> dict[str, Any]:
    return {"wanListener": {"enabled": True, **fields}}


def cluster(name: str, target: str, address: str, secret: str = "theirs") -> dict[str, Any]:
    publisher = {
        "id": "p",
        "targetCluster": target,
        "endpoints": [f"{address}:5705"],
        "secretName": secret,
    }
    return {
        "clusterName": name,
        "rest": GROUPS,
        "maps": MAPS,
        "wan": [{"name": "r", "publishers": [publisher]}],
        **listener(),
    }


def publisher_of(pod: RunningPod) -> dict[str, Any]:
    _, body = pod.call("rest/wan/status")
    ((publisher,),) = (r["publishers"] for r in json.loads(body)["replications"])
    return dict(publisher)


def test_two_clusters_replicate_both_ways(pod: RunningPod, other: RunningPod) -> None:
    pod.start(cluster("tokyo", "london", other.address), SECRETS)
    other.start(cluster("london", "tokyo", pod.address), SECRETS)

    pod.put("tmp-1")
    pod.put("a", b"from tokyo")
    until(lambda: other.get("a") == b"from tokyo", "nothing comes to london")
    other.put("a", b"from london")
    until(lambda: pod.get("a") == b"from london", "nothing comes to tokyo")

    assert other.get("tmp-1") is None
    assert publisher_of(pod)["members"][0]["state"] == "REPLICATING"


def test_a_source_with_another_secret_or_not_accepted_sends_nothing(
    pod: RunningPod, other: RunningPod
) -> None:
    other.start({**cluster("london", "tokyo", pod.address), **listener()}, SECRETS)
    pod.start(cluster("tokyo", "london", other.address, "wrong"), SECRETS)
    until(lambda: "refuses the name and password" in publisher_of(pod)["problem"], "it is taken")

    accepted = listener(acceptedClusters=["paris"])
    other.start({**cluster("london", "tokyo", pod.address), **accepted}, SECRETS)
    pod.start(cluster("tokyo", "london", other.address), SECRETS)

    until(lambda: "accepted-clusters" in publisher_of(pod)["problem"], "tokyo is accepted")


def test_a_paused_publisher_begins_paused(pod: RunningPod, other: RunningPod) -> None:
    spec = cluster("tokyo", "london", other.address)
    spec["wan"][0]["publishers"][0]["state"] = "Paused"

    pod.start(spec, SECRETS)
    pod.put("a")

    until(lambda: publisher_of(pod)["queued"]["own"] == 1, "nothing is queued")
    assert publisher_of(pod)["members"][0]["state"] == "PAUSED"


def test_the_service_is_as_the_spec_says() -> None:
    service = child("Service", "demo-wan")

    assert service is not None
    assert service["metadata"]["annotations"]["example.org/lb"] == "internal"
    assert service["spec"]["type"] == "LoadBalancer"
    assert service["spec"]["externalTrafficPolicy"] == "Local"
    (port,) = service["spec"]["ports"]
    assert (port["port"], port["targetPort"], port["nodePort"]) == (5705, 5805, 30805)
    inside = child("Service", "demo-wan", **listener())
    assert inside is not None
    assert inside["spec"]["type"] == "ClusterIP"
    assert inside["spec"]["ports"][0]["targetPort"] == 5705
    assert child("Service", "demo-wan", wanListener={}) is None


def policy(way: str, **changes: Any) -> list[dict[str, Any]]:
    found = child("NetworkPolicy", "demo", **changes)
    assert found is not None
    rules: list[dict[str, Any]] = found["spec"][way]
    return rules


def members_of(name: str, namespace: str) -> dict[str, Any]:
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "podSelector": {
            "matchLabels": {
                "app.kubernetes.io/name": "grid",
                "app.kubernetes.io/instance": name,
                "app.kubernetes.io/component": "member",
            }
        },
    }


def test_those_of_the_list_reach_the_wan_port_and_nobody_else() -> None:
    (rule,) = (r for r in policy("ingress") if {"protocol": "TCP", "port": 5805} in r["ports"])

    assert rule["ports"] == [{"protocol": "TCP", "port": 5805}]
    assert rule["from"] == [
        members_of("london", "default"),
        members_of("paris", "eu"),
        {"ipBlock": {"cidr": "192.0.2.0/24"}},
    ]
    ports = [p["port"] for r in policy("ingress", **listener()) for p in r["ports"]]
    assert 5705 not in ports


def test_members_reach_their_targets_and_no_others() -> None:
    dns, london, paris = policy("egress")

    assert {p["port"] for p in dns["ports"]} == {53}
    assert london["to"] == [members_of("london", "default")]
    assert london["ports"] == [{"protocol": "TCP", "port": 5905}]
    assert [p["port"] for p in paris["ports"]] == [5705, 5706]
    assert policy("egress", wan=[], maps=[]) == []


def test_certificates_are_mounted_and_the_port_is_opened() -> None:
    found = child("StatefulSet", "demo")
    assert found is not None
    pod = found["spec"]["template"]["spec"]
    container = pod["containers"][0]

    volumes = {v["name"]: v for v in pod["volumes"]}
    assert volumes["grid-wan-tls"]["secret"]["secretName"] == "wan-tls"
    mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
    assert mounts["grid-wan-tls"] == "/etc/grid-wan-tls"
    assert {"name": "wan", "containerPort": 5805, "protocol": "TCP"} in container["ports"]


def test_the_secret_of_the_listener_is_made_and_the_named_one_is_taken() -> None:
    assert child("Secret", "demo-wan") is not None
    assert child("Secret", "demo-wan", **listener(secretName="london-wan")) is None
    other = child("StatefulSet", "demo", **listener(secretName="london-wan"))
    assert other is not None
    variables = {e["name"]: e for e in other["spec"]["template"]["spec"]["containers"][0]["env"]}
    reference = variables["GRID_WAN_PASSWORD"]["valueFrom"]["secretKeyRef"]
    assert reference == {"name": "london-wan", "key": "password"}
