"""Rules and dashboards name only metrics that real members and a real operator have."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from grid_member.engine.wan.changes import MergeResult
from grid_operator.api.conditions import ConditionStatus, ConditionType
from grid_operator.api.status import OperationKind
from tests.prometheus.expressions import matchers, metrics
from tests.prometheus.files import ROOT, Expression, alert_names, expressions, recorded
from tests.prometheus.scrapes import OF_A_MEMBER, OF_A_POD, Scraped, problems
from tests.unit.monitoring.running import SIZE, members, operator_metrics, wan_metrics

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.monitoring.conftest import Promtool

pytestmark = pytest.mark.timeout(300, func_only=True)

OWN: Final = re.compile(r"grid_\w+")
VALUES: Final = {
    "type": [one.value for one in ConditionType],
    "status": [one.value for one in ConditionStatus],
    "kind": [one.value for one in OperationKind],
    "result": [one.value for one in MergeResult],
}
"""More values of labels: one scrape does not meet every condition and every operation."""
OF_THE_LIBRARY: Final = "_created"
"""The end of the names that Prometheus' library adds to counters and histograms by itself."""
PAGES: Final = {"member.md": "## Metrics", "operator.md": "## Metrics"}


TARGETS: Final = {
    "operator": {"namespace": "grid-system", "pod": "grid-operator-0"},
    "replicating": {"namespace": "grids", "cluster": "demo", "pod": "tokyo-0"},
    "receiving": {"namespace": "grids", "cluster": "demo", "pod": "london-0"},
    **{
        f"member {number}": {"namespace": "grids", "cluster": "demo", "pod": f"demo-{number}"}
        for number in range(SIZE)
    },
}
"""Labels that Prometheus would give."""
CHOSEN: Final = {"namespace": "grids", "cluster": "demo", "member": ".*", "operator": ".*"}
"""Values that a person chooses in a dashboard."""
NOTHING_IS_WRONG: Final = {
    "grid-clusters: Members that are not ready",
    "grid-operator: Watches that fail",
}
"""Panels that are empty then."""


