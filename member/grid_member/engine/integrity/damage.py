"""Copies of streams that lack what was stored in them, as the servers that hold them tell.

A server leaves out what it cannot read of its files, and goes on. Whoever reads a log comes to
another copy then, if there is one. Where no copy has what its servers noted as stored, none leads:

    records left out in the midst or at the end     the stream tells how many
    files gone, or cut off                          the group waits for a leader to copy from
    the same, and an emptied copy leads             the log ends before what members have read

The server with the last whole copy may have missed an entry that the servers with damaged copies
have noted. These servers do not vote for the whole copy then and, as they wait for a leader to copy
from, do not lead: the group has no leader though all of its servers are there.

None of that is a majority that is lost: the servers are all there.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grid_member.engine.bootstrap.identity import member_of
from grid_member.engine.integrity.watermarks import WATERMARK_FILE, Watermarks
from grid_member.engine.io.ending import end_tasks
from grid_member.engine.nats.admin.peers import ACCOUNT, groups_of
from grid_member.engine.nats.admin.questions import GROUPS, STREAMS, all_answers
from grid_member.engine.nats.client.errors import LackingError, NatsError, ShortError
from grid_member.engine.storage.store import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from grid_member.engine.bootstrap.identity import MemberIdentity
    from grid_member.engine.nats.admin.streams import Stream
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.state.machine import State

LOOK_S: Final = 2.0
"""How often servers are asked while a start waits."""
LOOKS: Final = 4
"""Looks in a row that have to find a copy waiting for a leader, or a log that ends too early: that
is longer than elections take, and than who leads an emptied one needs to find it out."""
HELD_BACK_LOOKS: Final = 15
"""Looks in a row that have to find a copy waiting before the member says that no other copy can
lead: several elections have failed by then."""
_SOMEBODY: Final = "a member"
_BACKUP: Final = (
    "stop all members, keep a copy of their directories, empty these and start all with "
    "persistence.restore-from, which names the last backup; what was written after it is lost"
)
RESTORE: Final = f"{_BACKUP}; partialStart does not help with that, as no member is lost"
"""What is left where no disk has what is missing."""
_ALL: Final = ", which are all that hold it"
_WHOLE: Final = ": start all members, as others may hold it whole"
_ALONE: Final = (
    "if the other members are ready, or wait and do not say this, only what this one has noted is "
    "newer than what they have: stop {member}, empty {directory} and start it again, this one "
    "alone, and only while a majority is there without it: start who is off before; of two members "
    "the other one is none, and partialStart, asked of this one, goes on then; it copies what they "
    "have, and what only it had read is lost; if all that hold it say this, "
)
_GO_ON: Final = (
    "; if all are there and this stays, the others have gone on without what only this one has "
    "read: stop {member}, keep a copy of {file}, remove it and start the member again: it goes on "
    "with what they have"
)
_HELD_BACK: Final = (
    "; if all members run and this stays, no copy can lead, as newer records than {left} has may "
    "be noted on the damaged disks: to go on with the copy of {left}, which ends at record {last}, "
    "stop all members, keep a copy of their directories, empty those of {waiting}, start all and "
    "ask {left} for partialStart; what only {waiting} had is lost; or "
)
_log: Final = logging.getLogger("grid.engine.nats")


class RepairOption(enum.Enum):
    """What may be done about a log that ends before what a member has read of it.

    While one copy is as long as that, and others are not, nothing is: they will be copied from it.
    """

    ALONE = enum.auto()
    """All copies end before: either none has it, or the one that noted it is alone with that."""
    GO_ON = enum.auto()
    """None does, and it is not in them: others went on with what was left."""


class Copy(NamedTuple):
    """A server's copy of a stream."""

    server: str
    """The server's name."""
    missing: int
    """Records that are left out of it."""
    is_waiting: bool
    """Whether it lacks what is noted as stored, and nobody leads whom it could be copied from."""
    copies: int
    """How many servers hold the stream; 0 when this one does not tell."""
    last: int
    """The sequence of its last record."""
    waits_long: bool = False
    """Whether it has waited for longer than several elections take."""

    @property
    def damaged(self) -> bool:
        """Whether it cannot be read to its end."""
        return self.missing > 0 or self.is_waiting


class _HeldBack(NamedTuple):
    """A copy that may be whole and cannot lead while servers with damaged copies wait."""

    waiting: tuple[str, ...]
    """The members of those servers."""
    left: str
    """The member with the copy: the longest one, if there are several."""
    last: int
    """The sequence of its last record."""
    lasting: bool
    """Whether elections have failed for long."""


