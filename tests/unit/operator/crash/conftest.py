"""The processes that members and operators are forked from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit.operator.crash.processes import Forker

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def members() -> Iterator[Forker]:
    forker = Forker(Path(__file__).with_name("held_member.py"))
    yield forker
    forker.end()


@pytest.fixture(scope="module")
def operators() -> Iterator[Forker]:
    forker = Forker(Path(__file__).with_name("program.py"))
    yield forker
    forker.end()
