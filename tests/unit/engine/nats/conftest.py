from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.engine.nats.served import Scripted, Served

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    server = Served(tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def scripted() -> AsyncIterator[Scripted]:
    peer = Scripted()
    await peer.start()
    yield peer
    await peer.close()
