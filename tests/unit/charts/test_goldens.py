"""What each values file of the charts renders, to be read in the diff of a change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from tests.unit.charts.conftest import CHARTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.helm.running import Helm

pytestmark = pytest.mark.timeout(60, func_only=True)

FILES: Final = sorted(CHARTS.glob("*/ci/*-values.yaml"))
FROM_OTHER_FILES: Final = {"CustomResourceDefinition", "PrometheusRule"}


def named(file: Path) -> str:
    return f"{file.parts[-3]}-{file.stem.removesuffix('-values')}"


def is_of_another_file(one: dict[str, Any]) -> bool:
    """Tell whether it is written from the API types or `monitoring/`, and compared with that."""
    is_dashboard = any(key.endswith(".json") for key in one.get("data", {}))
    return is_dashboard or one["kind"] in FROM_OTHER_FILES


def order(one: dict[str, Any]) -> tuple[str, str, str]:
    return one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]


@pytest.mark.parametrize("file", FILES, ids=named)
def test_rendered_objects_are_recorded(
    grid_chart: Helm, check_golden: Callable[[str, object], None], file: Path
) -> None:
    chart = replace(grid_chart, chart=file.parents[1])
    objects = chart.objects(yaml.safe_load(file.read_text(encoding="utf-8")))

    recorded = [one for one in objects if not is_of_another_file(one)]
    check_golden(named(file), sorted(recorded, key=order))
