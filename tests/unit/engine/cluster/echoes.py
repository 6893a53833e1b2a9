"""An engine of a cluster over logs in memory that take records, or have no quorum."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import Reason, Refused
from grid_member.engine.cluster_settings import ClusterSettings
from grid_member.engine.log.log import wall_clock_ms
from grid_member.engine.replicated.engine import ClusterEngine
from grid_member.engine.replicated.replicated_shard import ReplicatedShard
from grid_member.engine.replicated.replicated_shards import ReplicatedShards
from tests.unit.engine.cluster.proposals import HandLog
from tests.unit.engine.drive import FixedStructures
from tests.unit.engine.forward.bus import Bus, Connection

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.log.log import RecordConsumer
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.state.operations import Record

SHARDS: Final = 2
NO_QUORUM: Final = Refused(Reason.UNAVAILABLE, "no quorum")
SETTINGS: Final = ClusterSettings(
    cluster_name="dev",
    member_name="m0",
    port=1,
    members=(("127.0.0.1", 1), ("127.0.0.1", 2), ("127.0.0.1", 3)),
    user="grid",
    password="shown-to-the-others",
)


class EchoLog(HandLog):
    """A log that brings back what is sent at once, as long as a quorum is there."""

    owner: ReplicatedShard
    quorum = True

    def start(self, consumer: RecordConsumer) -> None:
        """Bring records back from now on."""

    def append(self, record: Record) -> None:
        super().append(record)
        asyncio.get_running_loop().call_soon(self._come_back)

    def elect(self) -> None:
        """Confirm nothing for a while, which is nothing that is refused yet."""
        self.quorum = False

    def refuse(self) -> None:
        """Refuse everything, as nothing was confirmed for too long."""
        self.quorum = False
        self.refusal = NO_QUORUM
        self.owner.take_unknown(self.withdraw(), NO_QUORUM)

    def recover(self) -> None:
        """Have a quorum again; what asked for it comes back."""
        self.quorum = True
        if self.refusal is not None:
            self.owner._probe()
        self._come_back()

    def _come_back(self) -> None:
        if self.quorum and self.on_their_way:
            self.refusal = None
            self.owner.take_committed(self.committed(*self.on_their_way))


class EchoShards(ReplicatedShards):
    """Shards over such logs; there is no server."""

    def __init__(self) -> None:
        super().__init__(SETTINGS, shards=SHARDS)
        self.logs: list[EchoLog] = []
        self._bus = Connection(Bus())

    @property
    def client(self) -> NatsClient:
        return self._bus.client

    async def begin(self, on_arrival: Callable[[Shard, set[str]], None]) -> None:
        made = [self._echoing(on_arrival) for _ in range(SHARDS + 1)]
        self.volatile = made.pop()
        self.durable = list(made)
        self.waiting = None

    async def close(self) -> None:
        for shard in self.replicated_shards:
            await shard.close()

    def _echoing(self, on_arrival: Callable[[Shard, set[str]], None]) -> ReplicatedShard:
        log = EchoLog()
        log.shard = len(self.logs)
        self.logs.append(log)
        log.owner = shard = ReplicatedShard(log, self.member.bytes, 1, on_arrival)
        shard.replay()
        return shard


def echoing() -> tuple[ClusterEngine, list[EchoLog]]:
    """Return an engine that is to be started, and the logs that it has then.

    They are those of the shards, of which the first has the leases, and the one in memory.
    """
    shards = EchoShards()
    return ClusterEngine(FixedStructures(), shards, wall_clock_ms), shards.logs