class _DamagedStream(NamedTuple):
    """Where a stream is damaged."""

    members: str
    """The names of those on whose disks."""
    everywhere: bool
    """Whether all that hold it are there, and their copies damaged."""
    way: RepairOption | None
    """What else may be done about a log that ends before what this member has read."""
    held_back: _HeldBack | None
    """The copy that is left, and cannot lead; None: another one may come or lead, or none is."""


class Damage:
    """Looks for such copies while a log cannot be read, and once at the own ones when all are."""

    def __init__(
        self,
        streams: Callable[[], Iterable[Stream]],
        directory: Path | None,
        *,
        alone: bool = False,
        lite: bool = False,
    ) -> None:
        """Look at nothing yet.

        `streams` returns those that a start waits for; the directory has this member's copies,
        without one there are none on disk. `alone` tells whether its server is the only one, `lite`
        whether that keeps nothing.
        """
        self._streams = streams
        self._directory = directory
        self._looking: asyncio.Task[None] | None = None
        self._copies: dict[str, list[Copy]] = {}
        self._wait_counts: Counter[tuple[str, str]] = Counter()
        """In how many looks in a row a copy waited, by stream and server."""
        self._short: dict[str, ShortError] = {}
        """What was found of logs that end too early, as who leads them says."""
        self._looks: Counter[str] = Counter()
        """In how many looks that was so."""
        self._lacking: dict[str, set[str]] = {}
        """The servers whose copies lacked something when they were read, by streams that could not
        be read from another copy since."""
        self._waits: Callable[[], bool] = lambda: False
        self._member = "this member"
        self._everywhere = False
        """Whether there is a stream that is whole nowhere, as far as is told."""
        self.watermarks = Watermarks(directory, alone=alone, lite=lite)
        """How far this member has read the logs."""
        self.report: str | None = None
        """Which streams are damaged where, and what to do; None: nothing is known."""

    def begin(
        self, system: NatsClient, identity: MemberIdentity, waits: Callable[[], bool]
    ) -> None:
        """Look from now on, over a connection in the account of the system.

        `waits` tells whether the start waits for something.
        """
        own = identity.server_name
        self._waits, self._member = waits, member_of(own)
        self.watermarks.begin(system, identity)
        if self._directory is not None:
            self._looking = asyncio.get_running_loop().create_task(self._look(system, own))

    @property
    def unreadable_log(self) -> str | None:
        """What is told of a log that a member cannot go on with which waits for nothing else."""
        return self.report if self._short and not self._waits() else None

    async def check(
        self, stream: Stream, created: str, read: State, current: Callable[[], State]
    ) -> None:
        """See that what was read of a log is all of it, as `Watermarks.check`; tell what is not."""
        try:
            await self.watermarks.check(stream, created, read, current)
        except ShortError as error:
            self.short(error)
            raise
        self.whole(stream)

    def short(self, error: ShortError) -> None:
        """Hear that a log ends too early: whose copies do is known with a look."""
        self._short[error.stream] = error

    def reason(self, error: NatsError) -> str:
        """Return why a log could not be read, as people put it; copies that lack are noted."""
        if isinstance(error, ShortError):
            self.short(error)
        if not isinstance(error, LackingError):
            return str(error)
        self._lacking.setdefault(error.stream, set()).add(error.server or _SOMEBODY)
        self._tell()
        return f"no copy of {error.stream} could be read to its end yet"

    def whole(self, stream: Stream) -> None:
        """Forget what copies of a stream and its snapshots lacked: they were read to their ends."""
        read = {stream.name, stream.snapshots.name}
        if not read.isdisjoint([*self._lacking, *self._short]):
            self._short.pop(stream.name, None)
            del self._looks[stream.name]
            self._lacking = {name: of for name, of in self._lacking.items() if name not in read}
            self._tell()

    def unread(self, stream: Stream) -> None:
        """Hear that it is not known now whether a log is short: nobody let it be read."""
        self._short.pop(stream.name, None)
        del self._looks[stream.name]

    def forget(self, stream: Stream) -> None:
        """Look no more after a log whose shard was given up."""
        self.watermarks.forget(stream)
        self.whole(stream)

    def beside(self, reason: str) -> str:
        """Return a reason why a start waits with what is told of damage, which may be so as well.

        Where no copy is whole it is that alone: whatever else is in the way, no call helps.
        """
        if self.report is None:
            return reason
        return self.report if self._everywhere else f"{self.report}; {reason}"

    async def end(self) -> None:
        """Look no more, and note how far the logs are."""
        await self.watermarks.end()
        looking, self._looking = self._looking, None
        await end_tasks(looking)

    async def _look(self, system: NatsClient, own: str) -> None:
        looked = False
        while True:
            await asyncio.sleep(LOOK_S)
            waiting = self._waits() or bool(self._short)
            if not waiting:
                self.report = None
                if looked:
                    continue
            with contextlib.suppress(NatsError, ValueError, KeyError, TypeError, AttributeError):
                self._copies = self._without_elections(await copies_found(system, self._streams()))
                self._looks.update(list(self._short))
                if waiting:
                    self._tell()
                else:
                    looked = True
                    self._tell_own(own)

    def _without_elections(self, found: Mapping[str, list[Copy]]) -> dict[str, list[Copy]]:
        """Return what is found without what a leader may mend that is being elected."""
        waiting = [
            (name, one.server) for name, copies in found.items() for one in copies if one.is_waiting
        ]
        self._wait_counts = waited = Counter(
            {place: self._wait_counts[place] + 1 for place in waiting}
        )
        return {
            name: [_without_election(one, waited[name, one.server]) for one in copies]
            for name, copies in found.items()
        }

    def _tell(self) -> None:
        short = {name: error for name, error in self._short.items() if self._looks[name] >= LOOKS}
        places = places_of(self._copies, self._lacking, short)
        former, self.report = self.report, describe_damage(places, self._member, self._directory)
        self._everywhere = any(place.everywhere for place in places)
        if self.report not in {former, None}:
            _log.error("%s", self.report)

    def _tell_own(self, own: str) -> None:
        damaged = _find_damaged(self._copies, self._lacking)
        streams = sorted(stream for stream, servers in damaged.items() if own in servers)
        if streams:
            _log.error(
                "damaged data: records of %s are missing on the disk of this member, others are "
                "read in its place: stop it, empty %s and start it again, and it copies all from "
                "the others; when more than one member says this, make a backup and begin with it",
                *(", ".join(streams), self._directory),
            )


