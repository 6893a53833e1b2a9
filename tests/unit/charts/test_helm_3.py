"""Helm 3, in the oldest version that the charts' pages name, renders what Helm 4 renders."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
import yaml

from tests.helm.program import helm_program, helm_version
from tests.unit.charts.conftest import CHARTS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.helm.running import Helm

pytestmark = pytest.mark.timeout(60, func_only=True)

FILES: Final = sorted(CHARTS.glob("*/ci/*-values.yaml"))
PAGES: Final = sorted(CHARTS.glob("*/README.md"))


@pytest.fixture(scope="session")
def helm_3() -> Path:
    return helm_program(3)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parts[-3]}-{file.stem}")
def test_the_same_is_rendered(operator_chart: Helm, helm_3: Path, file: Path) -> None:
    """A function that Helm 3 lacks is an error, wherever in a template it is called."""
    chart = replace(operator_chart, chart=file.parents[1], release="demo")
    values = yaml.safe_load(file.read_text(encoding="utf-8"))

    assert replace(chart, program=helm_3).objects(values) == chart.objects(values)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parts[-3]}-{file.stem}")
def test_lint_has_nothing_to_say(operator_chart: Helm, helm_3: Path, file: Path) -> None:
    chart = replace(operator_chart, chart=file.parents[1], program=helm_3)

    assert chart.complaints(file) == ""


def test_the_pages_name_the_versions_that_are_tried() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"Helm (3\.\d+) or 4", pages))

    assert named == {helm_version(3).removeprefix("v").rpartition(".")[0]}
