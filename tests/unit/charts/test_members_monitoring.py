"""The chart of members renders the rules about members and a dashboard, of its cluster alone."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.prometheus.expressions import matchers, metrics
from tests.prometheus.files import RULES, TESTS, dashboards
from tests.prometheus.program import promtool_program

if TYPE_CHECKING:
    from pathlib import Path

    from tests.helm.running import Helm

pytestmark = pytest.mark.timeout(300, func_only=True)

RUN_LIMIT_S = 50.0
GROUP = "grid-members"
(SOURCE,) = (
    group["rules"]
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    if group["name"] == GROUP
)
NAMES = sorted({rule["alert"] for rule in SOURCE if "alert" in rule})


@pytest.fixture(scope="session")
def orders(grid_chart: Helm) -> Helm:
    """The release whose series the tests of the rules write."""
    return replace(grid_chart, release="orders", namespace="shop")


def of_kind(chart: Helm, kind: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in chart.objects(values) if one["kind"] == kind]


def rendered(chart: Helm, **values: Any) -> list[dict[str, Any]]:
    (found,) = of_kind(chart, "PrometheusRule", {"rules": {"enabled": True, **values}})
    (group,) = found["spec"]["groups"]
    assert group["name"] == GROUP
    return list(group["rules"])


def dashboard(chart: Helm, **values: Any) -> dict[str, Any]:
    objects = of_kind(chart, "ConfigMap", {"dashboard": {"enabled": True, **values}})
    (found,) = (one for one in objects if one["metadata"]["name"].endswith("-dashboard"))
    (text,) = found["data"].values()
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    return dict(json.loads(text))


def played(rules: list[dict[str, Any]], tests: list[Path], place: Path) -> str:
    """Return what promtool says of tests of other rules, nothing when it is content."""
    (place / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": GROUP, "rules": rules}]}))
    (place / "tests").mkdir()
    copies = []
    for test in tests:
        copies.append(place / "tests" / test.name)
        copies[-1].write_bytes(test.read_bytes())
    ran = subprocess.run(
        [promtool_program(), "test", "rules", *copies],
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
        check=False,
    )
    return ran.stdout + ran.stderr if ran.returncode else ""


def files(*names: str) -> list[Path]:
    return [TESTS / f"{name}.yaml" for name in names]


def test_both_are_off_unless_asked_for(grid_chart: Helm) -> None:
    objects = grid_chart.objects()

    assert not [one for one in objects if one["kind"] == "PrometheusRule"]
    assert not [one for one in objects if one["metadata"]["name"].endswith("-dashboard")]


def test_the_rules_are_those_about_members(orders: Helm) -> None:
    found = rendered(orders)

    assert [{**rule, "expr": ""} for rule in found] == [{**rule, "expr": ""} for rule in SOURCE]


def test_every_series_is_of_the_own_cluster(orders: Helm) -> None:
    for rule, source in zip(rendered(orders), SOURCE, strict=True):
        own = {"namespace": "shop", "cluster": "orders"}
        for metric in metrics(source["expr"]):
            named = source["expr"].count(metric)
            for label, value in own.items():
                asked = [
                    one
                    for one in matchers(rule["expr"])
                    if (one.metric, one.label, one.operation, one.value)
                    == (metric, label, "=", value)
                ]
                assert len(asked) == named, rule["expr"]


def test_they_fire_as_the_source_does(orders: Helm, tmp_path: Path) -> None:
    assert played(rendered(orders), files(*NAMES), tmp_path) == ""


def test_they_do_not_fire_for_another_cluster(orders: Helm, tmp_path: Path) -> None:
    others = rendered(replace(orders, release="orders2"))
    fired = [
        case
        for test in files(*NAMES)
        for one in yaml.safe_load(test.read_text(encoding="utf-8"))["tests"]
        for case in one["alert_rule_test"]
        if case["exp_alerts"]
    ]

    assert played(others, files(*NAMES), tmp_path).count("got:[]") == len(fired)


def test_alerts_can_be_changed_and_left_out(orders: Helm) -> None:
    found = rendered(
        orders,
        disabled=["GridCommitsSlow"],
        alertLabels={"team": "data"},
        runbookUrl="https://docs.example.com/",
    )
    alerts = [rule for rule in found if "alert" in rule]

    assert {rule["alert"] for rule in alerts} == {*NAMES} - {"GridCommitsSlow"}
    for rule in alerts:
        assert rule["labels"]["team"] == "data"
        assert rule["labels"]["severity"] in {"warning", "critical"}
        page = f"https://docs.example.com/{rule['alert']}.md"
        assert rule["annotations"]["runbook_url"] == page


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"rules": {"enabled": True, "disabled": ["GridNoOperator"]}},
            "rules.disabled: GridNoOperator is no alert about members, which are GridMemberNotR",
        ),
        ({"rules": {"alertLabels": {"severity": "a"}}}, "rules.alertLabels may not hold severity"),
        ({"rules": {"alertLabels": {"my-team": "a"}}}, "additional properties 'my-team' not"),
        ({"rules": {"runbookUrl": "docs"}}, "'/rules/runbookUrl'"),
        (
            {"rules": {"enabled": True}, "metrics": {"enabled": False}},
            "rules.enabled has nothing to go by while metrics.enabled is false",
        ),
        (
            {"dashboard": {"enabled": True}, "metrics": {"enabled": False}},
            "dashboard.enabled has nothing to go by while metrics.enabled is false",
        ),
        ({"mode": "GridCluster", "rules": {"enabled": True}}, "rules.enabled needs mode: Stateful"),
        (
            {"mode": "GridCluster", "dashboard": {"enabled": True}},
            "dashboard.enabled needs mode: StatefulSet",
        ),
    ],
)
def test_what_cannot_work_is_refused(grid_chart: Helm, values: dict[str, Any], words: str) -> None:
    assert words in grid_chart.refusal(values)


@pytest.mark.parametrize("field", ["labels", "disabled", "alertLabels", "runbookUrl"])
def test_null_takes_what_may_be_missing_away(orders: Helm, field: str) -> None:
    assert rendered(orders, **{field: None}) == rendered(orders)


def test_the_dashboard_shows_the_own_cluster(orders: Helm) -> None:
    found, source = dashboard(orders), dashboards()["grid-cluster"]
    chosen = {
        variable["name"]: variable["current"]["value"]
        for variable in found["templating"]["list"]
        if variable["current"]
    }

    assert chosen == {"namespace": "shop", "cluster": "orders"}
    assert found["title"] == "Grid cluster shop/orders"
    assert found["links"] == []
    for variable in found["templating"]["list"]:
        variable["current"] = {}
    changed = {key: source[key] for key in ("uid", "title", "links")}
    assert {**found, **changed} == source


def test_no_two_clusters_have_one_dashboard(orders: Helm) -> None:
    releases = [
        orders,
        replace(orders, release="orders2"),
        replace(orders, namespace="shop2"),
    ]
    found = {dashboard(one)["uid"] for one in releases}

    assert len(found) == len(releases)
    assert max(map(len, found)) <= 40, "Grafana takes no longer one"
