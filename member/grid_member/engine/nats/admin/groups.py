"""Groups of servers that agree on a log of their own, on exactly the servers that are named.

Servers are named by their ids (`peers`), and every server has its id as a tag. A stream is placed
by excluding all servers but those that it is to be on; that is taken back when it is there, so that
it is no obstacle to servers that leave.

    more copies than wanted ─▶ fewer ─▶ moved to what is wanted ─▶ more ─▶ placement taken back

Each `step` does one of these, once the one before is over: servers do not combine them.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grid_member.engine.nats.admin.peers import is_silent, meta_cluster, peer_id, peer_ids
from grid_member.engine.nats.admin.streams import ask, is_current
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from grid_member.engine.nats.client.client import NatsClient

WRITE_TIMEOUT_S: Final = 2.0
_NOT_FOUND: Final = 10059


class ServerGroup(NamedTuple):
    """A group as its leader tells of it."""

    leader: str | None
    """None: nobody leads it now, and the rest is not known."""
    servers: frozenset[str] = frozenset()
    current: frozenset[str] = frozenset()
    """Those that have what the leader has."""
    log_index: int | None = None
    """Of the last record; None of the servers themselves, which do not tell it."""


NO_LEADER: Final = ServerGroup(None)


class ServerGroups:
    """The groups as one member sees and changes them.

    Args:
        client: in the account of the data.
        system: in the account of the servers.
        cluster_name: whose groups these are.
        durable: whether they are on disk.
        data: the streams that hold maps and queues, which are only looked at.
    """

    def __init__(
        self,
        client: NatsClient,
        system: NatsClient,
        cluster_name: str,
        data: tuple[str, ...],
        *,
        durable: bool,
    ) -> None:
        self._client = client
        self._system = system
        self._cluster_name = cluster_name
        self._durable = durable
        self.data = data

    async def meta(self) -> ServerGroup:
        """Return the group of all servers that vote on where streams are."""
        try:
            found = await meta_cluster(self._system)
        except NatsError:
            return NO_LEADER
        current = peer_ids(found, lambda one: not is_silent(one))
        return ServerGroup(peer_id(found["leader"]), peer_ids(found), current)

    async def group(self, stream: str) -> ServerGroup | None:
        """Return the group of a stream, None when there is no such stream."""
        try:
            info = await self._info(stream)
        except NatsError:
            return NO_LEADER
        return None if info is None else _group(info)

    async def remove(self, stream: str) -> bool:
        """Remove a group with what it holds; True when it is not there any more.

        Raises:
            NatsError: that cannot be told.
        """
        # One that nobody leads is removed as well, but nobody answers.
        with contextlib.suppress(NatsError):
            await ask(self._client, f"STREAM.DELETE.{stream}")
        return await self._info(stream) is None

    async def step(self, stream: str, servers: AbstractSet[str]) -> bool:
        """Bring a group nearer to being on exactly the servers; True when it is.

        Raises:
            NatsError: that cannot be told, or was refused now.
        """
        info = await self._info(stream)
        others = sorted((await self._voting()) - servers)
        if info is None:
            config = self._config(stream, servers, others)
            _check(await ask(self._client, f"STREAM.CREATE.{stream}", config))
            return False
        group = _group(info)
        if group.leader is None or not _is_settled(info):
            return False
        config = info["config"]
        changed = _next(config, group, servers, others)
        if changed is None:
            return 2 * len(group.current) > len(servers)
        if changed["num_replicas"] < config["num_replicas"] and not await self._safe_to_shrink(
            stream, changed["num_replicas"]
        ):
            return False
        _check(await ask(self._client, f"STREAM.UPDATE.{stream}", changed))
        return False

    async def _safe_to_shrink(self, stream: str, copies: int) -> bool:
        """Make those that are gone fall behind; tell whether a majority of the copies has all.

        The leader keeps those that have most, and any of those that are equal.
        """
        subject = _subject(stream).encode()
        answer = await self._client.request(subject, b"", timeout_s=WRITE_TIMEOUT_S)
        _check(json.loads(answer.payload))
        info = await self._info(stream)
        cluster = (info or {}).get("cluster") or {}
        if not cluster.get("leader"):
            return False
        has_all = peer_ids(cluster, lambda one: one.get("current") and not one.get("lag"))
        return 2 * len(has_all) > copies

    async def _voting(self) -> frozenset[str]:
        found = await self.meta()
        if found.leader is None:
            raise NatsError("nobody leads the servers now")
        return found.servers

    async def _info(self, stream: str) -> dict[str, Any] | None:
        info = await ask(self._client, f"STREAM.INFO.{stream}")
        if info.get("error", {}).get("err_code") == _NOT_FOUND:
            return None
        _check(info)
        return info

    def _config(self, stream: str, servers: AbstractSet[str], others: list[str]) -> dict[str, Any]:
        return {
            "name": stream,
            "subjects": [_subject(stream)],
            "retention": "limits",
            "storage": "file" if self._durable else "memory",
            "num_replicas": len(servers),
            "max_msgs": 1,
            "discard": "old",
            "metadata": {"grid.cluster": self._cluster_name, "grid.format": "1"},
            **_placement(others),
        }


def _next(
    config: Mapping[str, Any],
    group: ServerGroup,
    servers: AbstractSet[str],
    others: list[str],
) -> dict[str, Any] | None:
    """Return the configuration that is next on the way to the servers, None at its end."""
    copies, present = config["num_replicas"], config.get("placement")
    bare = {key: value for key, value in config.items() if key != "placement"}
    if group.servers == servers and copies == len(servers):
        return bare if present else None
    if copies > len(servers):
        return {**config, "num_replicas": len(servers)}
    wanted = _placement(others)
    if wanted and present != wanted["placement"]:
        return {**bare, **wanted}
    if copies < len(servers):
        return {**config, "num_replicas": len(servers)}
    return bare  # it went elsewhere, as not all tags were known: once more


def _placement(others: list[str]) -> dict[str, Any]:
    return {"placement": {"tags": [f"!{one}" for one in others]}} if others else {}


def _group(info: Mapping[str, Any]) -> ServerGroup:
    cluster = info.get("cluster") or {}
    if not cluster.get("leader"):
        return NO_LEADER
    leader, last = peer_id(cluster["leader"]), int(info["state"]["last_seq"])
    return ServerGroup(leader, peer_ids(cluster), peer_ids(cluster, is_current), last)


def _is_settled(info: Mapping[str, Any]) -> bool:
    cluster = info.get("cluster") or {}
    replicas = cluster.get("replicas") or []
    return not cluster.get("desired") and not any(one.get("pending") for one in replicas)


def _subject(stream: str) -> str:
    return f"grid.group.{stream}"


def _check(answer: Mapping[str, Any]) -> None:
    if "error" in answer:
        raise NatsError(answer["error"].get("description", "refused"))
