"""What the operator's chart renders by default and with other values."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from grid_operator.api.chart.__main__ import PAGE, escaped, main, written_files
from grid_operator.command import make_options, make_parser
from tests.unit.charts.conftest import CHARTS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.helm.running import Helm

pytestmark = pytest.mark.timeout(60, func_only=True)

CHART = CHARTS / "grid-operator"
ROOT = CHARTS.parent
DOCS = ROOT / "docs"
FILES = sorted((CHART / "ci").glob("*-values.yaml"))
HOSTILE = '{{ .Values.x }} }} {{{ {{- end }} {{/* */}} `{{` {{ "{{" }} {% raw %} $x'
RELEASE_LABELS = {
    "app.kubernetes.io/name": "grid-operator",
    "app.kubernetes.io/instance": "grid-operator",
    "app.kubernetes.io/part-of": "grid",
    "app.kubernetes.io/version": "0.2.0",
    "app.kubernetes.io/managed-by": "Helm",
    "helm.sh/chart": "grid-operator-0.2.0",
}


def by_kind(objects: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for one in objects:
        found.setdefault(one["kind"], []).append(one)
    return found


def container(objects: list[dict[str, Any]]) -> dict[str, Any]:
    (deployment,) = by_kind(objects)["Deployment"]
    (found,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_lint_has_nothing_to_say(operator_chart: Helm) -> None:
    assert operator_chart.complaints() == ""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_lint_has_nothing_to_say_of_each_values_file(operator_chart: Helm, file: Path) -> None:
    assert operator_chart.complaints(file) == ""


def test_versions_are_those_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    images = yaml.safe_load(chart["annotations"]["artifacthub.io/images"])

    assert chart["version"] == chart["appVersion"] == project["version"]
    assert {i["image"].rpartition(":")[2] for i in images} == {project["version"]}


def test_committed_files_are_what_the_types_say(tmp_path: Path) -> None:
    for path in written_files(CHARTS, DOCS):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / PAGE).write_text((CHARTS / PAGE).read_text(encoding="utf-8"), encoding="utf-8")
    main([str(tmp_path), str(DOCS)])

    for path in written_files(CHARTS, DOCS):
        written = (tmp_path / path).read_text(encoding="utf-8")
        assert (CHARTS / path).read_text(encoding="utf-8") == written, "run make crds"


def test_the_definition_is_rendered_as_kubectl_applies_it(operator_chart: Helm) -> None:
    (found,) = by_kind(operator_chart.objects())["CustomResourceDefinition"]
    metadata = found["metadata"]

    assert metadata.pop("labels") == RELEASE_LABELS
    assert metadata.pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert found == yaml.safe_load((ROOT / "crds/gridcluster.yaml").read_text(encoding="utf-8"))


def test_text_that_looks_like_a_template_is_rendered_as_it_is(
    operator_chart: Helm, tmp_path: Path
) -> None:
    (tmp_path / "templates").mkdir()
    meta = {"apiVersion": "v2", "name": "hostile", "version": "0.0.0"}
    shown = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"text": HOSTILE, HOSTILE: "key"}}
    (tmp_path / "Chart.yaml").write_text(json.dumps(meta))
    (tmp_path / "templates" / "shown.yaml").write_text(escaped(yaml.safe_dump(shown)))

    assert replace(operator_chart, chart=tmp_path).objects() == [shown]


def test_the_definition_goes_only_when_that_was_asked_for(operator_chart: Helm) -> None:
    objects = by_kind(operator_chart.objects({"crds": {"keep": False}}))

    assert "annotations" not in objects["CustomResourceDefinition"][0]["metadata"]
    without = operator_chart.objects({"crds": {"install": False}})
    assert "CustomResourceDefinition" not in by_kind(without)


@pytest.mark.parametrize(
    ("watch", "roles", "served"),
    [
        ({}, {"grid-system"}, ("grid-system",)),
        ({"namespaces": ["a", "b"]}, {"a", "b", "grid-system"}, ("a", "b")),
        # The release's own namespace gets one Role, not two of one name.
        ({"namespaces": ["a", "grid-system"]}, {"a", "grid-system"}, ("a", "grid-system")),
    ],
    ids=["own", "others", "own-and-another"],
)
def test_each_watched_namespace_has_a_role(
    operator_chart: Helm, watch: dict[str, Any], roles: set[str], served: tuple[str, ...]
) -> None:
    objects = by_kind(operator_chart.objects({"watch": watch}))
    options = make_options(make_parser().parse_args(container(objects["Deployment"])["args"]), {})
    found = {role["metadata"]["namespace"]: role["rules"] for role in objects["Role"]}
    leases = {n for n, rules in found.items() if any("leases" in r["resources"] for r in rules)}
    working = {n for n, rules in found.items() if len(rules) > 1}

    assert options.namespaces == served
    assert len(objects["Role"]) == len(found)
    assert found.keys() == roles
    assert leases == {"grid-system"}
    assert working == set(served)
    assert {b["metadata"]["namespace"] for b in objects["RoleBinding"]} == roles
    for binding in objects["RoleBinding"]:
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "grid-operator", "namespace": "grid-system"}
        ]
    # Those of users are bound by nobody.
    assert "ClusterRoleBinding" not in objects
    assert {r["metadata"]["name"] for r in objects["ClusterRole"]} == {"grid-view", "grid-edit"}


def test_everywhere_the_operator_has_a_cluster_role_and_its_lease(operator_chart: Helm) -> None:
    objects = by_kind(operator_chart.objects({"watch": {"all": True}}))
    options = make_options(make_parser().parse_args(container(objects["Deployment"])["args"]), {})
    (role,) = objects["Role"]
    names = {r["metadata"]["name"] for r in objects["ClusterRole"]}

    assert options.all_namespaces
    assert role["rules"] == [
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "verbs": ["get", "create", "update"],
        }
    ]
    assert names == {"grid-view", "grid-edit", "grid-operator"}
    (binding,) = objects["ClusterRoleBinding"]
    assert binding["roleRef"]["name"] == "grid-operator"


@pytest.mark.parametrize(
    ("values", "image"),
    [
        ({}, "grid-operator:0.2.0"),
        ({"image": "other.example/x:2"}, "other.example/x:2"),
        ({"image": {"registry": "r.example/a/", "tag": "2"}}, "r.example/a/grid-operator:2"),
        (
            {"image": {"tag": "2", "digest": "sha256:" + "0" * 64}},
            "grid-operator@sha256:" + "0" * 64,
        ),
        (
            {"global": {"imageRegistry": "g.example"}, "image": {"registry": "r.example"}},
            "g.example/grid-operator:0.2.0",
        ),
    ],
    ids=["default", "one-string", "registry-and-tag", "digest-wins", "global-wins"],
)
def test_the_image_is_a_map_or_a_string(
    operator_chart: Helm, values: dict[str, Any], image: str
) -> None:
    assert container(operator_chart.objects(values))["image"] == image


def test_null_removes_a_default(operator_chart: Helm) -> None:
    objects = operator_chart.objects(
        {"resources": {"limits": None}, "podSecurityContext": {"runAsUser": None}}
    )
    (deployment,) = by_kind(objects)["Deployment"]

    assert container(objects)["resources"] == {"requests": {"cpu": "50m", "memory": "96Mi"}}
    assert "runAsUser" not in deployment["spec"]["template"]["spec"]["securityContext"]


@pytest.mark.parametrize("labels", ["commonLabels", "podLabels"])
def test_null_is_no_labels(operator_chart: Helm, labels: str) -> None:
    assert operator_chart.objects({labels: None}) == operator_chart.objects()


def test_the_name_of_the_release_is_in_labels_alone(operator_chart: Helm) -> None:
    """A second release in the namespace is refused by Helm, since its objects are there already."""
    named = {(o["kind"], o["metadata"]["name"]) for o in operator_chart.objects()}
    other = replace(operator_chart, release="other").objects()

    assert {(o["kind"], o["metadata"]["name"]) for o in other} == named
    assert {o["metadata"]["labels"]["app.kubernetes.io/instance"] for o in other} == {"other"}


def test_names_that_look_like_numbers_stay_names(operator_chart: Helm) -> None:
    watch = {"namespaces": ["0", "0x1f", "1e3"]}
    helm = replace(operator_chart, namespace="1e3", release="007")
    objects = helm.objects(
        {
            "watch": watch,
            "serviceAccount": {"name": "1"},
            "podMonitor": {"enabled": True, "namespace": "2", "interval": "1m"},
        }
    )
    named = [o["metadata"].get("namespace", "") for o in objects]
    (deployment,) = by_kind(objects)["Deployment"]
    matched = [m["spec"]["namespaceSelector"] for m in by_kind(objects)["PodMonitor"]]

    assert set(named) == {"", "1e3", "0", "0x1f", "2"}
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "1"
    assert container(objects)["args"][1::2] == watch["namespaces"]
    assert {str(m["matchNames"]) for m in matched} == {"['1e3']", str(watch["namespaces"])}
    assert {o["metadata"]["labels"]["app.kubernetes.io/instance"] for o in objects} == {"007"}


def test_pods_keep_the_label_by_which_members_let_the_operator_in(operator_chart: Helm) -> None:
    objects = by_kind(operator_chart.objects({"podLabels": {"team": "data"}}))
    (deployment,), (policy,) = objects["Deployment"], objects["NetworkPolicy"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]

    assert labels["team"] == "data"
    for selector in (deployment["spec"]["selector"], policy["spec"]["podSelector"]):
        assert selector == {"matchLabels": {"app.kubernetes.io/name": "grid-operator"}}
        assert selector["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("field", ["extraEnv", "tolerations", "topologySpreadConstraints"])
def test_the_pod_has_what_kubernetes_knows(operator_chart: Helm, field: str) -> None:
    given = [{"name": "A", "value": "1"}] if field == "extraEnv" else [{"key": "a"}]
    (deployment,) = by_kind(operator_chart.objects({field: given}))["Deployment"]
    pod = deployment["spec"]["template"]["spec"]

    found = pod["containers"][0]["env"][2:] if field == "extraEnv" else pod[field]
    assert found == given


def test_monitors_find_the_operator_and_the_members_that_are_watched(operator_chart: Helm) -> None:
    wanted = {"enabled": True, "namespace": "monitoring", "labels": {"release": "prometheus"}}
    objects = operator_chart.objects({"podMonitor": wanted, "watch": {"namespaces": ["a", "b"]}})
    operator, members = sorted(
        by_kind(objects)["PodMonitor"], key=lambda m: str(m["metadata"]["name"]), reverse=True
    )

    for monitor in (operator, members):
        assert monitor["metadata"]["namespace"] == "monitoring"
        assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert operator["spec"]["namespaceSelector"] == {"matchNames": ["grid-system"]}
    assert members["spec"]["namespaceSelector"] == {"matchNames": ["a", "b"]}
    everywhere = operator_chart.objects({"podMonitor": wanted, "watch": {"all": True}})
    selectors = [m["spec"]["namespaceSelector"] for m in by_kind(everywhere)["PodMonitor"]]
    assert {"any": True} in selectors


def test_notes_name_what_is_special(operator_chart: Helm) -> None:
    usual = operator_chart.notes()
    special = operator_chart.notes(
        {
            "image": {"registry": "r.example"},
            "crds": {"keep": False},
            "rbac": {"create": False},
            "watch": {"namespaces": ["a", "b"]},
        }
    )

    assert "in grid-system." in usual
    assert "names no registry" in usual
    assert "WARNING" not in usual
    assert "in a, b." in special
    assert "WARNING: crds.keep is false" in special
    assert "rbac.create is false" in special
    assert "names no registry" not in special
