"""Takes the batches of other clusters: each change becomes a merge, and all are answered at once.

batch ──▶ maps that are refused as a whole ──▶ merges, in slices ──▶ all committed ──▶ a byte a map
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from grid_member.engine.api import Reason, Refused
from grid_member.engine.wan.changes import MergeResult
from grid_member.telemetry.logs import repeatable
from grid_member.wan.answers import MapAnswer
from grid_member.wan.comparison.answering import Answering
from grid_member.wan.figures import MAX_SOURCES, REFUSED
from grid_member.wan.hello import TargetLimits, Welcome
from grid_member.wan.members.requests import RequestKind
from grid_member.wan.pacing import SLICE, Pacer
from grid_member.wan.ports import BusyError, ConflictError
from grid_member.wan.protocol import PROTOCOL, read_batch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.engine.api import Done
    from grid_member.engine.wan.agreement import Agreement, MergePolicy
    from grid_member.engine.wan.changes import Change
    from grid_member.wan.comparison.buckets import ComparedMap
    from grid_member.wan.figures import WanFigures
    from grid_member.wan.hello import Hello
    from grid_member.wan.protocol import Batch

MAX_WAITING_MERGES: Final = 8192
"""Merges without an outcome; while there are more no batch is taken."""
BATCH_OVERHEAD_BYTES: Final = 1 << 20
"""Of a batch beyond its largest value: names, heads, and the batches of many small changes."""
MAX_PASSED_ON: Final = 64
"""Messages that another member answers at once for this one, which lacks shards."""
TOO_MANY: Final = "too many merges wait"
MAX_SHOWN_CHARACTERS: Final = 64
SAME_CLUSTER: Final = (
    "this is the same cluster: target-endpoints leads back to it, or its base directory was copied "
    "instead of restored from a backup"
)
NOT_READY: Final = "the member is not ready"
NOT_AGREED: Final = "the members have not agreed on WAN replication yet"
UNNAMED_SOURCE: Final = (
    "a change does not name the sending cluster among the clusters that it has passed"
)
KEPT: Final = "entries are kept that may have been removed here"
"""What the log says of ambiguous changes."""
_UNNAMED: Final = "unknown"
_log: Final = logging.getLogger("grid.wan")
_MAP_REFUSALS: Final = {
    Reason.NOT_CONFIGURED: MapAnswer.NOT_CONFIGURED,
    Reason.CLOCK_AHEAD: MapAnswer.CLOCK_AHEAD,
}


PassOn: TypeAlias = "Callable[[RequestKind, bytes], Awaitable[bytes]]"
"""Has another member of the cluster answer a message; raises what the receiver raises."""


class Merging(Protocol):
    """The engine as the receiver needs it."""

    @property
    def ready(self) -> bool:
        """Whether changes are taken."""

    @property
    def agreement(self) -> Agreement | None:
        """What the members agreed on; None before they have."""

    def merge(self, change: Change, policy: MergePolicy, done: Done[MergeResult]) -> None:
        """Merge a change by a policy; done is called once with the result or a `Refused`."""

    def compared(self, name: str) -> ComparedMap:
        """Return a map, as a comparison reads it."""


@dataclass(frozen=True, slots=True)
class ReceiverSettings:
    """What the configuration of this member says."""

    cluster_name: str
    member: str
    """The member's name."""
    version: str
    """`major.minor.patch` of the member."""
    key_bytes: int
    """How large a key may be."""
    value_bytes: int
    """How large a value may be."""
    accepted_clusters: tuple[str, ...] | None
    """None takes any that authenticates."""

    @property
    def batch_bytes(self) -> int:
        """How large a batch may be."""
        return self.key_bytes + self.value_bytes + 2 * BATCH_OVERHEAD_BYTES


class Sources(Protocol):
    """The names of the clusters that said hello, by their ids."""

    def note(self, cluster_id: bytes, name: str) -> None:
        """Remember a name, unless there are very many."""

    def name(self, cluster_id: bytes) -> str | None:
        """Return the name of a cluster, None when it is not known."""


