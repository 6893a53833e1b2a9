"""A server whose member's directory goes, or seems to."""

from __future__ import annotations

import asyncio

from grid_member.engine.nats.identity import open_identity
from grid_member.engine.nats.server import NatsServer
from tests.unit.engine.server.servers import PATIENCE_S, settings
from tests.unit.ports import free_ports


async def test_a_disk_that_takes_writes_again_at_once_gets_its_server() -> None:
    member = settings(free_ports(1)[0])
    identity = open_identity(None, cluster_name="dev", member_name="m").identity
    looks = iter([True])
    server = NatsServer(member, identity, gone=lambda: next(looks, False))
    try:
        await asyncio.wait_for(server.start(), PATIENCE_S)
        assert server.client_address is not None
    finally:
        await server.stop()
