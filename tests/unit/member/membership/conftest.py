from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.member.membership.several import Several

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def several() -> AsyncIterator[Several]:
    """A cluster without members yet; they end with the test."""
    made = Several()
    yield made
    await made.close()
