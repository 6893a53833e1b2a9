"""Members without an operator: what the chart refuses, and the values that only it has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from grid_member.config.load import parse_config
from tests.unit.charts.conftest import CHARTS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.helm.running import Helm

pytestmark = pytest.mark.timeout(60, func_only=True)

Values = dict[str, Any]
Objects = list[dict[str, Any]]

THREE: Final[Values] = {"size": 3}
KEPT: Final[Values] = {"persistence": {"enabled": True, "size": "1024Mi"}}
MANAGED: Final[Values] = {"management": {"enabled": True, "existingSecret": "m"}}
TLS: Final[Values] = {"tls": {"secretName": "t"}}
LIMITS: Final[Values] = {"limits": {"value-bytes": 1048576}}
NEEDS_OPERATOR: Final = "needs mode: GridCluster"


def backup(**schedule: Any) -> Values:
    cron = {"cron": "0 3 * * *", **schedule}
    return {"persistence": {"enabled": True, "backup": {"claimName": "b", "schedule": cron}}}


REFUSED: Final[list[tuple[Values, str]]] = [
    ({"clusterState": "Active"}, f"clusterState {NEEDS_OPERATOR}"),
    ({"clusterStateDriftPolicy": "Correct"}, f"clusterStateDriftPolicy {NEEDS_OPERATOR}"),
    ({"paused": True}, f"paused {NEEDS_OPERATOR}"),
    ({"pausedUntil": "2030-01-31T08:00:00Z"}, f"pausedUntil {NEEDS_OPERATOR}"),
    ({"deletionProtection": True}, f"deletionProtection {NEEDS_OPERATOR}"),
    (
        backup(missedRunPolicy="Skip"),
        f"persistence.backup.schedule.missedRunPolicy {NEEDS_OPERATOR}",
    ),
    ({"license": {"secretName": "l"}}, "send it to POST /grid/rest/license"),
    (
        {**KEPT, "restoreFrom": {"cluster": "old"}},
        "set config.persistence.restore-from to its path",
    ),
    ({"configFormat": "Xml"}, f"configFormat: Xml {NEEDS_OPERATOR}"),
    ({"management": {"enabled": True}}, "needs management.existingSecret: create a Secret"),
    (
        {"management": {"enabled": True, "existingSecret": "demo-management"}},
        "demo-management is the name of a Secret that the operator makes",
    ),
    ({"management": {"existingSecret": "m"}}, "no effect while management.enabled is false"),
    (
        {"podMonitor": {"enabled": True}, "metrics": {"enabled": False}},
        "podMonitor.enabled has nothing to read",
    ),
    ({"existingConfigMap": "c", "config": LIMITS}, "config exclude each other"),
    ({"config": {"limitz": {}}}, "'/config': additional properties 'limitz' not allowed"),
    ({"config": {"cluster-name": "a"}}, "config.cluster-name is set by the chart: remove it"),
    (
        {**MANAGED, "config": {"security": {"realms": []}}},
        "config.security.realms is set by the chart",
    ),
    (
        {"config": {"network": {"port": {"port": 1}}}},
        "config.network.port.port is set by the chart",
    ),
    (
        {"maps": [{"name": "<<"}], "config": {"map": {"<<": {"max-idle-seconds": 1}}}},
        "config.map.<<.max-idle-seconds is set by the chart",
    ),
    ({"pod": {"labels": {"app.kubernetes.io/name": "x"}}}, "pod.labels may not hold app.kub"),
    (
        {"pod": {"annotations": {"gridcluster.io/config-hash": "x"}}},
        "pod.annotations may not hold gridcluster.io/config-hash",
    ),
    (
        {"exposure": {"annotations": {"x.gridcluster.io/y": "z"}}},
        "exposure.annotations may not hold x.gridcluster.io/y",
    ),
    ({"commonLabels": {"gridcluster.io/cluster": "x"}}, "commonLabels may not hold gridcluster.io"),
    (
        {"podMonitor": {"enabled": True, "labels": {"app.kubernetes.io/component": "x"}}},
        "podMonitor.labels may not hold app.kubernetes.io/component",
    ),
    (
        {**THREE, "security": {"enabled": True, "protected": ["HealthCheck"]}},
        "set update.waitForSafeSeconds to 0",
    ),
    ({"mode": "GridCluster", **MANAGED}, "management.enabled needs mode: StatefulSet"),
    (
        {"mode": "GridCluster", "networkPolicy": {"enabled": False}},
        "networkPolicy.enabled needs mode: StatefulSet",
    ),
    (
        {"mode": "GridCluster", "disruption": {"enabled": False}},
        "disruption.enabled needs mode: StatefulSet",
    ),
    ({"mode": "GridCluster", "update": {"partition": 1}}, "update.partition needs mode: Stat"),
    ({"mode": "GridCluster", "podMonitor": {"enabled": True}}, "podMonitor.enabled needs mode: S"),
    ({"mode": "GridCluster", "config": LIMITS}, "config needs mode: StatefulSet"),
    ({"mode": "GridCluster", "existingConfigMap": "a"}, "existingConfigMap needs mode: Stateful"),
    ({"mode": "GridCluster", "test": {"enabled": False}}, "test.enabled needs mode: StatefulSet"),
    ({"tls": {"certManager": {"issuerRef": {"name": "a"}}}}, "'/tls': missing property 'secretNa"),
    ({"tls": {"secretName": "t", "certManager": {}}}, "missing property 'issuerRef'"),
    ({"mode": None}, "missing property 'mode'"),
    ({"rest": {"port": None}}, "'/rest': missing property 'port'"),
    ({"clusterName": None}, "missing property 'clusterName'"),
    ({"persistence": {"size": None}}, "'/persistence': missing property 'size'"),
    ({"image": None}, "missing property 'image'"),
    ({"image": {"repository": None}}, "'/image'"),
    ({"update": None}, "missing property 'update'"),
]
LEFT_OUT: Final[list[Values]] = [
    {"pod": {"resources": {"limits": None}}},
    {"pod": {"labels": None, "annotations": None, "env": None, "nodeSelector": None}},
    {"maps": None, "queues": None},
    {"rest": {"endpointGroups": None}, "security": {"users": None, "protected": None}},
    {"exposure": {"annotations": None, "allowedCidrs": None}},
    {"config": None, "commonLabels": None, "commonAnnotations": None, "extraObjects": None},
    {"shutdown": None, "pod": {"securityContext": None}},
    {"image": {"tag": None, "registry": None, "digest": None}, "nameOverride": None},
]
"""What null may take away."""
NOT_SET: Final[Values] = {
    **dict.fromkeys(("tls", "clusterState", "restoreFrom", "license", "pausedUntil")),
    "persistence": {"backup": None, "storageClassName": None},
    "exposure": {"nodePort": None, "loadBalancerClass": None},
    "shutdown": {"drainSeconds": None},
    "pod": {"affinity": None, "priorityClassName": None, "dnsConfig": None},
}
"""What a second values file says to take away what the first one has set."""

EXPANDED: Final = re.compile(r"\$\(\w+\)")
"""A variable in another one's value, which Kubernetes replaces."""
FILES: Final = sorted((CHARTS / "grid" / "ci").glob("statefulset-*-values.yaml"))


