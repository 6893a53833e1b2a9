"""What holds for all tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest
import yaml
from hypothesis import settings

import grid_member.engine.api  # noqa: F401  # from its source: compiled modules are for processes

if TYPE_CHECKING:
    from collections.abc import Callable

UPDATE_GOLDEN: Final = "--update-golden"

# Members that tests start run what members of users run.
if os.environ.get("CI"):
    os.environ.setdefault("GRID_COMPILED", "required")

# How long an example takes says more about the machine and its other work than about the code. The
# rest is what the environment asks for, such as the same examples each time on a build server.
settings.register_profile(
    "grid", settings.get_profile(settings.get_current_profile_name()), deadline=None
)
settings.load_profile("grid")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(UPDATE_GOLDEN, action="store_true", help="write the golden files anew")


@pytest.fixture
def check_golden(request: pytest.FixtureRequest) -> Callable[[str, object], None]:
    """Compare with golden/NAME.yaml beside the test, or write that file with --update-golden."""
    update = request.config.getoption(UPDATE_GOLDEN)
    directory = request.path.parent / "golden"

    def check(name: str, found: object) -> None:
        path = directory / f"{name}.yaml"
        if update:
            directory.mkdir(exist_ok=True)
            path.write_text(yaml.safe_dump(found, sort_keys=False, width=100), encoding="utf-8")
        assert yaml.safe_load(path.read_text(encoding="utf-8")) == found

    return check
