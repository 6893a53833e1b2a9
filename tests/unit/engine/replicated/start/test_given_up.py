"""What a start that fails leaves behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import EngineError
from grid_member.engine.nats.admin.peers import peer_id, peers, remove_server
from grid_member.engine.nats.client.errors import NatsError
from grid_member.engine.replicated import own_server
from tests.unit.engine.cluster.clusters import Cluster

if TYPE_CHECKING:
    from pathlib import Path

    from grid_member.engine.nats.client.client import NatsClient

LED_S = 40
pytestmark = pytest.mark.timeout(120)


async def test_a_member_that_fails_its_start_again_and_again_leaves_no_servers(
    tmp_path: Path,
) -> None:
    async with Cluster(3, tmp_path) as cluster:
        members = {peer_id(str(engine.server_name)) for engine in cluster.engines}
        await cluster.engines[2].stop()
        for _ in range(2):
            in_memory = cluster.made(2, durable=False)
            with pytest.raises(EngineError, match="persistence"):
                await in_memory.start()
        await led(cluster.engines[0]._cluster.system)
        found = await peers(cluster.engines[0]._cluster.system)
        assert found.ids == members


async def test_a_server_that_counts_is_taken_off_also_when_nobody_leads_for_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Cluster(3) as cluster:
        system, name = cluster.engines[0]._cluster.system, str(cluster.engines[2].server_name)
        await cluster.engines[2].stop()
        await led(system)
        asked = []

        async def without_a_leader(*arguments: object) -> None:
            asked.append(arguments)
            if len(asked) == 1:
                raise NatsError("nobody leads")
            await remove_server(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(own_server, "remove_server", without_a_leader)
        await own_server.take_off(system, name)
        assert len(asked) > 1
        assert peer_id(name) not in (await peers(system)).ids


async def led(system: NatsClient | None) -> None:
    """Wait until somebody leads the servers: who did may just have stopped."""
    assert system is not None
    async with asyncio.timeout(LED_S):
        while True:
            try:
                await peers(system)
            except NatsError:
                await asyncio.sleep(0.1)
            else:
                return


async def test_a_close_that_fails_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Cluster(2) as cluster:
        engine = cluster.engines[0]
        server, client = engine._cluster._server, engine._cluster._client
        assert server is not None
        assert client is not None

        async def broken() -> None:
            raise OSError("no space left")

        with monkeypatch.context() as patched:
            patched.setattr(engine._cluster.replicated_shards[0], "close", broken)
            with pytest.raises(OSError, match="no space"):
                await engine._cluster.close()
        assert server.process_id is None
        assert not client.connected