def panel_expressions() -> list[Expression]:
    """Return the expressions of dashboards, with values in place of variables."""
    return [
        replace(one, text=re.sub(r"\$([a-z]+)", lambda found: CHOSEN[found[1]], one.text))
        for one in expressions()
        if ": " in one.place
    ]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The metrics of each process: members and an operator."""
    with members(tmp_path_factory.mktemp("members")) as up:
        told = {f"member {number}": up.metrics(number) for number in range(SIZE)}
    place = tmp_path_factory.mktemp("operator")
    told["replicating"], told["receiving"] = asyncio.run(wan_metrics())
    return {**told, "operator": asyncio.run(operator_metrics(place))}


@pytest.fixture(scope="module")
def scraped(texts: dict[str, str]) -> Scraped:
    found = Scraped()
    for process, text in texts.items():
        found.add(text, OF_A_POD if process == "operator" else OF_A_MEMBER)
    for name in recorded():
        found.know(name, namespace=set(), cluster=set())
    found.know("ALERTS", alertname=set(alert_names()), alertstate={"pending", "firing"})
    return found


def complaints(scraped: Scraped) -> list[str]:
    return [
        f"{one.place}: {problem}"
        for one in expressions()
        for problem in problems(one.text, scraped, VALUES)
    ]


def test_promtool_has_nothing_against_what_they_tell(
    promtool: Promtool, texts: dict[str, str]
) -> None:
    assert {
        process: promtool("check", "metrics", given=text) for process, text in texts.items()
    } == (dict.fromkeys(texts, ""))


def test_every_metric_label_and_value_is_there(scraped: Scraped) -> None:
    assert complaints(scraped) == []


def test_a_metric_with_another_name_is_missed(scraped: Scraped) -> None:
    users = {name: one for one in expressions() for name in metrics(one.text)}

    for name, one in users.items():
        missed = f"no scrape has the metric {name}"
        assert missed in list(problems(one.text, scraped.without(name), VALUES))


def test_a_label_with_another_name_is_missed(scraped: Scraped) -> None:
    asked = {(m.metric, m.label): one for one in expressions() for m in matchers(one.text)}
    own = {
        (metric, label): one
        for (metric, label), one in asked.items()
        if label in scraped.labels[metric] and label not in scraped.targets[metric]
    }
    assert own

    for (metric, label), one in own.items():
        renamed = {name: found for name, found in scraped.labels[metric].items() if name != label}
        other = Scraped({**scraped.labels, metric: renamed}, scraped.targets)
        missed = f"{metric} has no label {label}"
        assert missed in list(problems(one.text, other, VALUES))


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("grid_raedy", "no scrape has the metric grid_raedy"),
        ("summ(grid_ready)", "no scrape has the metric summ"),
        ('grid_ready{pdo="a"}', "grid_ready has no label pdo"),
        ('grid_cluster_size{cluster="a"}', "grid_cluster_size has no label cluster"),
        ("sum by (member) (grid_ready)", "no metric has the label member"),
        ('grid_cluster_state{state="pasive"}', "grid_cluster_state has no state that is pasive"),
        ('grid_requests_total{status=~"5..|9.."}', "grid_requests_total has no status that is 9.."),
        ('grid_cluster_condition{type="Redy"}', "grid_cluster_condition has no type that is Redy"),
    ],
)
def test_what_is_wrong_is_named(scraped: Scraped, expression: str, problem: str) -> None:
    assert list(problems(expression, scraped, VALUES)) == [problem]


def test_every_panel_shows_something(
    promtool: Promtool, texts: dict[str, str], tmp_path: Path
) -> None:
    """With the metrics of a healthy cluster and its operator; no expression may fail either."""
    assert {one.place for one in panel_expressions()} > NOTHING_IS_WRONG
    shown = [one for one in panel_expressions() if one.place not in NOTHING_IS_WRONG]
    file = tmp_path / "panels.yaml"
    file.write_text(as_test(texts, shown))

    assert promtool("test", "rules", str(file)) == ""


def test_a_panel_that_shows_nothing_is_found(
    promtool: Promtool, texts: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "panels.yaml"
    file.write_text(as_test(texts, [Expression("here", 'grid_ready{pod="demo-9"}')]))

    assert "FAILED" in promtool("test", "rules", str(file))


def as_test(texts: dict[str, str], shown: list[Expression]) -> str:
    """Return a test for promtool in which each expression has a result."""
    series: dict[str, str] = {}
    for process, text in texts.items():
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = ",".join(
                    f"{label}={json.dumps(value)}"
                    for label, value in {**TARGETS[process], **sample.labels}.items()
                )
                series[f"{sample.name}{{{labels}}}"] = f"{sample.value:f}x30"
    test = {
        "interval": "1m",
        "input_series": [{"series": key, "values": value} for key, value in series.items()],
        "promql_expr_test": [
            {
                "expr": f"count({one.text}) * 0 + 1",
                "eval_time": "25m",
                "exp_samples": [{"labels": "{}", "value": 1}],
            }
            for one in shown
        ],
    }
    return yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": [test]})


def test_the_pages_have_every_metric_and_no_other(texts: dict[str, str]) -> None:
    documented = set()
    for page, heading in PAGES.items():
        text = (ROOT / "docs" / page).read_text(encoding="utf-8").partition(f"\n{heading}\n")[2]
        rows = [line for line in text.partition("\n## ")[0].splitlines() if line.startswith("| `")]
        documented |= {name for row in rows for name in OWN.findall(row.split("|")[1])}
    told = {
        line.split()[2] for text in texts.values() for line in text.splitlines() if "# TYPE" in line
    }

    own = {name for name in told if OWN.fullmatch(name) and not name.endswith(OF_THE_LIBRARY)}
    assert documented == own
