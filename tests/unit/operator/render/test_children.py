from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.api.names import CONFIG_HASH_ANNOTATION, RENDERED_HASH_ANNOTATION
from grid_operator.render import render_children
from tests.unit.operator.api.clusters import (
    CONTEXT,
    EXTRA_VOLUMES,
    FULL_SPEC,
    SPECS,
    WAN_CONTEXT,
    WAN_SPEC,
    make_cluster,
    render,
)
from tests.unit.operator.render.restoring import restore_children

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.api.objects import KubeObject

GOLDEN = {
    **{name: render(spec) for name, spec in SPECS.items()},
    "restore": restore_children(),
    "wan": render_children(make_cluster(WAN_SPEC), WAN_CONTEXT),
}


def ref(obj: KubeObject) -> str:
    return f"{obj['kind']}-{obj['metadata']['name']}".lower()


RENDERED = [(f"{case}-{ref(o)}", o) for case, children in GOLDEN.items() for o in children]


def by_name(children: tuple[KubeObject, ...]) -> dict[str, KubeObject]:
    return {ref(child): child for child in children}


def template(children: tuple[KubeObject, ...]) -> dict[str, Any]:
    found: dict[str, Any] = by_name(children)["statefulset-demo"]["spec"]["template"]
    return found


def pod_specs() -> list[tuple[str, dict[str, Any]]]:
    return [
        (name, obj["spec"]["template"]["spec"])
        for name, obj in RENDERED
        if obj["kind"] in ("StatefulSet", "Job")
    ]


@pytest.mark.parametrize(("name", "obj"), RENDERED, ids=[name for name, _ in RENDERED])
def test_rendered_object_is_as_recorded(
    check_golden: Callable[[str, KubeObject], None], name: str, obj: KubeObject
) -> None:
    check_golden(name, obj)


def test_every_golden_file_is_used() -> None:
    files = {path.stem for path in (Path(__file__).parent / "golden").glob("*.yaml")}

    assert files == {name for name, _ in RENDERED}


@pytest.mark.parametrize("spec", SPECS)
def test_no_object_but_a_secret_holds_a_credential(spec: str) -> None:
    text = json.dumps([o for o in render(SPECS[spec]) if o["kind"] != "Secret"])
    secrets = [CONTEXT.management_password]
    secrets += [v for c in CONTEXT.secrets.values() for k, v in c.data.items() if k == "password"]

    assert not [secret for secret in secrets if secret in text]
    assert not [secret for secret in secrets if secret in repr(CONTEXT)]
    assert "a-license" not in text + repr(CONTEXT)


@pytest.mark.parametrize(("name", "pod"), pod_specs())
def test_pods_meet_the_restricted_standard(name: str, pod: dict[str, Any]) -> None:
    container = pod["containers"][0]
    of_the_spec = {volume["name"] for volume in EXTRA_VOLUMES}

    assert pod["securityContext"]["runAsNonRoot"] is True, name
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["automountServiceAccountToken"] is False
    # The standard's list of volume types.
    allowed = {"configMap", "emptyDir", "secret", "persistentVolumeClaim"}
    own = [volume for volume in pod["volumes"] if volume["name"] not in of_the_spec]
    assert {kind for volume in own for kind in volume if kind != "name"} <= allowed


@pytest.mark.parametrize(("name", "obj"), RENDERED, ids=[name for name, _ in RENDERED])
def test_every_child_is_labelled_and_in_the_namespace(name: str, obj: KubeObject) -> None:
    meta = obj["metadata"]

    assert meta["namespace"] == "default", name
    assert meta["labels"]["gridcluster.io/cluster"] == "demo"
    owners = meta.get("ownerReferences", [])
    owned = [(o["uid"], o["controller"]) for o in owners]
    assert owned == ([] if obj["kind"] == "PersistentVolumeClaim" else [("uid-1", True)])


