"""Going on without servers that are gone for good, when those that are left are no majority.

nobody leads ─▶ fewer votes are enough for a while ─▶ one leads ─▶ the lost are taken off
─▶ each stream goes on with the copies that are left

Only for when somebody says so: servers that are cut off look like lost ones, and two parts of a
cluster that both go on are two clusters.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from grid_member.engine.api import EngineError, NotYetError
from grid_member.engine.nats.admin.peers import Peers, peer_id, peers, remove_server
from grid_member.engine.nats.admin.questions import all_answers
from grid_member.engine.nats.admin.streams import NoStreamError, copies_of, delete_stream
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_member.engine.nats.client.client import NatsClient

LEAD_S: Final = 12.0
"""How long an election is waited for; it takes up to some nine seconds."""
BELIEVES_S: Final = 20.0
"""How long a server that was copying from a leader believes in it."""
TAKE_OFF_S: Final = 45.0
"""How long the lost are tried to be taken off."""
DELETE_S: Final = 20.0
"""How long streams are tried to be deleted."""
LOOK_S: Final = 1.0
LOOKS: Final = 3
"""Looks in a row that have to find a server silent: of living ones a new leader hears by then."""
RETRY_S: Final = 0.5
_LOWER: Final = b"$JS.API.META.RESCUE"
_BELIEVES: Final = "leader is known"
_PING: Final = b"$SYS.REQ.SERVER.PING"
_log: Final = logging.getLogger("grid.engine.nats")


class VoteAnswers(NamedTuple):
    """What servers say to it that fewer votes are to be enough."""

    taken: int
    """How many do as they were told."""
    refusals: frozenset[str]

    @property
    def believes(self) -> bool:
        """Whether one refuses only as long as it believes in its former leader."""
        return any(_BELIEVES in refusal for refusal in self.refusals)


async def take_off_lost(
    system: NatsClient,
    client: NatsClient,
    streams: Iterable[str],
    size: int,
    gone: set[str],
    *,
    wipe: bool,
    begun: bool = False,
) -> None:
    """Let the servers that are there go on without the others.

    Args:
        system: a connection in the account of the system.
        client: a connection in the account of the data.
        streams: the names of the streams that members wait for.
        size: how many members there are to be.
        gone: gets the ids of those that are taken off, each before it is.
        wipe: whether the streams are to be deleted then.
        begun: whether that was begun before: who leads now may do so because of that.

    Raises:
        NotYetError: not all are taken off in time.
        EngineError: there is no need for it, or it cannot be done.
    """
    found = await _leader_peers(system)
    ends_s = asyncio.get_running_loop().time() + LEAD_S
    while found is None and asyncio.get_running_loop().time() < ends_s:
        await asyncio.sleep(RETRY_S)  # they may be about to elect one by themselves
        found = await _leader_peers(system)
    if found is None:
        await _elect(system, size)
    elif not begun and (wipe or not await _is_needed(system, found, client, streams)):
        raise EngineError("a majority of the members is there: they go on without help")
    try:
        await asyncio.wait_for(_take_off(system, gone), TAKE_OFF_S)
    except TimeoutError:
        raise NotYetError(
            "the members that are lost could not be taken off in time: ask again in 5 s"
        ) from None
    if not gone:
        raise EngineError("no member is lost: they go on without help")


async def lead_without_lost(
    system: NatsClient, client: NatsClient, streams: Iterable[str], size: int
) -> None:
    """Have the servers lead that are there, when nobody leads as most are gone that vote.

    It ends without an error, and is to be asked for again until somebody leads. Arguments as of
    `take_off_lost`.
    """
    if await _leader_peers(system) is None:
        with contextlib.suppress(EngineError):
            await take_off_lost(system, client, streams, size, set(), wipe=False)


async def delete_streams(client: NatsClient, wanted: Iterable[str]) -> None:
    """Delete the streams of those names that are there, with what they hold.

    Raises:
        NotYetError: some are still there.
    """
    left = set(wanted)
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + DELETE_S
    reason = "nobody answers"
    while left and loop.time() < ends_s:
        for name in sorted(left):
            try:
                await delete_stream(client, name)
            except NatsError as error:
                reason = str(error)
            else:
                left.discard(name)  # others make it anew at once
        if left:
            await asyncio.sleep(RETRY_S)
    if left:
        raise NotYetError(f"{len(left)} logs could not be deleted: {reason}; ask again in 5 s")


async def _leader_peers(system: NatsClient) -> Peers | None:
    try:
        return await peers(system)
    except NatsError:
        return None


async def _is_needed(
    system: NatsClient, found: Peers, client: NatsClient, streams: Iterable[str]
) -> bool:
    """Tell whether servers are lost without which the majority cannot serve all streams.

    Of five members two may be gone, and with them two of three copies of a stream. Who leads it
    believes so for some seconds more, and who is gone is not silent at once.
    """
    unserved = set(streams)
    ends_s = asyncio.get_running_loop().time() + LEAD_S
    while unserved and asyncio.get_running_loop().time() < ends_s:
        there = await _answering_servers(system)
        if there >= found.ids:
            return False
        for name in sorted(unserved):
            if await _is_served(client, name, there):
                unserved.discard(name)
        if unserved:
            await asyncio.sleep(RETRY_S)
    return bool(unserved)


async def _is_served(client: NatsClient, stream: str, there: frozenset[str]) -> bool:
    """Tell whether most copies of a stream are there and led, or there is none to be led."""
    try:
        servers = (await copies_of(client, stream)).servers
    except NoStreamError:
        return True
    except NatsError:
        return False
    return 2 * len(servers & there) > len(servers)


async def _elect(system: NatsClient, size: int) -> None:
    """Let fewer votes be enough, as few as needed, until one of those that are there leads."""
    loop = asyncio.get_running_loop()
    believed_s = loop.time() + BELIEVES_S
    why = ""
    for votes in range(max(size // 2, 1), 0, -1):
        _log.warning("the members that are there go on with %d votes", votes)
        ends_s = loop.time() + LEAD_S
        answers = VoteAnswers(0, frozenset())
        while (now_s := loop.time()) < ends_s:
            if not answers.taken or answers.believes:
                answers = await _ask_votes(system, votes)
                if answers.believes and now_s < believed_s:
                    ends_s = now_s + LEAD_S  # with one vote less another one could leave it behind
            if await _leader_peers(system) is not None:
                return
            await asyncio.sleep(RETRY_S)
        refusals = " and ".join(sorted(answers.refusals))
        why = "nobody was elected" if answers.taken else refusals or "nobody answers"
    raise EngineError(
        f"none of the members that are there can lead the others: {why}; ask one that has data"
    )


async def _ask_votes(system: NatsClient, votes: int) -> VoteAnswers:
    """Let so many votes be enough; return what became of that."""
    answers = await all_answers(system, _LOWER, {"quorum_needed": votes})
    errors = [answer["error"] for answer in answers if "error" in answer]
    refusals = frozenset(str(error.get("description", "refused")) for error in errors)
    return VoteAnswers(len(answers) - len(errors), refusals)


async def _find_lost(system: NatsClient, found: Peers) -> frozenset[str]:
    """Return those that vote, are silent, and do not answer by themselves either."""
    return found.silent - await _answering_servers(system) if found.silent else frozenset()


async def _take_off(system: NatsClient, gone: set[str]) -> None:
    looks: Counter[str] = Counter()
    while True:
        try:
            found = await peers(system)
            lost = await _find_lost(system, found)
            looks = Counter({peer: looks[peer] + 1 for peer in lost})
            if not lost and (gone or not found.silent):
                return
            for peer, count in looks.items():
                if count >= LOOKS:
                    gone.add(peer)  # whatever comes of it, with its data it must not come back
                    await remove_server(system, peer)
                    _log.warning("the server %s is lost: it was taken off", peer)
        except NatsError as error:
            _log.info("the lost servers are still there: %s", error)
        await asyncio.sleep(LOOK_S)


async def _answering_servers(system: NatsClient) -> frozenset[str]:
    """Return the ids of the servers that answer."""
    answers = await all_answers(system, _PING, {})
    names = (answer.get("server", {}).get("name") for answer in answers)
    return frozenset(peer_id(name) for name in names if isinstance(name, str))
