from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest
import uvloop

from grid_member.http.wire.connection import ConnectionProtocol
from tests.unit.member.http.fastpath.peers import LOGS, PATHS, Handed, settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.member.running import RunningMember


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every test here is one on both event loops that a member may run on."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOGS)
def log(request: pytest.FixtureRequest) -> str:
    """Where the members keep their data."""
    return cast("str", request.param)


@pytest.fixture(params=PATHS)
def path(request: pytest.FixtureRequest) -> str:
    """What answers plain data requests."""
    return cast("str", request.param)


@pytest.fixture
async def one(
    path: str, log: str, tmp_path: Path, start_member: Callable[..., RunningMember]
) -> RunningMember:
    """A member on each path and each log, one after the other."""
    return await start_member(settings(path, log, tmp_path / "data")).start()


@pytest.fixture
async def pair(
    log: str, tmp_path: Path, start_member: Callable[..., RunningMember]
) -> tuple[RunningMember, RunningMember]:
    """Two members on the same log, the first with the fast path and the second without."""
    fast_path, aiohttp = [
        await start_member(settings(path, log, tmp_path / path)).start() for path in PATHS
    ]
    return fast_path, aiohttp


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> Handed:
    """What tells whether aiohttp has had a connection."""
    seen = Handed()
    made = ConnectionProtocol.connection_made

    def connection_made(self: ConnectionProtocol, transport: asyncio.BaseTransport) -> None:
        seen.note(transport)
        made(self, transport)

    monkeypatch.setattr(ConnectionProtocol, "connection_made", connection_made)
    return seen