DIGEST = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("grid-member:0.2.0", "0.2.0"),
        ("registry.example:5000/a/grid-member:0.2.0-rc.1", "0.2.0-rc.1"),
        (f"grid-member:0.2.0@{DIGEST}", "0.2.0"),
        (f"grid-member@{DIGEST}", None),
        ("registry.example:5000/grid-member", None),
        ("grid-member", None),
        ("grid-member:_odd", None),
        (f"grid-member:{'1' * 64}", None),
    ],
)
def test_objects_tell_the_version_that_the_image_names(image: str, version: str | None) -> None:
    spec = {**FULL_SPEC, "image": image}
    for child in render(spec):
        labels = child["metadata"]["labels"]
        if child["kind"] == "PersistentVolumeClaim":
            assert "app.kubernetes.io/version" not in labels
            continue
        assert labels["app.kubernetes.io/part-of"] == "grid"
        assert labels.get("app.kubernetes.io/version") == version


def test_another_version_is_in_no_template_and_no_selector() -> None:
    """It would replace every pod, orphan it, or be refused."""
    children = [*render(FULL_SPEC), *render({**FULL_SPEC, "size": 3}), *restore_children()]
    specs = [json.dumps(child.get("spec", {})) for child in children]

    assert not [s for s in specs if "kubernetes.io/version" in s or "kubernetes.io/part-of" in s]


