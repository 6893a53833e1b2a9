from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.engine.jetstream.worlds import World
from tests.unit.engine.nats.client.test_client import client_of
from tests.unit.engine.nats.served import DEADLINE_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.unit.engine.nats.served import Served


@pytest.fixture
async def world(served: Served) -> AsyncIterator[World]:
    client = client_of(served)
    client.start()
    await client.wait_connected(DEADLINE_S)
    world = World(client, served)
    await world.begin()
    yield world
    await world.close()
    await client.close()
