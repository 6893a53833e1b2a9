"""Streams in memory that nobody holds any more after all were stopped: they begin anew.

In a group a vote from an empty log counts only when all have voted. So when all members were
stopped and one of them does not come back, a stream in memory would elect nobody, and keep the
others from serving what they have on disks.

    all that hold a copy are there, or one of them has its log   ─▶ a leader will be elected
    most are there, none has anything, and some are missing      ─▶ deleted, and made anew
    fewer are there                                              ─▶ the others may be a quorum
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from grid_member.engine.nats.damage import details_of
from grid_member.engine.nats.errors import NatsError
from grid_member.engine.nats.peers import ACCOUNT, groups_of, meta_cluster
from grid_member.engine.nats.rescue import all_answers
from grid_member.engine.nats.streams import delete_stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from grid_member.engine.nats.client import NatsClient
    from grid_member.engine.nats.streams import Stream

LOOK_S: Final = 2.0
LOOKS: Final = 8
"""Looks in a row that have to find it so. Each takes a second, too: that is some 20 seconds, longer
than elections, and than the starts of members that are started together."""
_STREAMS: Final = b"$SYS.REQ.SERVER.PING.JSZ"
_GROUPS: Final = b"$SYS.REQ.SERVER.PING.RAFTZ"
_log: Final = logging.getLogger("grid.engine.nats")


async def begin_anew(
    system: NatsClient, client: NatsClient, own: str, streams: Iterable[Stream]
) -> None:
    """Delete such streams while members wait for them; goes on until it is cancelled.

    The one member does it whose server leads all others.

    Args:
        system: a connection in the account of the system.
        client: a connection in the account of the data.
        own: the name of the member's own server.
        streams: those that the start waits for. Only beside some on disks one is given up.
    """
    wanted = [*streams]
    names = {one.name for each in wanted if not each.durable for one in (each, each.images)}
    if not names or not any(stream.durable for stream in wanted):
        return
    found: dict[str, int] = {}
    while True:
        await asyncio.sleep(LOOK_S)
        try:
            emptied = await _emptied(system, own, names)
            found = {name: found.get(name, 0) + 1 for name in emptied}
            for name in sorted(name for name, looks in found.items() if looks >= LOOKS):
                await delete_stream(client, name)
                del found[name]
                _log.warning(
                    "nobody that is there has anything of the log %s, which was in memory only: it "
                    "begins empty, without those that are missing",
                    name,
                )
        except (NatsError, ValueError, KeyError, TypeError, AttributeError):
            found = {}


async def _emptied(system: NatsClient, own: str, names: set[str]) -> set[str]:
    """Return those of the streams that are to begin anew, if this member is to see to that."""
    if (await meta_cluster(system))["leader"] != own:
        return set()
    told, groups = await asyncio.gather(
        all_answers(system, _STREAMS, {"account": ACCOUNT, "streams": True, "raft": True}),
        all_answers(system, _GROUPS, {"account": ACCOUNT}),
    )
    return emptied(names, told, groups)


def emptied(
    names: set[str], told: Iterable[Mapping[str, Any]], groups: Iterable[Mapping[str, Any]]
) -> set[str]:
    """Return those of the streams of which most copies are there and empty, and others missing.

    Args:
        names: of the streams.
        told: what servers tell of their streams.
        groups: what servers tell of their groups.
    """
    called: dict[str, str] = {}
    stored: set[str] = set()
    for detail in (one for answer in told for one in details_of(answer)):
        if detail["name"] in names:
            called[detail.get("stream_raft_group", "")] = detail["name"]
            if detail["state"].get("last_seq"):
                stored.add(detail["name"])
    held: dict[str, list[Mapping[str, Any]]] = {}
    for group, copy in (one for answer in groups for one in groups_of(answer).items()):
        if group in called:
            held.setdefault(called[group], []).append(copy)
    return {name for name, copies in held.items() if name not in stored and _is_emptied(copies)}


def _is_emptied(copies: list[Mapping[str, Any]]) -> bool:
    size, most = copies[0]["size"], max(copy["quorum_needed"] for copy in copies)
    # One that is led is whole, though it be empty.
    known = ("leader", "ever_had_leader", "pindex")
    return most <= len(copies) < size and not any(copy.get(one) for copy in copies for one in known)
