"""A server whose member's directory goes, or seems to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grid_member.engine.bootstrap.footing import Footing
from grid_member.engine.bootstrap.identity import open_identity
from grid_member.engine.server.process import NatsServer
from tests.unit.engine.server.servers import PATIENCE_S, settings
from tests.unit.ports import free_ports

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_disk_that_takes_writes_again_at_once_gets_its_server() -> None:
    member = settings(free_ports(1)[0])
    identity = open_identity(None, cluster_name="dev", member_name="m").identity
    looks = iter([True])
    server = NatsServer(member, identity, is_gone=lambda: next(looks, False))
    try:
        await asyncio.wait_for(server.start(), PATIENCE_S)
        assert server.client_address is not None
    finally:
        await server.stop()


async def test_one_of_several_says_that_it_does_not_go_on_by_itself(tmp_path: Path) -> None:
    member = settings(free_ports(1)[0], directory=tmp_path / "base")
    opened = open_identity(member.directory, cluster_name="dev", member_name="m")
    footing, ended = Footing(member), asyncio.Event()
    footing.begin(opened.identity, lambda _: ended.set())
    (tmp_path / "base").rename(tmp_path / "away")
    await ended.wait()
    await footing.end()
    opened.close()
    assert footing.ground is not None
    assert "start this member again" in (footing.ground.loss or "")
