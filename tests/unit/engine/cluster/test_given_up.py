"""What a start that fails leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import EngineError
from grid_member.engine.nats.peers import peer_id, peers
from tests.unit.engine.cluster.clusters import Cluster

if TYPE_CHECKING:
    from pathlib import Path

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
        found = await peers(cluster.engines[0]._lanes.system)
        assert found.ids == members


async def test_a_close_that_fails_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Cluster(2) as cluster:
        engine = cluster.engines[0]
        server, client = engine._lanes._server, engine._lanes._client
        assert server is not None
        assert client is not None

        async def broken() -> None:
            raise OSError("no space left")

        with monkeypatch.context() as patched:
            patched.setattr(engine._lanes.cluster_lanes[0], "close", broken)
            with pytest.raises(OSError, match="no space"):
                await engine._lanes.close()
        assert server.process_id is None
        assert not client.connected
