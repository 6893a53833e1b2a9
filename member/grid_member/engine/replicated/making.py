"""How the shard of a stream is made: with its data, or with what is of the cluster alone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from grid_member.engine.jetstream.log import JetStreamLog
from grid_member.engine.replicated.replicated_shard import ReplicatedShard
from grid_member.engine.replicated.system_shard import SystemLog, SystemState

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.bootstrap.identity import MemberIdentity
    from grid_member.engine.jetstream.replay import ReplaySource
    from grid_member.engine.nats.admin.streams import Stream
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.replicated.replicated_shards import ReplicatedShards
    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.state.machine import State

INCARNATION_BITS: Final = 20
"""Incarnations that a member may begin anew within one start."""


def new_shard(
    shards: ReplicatedShards,
    identity: MemberIdentity,
    client: NatsClient,
    source: ReplaySource,
    on_arrival: Callable[[Shard, set[str]], None],
    number: int,
    stream: Stream,
    *,
    empty: bool = False,
) -> ReplicatedShard:
    """Return a shard that is not read yet; an empty one is without data, as a lite member's is."""
    settings, member = shards.settings, identity.uuid.bytes
    empty = empty or settings.lite
    alone = settings.alone or settings.lite
    log = (SystemLog if empty else JetStreamLog)(
        client,
        stream.name,
        number,
        member,
        source=source,
        own_server=lambda: None if alone else identity.server_name,
        stream_consumer=lambda: None if alone or shards.leaving else identity.server_name,
        trouble=lambda: shards.trouble,
        short=shards.damage.short,
        time_of=shards.time_of,
        report_time=settings.report_time,
        has_other_readers=not settings.alone,
        give_up=shards.memory.give_up,
    )
    log.ground = shards.footing.ground
    shard = ReplicatedShard(
        log,
        member,
        identity.incarnation << INCARNATION_BITS,
        on_arrival,
        partial(shards.note_changes, number),
        partial(_check, shards, stream),
        SystemState() if empty else None,
    )
    shard.readable = partial(shards.memory.readable, stream)
    if not empty:
        shard.on_begin = partial(shards.memory.note_start, stream)
        shards.memory.attach(stream, shard)
    return shard


async def _check(
    shards: ReplicatedShards,
    stream: Stream,
    created: str,
    read: State,
    current: Callable[[], State],
) -> None:
    """See that what was read of a log is all of it, as `Damage.check`.

    Whom the others took off is told that first: what they went on without is no damage, and while
    its server votes it would pass for one that is missed.
    """
    if shards.waiting is not None and stream == shards.streams[0]:
        shards.check_own(read)
    await shards.damage.check(stream, created, read, current)
    await shards.memory.check(stream, created, read, current)
