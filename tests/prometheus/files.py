"""The rules and dashboards that are committed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
MONITORING: Final = ROOT / "monitoring"
RULES: Final = MONITORING / "rules.yaml"
TESTS: Final = MONITORING / "tests"
DASHBOARDS: Final = MONITORING / "dashboards"
RUNBOOKS: Final = ROOT / "docs" / "runbooks"


@dataclass(frozen=True, slots=True)
class Expression:
    """One expression in PromQL, and where it is."""

    place: str
    text: str


def rules() -> list[dict[str, Any]]:
    """Return all rules of all groups."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    """Return the rules that alert; two may have one name, with another severity."""
    return [rule for rule in rules() if "alert" in rule]


def alert_names() -> list[str]:
    """Return the name of each alert once, sorted."""
    return sorted({alert["alert"] for alert in alerts()})


def recorded() -> set[str]:
    """Return the names of the metrics that rules make."""
    return {rule["record"] for rule in rules() if "record" in rule}


def dashboards() -> dict[str, dict[str, Any]]:
    """Return each dashboard by the name of its file."""
    paths = sorted(DASHBOARDS.glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def panels(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the panels, those inside of rows too."""
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", ())


def with_ranges(expression: str) -> str:
    """Return an expression of a panel with a range where Grafana writes one."""
    return expression.replace("$__rate_interval", "5m")


def of_values(query: str) -> str:
    """Return the PromQL that means the same as Grafana's `label_values(selector, label)`."""
    found = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
    assert found, query
    return f"count by ({found[2]}) ({found[1]})"


def expressions() -> list[Expression]:
    """Return every expression of the rules and the dashboards."""
    found = [Expression(rule.get("alert") or rule["record"], rule["expr"]) for rule in rules()]
    for name, dashboard in dashboards().items():
        found += (
            Expression(f"{name}: {panel['title']}", with_ranges(target["expr"]))
            for panel in panels(dashboard)
            for target in panel.get("targets", ())
        )
        found += (
            Expression(f"{name}: ${variable['name']}", of_values(variable["query"]["query"]))
            for variable in dashboard["templating"]["list"]
            if variable["type"] == "query"
        )
    return found
