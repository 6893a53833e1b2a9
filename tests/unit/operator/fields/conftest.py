from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.operator.fields.pods import RunningPod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[RunningPod]:
    running = RunningPod(tmp_path)
    yield running
    running.kill()
