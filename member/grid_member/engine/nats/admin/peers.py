"""The servers that vote on streams, and how one that never comes back is taken off them.

Servers know each other by an id that follows from the name: of one that they have not heard of
since they were started they do not tell the name any more. `system` is always a connection in the
account of the system.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grid_member.engine.nats.admin.questions import GROUPS, STREAMS
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from grid_member.engine.nats.client.client import NatsClient

ACCOUNT: Final = "GRID"
"""The one that the data is in."""
REQUEST_TIMEOUT_S: Final = 2.0
CHANGE_TIMEOUT_S: Final = 5.0
"""A change of those that vote is answered when it was agreed on."""
SILENCE_S: Final = 3.0
"""Servers that vote tell their leader every second that they live."""
_REMOVE: Final = b"$JS.API.SERVER.REMOVE"
_EVACUATE: Final = b"$JS.API.SERVER.EVACUATE"
_STEP_DOWN: Final = b"$JS.API.META.LEADER.STEPDOWN"
_NOT_MEMBER: Final = 10044
_ID_CHARACTERS: Final = 8
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Peers(NamedTuple):
    """The servers that vote on streams, by their ids, as their leader sees them."""

    ids: frozenset[str]
    silent: frozenset[str]
    """Those that their leader has not heard of for some seconds."""


def peer_id(name: str) -> str:
    """Return what servers know a server of that name by."""
    digest = hashlib.sha256(name.encode()).digest()[:_ID_CHARACTERS]
    return "".join(_DIGITS[byte % len(_DIGITS)] for byte in digest)


async def peers(system: NatsClient) -> Peers:
    """Return the servers that vote.

    Raises:
        NatsError: nobody leads them now.
    """
    return peers_of(await meta_cluster(system))


def peers_of(meta: Mapping[str, Any]) -> Peers:
    """Return the servers that vote, by what their leader tells of them."""
    voting = peer_ids(meta)
    return Peers(voting, voting - peer_ids(meta, lambda one: not is_silent(one)))


def peer_ids(
    cluster: Mapping[str, Any], counts: Callable[[Mapping[str, Any]], object] = bool
) -> frozenset[str]:
    """Return the ids of the leader and of those of its replicas that count, as it tells of them."""
    replicas = cluster.get("replicas") or []
    return frozenset([peer_id(cluster["leader"]), *(r["peer"] for r in replicas if counts(r))])


async def count_voting(system: NatsClient) -> int:
    """Return how many servers are there of those that vote.

    Raises:
        NatsError: nobody leads them now.
    """
    found = await peers(system)
    return len(found.ids - found.silent)


async def meta_cluster(system: NatsClient) -> dict[str, Any]:
    """Return what the leader of the servers that vote tells of them.

    Raises:
        NatsError: nobody leads them now.
    """
    answer = await _ask(system, STREAMS, {"leader_only": True}, REQUEST_TIMEOUT_S)
    found: dict[str, Any] = (answer.get("data") or {}).get("meta_cluster") or {}
    if not found.get("leader"):
        raise NatsError("nobody leads the servers now")
    return found


async def is_sole(system: NatsClient, server: str) -> bool:
    """Tell whether the server of that name knows of no other one that votes.

    Raises:
        NatsError: it does not tell.
    """
    asked = {"server_name": server, "exact_match": True}
    data = (await _ask(system, STREAMS, asked, REQUEST_TIMEOUT_S)).get("data") or {}
    return (data.get("meta_cluster") or {}).get("cluster_size") == 1


async def unsettled_groups(
    system: NatsClient,
    server: str,
    groups: frozenset[str],
    present: frozenset[str],
    held: frozenset[str],
) -> frozenset[str]:
    """Return those groups in which it is not agreed on yet who votes, as a server sees it.

    What a stream's leader tells of its copies leaves out who votes and is to hold none any more,
    and whether who is to hold one knows of it. A copy of a stream that holds nothing is current at
    once, while its group's log is empty yet: the vote of such a server does not count. A server
    that was just started does not tell of its groups at all, and its copies count as current by
    what it had before. Server and groups are given by names; `present` has the ids of the servers
    that there are, `held` those groups in which the server has a copy, as their leaders tell.

    Raises:
        NatsError: it does not tell.
    """
    # Without the account it tells of the system's groups only.
    asked = {"server_name": server, "exact_match": True, "account": ACCOUNT}
    found = groups_of(await _ask(system, GROUPS, asked, REQUEST_TIMEOUT_S))
    untold = held - found.keys()
    return untold | frozenset(
        name
        for name, group in found.items()
        if name in groups and not (_votes(group) and present >= set(group["peers"]))
    )


def groups_of(answer: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what a server tells of the groups it is in, by their names."""
    accounts = (answer.get("data") or {}).values()
    return {name: group for found in accounts for name, group in found.items()}


