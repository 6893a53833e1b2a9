"""The copy of `monitoring/` in the operator's chart: Helm reads files of its chart only."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.prometheus.files import DASHBOARDS, ROOT, RULES

COPIES: Final = ROOT / "charts" / "grid-operator" / "monitoring"


def copied_files() -> dict[Path, str]:
    """Return the text of each file, by its path below `COPIES`."""
    dashboards = sorted(DASHBOARDS.glob("*.json"))
    return {
        Path(RULES.name): RULES.read_text(encoding="utf-8"),
        **{Path("dashboards", one.name): one.read_text(encoding="utf-8") for one in dashboards},
    }


def copy_monitoring() -> None:
    """Write every file, and remove those that are no more."""
    files = copied_files()
    for there in (path for path in COPIES.rglob("*") if path.is_file()):
        if there.relative_to(COPIES) not in files:
            there.unlink()
    for path, text in files.items():
        (COPIES / path).parent.mkdir(parents=True, exist_ok=True)
        (COPIES / path).write_text(text, encoding="utf-8")