class SourceNames:
    """The names of the clusters that said hello, by their ids: those that this member heard."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}

    def note(self, cluster_id: bytes, name: str) -> None:
        """Remember a name, unless there are very many."""
        if len(self._names) >= MAX_SOURCES and cluster_id not in self._names:
            # A cluster in memory has another id after each restart.
            former = [each for each, named in self._names.items() if named == name]
            if not former:
                return
            del self._names[former[0]]
        self._names[cluster_id] = name

    def name(self, cluster_id: bytes) -> str | None:
        """Return the name of a cluster, None when it is not known."""
        return self._names.get(cluster_id)


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What the receiver asks again with each request."""

    is_configured: Callable[[str], bool]
    """Tells whether a map has a configuration."""
    version_problem: Callable[[], str | None]
    """Why the cluster's version has no WAN replication; None when it has."""
    published_back: Callable[[str], tuple[str, ...]]
    """Returns the configured maps that are published to a cluster of this name."""
    sources: Sources = field(default_factory=SourceNames)
    """The names of the clusters that said hello to any member."""
    replica: Callable[[], PassOn | None] = lambda: None
    """Returns what has messages answered elsewhere, on a member that lacks shards; else None."""


class Receiver:
    """The side of a cluster that is a target."""

    def __init__(
        self,
        engine: Merging,
        settings: ReceiverSettings,
        facts: ClusterFacts,
        figures: WanFigures,
        pacer: Pacer,
    ) -> None:
        self.settings = settings
        self._engine = engine
        self._facts = facts
        self._figures = figures
        self._pacer = pacer
        self.answering = Answering(engine.compared, facts.is_configured, pacer)
        self.waiting = 0
        """Merges of the batches that were taken, without an outcome."""
        self._passed_on = 0
        """Messages that another member answers now."""

    def greet(self, hello: Hello) -> Welcome:
        """Return what a source may send.

        Raises:
            ConflictError: it may send nothing.
            BusyError: that is not known now.
        """
        agreement = self._agreement()
        problem = self._hello_problem(hello, agreement)
        if problem is not None:
            raise ConflictError(problem)
        self._facts.sources.note(hello.cluster_id, hello.cluster_name[:MAX_SHOWN_CHARACTERS])
        settings = self.settings
        return Welcome(
            protocol=PROTOCOL,
            cluster_name=settings.cluster_name,
            cluster_id=agreement.cluster_id,
            member=settings.member,
            version=settings.version,
            limits=TargetLimits(settings.key_bytes, settings.value_bytes, settings.batch_bytes),
            published_back=self._facts.published_back(hello.cluster_name),
        )

    async def take(self, data: bytes) -> bytes:
        """Merge a batch; return a byte for each of its maps once all is committed.

        Raises:
            ProtocolError: the bytes are no batch.
            ConflictError: it is for another cluster, or from this one, or holds a change that does
                not name the sending cluster among those it has passed; nothing of it was merged.
            BusyError: not all of it was merged.
        """
        self._agreement()
        replica = self._facts.replica()
        if replica is not None:
            return await self._pass_on(replica, RequestKind.CHANGES, data)
        if self.waiting > MAX_WAITING_MERGES:
            raise BusyError(TOO_MANY)
        batch = read_batch(data, self.settings.batch_bytes)
        source = batch.header.source
        self._check_ends(source, batch.header.target)
        if any(source not in change.passed for change in batch.changes):
            # This cluster would send such a change back to its source.
            raise ConflictError(UNNAMED_SOURCE)
        return await self._merge(batch)

    async def digests(self, data: bytes) -> bytes:
        """Return the answer to a question for digests of a map.

        Raises:
            ProtocolError: the bytes are no such question.
            ConflictError: the question is for another cluster, or from this one.
            BusyError: to be asked again.
        """
        self._agreement()
        replica = self._facts.replica()
        if replica is not None:
            return await self._pass_on(replica, RequestKind.DIGESTS, data)
        return await self.answering.digests(data, self._check_ends)

    async def keys(self, data: bytes) -> bytes:
        """Return the answer to a question for keys of a map, as `digests` does."""
        self._agreement()
        replica = self._facts.replica()
        if replica is not None:
            return await self._pass_on(replica, RequestKind.KEYS, data)
        return await self.answering.keys(data, self._check_ends)

    def _check_ends(self, source: bytes, target: bytes) -> None:
        """Look whether a message is from another cluster and for this one.

        Raises:
            ConflictError: it is not.
            BusyError: that is not known now.
        """
        agreement = self._agreement()
        if target != agreement.cluster_id:
            raise ConflictError("the message is for another cluster: say hello again")
        if source == agreement.cluster_id:
            raise ConflictError("the message is from this cluster itself")

    async def _pass_on(self, replica: PassOn, kind: RequestKind, data: bytes) -> bytes:
        if self._passed_on >= MAX_PASSED_ON:
            raise BusyError(TOO_MANY)
        self._passed_on += 1
        try:
            return await replica(kind, data)
        finally:
            self._passed_on -= 1

    def _agreement(self) -> Agreement:
        problem = self._facts.version_problem()
        if problem is not None:
            raise ConflictError(problem)
        if not self._engine.ready:
            raise BusyError(NOT_READY)
        agreement = self._engine.agreement
        if agreement is None:
            raise BusyError(NOT_AGREED)
        return agreement

    def _hello_problem(self, hello: Hello, agreement: Agreement) -> str | None:
        own, accepted = self.settings.cluster_name, self.settings.accepted_clusters
        if PROTOCOL not in hello.protocols:
            return f"there is no protocol that both know: this cluster speaks {PROTOCOL}"
        if hello.cluster_id == agreement.cluster_id:
            return SAME_CLUSTER
        if hello.target_name != own:
            return f"this cluster is called {own}: cluster-name of the publisher is another one"
        if accepted is not None and hello.cluster_name not in accepted:
            return f"wan.accepted-clusters of {own} does not have the cluster-name of the source"
        return None

    async def _merge(self, batch: Batch) -> bytes:
        refused = self._refused_maps(batch)
        policies = dict(batch.maps)
        changes = [change for change in batch.changes if change.name not in refused]
        merges = _Merges(self, changes)
        try:
            await self._propose(changes, policies, merges)
        finally:
            merges.end_proposing()
        await merges.all_done()
        refused |= merges.refused
        counts = merges.counts
        counts[REFUSED] += sum(change.name in refused for change in batch.changes)
        source = self._facts.sources.name(batch.header.source) or _UNNAMED
        self._figures.count_received(source, +counts)
        ambiguous = counts[MergeResult.AMBIGUOUS.value]
        if ambiguous:
            repeatable(_log, logging.WARNING, KEPT, source=source, entries=ambiguous)
        if merges.problem is not None:
            raise BusyError(merges.problem.message)
        return bytes(refused.get(name, MapAnswer.TAKEN) for name, _ in batch.maps)

    async def _propose(
        self, changes: list[Change], policies: dict[str, MergePolicy], merges: _Merges
    ) -> None:
        self._pacer.begin()
        for start in range(0, len(changes), SLICE):
            if start:
                await self._pacer.turn()
            for change in changes[start : start + SLICE]:
                self._engine.merge(change, policies[change.name], merges.expect(change.name))

    def _refused_maps(self, batch: Batch) -> dict[str, MapAnswer]:
        """Return the maps of which nothing is taken: they are looked at before any is merged."""
        refused = {
            name: MapAnswer.NOT_CONFIGURED
            for name, _ in batch.maps
            if not self._facts.is_configured(name)
        }
        settings = self.settings
        for change in batch.changes:
            if len(change.value) > settings.value_bytes or _is_long(change.key, settings.key_bytes):
                refused.setdefault(change.name, MapAnswer.TOO_LARGE)
        return refused


