"""The streams of a cluster: made once, by whoever comes first, and looked at now and then."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grid_member.engine.api import EngineError
from grid_member.engine.nats.admin.peers import CHANGE_TIMEOUT_S, peer_id, peer_ids
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from grid_member.engine.nats.client.client import NatsClient

REQUEST_TIMEOUT_S: Final = 1.0
ASK_AGAIN_S: Final = 0.2
"""After so long a question is asked again: when there was no leader yet it is lost."""
RETRY_S: Final = 0.1
NEARLY_CURRENT: Final = 64
"""Records that a copy may be behind while they are written."""
NEARLY_SILENT_S: Final = 3.0
"""How long ago a copy was heard of that is behind; it is heard of every second."""
FEWER_S: Final = 5.0
"""How long a new stream waits for all copies that it is to have; it begins with fewer then."""
_NOT_FOUND: Final = 10059
EXISTS: Final = 10058
NO_PEERS: Final = 10005
_FORMAT: Final = "1"
"""Of the records; servers keep it with each stream."""


class NoStreamError(NatsError):
    """There is no stream of that name."""


class Stream(NamedTuple):
    """A stream that a shard's log is in."""

    name: str
    durable: bool
    """On the members' disks; else in their memory."""
    is_snapshot_stream: bool = False
    """Whether it holds a log's snapshots, not the log."""

    @property
    def snapshots(self) -> Stream:
        """The stream of this log's snapshots, which is kept as the log is."""
        return Stream(f"{self.name}-image", self.durable, is_snapshot_stream=True)

    @property
    def log(self) -> Stream:
        """The stream of the log that this one is of, which may be itself."""
        if not self.is_snapshot_stream:
            return self
        return Stream(self.name.removesuffix("-image"), self.durable)

    @property
    def subject(self) -> str:
        """What goes into it."""
        if self.is_snapshot_stream:
            return f"grid.image.{self.log.name}.*"
        return f"grid.log.{self.name}"


def shard_streams(shards: int, *, durable: bool) -> list[Stream]:
    """Return the streams of all shards: beside durable ones there is one in memory."""
    streams = [Stream(f"shard-{shard}", durable) for shard in range(shards)]
    return [*streams, Stream("volatile", durable=False)] if durable else streams


class Copies(NamedTuple):
    """What a stream's leader tells of its copies; servers are named by their ids."""

    wanted: int
    leader: str
    servers: frozenset[str]
    """All that hold a copy or are to hold one."""
    current: frozenset[str]
    offline: tuple[str, ...]
    """Names, as far as they are known."""
    moving: bool
    """Whether copies are being moved, made or given up."""
    group: str = ""
    """What those who vote on it call it."""
    doing: str = ""
    """What its leader does or waits for while copies are moved, in the servers' words."""


def stream_config(stream: Stream, copies: int, cluster_name: str) -> dict[str, Any]:
    """Return a stream's configuration. What is full refuses; nothing is ever dropped."""
    return {
        "name": stream.name,
        "subjects": [stream.subject],
        "retention": "limits",
        "discard": "new",
        "storage": "file" if stream.durable else "memory",
        "num_replicas": copies,
        # A record is confirmed by coming back, a snapshot by the servers.
        "no_ack": not stream.is_snapshot_stream,
        "max_age": 0,
        "max_bytes": -1,
        "max_msgs": -1,
        "metadata": {"grid.cluster": cluster_name, "grid.format": _FORMAT},
    }


async def ensure_stream(
    client: NatsClient,
    stream: Stream,
    copies: int,
    cluster_name: str,
    waiting: Callable[[str], None],
    servers: Callable[[], Awaitable[int]],
    creation_obstacle: Callable[[Stream], Awaitable[str | None]],
) -> int:
    """Make the stream unless it is there; go on until that is known.

    It is to have as many copies as are asked for. It has fewer when there are not enough servers
    for a while, of which `servers` tells; they are made later. It may be asked for of several
    streams at once. `waiting` is told why there is no stream yet; `creation_obstacle` returns why
    one that is not there is not to be made, None: it may be.

    Returns:
        How many copies the next streams had better begin with.

    Raises:
        EngineError: there is a stream of that name that is another one.
    """
    loop = asyncio.get_running_loop()
    fewer_from_s: float | None = None
    while True:
        try:
            config = stream_config(stream, copies, cluster_name)
            made = await _ask_persistently(client, f"STREAM.INFO.{stream.name}")
            if _is_missing(made):
                if reason := await creation_obstacle(stream):
                    raise NatsError(reason)
                made = await ask(client, f"STREAM.CREATE.{stream.name}", config)
            error = made.get("error")
            if error is None:
                _check(stream, cluster_name, made["config"])
                return copies
            if error.get("err_code") == NO_PEERS:
                fewer_from_s = fewer_from_s or loop.time() + FEWER_S
                if loop.time() >= fewer_from_s:
                    copies = max(1, min(copies, await servers()))
            if error.get("err_code") != EXISTS:
                waiting(f"{stream.name}: {error.get('description', 'refused')}")
        except NatsError as problem:
            waiting(str(problem))
        await asyncio.sleep(RETRY_S)


async def _ask_persistently(client: NatsClient, call: str) -> dict[str, Any]:
    """Return the first answer to a call that may have to wait for a leader, and changes nothing."""
    asking: list[asyncio.Task[dict[str, Any]]] = []
    try:
        while True:
            asking.append(asyncio.ensure_future(ask(client, call)))
            done, _ = await asyncio.wait(
                asking, timeout=ASK_AGAIN_S, return_when=asyncio.FIRST_COMPLETED
            )
            if done:
                return done.pop().result()
    finally:
        for one in asking:
            one.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