async def copies_found(system: NatsClient, streams: Iterable[Stream]) -> dict[str, list[Copy]]:
    """Return what the servers that are there tell of their copies of those streams on disks.

    Raises:
        NatsError: there is no connection.
    """
    wanted = {stream.name: stream for stream in streams if stream.durable}
    told, groups = await asyncio.gather(
        all_answers(system, STREAMS, {"account": ACCOUNT, "streams": True, "raft": True}),
        all_answers(system, GROUPS, {"account": ACCOUNT}),
    )
    groups_there = {_server(answer): groups_of(answer) for answer in groups}
    found: dict[str, list[Copy]] = {}
    for answer in told:
        server = _server(answer)
        for detail in details_of(answer):
            stream = wanted.get(detail["name"])
            if stream is not None:
                group = groups_there.get(server, {}).get(detail.get("stream_raft_group", ""), {})
                # Of snapshots some are given up in the midst.
                state, size = detail["state"], int(group.get("size", 0))
                missing = 0 if stream.is_snapshot_stream else int(state.get("num_deleted", 0))
                copy = Copy(server, missing, _waits(group), size, int(state.get("last_seq", 0)))
                found.setdefault(stream.name, []).append(copy)
    return found


def describe_damage(
    places: Mapping[_DamagedStream, list[str]], member: str, directory: Path | None
) -> str | None:
    """Return which streams are damaged on whose disks, and what to do; None: none is.

    `member` is the name of who tells it, and keeps its copies in the directory.
    """
    told = []
    for place, streams in places.items():
        names = ", ".join(streams)
        what = f"damaged data: records of {names} are missing on the disks of {place.members}"
        advice = repair_advice(place, member, directory)
        told.append(what + advice)
    return "; ".join(told) or None


def repair_advice(place: _DamagedStream, member: str, directory: Path | None) -> str:
    """Return what follows where a stream is damaged; `member` is the name of who tells it."""
    if (held_back := place.held_back) is not None:
        if not held_back.lasting:
            return _WHOLE
        waiting = _named(held_back.waiting)
        way = _HELD_BACK.format(waiting=waiting, left=held_back.left, last=held_back.last)
        return f"{_ALL if place.everywhere else _WHOLE}{way}{_BACKUP}"
    if place.everywhere:
        alone = place.way is RepairOption.ALONE
        first = _ALONE.format(member=member, directory=directory) if alone else ""
        return f"{_ALL}: {first}{RESTORE}"
    rest = ""
    if place.way is RepairOption.GO_ON and directory is not None:
        rest = _GO_ON.format(member=member, file=directory / CLUSTER / WATERMARK_FILE)
    return _WHOLE + rest