def _votes(group: Mapping[str, Any]) -> bool:
    """Return whether a server's vote in a group counts, and somebody leads it."""
    return bool(group.get("leader") and group.get("pindex") and not group.get("observer"))


def is_silent(replica: Mapping[str, Any]) -> bool:
    """Return whether the leader has not heard of a server for some seconds."""
    # A server that was killed counts as online for minutes. Of one that led the others and is gone
    # its successor has never heard.
    silence_ns = replica.get("active", 0)
    return bool(replica.get("offline") or silence_ns == 0 or silence_ns > SILENCE_S * 1e9)


async def remove_server(system: NatsClient, peer: str) -> None:
    """Take a server that is gone for ever off those that vote; its copies are made elsewhere.

    Raises:
        NatsError: it was not done.
    """
    await _change(system, _REMOVE, {"peer_id": peer}, _NOT_MEMBER)


async def evacuate_server(system: NatsClient, peer: str) -> None:
    """Begin to move what a server holds to others, as far as there are others without it.

    Raises:
        NatsError: it was not begun.
    """
    await _change(system, _EVACUATE, {"peer_id": peer}, _NOT_MEMBER)


async def step_down(system: NatsClient, peer: str, leaving: AbstractSet[str] = frozenset()) -> bool:
    """Let another server lead those that vote if the one of that id does; tell whether it did.

    Those that are leaving had better not lead next.

    Raises:
        NatsError: nobody leads them, or none can take over.
    """
    meta = await meta_cluster(system)
    if peer_id(meta["leader"]) != peer:
        return False
    successor = _successor(meta, leaving)
    # Without one the servers choose by themselves.
    request = {} if successor is None else {"placement": {"preferred": successor}}
    await _change(system, _STEP_DOWN, request)
    return True


def _successor(meta: Mapping[str, Any], leaving: AbstractSet[str]) -> str | None:
    """Return the name of the server that had best lead next, None when there is none."""
    found = [
        (one.get("lag", 0), str(one["name"]))
        for one in meta.get("replicas") or []
        if one.get("current")
        and not is_silent(one)
        and one["peer"] not in leaving
        # The name of one that was never heard of is none.
        and peer_id(str(one.get("name"))) == one["peer"]
    ]
    return min(found)[1] if found else None


async def _change(
    system: NatsClient, subject: bytes, request: Mapping[str, object], harmless: int | None = None
) -> None:
    """Ask for a change of those that vote; an error of the harmless code is none."""
    error = (await _ask(system, subject, request, CHANGE_TIMEOUT_S)).get("error")
    if error is not None and (harmless is None or error.get("err_code") != harmless):
        raise NatsError(error.get("description", "refused"))


async def _ask(
    system: NatsClient, subject: bytes, request: Mapping[str, object], timeout_s: float
) -> dict[str, Any]:
    body = json.dumps(request).encode()
    answer = await system.request(subject, body, timeout_s=timeout_s)
    told: dict[str, Any] = json.loads(answer.payload)
    return told
