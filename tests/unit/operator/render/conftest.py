from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.api.objects import KubeObject

GOLDEN_DIR = Path(__file__).parent / "golden"
OPTION = "--update-golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help="write the golden files anew")


@pytest.fixture
def check_golden(request: pytest.FixtureRequest) -> Callable[[str, KubeObject], None]:
    """Compare an object with golden/NAME.yaml, or write that file with --update-golden."""
    update = request.config.getoption(OPTION, default=False)

    def check(name: str, obj: KubeObject) -> None:
        path = GOLDEN_DIR / f"{name}.yaml"
        if update:
            path.write_text(yaml.safe_dump(obj, sort_keys=False, width=100), encoding="utf-8")
        assert yaml.safe_load(path.read_text(encoding="utf-8")) == obj

    return check