def _named(members: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(members[:-1]), members[-1])))


def places_of(
    found: Mapping[str, list[Copy]],
    lacking: Mapping[str, AbstractSet[str]],
    short: Mapping[str, ShortError],
) -> dict[_DamagedStream, list[str]]:
    """Return where streams are damaged, and which they are.

    All by streams: what servers tell of their copies, the servers whose copies could not be read,
    and what was found of logs that end too early.
    """
    servers = {stream: set(of) for stream, of in lacking.items()}
    for stream, error in short.items():
        ends = {copy.server for copy in found.get(stream, ()) if copy.last < error.sequence}
        servers.setdefault(stream, set()).update(ends or {_SOMEBODY})
    places: dict[_DamagedStream, list[str]] = {}
    for stream, damaged in sorted(_find_damaged(found, servers).items()):
        copies = found.get(stream, ())
        copy_count = max((copy.copies for copy in copies), default=0)
        # One whose disk was emptied is another server since, and holds no further copy.
        there = {member_of(copy.server) for copy in copies if copy.server in damaged}
        members = ", ".join(sorted(set(map(member_of, damaged))))
        way = _way(copies, copy_count, short[stream]) if stream in short else None
        held_back = _held_back(copies, copy_count, lacking.get(stream, frozenset()))
        place = _DamagedStream(members, 0 < copy_count <= len(there), way, held_back)
        places.setdefault(place, []).append(stream)
    return places


def _way(copies: Sequence[Copy], copy_count: int, short: ShortError) -> RepairOption | None:
    """Return what may be done about a log that is short, while no copy waits to be copied."""
    if short.in_snapshot:
        return None  # which all members read in the same snapshot
    if not 0 < copy_count <= len({member_of(copy.server) for copy in copies}):
        return None  # who is not there may hold it whole
    whole = [copy.last >= short.sequence for copy in copies]
    if any(whole):
        return RepairOption.GO_ON if all(whole) else None
    return RepairOption.ALONE


def _held_back(
    copies: Sequence[Copy], copy_count: int, lacking: AbstractSet[str]
) -> _HeldBack | None:
    """Return the copy that waiting ones may keep from leading, while all that hold it are there."""
    waiting = [copy for copy in copies if copy.is_waiting]
    members = tuple(sorted({member_of(copy.server) for copy in waiting}))
    if not 0 < copy_count <= len({member_of(copy.server) for copy in copies}):
        return None
    if copy_count - len(members) > copy_count // 2:
        return None  # the others are a majority
    whole = [copy for copy in copies if not copy.damaged and copy.server not in lacking]
    left = max(whole, key=lambda copy: copy.last, default=None)
    if left is None or left.last == 0:
        return None
    lasting = all(copy.waits_long for copy in waiting)
    return _HeldBack(members, member_of(left.server), left.last, lasting)


def _find_damaged(
    found: Mapping[str, list[Copy]], lacking: Mapping[str, AbstractSet[str]]
) -> dict[str, set[str]]:
    """Return the servers whose copies are damaged, by streams."""
    damaged = {stream: set(servers) for stream, servers in lacking.items()}
    for stream, copies in found.items():
        servers = {copy.server for copy in copies if copy.damaged}
        if servers:
            damaged.setdefault(stream, set()).update(servers)
    return damaged


def _without_election(copy: Copy, looks: int) -> Copy:
    """Return a copy that was found waiting in so many looks in a row as what that tells of it."""
    return copy._replace(is_waiting=looks >= LOOKS, waits_long=looks >= HELD_BACK_LOOKS)


def _waits(group: Mapping[str, Any]) -> bool:
    behind = group.get("committed", 0) > group.get("applied", 0)
    return bool(behind and group.get("paused") and not group.get("leader"))


def details_of(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what a server tells of its streams."""
    accounts = (answer.get("data") or {}).get("account_details") or []
    return [detail for one in accounts for detail in one.get("stream_detail") or []]


def _server(answer: Mapping[str, Any]) -> str:
    return str((answer.get("server") or {}).get("name", ""))