class _Merges:
    """The merges of one batch, until each has its outcome."""

    def __init__(self, receiver: Receiver, changes: list[Change]) -> None:
        self._receiver = receiver
        self._left = self._unproposed = len(changes)
        # All of them at once: else many batches could begin before the first waits.
        receiver.waiting += len(changes)
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.counts: Counter[str] = Counter()
        self.refused: dict[str, MapAnswer] = {}
        self.problem: Refused | None = None
        """Why not all of it was merged, and may be when it is sent again."""
        if not self._left:
            self._done.set_result(None)

    def expect(self, name: str) -> Done[MergeResult]:
        """Return the callback of one merge of a map."""
        self._unproposed -= 1

        def note(outcome: MergeResult | Refused) -> None:
            self._receiver.waiting -= 1
            self._left -= 1
            if isinstance(outcome, Refused):
                self._note_refusal(name, outcome)
            else:
                self.counts[outcome.value] += 1
            if not self._left and not self._done.done():
                self._done.set_result(None)

        return note

    def end_proposing(self) -> None:
        """Count off the merges that were not proposed, as the request was given up."""
        self._receiver.waiting -= self._unproposed
        self._unproposed = 0

    async def all_done(self) -> None:
        """Return when each merge has its outcome."""
        await self._done

    def _note_refusal(self, name: str, refused: Refused) -> None:
        answer = _MAP_REFUSALS.get(refused.reason)
        if answer is None:
            self.problem = refused
        else:
            self.refused[name] = answer


def _is_long(key: str, most_bytes: int) -> bool:
    # No character takes more than four bytes.
    return len(key) * 4 > most_bytes and len(key.encode("utf-8", "surrogatepass")) > most_bytes
