"""Logs in memory that nobody holds any more after all were stopped: they begin anew.

In a group a vote from an empty log counts only when all have voted. So when all members were
stopped and one of them does not come back, a stream in memory would elect nobody, and keep the
others from serving what they have on disks.

    all that hold a copy are there, or one of them has its log   ─▶ a leader will be elected
    most are there, none has anything, and some are missing      ─▶ waited for, then deleted, and
                                                                    made anew
    fewer are there                                              ─▶ the others may be a quorum

Who is missing may be cut off, and still have what the others lost. That was more of them than may
be lost at a time, so nobody was promised it. But most partitions are short: so it is waited for.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grid_member.engine.integrity.damage import details_of
from grid_member.engine.nats.admin.peers import ACCOUNT, groups_of, meta_cluster, peer_id, peers_of
from grid_member.engine.nats.admin.questions import (
    ALL_SERVERS_ANSWER_S,
    GROUPS,
    STREAMS,
    all_answers,
)
from grid_member.engine.nats.admin.streams import delete_stream
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.nats.admin.streams import Stream
    from grid_member.engine.nats.client.client import NatsClient

LOOK_S: Final = 2.0
PERIOD_S: Final = LOOK_S + ALL_SERVERS_ANSWER_S
LOOKS: Final = 8
"""Looks in a row that have to find it so. That is longer than elections, and than the starts of
members that are started together."""
LEADS: Final = 3
"""Looks in a row of the one that deletes in which its server leads the others. Who leads next sees
by then what was deleted, and deletes nothing that was made anew."""
TELL_S: Final = ((3600, 3600), (300, 300), (0, 30))
"""From how many seconds on it is told in what steps how long it takes: each is logged."""
LEADERLESS: Final = "nobody leads the log of what is in memory only"
ELECTING: Final = f"{LEADERLESS} yet"
_IF_LOST: Final = "if those that are missing are lost for good, partialStart goes on without them"
_MISSING: Final = f"{LEADERLESS}: those that hold it have to come back; {_IF_LOST}"
_OVERDUE: Final = (
    f"{LEADERLESS}, and nobody that is there has anything of it: it begins empty as soon as the "
    "member whose server leads the others finds it so, too, and nobody is just coming back"
)
_MEMORY: Final = "memory"
_log: Final = logging.getLogger("grid.engine.nats")


class StreamGroup(NamedTuple):
    """A stream, and what those who vote on it are called: made anew it is another group."""

    stream: str
    name: str


class EmptyCount:
    """In how many looks in a row streams were found empty, and when that is enough."""

    def __init__(self, patience_s: float) -> None:
        """Have seen nothing.

        Args:
            patience_s: how long those are waited for that are missing and may have it.
        """
        self._most = max(LOOKS, math.ceil(patience_s / PERIOD_S))
        self._looks: Counter[StreamGroup] = Counter()
        self._leads = 0
        self._made = 0
        """Looks, whatever they found."""

    @property
    def reason(self) -> str:
        """Why a start waits."""
        if not self._looks:
            return ELECTING if self._made < LOOKS else _MISSING
        return describe_wait(math.ceil((self._most - max(self._looks.values())) * PERIOD_S))

    def note_failure(self) -> None:
        """Hear of a look that found out nothing: what was seen so far stays."""
        self._leads = 0

    def after(
        self,
        found: AbstractSet[StreamGroup],
        *,
        leads: bool,
        missing: AbstractSet[str],
        silent: AbstractSet[str],
    ) -> list[str]:
        """Return the streams that are to be deleted now, the snapshots of a log before it.

        Nobody writes snapshots of a log that nobody leads, and whatever is deleted is found in the
        next looks as long as it is there.

        Args:
            found: those that this look found empty.
            leads: whether the own server leads the others.
            missing: the ids of those that vote and did not answer.
            silent: the ids of those of whom their leader did not hear either.
        """
        self._looks = Counter({group: self._looks[group] + 1 for group in found})
        self._leads = self._leads + 1 if leads else 0
        self._made += 1
        # Who is heard again and did not answer yet is just coming back, maybe with all of it.
        if self._leads < LEADS or not missing <= silent:
            return []
        over = (group.stream for group, looks in self._looks.items() if looks >= self._most)
        return sorted(over, reverse=True)


class EmptyLogs:
    """Lets such logs begin anew while members wait for them.

    The one member does it whose server leads all others, if that is one of those that wait.
    """

    def __init__(
        self,
        system: NatsClient,
        client: NatsClient,
        own: str | None,
        streams: Iterable[Stream],
        settings: ClusterSettings,
    ) -> None:
        """Look at nothing yet."""
        self._system = system
        self._client = client
        self._own = own
        wanted = [*streams]
        # Only beside some on disks one is given up.
        beside = any(stream.durable for stream in wanted)
        self._logs = [stream for stream in wanted if beside and not stream.durable]
        self._patience_s = settings.validation_timeout_s
        self.answers = ELECTING
        """Why a start waits that has all that is on disks."""

    def concerns(self, stream: Stream) -> bool:
        """Tell whether a stream, a log or its snapshots, is one of those."""
        return any(stream in {log, log.snapshots} for log in self._logs)

    async def watch(self) -> None:
        """Look, and delete what is empty; goes on until it is cancelled."""
        count = EmptyCount(self._patience_s)
        while self._logs:
            await asyncio.sleep(LOOK_S)
            try:
                gone = await self._look(count)
            except (NatsError, ValueError, KeyError, TypeError, AttributeError):
                count.note_failure()
                continue
            for name in gone:
                if not await self._begin_anew(name):
                    break
            self.answers = count.reason

    async def _begin_anew(self, name: str) -> bool:
        """Delete it; whether that was answered: if not, the next look tells what became of it."""
        _log.warning(
            "nobody that is there has anything of the log %s, which was in memory only: it begins "
            "empty, without those that are missing",
            name,
        )
        try:
            await delete_stream(self._client, name)
        except NatsError:
            return False
        return True

    async def _look(self, count: EmptyCount) -> list[str]:
        """Return the streams that are to be deleted now."""
        meta = await meta_cluster(self._system)
        about = {"account": ACCOUNT, "streams": True, "raft": True, "config": True}
        answers, groups = await asyncio.gather(
            all_answers(self._system, STREAMS, about),
            all_answers(self._system, GROUPS, {"account": ACCOUNT}),
        )
        voting = peers_of(meta)
        answered = {peer_id(answer["server"]["name"]) for answer in groups}
        return count.after(
            empty_streams(self._logs, answers, groups),
            leads=meta["leader"] == self._own,
            missing=voting.ids - answered,
            silent=voting.silent,
        )


class _CopyState(enum.Enum):
    """What there is of a stream."""

    EMPTIED = enum.auto()
    """Most copies are there and have nothing, the others are missing, and nobody will lead."""
    WITHOUT = enum.auto()
    """It is led, and holds no records."""
    HELD = enum.auto()
    """Somebody has something of it, or may have."""


def empty_streams(
    logs: Iterable[Stream],
    answers: Iterable[Mapping[str, Any]],
    groups: Iterable[Mapping[str, Any]],
) -> frozenset[StreamGroup]:
    """Return those of the streams of which most copies are there and empty, and others missing.

    A log and its snapshots are one without the other of no use: as long as somebody may have
    something of one of them neither is to be deleted.
    """
    details: dict[str, list[Mapping[str, Any]]] = {}
    for detail in (one for answer in answers for one in details_of(answer)):
        details.setdefault(detail["name"], []).append(detail)
    copies: dict[str, list[Mapping[str, Any]]] = {}
    for group, copy in (one for answer in groups for one in groups_of(answer).items()):
        copies.setdefault(group, []).append(copy)
    found: set[StreamGroup] = set()
    for log in logs:
        both = [_look_at_copies(each.name, details, copies) for each in (log, log.snapshots)]
        if all(state is not _CopyState.HELD for state, _ in both):
            found.update(group for state, group in both if state is _CopyState.EMPTIED)
    return frozenset(found)


def _look_at_copies(
    name: str,
    details: Mapping[str, Sequence[Mapping[str, Any]]],
    copies: Mapping[str, Sequence[Mapping[str, Any]]],
) -> tuple[_CopyState, StreamGroup]:
    """Return what there is of a stream, and its group."""
    answers = details.get(name, ())
    called = {detail.get("stream_raft_group", "") for detail in answers}
    kept = {detail["config"]["storage"] for detail in answers}
    # Made anew a moment ago it is two groups for as long as not all have heard of it.
    group = StreamGroup(name, called.pop() if len(called) == 1 else "")
    stored = any(detail["state"]["last_seq"] for detail in answers)
    # While copies are added those that are to be made count in the group, and are empty.
    settled = all("desired" not in detail["cluster"] for detail in answers)
    if not group.name or kept != {_MEMORY} or stored or not settled:
        return _CopyState.HELD, group
    return _state_by_votes(len(answers), copies.get(group.name, ())), group


def _state_by_votes(answers: int, copies: Sequence[Mapping[str, Any]]) -> _CopyState:
    """Return what there is of a stream of which so many tell that they have no record."""
    sizes = {copy["size"] for copy in copies}
    if len(sizes) != 1:
        return _CopyState.HELD
    (size,) = sizes
    most = max(size // 2 + 1, *(copy["quorum_needed"] for copy in copies))
    if min(answers, len(copies)) < most:
        return _CopyState.HELD
    if any(copy.get("leader") for copy in copies):
        return _CopyState.WITHOUT
    known = any(copy["ever_had_leader"] or copy["pindex"] for copy in copies)
    return _CopyState.HELD if known or len(copies) >= size else _CopyState.EMPTIED


def describe_wait(left_s: int) -> str:
    """Return why a start waits for so long yet for those that are missing."""
    if left_s <= 0:
        return _OVERDUE
    step_s = next(step_s for from_s, step_s in TELL_S if left_s > from_s)
    within_s = math.ceil(left_s / step_s) * step_s
    return (
        f"{LEADERLESS}, and nobody that is there has anything of it: it begins empty in about "
        f"{within_s} s unless those that are missing come back with it; {_IF_LOST}"
    )
