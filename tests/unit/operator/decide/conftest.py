from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.e2e.provider.binaries import built_module, cache_root

SOURCES: Final = Path(__file__).parents[1] / "kstatus"
PROGRAM: Final = "kstatus"


@pytest.fixture(scope="session")
def kstatus() -> Path:
    """The program that judges objects as Helm and Flux do, built from its Go module."""
    return built_module(SOURCES, cache_root() / "kstatus", (".",), (PROGRAM,)) / PROGRAM
