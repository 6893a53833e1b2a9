from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from grid_member.config.load import parse_config
from grid_operator.api.names import CONFIG_HASH_ANNOTATION, RENDERED_HASH_ANNOTATION
from grid_operator.render import RenderContext, render_children
from tests.unit.operator.api.clusters import CONTEXT, FULL_SPEC, make_cluster, render

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.api.objects import KubeObject

SPECS: dict[str, dict[str, Any]] = {"minimal": {}, "full": FULL_SPEC}
OBJECTS = ["Secret", "ConfigMap", "NetworkPolicy", "Service-members", "Service", "StatefulSet"]
ENVIRONMENT = {
    "POD_NAME": "demo-0",
    "POD_NAMESPACE": "default",
    "GRID_PUBLIC_ADDRESS": "demo-0.demo-members.default.svc",
    "GRID_MANAGEMENT_USERNAME": "grid-operator",
    "GRID_MANAGEMENT_PASSWORD": "a-password",
    "GRID_DATA_DIR": "/data",
}


def by_name(children: tuple[KubeObject, ...]) -> dict[str, KubeObject]:
    return dict(zip(OBJECTS, children, strict=True))


def pod_spec(children: tuple[KubeObject, ...]) -> dict[str, Any]:
    spec: dict[str, Any] = by_name(children)["StatefulSet"]["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("name", OBJECTS)
def test_rendered_object_is_as_recorded(
    check_golden: Callable[[str, KubeObject], None], spec: str, name: str
) -> None:
    check_golden(f"{spec}-{name.lower()}", by_name(render(SPECS[spec]))[name])


def test_every_golden_file_is_used() -> None:
    files = {path.stem for path in (Path(__file__).parent / "golden").glob("*.yaml")}

    assert files == {f"{spec}-{name.lower()}" for spec in SPECS for name in OBJECTS}


@pytest.mark.parametrize("spec", SPECS)
def test_member_loads_the_rendered_configuration(spec: str) -> None:
    text = by_name(render(SPECS[spec]))["ConfigMap"]["data"]["grid.yaml"]

    config = parse_config(text, "grid.yaml", ENVIRONMENT)

    cluster = make_cluster(SPECS[spec]).spec
    assert config.cluster_name == cluster.cluster_name
    assert config.public_address == "demo-0.demo-members.default.svc"
    assert set(config.maps) == {m.name for m in cluster.maps}
    assert set(config.queues) == {q.name for q in cluster.queues}
    assert all(m.persistent == cluster.persistence.enabled for m in config.maps.values())
    assert config.logging.format == cluster.logging.format.value.lower()
    assert config.logging.level == cluster.logging.level.value.lower()
    assert config.rest is not None
    assert config.management is not None
    assert (config.rest.port, config.management.port) == (5701, 5702)
    assert config.rest.interfaces == config.management.interfaces == ("*",)


def test_configuration_holds_no_credential() -> None:
    text = json.dumps([o for o in render(FULL_SPEC) if o["kind"] != "Secret"])

    assert CONTEXT.management_password not in text
    assert CONTEXT.management_password not in repr(CONTEXT)


def test_pods_meet_the_restricted_standard() -> None:
    pod = pod_spec(render(FULL_SPEC))
    (container,) = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["automountServiceAccountToken"] is False


def test_every_child_is_owned_labelled_and_in_the_namespace() -> None:
    for child in render():
        meta = child["metadata"]
        (owner,) = meta["ownerReferences"]
        assert (owner["uid"], owner["controller"], meta["namespace"]) == ("uid-1", True, "default")
        assert meta["labels"]["gridcluster.io/cluster"] == "demo"


def test_only_operator_reaches_the_management_port() -> None:
    rules = by_name(render())["NetworkPolicy"]["spec"]["ingress"]

    reaching = [rule for rule in rules if any(p["port"] == 5702 for p in rule["ports"])]

    (rule,) = reaching
    (peer,) = rule["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": "grid-system"
    }
    assert peer["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "grid-operator"}


def test_rendering_is_repeatable() -> None:
    assert render(FULL_SPEC) == render(FULL_SPEC)


@pytest.mark.parametrize(
    ("spec", "password"),
    [({"maps": [{"name": "new"}]}, "a-password"), ({}, "another"), ({"clusterName": "x"}, "b")],
)
def test_what_a_member_reads_at_start_changes_the_template(
    spec: dict[str, Any], password: str
) -> None:
    context = RenderContext("grid-system", "grid-operator", password)
    before, after = (
        by_name(children)["StatefulSet"]["spec"]["template"]["metadata"]["annotations"]
        for children in (render(), render_children(make_cluster(spec), context))
    )

    assert before[CONFIG_HASH_ANNOTATION] != after[CONFIG_HASH_ANNOTATION]


@pytest.mark.parametrize("spec", [{"deletionPolicy": "Delete"}, {"paused": True}])
def test_what_members_do_not_read_leaves_the_template(spec: dict[str, Any]) -> None:
    before, after = (by_name(render(s))["StatefulSet"]["spec"]["template"] for s in ({}, spec))

    assert before == after


def test_secret_annotation_tells_nothing_of_its_content() -> None:
    other = RenderContext("grid-system", "grid-operator", "another")
    first, second = (
        by_name(render_children(make_cluster(), context))["Secret"] for context in (CONTEXT, other)
    )

    assert first["data"] != second["data"]
    key = RENDERED_HASH_ANNOTATION
    assert first["metadata"]["annotations"][key] == second["metadata"]["annotations"][key]
