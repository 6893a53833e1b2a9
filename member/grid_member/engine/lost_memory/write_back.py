"""Writing the state of a log back into the servers that lost it: a new log that begins behind it.

    the former log and its snapshots are deleted ─▶ snapshots ─▶ the log, which begins behind the
    state ─▶ the state as a snapshot

Until the snapshot is complete the log lacks what is before its begin, so nobody can read it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from grid_member.engine.jetstream.snapshots import SnapshotWriter, look_at
from grid_member.engine.nats.admin.streams import (
    EXISTS,
    FEWER_S,
    NO_PEERS,
    ask,
    ask_successfully,
    delete_stream,
    stream_config,
)
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.jetstream.snapshots import StoredSnapshots
    from grid_member.engine.nats.admin.streams import Stream
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.state.snapshot import Snapshot

GENERATION: Final = "grid.generation"
"""How often a log was written back; servers keep it with the stream."""
CHANGE_S: Final = 5.0
"""How long servers may take to make a stream."""
TRIES: Final = 20
"""To make the log before a member that starts does: that one is empty, and no member takes it while
another one tells that it holds more."""
ELECTED_S: Final = 10.0
"""How long what was made may be without a leader."""
RETRY_S: Final = 0.1


class ExistsError(NatsError):
    """Another member has made a stream of that name."""


def generation_of(info: dict[str, Any]) -> int:
    """Return how often a log was written back, as its leader tells of the stream.

    Raises:
        NatsError: it cannot be understood.
    """
    try:
        return int((info["config"].get("metadata") or {}).get(GENERATION, 0))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise NatsError("the generation of a log cannot be understood") from None


async def write_back(
    client: NatsClient,
    settings: ClusterSettings,
    stream: Stream,
    snapshot: Snapshot,
    metadata: Mapping[str, str],
    generation: int,
) -> None:
    """Make the log anew behind a state, which becomes its snapshot; it may be tried again.

    The generation is the one that it is to have, higher than any that a member knows.

    Raises:
        NatsError: it is not complete.
    """
    await delete_stream(client, stream.snapshots.name)
    copies = min(settings.copies, len(settings.members))
    with contextlib.suppress(ExistsError):
        snapshots = stream_config(stream.snapshots, copies, settings.cluster_name)
        copies = await _make(client, snapshots)
    config = stream_config(stream, copies, settings.cluster_name)
    config["first_seq"] = snapshot.sequence + 1
    config["metadata"] = {**_own(metadata), **config["metadata"], GENERATION: str(generation)}
    for _ in range(TRIES):
        await delete_stream(client, stream.name)
        with contextlib.suppress(ExistsError):
            await _make(client, config)
            break
    else:
        raise ExistsError(f"{stream.name} is made by members that start, again and again")
    held = await _look(client, stream.name)
    await SnapshotWriter(client, stream.name, held).write(snapshot)


async def _look(client: NatsClient, stream: str) -> StoredSnapshots:
    """Return what the stream of snapshots holds that was just made.

    Raises:
        NatsError: it has no leader in time, or the log has none.
    """
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + ELECTED_S
    while True:
        try:
            await ask_successfully(client, f"STREAM.INFO.{stream}")
            return await look_at(client, stream)
        except NatsError:
            if loop.time() >= ends_s:
                raise
            await asyncio.sleep(RETRY_S)


def _own(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return what members gave a stream, without what servers add."""
    return {name: value for name, value in metadata.items() if name.startswith("grid.")}


async def _make(client: NatsClient, config: dict[str, Any]) -> int:
    """Make a stream; return how many copies it has, fewer while there are not enough servers.

    Raises:
        ExistsError: there is one of that name.
        NatsError: it was not made.
    """
    loop, name = asyncio.get_running_loop(), str(config["name"])
    fewer_from_s = loop.time() + FEWER_S
    while True:
        made = await ask(client, f"STREAM.CREATE.{name}", config, CHANGE_S)
        error = made.get("error")
        if error is None:
            return int(config["num_replicas"])
        if error.get("err_code") == EXISTS:
            raise ExistsError(f"{name}: {error.get('description', 'refused')}")
        if error.get("err_code") != NO_PEERS or config["num_replicas"] == 1:
            raise NatsError(f"{name}: {error.get('description', 'refused')}")
        if loop.time() >= fewer_from_s:
            config["num_replicas"] -= 1
        await asyncio.sleep(RETRY_S)
