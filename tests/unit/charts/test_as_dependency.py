"""The charts as dependencies of another one, as umbrella charts have them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.charts.conftest import CHARTS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.helm.running import Helm

pytestmark = pytest.mark.timeout(60, func_only=True)

VERSION = "0.2.0"


@pytest.fixture
def umbrella(grid_chart: Helm, tmp_path: Path) -> Helm:
    """A chart with two clusters and the operator, each with its condition."""
    chart = tmp_path / "umbrella"
    for name in ("grid", "grid-operator"):
        shutil.copytree(CHARTS / name, chart / "charts" / name)
    wanted: list[dict[str, str]] = [
        {"name": "grid", "alias": "orders", "condition": "orders.enabled"},
        {"name": "grid", "alias": "carts", "condition": "carts.enabled"},
        {"name": "grid-operator", "condition": "grid-operator.enabled"},
    ]
    dependencies = [{**one, "version": VERSION} for one in wanted]
    meta = {"apiVersion": "v2", "name": "umbrella", "version": "1.0.0"}
    # JSON is YAML, too.
    (chart / "Chart.yaml").write_text(json.dumps({**meta, "dependencies": dependencies}))
    return replace(grid_chart, chart=chart)


def test_each_has_its_condition_and_the_registry_of_all(umbrella: Helm) -> None:
    values: dict[str, Any] = {
        "global": {"imageRegistry": "mirror.example", "of": "others"},
        "orders": {"enabled": True, "nameOverride": "orders"},
        "carts": {"enabled": True, "nameOverride": "carts", "mode": "GridCluster"},
        "grid-operator": {"enabled": False},
    }
    found = umbrella.objects(values)
    (orders,) = (one for one in found if one["kind"] == "StatefulSet")
    (carts,) = (one for one in found if one["kind"] == "GridCluster")
    (container,) = orders["spec"]["template"]["spec"]["containers"]

    assert (orders["metadata"]["name"], carts["metadata"]["name"]) == ("orders", "carts")
    assert container["image"] == carts["spec"]["image"] == f"mirror.example/grid-member:{VERSION}"
    assert "enabled" not in carts["spec"]
    assert not any(one["kind"] == "Deployment" for one in found)
    values["grid-operator"]["enabled"] = True
    assert any(one["kind"] == "Deployment" for one in umbrella.objects(values))


def test_alone_a_chart_is_not_disabled(grid_chart: Helm, operator_chart: Helm) -> None:
    for chart in (grid_chart, operator_chart):
        assert "here it takes nothing away; remove it" in chart.refusal({"enabled": False})
