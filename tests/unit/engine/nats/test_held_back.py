"""When a server that lost its memory may keep streams again, and when one may lead alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast
from unittest import mock

from grid_member.engine.cluster_settings import ClusterSettings
from grid_member.engine.nats import lost_memory
from grid_member.engine.nats.errors import NatsError
from grid_member.engine.nats.lost_memory import LostMemory
from tests.unit.engine.nats.test_survivors import report

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.nats.client import NatsClient

SETTINGS = ClusterSettings(
    cluster_name="dev",
    member_name="m1",
    port=1,
    members=(("127.0.0.1", 1), ("127.0.0.1", 2), ("127.0.0.1", 3)),
    user="grid",
    password="shown-to-the-others",
)


class Unheard:
    """A connection over which nobody answers."""

    def subscribe(self, _: bytes, __: Callable[..., None]) -> Unheard:
        return self

    def unsubscribe(self) -> None:
        pass

    def publish(self, *_: bytes) -> None:
        pass

    def unused_inbox(self) -> bytes:
        return b"_INBOX.1"

    async def request(self, *_: object, **__: object) -> None:
        raise NatsError("nobody leads the servers")


async def test_a_member_that_has_stopped_lets_its_server_keep_no_streams() -> None:
    memory, client = LostMemory(SETTINGS), cast("NatsClient", Unheard())
    assert memory.holding is not None
    memory.begin(client, client, "m1-1")
    await memory.end()
    held = asyncio.ensure_future(memory.holding())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not held.done()
    held.cancel()


async def test_a_server_of_a_member_that_has_not_begun_may_keep_streams() -> None:
    memory = LostMemory(SETTINGS)
    assert memory.holding is not None
    await memory.holding()


async def test_servers_lead_without_most_others_only_for_most_members_of_the_list() -> None:
    memory, client = LostMemory(SETTINGS), cast("NatsClient", Unheard())
    memory.begin(client, client, "m1-1")
    alone = [report("a", 7, gone="b c")]
    for reports, rescues in ((alone, 0), ([*alone, report("b2")], 1)):
        with mock.patch.object(lost_memory, "take_off_lost") as rescue:
            await memory._rescue({one.server: one for one in reports})
        assert rescue.call_count == rescues, "members out of sight may have begun another cluster"
    await memory.end()
