"""How the lane of a stream is made: with the data that is in it, or with what is of the cluster."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from grid_member.engine.jetstream.log import JetStreamLog
from grid_member.engine.replicated.shard import ClusterLane
from grid_member.engine.replicated.system_shard import SystemLane, SystemLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.bootstrap.identity import Identity
    from grid_member.engine.jetstream.replay import Source
    from grid_member.engine.nats.admin.streams import Stream
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.replicated.shards import ClusterLanes
    from grid_member.engine.shard.shard import Lane
    from grid_member.engine.state.machine import State

INCARNATION_BITS: Final = 20
"""Lives that a member may begin anew within one start."""


def made_lane(
    lanes: ClusterLanes,
    identity: Identity,
    client: NatsClient,
    source: Source,
    arrived: Callable[[Lane, set[str]], None],
    shard: int,
    stream: Stream,
    *,
    empty: bool = False,
) -> ClusterLane:
    """Return a lane that is not read yet.

    Args:
        lanes: those that it is to be one of.
        identity: this member's.
        client: connected to the member's own server.
        source: where a thread can read the stream.
        arrived: is told which queues got items.
        shard: the lane's number.
        stream: what its log is in.
        empty: whether it is to be without data, as a lite member's is in any case.
    """
    settings, member = lanes.settings, identity.uuid.bytes
    empty = empty or settings.lite
    alone = settings.alone or settings.lite
    log = (SystemLog if empty else JetStreamLog)(
        client,
        stream.name,
        shard,
        member,
        source=source,
        own_server=lambda: None if alone else identity.server_name,
        feeder=lambda: None if alone or lanes.leaving else identity.server_name,
        trouble=lambda: lanes.trouble,
        short=lanes.damage.short,
        time_of=lanes.time_of,
        timed=settings.timed,
        others_read=not settings.alone,
        give_up=lanes.memory.give_up,
    )
    log.ground = lanes.footing.ground
    lane = (SystemLane if empty else ClusterLane)(
        log,
        member,
        identity.incarnation << INCARNATION_BITS,
        arrived,
        partial(lanes.changed, shard),
        partial(_check, lanes, stream),
    )
    lane.readable = partial(lanes.memory.readable, stream)
    if not empty:
        lane.began = partial(lanes.memory.began, stream)
        lanes.memory.attach(stream, lane)
    return lane


async def _check(
    lanes: ClusterLanes, stream: Stream, created: str, read: State, current: Callable[[], State]
) -> None:
    """See that what was read of a log is all of it, as `Damage.check`.

    Whom the others took off is told that first: what they went on without is no damage, and while
    its server votes it would pass for one that is missed.
    """
    if lanes.waiting is not None and stream == lanes.streams[0]:
        lanes.check_own(read)
    await lanes.damage.check(stream, created, read, current)
    await lanes.memory.check(stream, created, read, current)
