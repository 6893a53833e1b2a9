"""The operator's chart renders the rules and dashboards of `monitoring/`, or changed as asked."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from grid_operator.api.names import CLUSTER_LABEL
from tests.e2e.provider.commands import succeeds
from tests.helm.monitoring import copied_files, present_files
from tests.prometheus.files import RULES, alert_names, dashboards, rules
from tests.prometheus.program import promtool_program
from tests.prometheus.scrapes import OF_A_MEMBER, OF_A_POD

if TYPE_CHECKING:
    from pathlib import Path

    from tests.helm.running import Helm

pytestmark = pytest.mark.timeout(300, func_only=True)

RULE_ON = {"rules": {"enabled": True}}


def of_kind(chart: Helm, kind: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in chart.objects(values) if one["kind"] == kind]


def prometheus_rule(chart: Helm, **values: Any) -> dict[str, Any]:
    (found,) = of_kind(chart, "PrometheusRule", {"rules": {"enabled": True, **values}})
    return found


def rendered_rules(rule: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for group in rule["spec"]["groups"] for one in group["rules"]]


def test_the_copies_in_the_charts_are_equal() -> None:
    assert present_files() == copied_files(), "run make manifests"


def test_both_are_off_unless_asked_for(operator_chart: Helm) -> None:
    kinds = {one["kind"] for one in operator_chart.objects()}

    assert not kinds & {"PrometheusRule", "ConfigMap"}


def test_the_rules_are_rendered_as_they_are(operator_chart: Helm, tmp_path: Path) -> None:
    spec = prometheus_rule(operator_chart)["spec"]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(spec))

    assert spec == yaml.safe_load(RULES.read_text(encoding="utf-8"))
    assert succeeds(promtool_program(), "check", "rules", file)


def test_alerts_can_be_left_out(operator_chart: Helm) -> None:
    without = ["GridCommitsSlow", "GridMembersMissing"]
    left = rendered_rules(prometheus_rule(operator_chart, disabled=without))

    assert left == [rule for rule in rules() if rule.get("alert") not in without]


def test_a_group_without_a_rule_is_left_out(operator_chart: Helm) -> None:
    spec = prometheus_rule(operator_chart, disabled=alert_names())["spec"]

    assert [group["name"] for group in spec["groups"]] == ["grid-members"]
    assert ["record" in rule for rule in spec["groups"][0]["rules"]] == [True]


def test_alerts_get_more_labels_and_the_address_of_their_pages(operator_chart: Helm) -> None:
    given = {"alertLabels": {"team": "data"}, "runbookUrl": "https://docs.example.com/grid/"}
    found = rendered_rules(prometheus_rule(operator_chart, **given))

    for rule, source in zip(found, rules(), strict=True):
        if "alert" not in source:
            assert rule == source
            continue
        assert rule["labels"] == {**source["labels"], "team": "data"}
        url = f"https://docs.example.com/grid/{source['alert']}.md"
        assert rule["annotations"] == {**source["annotations"], "runbook_url": url}


def test_what_is_read_of_members_gets_the_label_cluster(operator_chart: Helm) -> None:
    """The rules and dashboards go by it, and by the labels that Prometheus gives to every pod."""
    monitors = of_kind(operator_chart, "PodMonitor", {"podMonitor": {"enabled": True}})
    (of_members,) = (one for one in monitors if one["metadata"]["name"] == "grid-members")
    (endpoint,) = of_members["spec"]["podMetricsEndpoints"]
    label = re.sub(r"\W", "_", CLUSTER_LABEL)

    assert endpoint["relabelings"] == [
        {"sourceLabels": [f"__meta_kubernetes_pod_label_{label}"], "targetLabel": "cluster"}
    ]
    assert {"cluster"} == OF_A_MEMBER - OF_A_POD


def test_the_schema_knows_every_alert(operator_chart: Helm) -> None:
    schema = json.loads((operator_chart.chart / "values.schema.json").read_text(encoding="utf-8"))

    assert schema["properties"]["rules"]["properties"]["disabled"]["items"]["enum"] == alert_names()


def test_each_dashboard_is_a_configmap(operator_chart: Helm) -> None:
    asked = {"enabled": True, "namespace": "grafana", "annotations": {"grafana_folder": "Grid"}}
    found = of_kind(operator_chart, "ConfigMap", {"dashboards": asked})

    assert {
        path.removesuffix(".json"): json.loads(text)
        for one in found
        for path, text in one["data"].items()
    } == dashboards()
    for one in found:
        assert one["metadata"]["namespace"] == "grafana"
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert one["metadata"]["annotations"] == {"grafana_folder": "Grid"}