def of_kind(objects: Objects, kind: str) -> Objects:
    return [one for one in objects if one["kind"] == kind]


def pod_of(objects: Objects) -> dict[str, Any]:
    (found,) = of_kind(objects, "StatefulSet")
    return dict(found["spec"]["template"])


def config_of(objects: Objects) -> dict[str, Any]:
    (found,) = (o for o in of_kind(objects, "ConfigMap") if "check" not in o["metadata"]["name"])
    return dict(yaml.safe_load(found["data"]["grid.yaml"])["grid"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_members_take_the_configuration_of_each_values_file(grid_chart: Helm, file: Path) -> None:
    objects = grid_chart.objects(yaml.safe_load(file.read_text(encoding="utf-8")), "--no-hooks")
    (text,) = (one["data"]["grid.yaml"] for one in objects if "grid.yaml" in one.get("data", {}))
    (container, *_) = pod_of(objects)["spec"]["containers"]
    variables = {one["name"]: one.get("value", "x") for one in container["env"]}
    resolved = {name: EXPANDED.sub("x", value) for name, value in variables.items()}

    assert parse_config(text, "grid.yaml", resolved).cluster_name


@pytest.mark.parametrize(("values", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_cannot_be_kept_is_refused_by_name(
    grid_chart: Helm, values: Values, words: str
) -> None:
    assert words in grid_chart.refusal(values)


@pytest.mark.parametrize("values", LEFT_OUT, ids=str)
def test_null_takes_what_may_be_missing_away(grid_chart: Helm, values: Values) -> None:
    assert grid_chart.objects(values)


@pytest.mark.parametrize("values", [THREE, {"mode": "GridCluster"}], ids=["members", "operator"])
def test_null_of_what_has_no_default_is_nothing(grid_chart: Helm, values: Values) -> None:
    assert grid_chart.objects({**values, **NOT_SET}) == grid_chart.objects(values)


def test_rendering_twice_is_the_same(grid_chart: Helm) -> None:
    values = {**THREE, **KEPT, **MANAGED, **TLS, "security": {"enabled": True}}

    assert grid_chart.text(values) == grid_chart.text(values)
    assert of_kind(grid_chart.objects(values), "Secret") == []


def test_policy_and_budget_can_be_left_to_others(grid_chart: Helm) -> None:
    both = {"networkPolicy": {"enabled": False}, "disruption": {"enabled": False}}
    kinds = {one["kind"] for one in grid_chart.objects({**THREE, **both})}

    assert not kinds & {"NetworkPolicy", "PodDisruptionBudget"}


def test_updates_stop_at_the_partition_and_need_not_wait(grid_chart: Helm) -> None:
    objects = grid_chart.objects({**THREE, "update": {"partition": 2, "waitForSafeSeconds": 0}})
    (found,) = of_kind(objects, "StatefulSet")
    pod = pod_of(objects)["spec"]

    assert found["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 2}
    assert "lifecycle" not in pod["containers"][0]
    assert pod["terminationGracePeriodSeconds"] == 60


def test_configuration_of_ones_own_is_added_last(grid_chart: Helm) -> None:
    values = {
        **THREE,
        "maps": [{"name": "a"}],
        "config": {
            "limits": {"value-bytes": 62914560},
            "network": {"cluster": {"port": {"port-count": 1}}},
            "map": {"a": {"backup-count": 0}, "b": {"max-idle-seconds": 7}},
        },
    }
    config = config_of(grid_chart.objects(values))

    assert config["network"]["cluster"] == {"port": {"port": 5704, "port-count": 1}}
    assert config["limits"] == {"value-bytes": 62914560}
    assert config["map"]["a"] == {
        "backup-count": 0,
        "max-idle-seconds": 0,
        "time-to-live-seconds": 0,
    }
    assert config["map"]["b"] == {"max-idle-seconds": 7}
    assert config["cluster-name"] == "dev"


def test_a_backup_begins_members_as_the_page_says(grid_chart: Helm) -> None:
    page = (CHARTS / "grid" / "README.md").read_text(encoding="utf-8")
    (shown,) = (
        text for text in re.findall(r"```yaml\n(.*?)```", page, re.S) if "restore-from" in text
    )
    values = yaml.safe_load(shown)
    objects = grid_chart.objects(values)
    (mount,) = values["pod"]["volumeMounts"]

    assert config_of(objects)["persistence"]["restore-from"].startswith(f"{mount['mountPath']}/")
    assert mount in pod_of(objects)["spec"]["containers"][0]["volumeMounts"]


def test_a_configuration_that_is_there_replaces_the_whole(grid_chart: Helm) -> None:
    objects = grid_chart.objects({"existingConfigMap": "mine"})
    other = grid_chart.objects({"existingConfigMap": "another"})
    (volume,) = (v for v in pod_of(objects)["spec"]["volumes"] if v["name"] == "config")

    assert of_kind(objects, "ConfigMap") == []
    assert volume["configMap"] == {"name": "mine"}
    assert pod_of(objects)["metadata"] != pod_of(other)["metadata"]


def test_a_changed_configuration_replaces_the_pods_and_a_chart_does_not(grid_chart: Helm) -> None:
    before = pod_of(grid_chart.objects(THREE))["metadata"]
    after = pod_of(grid_chart.objects({**THREE, "logging": {"level": "Debug"}}))["metadata"]

    assert before != after
    assert "0.2.0" not in str(before)


def test_the_monitor_finds_the_members(grid_chart: Helm) -> None:
    wanted = {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "interval": "15s",
        "relabelings": [{"targetLabel": "a", "replacement": "{{ b }}"}],
        "metricRelabelings": [{"action": "drop", "regex": "x"}],
    }
    objects = grid_chart.objects({**THREE, "podMonitor": wanted})
    (found,) = of_kind(objects, "PodMonitor")
    (endpoint,) = found["spec"]["podMetricsEndpoints"]
    pod = pod_of(objects)

    selected = found["spec"]["selector"]["matchLabels"]
    assert selected.items() <= pod["metadata"]["labels"].items()
    assert endpoint["port"] in {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    assert found["metadata"]["labels"]["release"] == "prometheus"
    assert endpoint["interval"] == "15s"
    assert [r["targetLabel"] for r in endpoint["relabelings"]] == ["cluster", "a"]
    assert endpoint["metricRelabelings"] == wanted["metricRelabelings"]


@pytest.mark.parametrize("mode", ["StatefulSet", "GridCluster"])
def test_a_certificate_is_for_the_names_of_members_and_service(grid_chart: Helm, mode: str) -> None:
    issuer = {"name": "ca", "kind": "ClusterIssuer"}
    tls = {"secretName": "for-members", "certManager": {"issuerRef": issuer}}
    objects = grid_chart.objects({"mode": mode, "tls": tls})
    (found,) = of_kind(objects, "Certificate")

    assert found["spec"]["secretName"] == "for-members"
    assert found["spec"]["dnsNames"] == ["*.demo-members.grids.svc", "demo.grids.svc"]
    assert found["spec"]["issuerRef"] == issuer
    for cluster in of_kind(objects, "GridCluster"):
        assert cluster["spec"]["tls"] == {"secretName": "for-members"}
    assert "Certificate" not in {one["kind"] for one in grid_chart.objects({"mode": mode, **TLS})}


@pytest.mark.parametrize("mode", ["StatefulSet", "GridCluster"])
def test_further_objects_are_templates(grid_chart: Helm, mode: str) -> None:
    tree = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": '{{ include "grid.name" . }}-a'},
    }
    text = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ .Release.Name }}-b\n"
    objects = grid_chart.objects({"mode": mode, "extraObjects": [tree, text]})

    names = [one["metadata"]["name"] for one in of_kind(objects, "Secret")]
    assert names == ["demo-a", "demo-b"]


def test_common_labels_reach_no_pod_and_no_claim(grid_chart: Helm) -> None:
    common = {"commonLabels": {"team": "a"}, "commonAnnotations": {"b": "c"}}
    objects = grid_chart.objects({**THREE, **KEPT, **common})
    (found,) = of_kind(objects, "StatefulSet")
    (claim,) = found["spec"]["volumeClaimTemplates"]

    assert {one["metadata"]["labels"]["team"] for one in objects} == {"a"}
    assert {one["metadata"]["annotations"]["b"] for one in objects} == {"c"}
    for metadata in (pod_of(objects)["metadata"], claim["metadata"]):
        assert "team" not in metadata["labels"]
        assert "b" not in metadata.get("annotations", {})


def test_notes_say_how_to_wait(grid_chart: Helm) -> None:
    assert "kubectl rollout status -n grids" in grid_chart.notes({})