@pytest.mark.parametrize("spec", SPECS)
def test_only_operator_reaches_the_management_port(spec: str) -> None:
    rules = by_name(render(SPECS[spec]))["networkpolicy-demo"]["spec"]["ingress"]

    reaching = [rule for rule in rules if any(p["port"] == 5702 for p in rule["ports"])]

    (rule,) = reaching
    (peer,) = rule["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": "grid-system"
    }
    assert peer["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "grid-operator"}


@pytest.mark.parametrize(
    ("metrics", "port"), [({}, 5703), ({"port": 9100}, 9100), ({"enabled": False}, None)]
)
def test_labelled_pods_of_any_namespace_reach_the_metrics_and_no_more(
    metrics: dict[str, Any], port: int | None
) -> None:
    children = render({"metrics": metrics})
    (container,) = template(children)["spec"]["containers"]
    rules = by_name(children)["networkpolicy-demo"]["spec"]["ingress"]

    ports = {p["name"]: p["containerPort"] for p in container["ports"]}
    readers = {
        "namespaceSelector": {
            "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "Exists"}]
        },
        "podSelector": {"matchLabels": {"gridcluster.io/metrics": "true"}},
    }
    assert ports.get("metrics") == port
    reaching = [rule for rule in rules if readers in rule["from"]]
    wanted = {"from": [readers], "ports": [{"protocol": "TCP", "port": port}]}
    assert reaching == ([] if port is None else [wanted])


@pytest.mark.parametrize(
    ("spec", "port"),
    [
        ({}, 5701),
        ({"rest": {"port": 6000}}, 6000),
        ({"advancedNetwork": {"enabled": True, "restPort": 6001}}, 6001),
    ],
)
def test_every_object_follows_the_rest_port(spec: dict[str, Any], port: int) -> None:
    found = by_name(render(spec))
    (container,) = template(render(spec))["spec"]["containers"]
    policy = found["networkpolicy-demo"]["spec"]["ingress"]
    (client_port,) = found["service-demo"]["spec"]["ports"]

    assert {p["port"] for rule in policy for p in rule["ports"]} == {port, 5702, 5703}
    assert container["ports"][0] == {"name": "rest", "containerPort": port, "protocol": "TCP"}
    assert found["service-demo-members"]["spec"]["ports"][0]["port"] == port
    assert (client_port["port"], client_port["targetPort"]) == (5701, "rest")


def test_members_and_the_restoring_pod_are_selected_by_the_policy_and_only_members_served() -> None:
    children = by_name(restore_children())
    pod = children["job-demo-restore"]["spec"]["template"]["metadata"]["labels"]
    policy = children["networkpolicy-demo"]["spec"]["podSelector"]["matchLabels"]
    service = children["service-demo"]["spec"]["selector"]

    assert policy.items() <= pod.items()
    assert not service.items() <= pod.items()


def test_a_list_of_networks_keeps_the_addresses_that_it_is_about() -> None:
    def spec(**exposure: Any) -> Any:
        return by_name(render({"exposure": exposure}))["service-demo"]["spec"]

    cidrs = ["192.0.2.0/24"]
    assert spec(type="NodePort", allowedCidrs=cidrs)["externalTrafficPolicy"] == "Local"
    assert "externalTrafficPolicy" not in spec(type="NodePort")
    assert "externalTrafficPolicy" not in spec(allowedCidrs=cidrs)


def test_a_single_address_is_written_as_the_network_that_kubernetes_asks_for() -> None:
    cidrs = ["192.0.2.7", "2001:db8::1", "192.0.2.0/255.255.255.0", "::/0"]
    policy = by_name(render({"exposure": {"allowedCidrs": cidrs}}))["networkpolicy-demo"]
    clients = policy["spec"]["ingress"][0]

    blocks = [peer["ipBlock"]["cidr"] for peer in clients["from"] if "ipBlock" in peer]
    assert blocks == ["192.0.2.7/32", "2001:db8::1/128", "192.0.2.0/24", "::/0"]


def test_rendering_is_repeatable() -> None:
    assert render(FULL_SPEC) == render(FULL_SPEC)


@pytest.mark.parametrize(
    ("spec", "password"),
    [
        ({"maps": [{"name": "new"}]}, "a-password"),
        ({}, "another"),
        ({"clusterName": "x"}, "b"),
        ({"configFormat": "Xml"}, "a-password"),
        ({"tls": {"secretName": "member-tls"}}, "a-password"),
    ],
)
def test_what_a_member_reads_at_start_changes_the_template(
    spec: dict[str, Any], password: str
) -> None:
    context = replace(CONTEXT, management_password=password)

    assert template(render()) != template(render_children(make_cluster(spec), context))


@pytest.mark.parametrize(
    "spec",
    [
        {"deletionPolicy": "Delete"},
        {"deletionProtection": True},
        {"paused": True},
        {"clusterState": "Frozen"},
        {"runState": "Stopped"},
        {"logging": {"level": "Debug"}},
        {"license": {"secretName": "license"}},
        {"exposure": {"type": "NodePort", "allowedCidrs": ["192.0.2.0/24"]}},
    ],
)
def test_what_members_do_not_read_leaves_the_template(spec: dict[str, Any]) -> None:
    assert template(render()) == template(render(spec))


@pytest.mark.parametrize(
    ("status", "replicas"),
    [({}, 1), ({"stopped": True}, 0), ({"stopped": False}, 1)],
)
def test_replicas_follow_the_phase(status: dict[str, Any], replicas: int) -> None:
    children = by_name(render_children(make_cluster({}, status=status), CONTEXT))

    assert children["statefulset-demo"]["spec"]["replicas"] == replicas


def test_a_stopped_cluster_keeps_its_template() -> None:
    stopped = render_children(make_cluster({}, status={"stopped": True}), CONTEXT)

    assert template(stopped) == template(render())


def test_secret_annotation_tells_nothing_of_its_content() -> None:
    other = replace(CONTEXT, management_password="another")
    first, second = (
        by_name(render_children(make_cluster(), context))["secret-demo-management"]
        for context in (CONTEXT, other)
    )

    assert first["data"] != second["data"]
    key = RENDERED_HASH_ANNOTATION
    assert first["metadata"]["annotations"][key] == second["metadata"]["annotations"][key]


def test_the_template_carries_the_digest_of_the_configuration() -> None:
    assert template(render())["metadata"]["annotations"][CONFIG_HASH_ANNOTATION]
