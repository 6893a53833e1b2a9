from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grid_member.engine.integrity import watermarks
from tests.unit.engine.nats.notes import Servers, note_streams
from tests.unit.engine.nats.served import DEADLINE_S, Scripted, Served
from tests.unit.engine.nats.test_client import client_of
from tests.unit.engine.nats.worlds import World

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


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    servers = Servers()
    monkeypatch.setattr(watermarks, "peers", servers.peers)
    monkeypatch.setattr(watermarks, "BEGUN_S", 0.01)
    monkeypatch.setattr(watermarks, "LOOK_S", 0.01)
    monkeypatch.setattr(watermarks, "ANSWER_S", 0.05)
    return servers


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    note_streams(tmp_path)
    return tmp_path
