"""The dashboards can be imported as they are, into every Grafana, beside others."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.prometheus.expressions import grouping_labels
from tests.prometheus.files import Expression, dashboards, expressions, panels, rules

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.monitoring.conftest import Promtool

DASHBOARDS = dashboards()
BUILT_IN = {"__rate_interval"}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
GRID_COLUMNS = 24

each = pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)


def objects(tree: Any) -> list[dict[str, Any]]:
    if isinstance(tree, list):
        return [found for one in tree for found in objects(one)]
    if isinstance(tree, dict):
        return [tree, *(found for one in tree.values() for found in objects(one))]
    return []


def test_there_are_three_each_named_as_its_file() -> None:
    assert {name: d["title"] for name, d in DASHBOARDS.items()} == {
        "grid-cluster": "Grid cluster",
        "grid-clusters": "Grid clusters",
        "grid-operator": "Grid operator",
    }
    assert [d["uid"] for d in DASHBOARDS.values()] == list(DASHBOARDS)


@each
def test_it_belongs_to_no_one_installation(dashboard: dict[str, Any]) -> None:
    named = [found["datasource"] for found in objects(dashboard) if "datasource" in found]

    assert named
    assert [source for source in named if source != SOURCE] == []
    assert "id" not in dashboard
    assert not {"__inputs", "__requires"} & dashboard.keys()
    assert dashboard["tags"] == ["grid"]


@each
def test_panels_have_ids_and_places_of_their_own(dashboard: dict[str, Any]) -> None:
    found = list(panels(dashboard))
    taken = Counter(
        (x, y)
        for place in (panel["gridPos"] for panel in found)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    )

    assert len({panel["id"] for panel in found}) == len(found)
    titles = [panel["title"] for panel in found if panel["type"] != "row"]
    assert len(set(titles)) == len(titles)
    assert max(taken.values()) == 1
    assert max(x for x, _ in taken) < GRID_COLUMNS
    for panel in found:
        letters = [target["refId"] for target in panel.get("targets", ())]
        assert len(set(letters)) == len(letters)
        assert (panel["type"] == "row") == (not letters)


@each
def test_every_variable_is_used_and_every_used_one_is_there(dashboard: dict[str, Any]) -> None:
    text = json.dumps(dashboard)
    used = set(re.findall(r"\$\{?([A-Za-z_]\w*)", text)) - BUILT_IN
    names = [variable["name"] for variable in dashboard["templating"]["list"]]

    assert names[0] == "datasource"
    assert set(names) == used
    assert len(names) == len(set(names))


@each
def test_legends_show_labels_that_series_have(dashboard: dict[str, Any]) -> None:
    for panel in panels(dashboard):
        for target in panel.get("targets", ()):
            shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert shown <= grouping_labels(target["expr"]), panel["title"]


@each
def test_links_lead_to_the_others(dashboard: dict[str, Any]) -> None:
    linked = {link["url"].removeprefix("/d/") for link in dashboard["links"]}

    assert linked == DASHBOARDS.keys() - {dashboard["uid"]}


def test_promtool_understands_every_expression(promtool: Promtool, tmp_path: Path) -> None:
    file = tmp_path / "expressions.yaml"
    file.write_text(as_rules(expressions()))

    assert promtool("check", "rules", str(file)) == ""


def test_promtool_names_an_expression_that_is_none(promtool: Promtool, tmp_path: Path) -> None:
    file = tmp_path / "expressions.yaml"
    file.write_text(as_rules([Expression("here", "sum by (pod (grid_ready)")]))

    assert "parse error" in promtool("check", "rules", str(file))


def as_rules(found: list[Expression]) -> str:
    written = [{"record": f"panel:{n}", "expr": one.text} for n, one in enumerate(found)]
    return yaml.safe_dump({"groups": [{"name": "all", "rules": written}]})


def test_all_expressions_are_looked_at() -> None:
    """The rules and every text that is called an expression, wherever it is in a dashboard."""
    named = sum("expr" in found for found in objects(list(DASHBOARDS.values())))
    queries = sum("definition" in found for found in objects(list(DASHBOARDS.values())))

    assert len(expressions()) == len(rules()) + named + queries
