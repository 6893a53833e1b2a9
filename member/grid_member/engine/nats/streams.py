"""The streams of a cluster: made once, by whoever comes first, and looked at now and then."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grid_member.engine.api import EngineError
from grid_member.engine.nats.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grid_member.engine.nats.client import NatsClient

REQUEST_TIMEOUT_S: Final = 1.0
RETRY_S: Final = 0.1
NEARLY_CURRENT: Final = 64
"""Records that a copy may be behind while they are written."""
NEARLY_SILENT_S: Final = 3.0
"""How long ago a copy was heard of that is behind; it is heard of every second."""
_NOT_FOUND: Final = 10059
_EXISTS: Final = 10058


class Stream(NamedTuple):
    """A stream that a lane's log is in."""

    name: str
    durable: bool
    """On the members' disks; else in their memory."""
    holds_images: bool = False
    """Whether it holds a log's images, not the log."""

    @property
    def images(self) -> Stream:
        """The stream of this log's images, which is kept as the log is."""
        return Stream(f"{self.name}-image", self.durable, holds_images=True)

    @property
    def subject(self) -> str:
        """What goes into it."""
        if self.holds_images:
            return f"grid.image.{self.name.removesuffix('-image')}.*"
        return f"grid.log.{self.name}"


class Copies(NamedTuple):
    """What a stream's leader tells of its copies."""

    wanted: int
    current: int
    offline: tuple[str, ...]


def stream_config(stream: Stream, copies: int, cluster_name: str) -> dict[str, Any]:
    """Return a stream's configuration. What is full refuses; nothing is ever dropped."""
    return {
        "name": stream.name,
        "subjects": [stream.subject],
        "retention": "limits",
        "discard": "new",
        "storage": "file" if stream.durable else "memory",
        "num_replicas": copies,
        # A record is confirmed by coming back, an image by the servers.
        "no_ack": not stream.holds_images,
        "max_age": 0,
        "max_bytes": -1,
        "max_msgs": -1,
        "metadata": {"grid.cluster": cluster_name, "grid.format": "1"},
    }


async def ensure_stream(
    client: NatsClient,
    stream: Stream,
    copies: int,
    cluster_name: str,
    waiting: Callable[[str], None],
) -> None:
    """Make the stream unless it is there; go on until that is known.

    Args:
        client: connected to the member's own server.
        stream: the stream.
        copies: how many members are to hold it.
        cluster_name: whose data it is.
        waiting: is told why there is no stream yet.

    Raises:
        EngineError: there is a stream of that name that is another one.
    """
    while True:
        try:
            made = await asked(client, f"STREAM.INFO.{stream.name}")
            if made.get("error", {}).get("err_code") == _NOT_FOUND:
                config = stream_config(stream, copies, cluster_name)
                made = await asked(client, f"STREAM.CREATE.{stream.name}", config)
            error = made.get("error")
            if error is None:
                _check(stream, cluster_name, made["config"])
                return
            if error.get("err_code") != _EXISTS:
                waiting(f"{stream.name}: {error.get('description', 'refused')}")
        except NatsError as problem:
            waiting(str(problem))
        await asyncio.sleep(RETRY_S)


async def copies_of(client: NatsClient, stream: Stream) -> Copies:
    """Return how many copies of the stream are current.

    Raises:
        NatsError: nobody leads the stream now.
    """
    info = await asked(client, f"STREAM.INFO.{stream.name}")
    if "error" in info:
        raise NatsError(info["error"].get("description", "refused"))
    wanted = info["config"]["num_replicas"]
    cluster = info.get("cluster")
    if cluster is None:
        return Copies(wanted, 1, ())
    replicas = cluster.get("replicas") or []
    led = 1 if cluster.get("leader") else 0
    current = led + sum(is_current(one) for one in replicas)
    return Copies(wanted, current, tuple(one["name"] for one in replicas if one.get("offline")))


def is_current(replica: Mapping[str, Any]) -> bool:
    """Return whether a copy is as good as the leader's, which tells so of it."""
    if replica.get("offline"):
        return False
    if replica.get("current"):
        return True
    # Under load each look finds some copy a few records behind: a quorum is enough for an answer.
    behind = replica.get("lag", 0)
    silent_s = replica.get("active", 0) / 10**9
    return bool(0 < behind <= NEARLY_CURRENT and silent_s < NEARLY_SILENT_S)


async def asked(client: NatsClient, call: str, request: object = None) -> dict[str, Any]:
    """Return the answer of a call of the servers' own interface; it may hold an `error`.

    Raises:
        NatsError: there is none.
    """
    body = b"" if request is None else json.dumps(request).encode()
    answer = await client.request(f"$JS.API.{call}".encode(), body, timeout_s=REQUEST_TIMEOUT_S)
    result: dict[str, Any] = json.loads(answer.payload)
    return result


def _check(stream: Stream, cluster_name: str, config: dict[str, Any]) -> None:
    storage = "file" if stream.durable else "memory"
    if config["storage"] != storage:
        raise EngineError(
            f"the cluster keeps {stream.name} in {config['storage']} storage, this member would in "
            f"{storage}: persistence.enabled has to be the same on all members"
        )
    former = config.get("metadata", {}).get("grid.cluster", cluster_name)
    if former != cluster_name:
        raise EngineError(f"the data is of cluster {former!r}, not of {cluster_name!r}")
