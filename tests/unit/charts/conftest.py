from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.helm.program import helm_program
from tests.helm.running import Helm

CHARTS: Final = Path(__file__).parents[3] / "charts"


@pytest.fixture(scope="session")
def operator_chart(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """The operator's chart, with helm built from its Go module."""
    return Helm(helm_program(), CHARTS / "grid-operator", tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def grid_chart(operator_chart: Helm) -> Helm:
    """The chart of members."""
    return replace(operator_chart, chart=CHARTS / "grid", release="demo", namespace="grids")
