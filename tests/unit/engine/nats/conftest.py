from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.engine.nats.served import Scripted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def scripted() -> AsyncIterator[Scripted]:
    peer = Scripted()
    await peer.start()
    yield peer
    await peer.close()