async def copies_of(client: NatsClient, stream: str) -> Copies:
    """Return what copies of the stream there are.

    Raises:
        NatsError: nobody leads the stream now.
    """
    return _copies(stream, await ask_successfully(client, f"STREAM.INFO.{stream}"))


async def all_copies(client: NatsClient, streams: Iterable[str]) -> dict[str, Copies]:
    """Return what copies there are of these streams and of all others of the cluster.

    Each is asked about again before it is given up: an answer gets lost while leaders change.

    Raises:
        NoStreamError: one of these is not there.
        NatsError: nobody leads one of them now, or nobody tells which there are.
    """
    names = sorted({*await stream_names(client), *streams})
    looks = (_ask_persistently_successfully(client, f"STREAM.INFO.{name}") for name in names)
    infos = await asyncio.gather(*looks, return_exceptions=True)
    found: dict[str, Copies] = {}
    for name, info in zip(names, infos, strict=True):
        if isinstance(info, BaseException):
            raise info
        found[name] = _copies(name, info)
    return found


def _copies(stream: str, info: Mapping[str, Any]) -> Copies:
    cluster = info.get("cluster") or {}
    if not cluster.get("leader"):
        raise NatsError(f"nobody leads the stream {stream} now")
    replicas = cluster.get("replicas") or []
    return Copies(
        wanted=int(info["config"]["num_replicas"]),
        leader=peer_id(cluster["leader"]),
        servers=peer_ids(cluster),
        current=peer_ids(cluster, is_current),
        offline=tuple(one["name"] for one in replicas if one.get("offline")),
        moving="desired" in cluster or any(one.get("pending") for one in replicas),
        group=str(cluster.get("raft_group", "")),
        doing=_doing(cluster.get("desired") or {}),
    )


def _doing(desired: Mapping[str, Any]) -> str:
    status = desired.get("status") or {}
    return ", ".join(str(status[one]) for one in ("description", "err") if status.get(one))


async def stream_names(client: NatsClient) -> list[str]:
    """Return the names of all streams of the cluster.

    Raises:
        NatsError: nobody tells.
    """
    return list((await ask_successfully(client, "STREAM.NAMES")).get("streams") or [])


async def change_copies(client: NatsClient, stream: str, copies: int) -> None:
    """Let so many servers hold the stream; it takes a while until they do.

    Raises:
        NatsError: it was refused, or nobody knows.
    """
    info = await _ask_persistently_successfully(client, f"STREAM.INFO.{stream}")
    config = {**info["config"], "num_replicas": copies}
    await ask_successfully(client, f"STREAM.UPDATE.{stream}", config, CHANGE_TIMEOUT_S)


async def delete_stream(client: NatsClient, stream: str) -> None:
    """Delete a stream with all that it holds, if it is there.

    Raises:
        NatsError: it was refused, or nobody knows.
    """
    answer = await ask(client, f"STREAM.DELETE.{stream}")
    error = answer.get("error")
    if error is not None and not _is_missing(answer):
        raise NatsError(error.get("description", "refused"))


def is_current(replica: Mapping[str, Any]) -> bool:
    """Return whether a copy is as good as the leader's, which tells so of it."""
    if replica.get("offline") or replica.get("pending"):
        return False
    if replica.get("current"):
        return True
    # Under load each look finds some copy a few records behind: a quorum is enough for an answer.
    behind = replica.get("lag", 0)
    silent_s = replica.get("active", 0) / 10**9
    return bool(0 < behind <= NEARLY_CURRENT and silent_s < NEARLY_SILENT_S)


async def ask(
    client: NatsClient, call: str, request: object = None, timeout_s: float = REQUEST_TIMEOUT_S
) -> dict[str, Any]:
    """Return the answer of a call of the servers' own interface; it may hold an `error`.

    `call` names the call and its stream; `request` goes with it.

    Raises:
        NatsError: there is none.
    """
    body = b"" if request is None else json.dumps(request).encode()
    answer = await client.request(f"$JS.API.{call}".encode(), body, timeout_s=timeout_s)
    result: dict[str, Any] = json.loads(answer.payload)
    return result


async def ask_successfully(
    client: NatsClient, call: str, request: object = None, timeout_s: float = REQUEST_TIMEOUT_S
) -> dict[str, Any]:
    """Return the answer of a call of the servers' own interface; arguments as of `ask`.

    Raises:
        NoStreamError: it is about a stream that is not there.
        NatsError: it is another error, or there is none.
    """
    return _without_error(call, await ask(client, call, request, timeout_s))


async def _ask_persistently_successfully(client: NatsClient, call: str) -> dict[str, Any]:
    return _without_error(call, await _ask_persistently(client, call))


def _is_missing(answer: Mapping[str, Any]) -> bool:
    return bool((answer.get("error") or {}).get("err_code") == _NOT_FOUND)


def _without_error(call: str, answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in answer:
        raise (NoStreamError if _is_missing(answer) else NatsError)(
            f"{call}: {answer['error'].get('description', 'refused')}"
        )
    return answer


def _check(stream: Stream, cluster_name: str, config: dict[str, Any]) -> None:
    storage = "file" if stream.durable else "memory"
    if config["storage"] != storage:
        raise EngineError(
            f"the cluster keeps {stream.name} in {config['storage']} storage, this member would in "
            f"{storage}: persistence.enabled has to be the same on all members"
        )
    metadata = config.get("metadata", {})
    if metadata.get("grid.format", _FORMAT) != _FORMAT:
        raise EngineError(
            f"{stream.name} was written by a later version of grid-member: start that version"
        )
    former = metadata.get("grid.cluster", cluster_name)
    if former != cluster_name:
        raise EngineError(f"the data is of cluster {former!r}, not of {cluster_name!r}")
