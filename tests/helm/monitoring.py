"""The copies of `monitoring/` in the charts: Helm reads files of its chart only."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.prometheus.files import DASHBOARDS, ROOT, RULES

CHARTS: Final = ROOT / "charts"
DIRECTORY: Final = "monitoring"
OF_MEMBERS: Final = "grid-cluster.json"
"""The dashboard of one cluster, the only one that the chart of members has."""


def copied_files() -> dict[Path, str]:
    """Return the text of each file, by its path below `CHARTS`."""
    rules = RULES.read_text(encoding="utf-8")
    dashboards = {one.name: one.read_text(encoding="utf-8") for one in DASHBOARDS.glob("*.json")}
    return {
        Path("grid-operator", DIRECTORY, RULES.name): rules,
        Path("grid", DIRECTORY, RULES.name): rules,
        Path("grid", DIRECTORY, "dashboards", OF_MEMBERS): dashboards[OF_MEMBERS],
        **{
            Path("grid-operator", DIRECTORY, "dashboards", name): text
            for name, text in dashboards.items()
        },
    }


def present_files() -> dict[Path, str]:
    """Return the files that the charts have now, as `copied_files` does."""
    there = (path for path in CHARTS.glob(f"*/{DIRECTORY}/**/*") if path.is_file())
    return {path.relative_to(CHARTS): path.read_text(encoding="utf-8") for path in there}


def copy_monitoring() -> None:
    """Write every file, and remove those that are no more."""
    files = copied_files()
    for gone in present_files().keys() - files.keys():
        (CHARTS / gone).unlink()
    for path, text in files.items():
        (CHARTS / path).parent.mkdir(parents=True, exist_ok=True)
        (CHARTS / path).write_text(text, encoding="utf-8")
