"""Compares one map with the target, and sends what a synchronisation has to send.

    own digests, theirs ──▶ buckets that differ ──▶ their keys, in pages ──▶ differences ──▶ batches

What was done of a map is a beginning of the range of checksums of keys: chunk after chunk of
buckets is compared and sent, and then the share of the shard says so.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from grid_member.config.names import find
from grid_member.engine.io.ending import end_tasks
from grid_member.engine.wan.agreement import MergePolicy
from grid_member.engine.wan.digests import HASH_BITS, MAX_BITS, bits_for
from grid_member.engine.wan.key_filter import KeyFilter
from grid_member.engine.wan.stamps import COUNTER_BITS
from grid_member.wan.answers import MapAnswer, reason_of
from grid_member.wan.comparison.buckets import Walk
from grid_member.wan.comparison.differences import (
    Difference,
    Marks,
    difference_of,
    is_sent,
    is_surplus,
)
from grid_member.wan.comparison.messages import (
    KeysQuestion,
    MapQuestion,
    read_digests_answer,
    read_keys_answer,
    write_digests_question,
    write_keys_question,
)
from grid_member.wan.jobs.records import Counts, JobKind
from grid_member.wan.jobs.sending import MapRefusedError, MapSending
from grid_member.wan.link import DIGESTS_PATH, KEYS_PATH
from grid_member.wan.pacing import SLICE
from grid_member.wan.ports import UnreachableError
from grid_member.wan.protocol import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from grid_member.engine.wan.agreement import MapReference
    from grid_member.engine.wan.changes import Change
    from grid_member.engine.wan.digests import Digests, Row
    from grid_member.wan.comparison.messages import DigestsAnswer
    from grid_member.wan.hello import Welcome
    from grid_member.wan.jobs.lane import Lane, Patience

T = TypeVar("T")
LISTED_KEYS: Final = 25_000
"""Of both clusters, that are compared in one go: about a page."""
END: Final = 1 << HASH_BITS
SETTLE_S: Final = 1.0
"""Until a check looks again at what differed: changes may have been under way."""
MOST_SETTLE_S: Final = 5.0
"""The same while changes wait."""
_LOOK_S: Final = 0.1
_ANOTHER: Final = (
    "the target publishes the map back, and sync.extra-entries REMOVE would remove entries of its "
    "own clients: use KEEP"
)


class MapJob(NamedTuple):
    """What is done to which map."""

    kind: JobKind
    uuid: bytes
    map: str
    reference: MapReference
    full: bool
    stamp: int
    """Extra entries of the target that are newer stay, whatever the configuration says."""


class Moved(Protocol):
    """Hears how far a map is."""

    async def __call__(self, at: int, counts: Counts) -> None:
        """Note that all keys with a smaller checksum are done, and what was found."""


class _Found(NamedTuple):
    key: str
    difference: Difference
    own_stamp: int
    their_stamp: int


class MapWork:
    """Works on one map."""

    def __init__(
        self, lane: Lane, patience: Patience, welcome: Welcome, job: MapJob, moved: Moved
    ) -> None:
        self._lane = lane
        self._patience = patience
        self._welcome = welcome
        self._job = job
        self._moved = moved
        self._map = lane.shard.compared(job.map)
        self._filter = KeyFilter(job.reference)
        self._sending = MapSending(lane, patience, welcome, job.reference.policy)
        self._bits = 0
        self._marks = Marks(0, 0, 0)
        self._counts = Counts()
        self._removals: set[str] = set()
        """Keys that differ since they were removed here."""

    async def run(self, at: int, counts: Counts) -> str:
        """Do what is left to do behind a checksum; return why not all could be, empty when it was.

        Raises:
            TargetError: the target did not answer.
            MapRefusedError: it does not take the map.
        """
        self._counts = counts
        await self._check_mirror()
        if self._job.full:
            await self._send_all(at)
        else:
            await self._compare(at)
        return self._sending.problem

    async def _check_mirror(self) -> None:
        """Refuse to remove what the target's own clients have written.

        The connection may be older than the publisher that the target has now: it is asked again.
        """
        if self._job.kind is not JobKind.SYNC or not self._lane.settings.removes_extra:
            return
        welcome = await self._patience.greet(self._welcome.cluster_id)
        if find(dict.fromkeys(welcome.published_back, True), self._job.map) is not None:
            raise MapRefusedError(_ANOTHER)

    # All of it

    async def _send_all(self, at: int) -> None:
        self._bits = self._own_bits()
        by_bucket = await self._walk().keys()
        await self._send_clear()
        sizes = {bucket: len(keys) for bucket, keys in by_bucket.items()}
        for chunk in _grouped(self._ahead(sorted(by_bucket), at), sizes, self._chunk_keys):
            keys = [key for bucket in chunk for key in dict.fromkeys(by_bucket[bucket])]
            change = partial(self._lane.shard.change, self._job.map)
            await self._send_chunk(chunk, map(change, keys), Counts())

    # What differs

    async def _compare(self, at: int) -> None:
        differing, theirs, quiet = await self._differing()
        if self._marks.cleared > self._marks.target_cleared:
            await self._send_clear()
        by_bucket = await self._walk().keys({*differing}) if differing else {}
        # Digests do not tell which buckets the tombstones of the target are in.
        removed = theirs.removed >> theirs.bits
        sizes = {
            bucket: len(by_bucket.get(bucket, ())) + theirs.counts[bucket] + removed
            for bucket in differing
        }
        for group in _grouped(self._ahead(differing, at), sizes, LISTED_KEYS):
            found = await self._differences(group, by_bucket, theirs)
            if not quiet.issuperset(group) and any(found.values()):
                found = await self._seen_again(found, group, by_bucket, theirs)
            for chunk in _grouped(group, sizes, self._chunk_keys):
                await self._note(chunk, [each for bucket in chunk for each in found[bucket]])
        if self._job.kind is JobKind.SYNC:
            await self._send_late_removals()

    async def _differing(self) -> tuple[list[int], Digests, set[int]]:
        """Return the buckets that differ, digests of the target, and the buckets at rest.

        A check looks twice, and counts only what did not change meanwhile.
        """
        own, theirs = await self._look()
        differing = [*own.differing(theirs)]
        if self._job.kind is JobKind.SYNC or not differing:
            return differing, theirs, {*differing}
        await self._settle()
        own_again, theirs_again = await self._look()
        again = [*own_again.differing(theirs_again)]
        if own_again.bits != own.bits:
            return again, theirs_again, set()
        changed = {*own.differing(own_again), *theirs.differing(theirs_again)}
        before = {*differing}
        both = [bucket for bucket in again if bucket in before]
        return both, theirs_again, {*both} - changed

    async def _look(self) -> tuple[Digests, Digests]:
        """Return own digests and those of the target; both walk at the same time."""
        self._bits = max(self._bits, self._own_bits())
        while True:
            own = asyncio.create_task(self._walk().digests())
            try:
                answer = await self._ask_digests()
                needed = bits_for(sum(answer.digests.counts) + answer.digests.removed)
                if needed <= self._bits + 1 or self._bits == MAX_BITS:
                    self._marks = Marks(self._map.cleared, self._map.purged, answer.cleared)
                    return await own, answer.digests
            finally:
                await end_tasks(own)
            # The target has many more keys: its buckets would be too large.
            self._bits = needed

    async def _ask_digests(self) -> DigestsAnswer:
        question = write_digests_question(self._question())
        answer = _read(read_digests_answer, await self._patience.post(DIGESTS_PATH, question))
        if answer.code is not MapAnswer.TAKEN:
            raise MapRefusedError(reason_of(answer.code))
        if answer.digests.bits != self._bits:
            raise UnreachableError("the target's answer is to another question")
        return answer

    async def _differences(
        self, buckets: Sequence[int], by_bucket: dict[int, list[str]], theirs: Digests
    ) -> dict[int, list[_Found]]:
        """Return what differs in each of the buckets."""
        walk, marks = self._walk(), self._marks
        # A check tells what the target lacks from what it has removed; to send both does no harm.
        counts = self._job.kind is JobKind.CHECK
        listed = [bucket for bucket in buckets if counts or theirs.counts[bucket]]
        rows = await self._rows(listed) if listed else {}
        self._lane.pacer.begin()
        found: dict[int, list[_Found]] = {}
        for bucket in buckets:
            of_target = rows.get(bucket, {})
            found[bucket] = []
            for key in await walk.in_order([*by_bucket.get(bucket, ()), *of_target]):
                own, other = await walk.row(key), of_target.get(key)
                difference = difference_of(own, other, marks)
                if difference is not None:
                    stamps = (0 if one is None else one.stamp for one in (own, other))
                    found[bucket].append(_Found(key, difference, *stamps))
        return found

    async def _seen_again(
        self,
        found: dict[int, list[_Found]],
        buckets: Sequence[int],
        by_bucket: dict[int, list[str]],
        theirs: Digests,
    ) -> dict[int, list[_Found]]:
        """Return what differs still, as before: the rest has changed while it was looked at."""
        await self._settle()
        again = await self._differences(buckets, by_bucket, theirs)
        before = {each for of_bucket in found.values() for each in of_bucket}
        return {
            bucket: [each for each in of_bucket if each in before]
            for bucket, of_bucket in again.items()
        }

    async def _rows(self, buckets: Sequence[int]) -> dict[int, dict[str, Row]]:
        """Return what the target has in buckets."""
        found: dict[int, dict[str, Row]] = {bucket: {} for bucket in buckets}
        walk, after = self._walk(), None
        while True:
            question = KeysQuestion(self._question(), tuple(buckets), after)
            data = await self._patience.post(KEYS_PATH, write_keys_question(question))
            page = await asyncio.to_thread(_read, read_keys_answer, data)
            if page.code is not MapAnswer.TAKEN:
                raise MapRefusedError(reason_of(page.code))
            self._lane.pacer.begin()
            for place, row in enumerate(page.rows):
                if place % SLICE == SLICE - 1:
                    await self._lane.pacer.turn()
                bucket = found.get(walk.bucket(row.key))
                if bucket is not None and self._filter.includes(row.key):
                    bucket[row.key] = row
            if not page.more:
                return found
            last = page.rows[-1].key
            if after is not None and (walk.bucket(last), last) <= (walk.bucket(after), after):
                raise UnreachableError("the target tells a page again")
            after = last

    # What becomes of it

    async def _note(self, chunk: Sequence[int], found: list[_Found]) -> None:
        """Count what differs in a chunk, and send what the target is to have."""
        if self._job.kind is JobKind.CHECK:
            waits = partial(self._lane.shard.waits, self._lane.settings.name, self._job.map)
            found = [each for each in found if not waits(each.key)]
            await self._send_chunk(chunk, (), _counted(found))
        else:
            if any(is_surplus(each.difference) for each in found):
                # What the target listed may be what its own publisher has yet to send.
                await self._check_mirror()
            await self._send_chunk(chunk, self._changes(found), _counted(found))

    def _changes(self, found: Iterable[_Found]) -> Iterator[Change | None]:
        shard, job = self._lane.shard, self._job
        for key, difference, _, their_stamp in found:
            if is_sent(difference, job.reference.policy):
                if difference is Difference.REMOVED:
                    self._removals.add(key)
                yield shard.change(job.map, key)
            elif is_surplus(difference) and self._removes(their_stamp):
                yield shard.removal(job.map, key, job.stamp)

    def _removes(self, their_stamp: int) -> bool:
        """Tell whether an entry goes of which only the target knows."""
        return self._lane.settings.removes_extra and their_stamp <= self._job.stamp

    async def _send_chunk(
        self, chunk: Sequence[int], changes: Iterable[Change | None], found: Counts
    ) -> None:
        sent = await self._sending.send(changes)
        self._counts = _sum(self._counts, found._replace(sent=sent))
        await self._moved(chunk[-1] + 1 << HASH_BITS - self._bits, self._counts)

    async def _send_clear(self) -> None:
        if (
            self._job.kind is JobKind.CHECK
            or self._job.reference.policy is MergePolicy.PUT_IF_ABSENT
        ):
            return
        sent = await self._sending.send([self._lane.shard.clear_change(self._job.map)])
        self._counts = _sum(self._counts, Counts(sent=sent))

    async def _send_late_removals(self) -> None:
        """Send the removals of which an older put may still be on its way to the target.

        The target has no entry yet, so digests show nothing. What is removed from now on is queued.
        """
        job = self._job
        if not is_sent(Difference.REMOVED, job.reference.policy):
            return
        since = job.stamp - (self._lane.settings.in_flight_ms << COUNTER_BITS)
        late: list[str] = []
        for place, key in enumerate(self._map.removed_keys()):
            if place % SLICE == SLICE - 1:
                await self._lane.pacer.turn()
            held = self._map.held(key)
            if held is not None and held.stamp >= since and key not in self._removals:
                late.append(key)
        change = partial(self._lane.shard.change, job.map)
        sent = await self._sending.send(map(change, filter(self._filter.includes, late)))
        self._counts = _sum(self._counts, Counts(sent=sent))
        await self._moved(END, self._counts)

    async def _settle(self) -> None:
        """Wait until changes that are under way have arrived, as far as that can be told."""
        lane, waited_s = self._lane, 0.0
        while waited_s < SETTLE_S or (
            waited_s < MOST_SETTLE_S and lane.shard.busy(lane.settings.name)
        ):
            await lane.sleep(_LOOK_S)
            waited_s += _LOOK_S

    @property
    def _chunk_keys(self) -> int:
        """Keys after which the share says how far it is: as many as are under way at once."""
        return self._lane.settings.batch_size * self._lane.settings.at_once

    def _ahead(self, buckets: Iterable[int], at: int) -> list[int]:
        first = at >> HASH_BITS - self._bits
        return [bucket for bucket in buckets if bucket >= first]

    def _own_bits(self) -> int:
        return bits_for(len(self._map.keys()) + len(self._map.removed_keys()))

    def _walk(self) -> Walk:
        return Walk(self._map, self._filter, self._job.uuid, self._bits, self._lane.pacer)

    def _question(self) -> MapQuestion:
        settings, job = self._lane.settings, self._job
        ends = settings.cluster_id, self._welcome.cluster_id
        patterns = job.reference.include, job.reference.exclude
        return MapQuestion(*ends, settings.name, job.uuid, job.map, *patterns, self._bits)


def _grouped(buckets: Sequence[int], sizes: dict[int, int], most: int) -> Iterator[list[int]]:
    """Yield buckets in groups of about so many keys."""
    group: list[int] = []
    size = 0
    for bucket in buckets:
        if group and size + sizes[bucket] > most:
            yield group
            group, size = [], 0
        group.append(bucket)
        size += sizes[bucket]
    if group:
        yield group


def _counted(found: Iterable[_Found]) -> Counts:
    counts = dict.fromkeys((each.value for each in Difference), 0)
    for each in found:
        counts[each.difference.value] += 1
    return Counts(**counts)


def _sum(counts: Counts, more: Counts) -> Counts:
    return Counts(*map(sum, zip(counts, more, strict=True)))


def _read(read: Callable[[bytes], T], data: bytes) -> T:
    try:
        return read(data)
    except ProtocolError as problem:
        raise UnreachableError(f"no WAN listener answers there: {problem}") from None
