"""What the WAN calls of the interface change and show."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypedDict

from grid_member.cluster.values.system_store import Put
from grid_member.config.build_wan import MAX_PUBLISHERS, MAX_REPLICATIONS
from grid_member.engine.state.operations import WanDropQueue, WanMemberState
from grid_member.engine.wan.agreement import PublisherName, PublisherState
from grid_member.engine.wan.changes import MergeResult
from grid_member.wan.agreement.definitions import (
    credentials_problem,
    declared_publisher,
    own_side,
    packed,
    publisher_document,
    read_publisher,
    with_credentials,
)
from grid_member.wan.agreement.sections import definition_digest, definitions_of
from grid_member.wan.agreement.store import name_key, removed_put, state_put
from grid_member.wan.figures import REFUSED
from grid_member.wan.jobs.records import JobKind
from grid_member.wan.jobs.status import (
    WanJobDocument,
    WanMapResultDocument,
    WanProgressDocument,
    jobs_document,
    progress_document,
)
from grid_member.wan.members.reports import SenderReport
from grid_member.wan.ports import BusyError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.config.model.member import MemberConfig
    from grid_member.config.model.wan import WanConfig, WanPublisherConfig
    from grid_member.engine.api import Refused
    from grid_member.wan.agreement.added_json import AddedReplication
    from grid_member.wan.agreement.keeper import WanKeeper
    from grid_member.wan.agreement.sections import Publishers, Section, Union
    from grid_member.wan.figures import WanFigures
    from grid_member.wan.jobs.keeper import JobKeeper

_UNFINISHED: Final = "the change is kept, and a shard does not go by it yet"
UNSYNCED: Final = (
    "the target may miss changes that are in no queue: call sync/map or sync/allmaps, unless a "
    "synchronisation is under way"
)
_ADDED: Final = "wan"
"""The key of publishers that other members are asked about."""


class WanUnknownError(Exception):
    """What a call names is not configured; the message says what is."""


class WanConflictError(Exception):
    """The present state does not allow the call; the message says why."""


class WanUnavailableError(Exception):
    """The call can be carried out later; the message says why."""


class MemberStateDocument(TypedDict):
    """What one member does for a publisher."""

    uuid: str
    state: str
    queued: int


class QueuedDocument(TypedDict):
    """How many keys wait for a publisher."""

    own: int
    all: int


class BlockedMapDocument(TypedDict):
    """A map whose changes the target refuses."""

    map: str
    reason: str


class WanPublisherDocument(TypedDict):
    """A publisher in the status; from `connected` to `blocked` as all its senders have it."""

    publisherId: str
    clusterName: str
    members: list[MemberStateDocument]
    queued: QueuedDocument
    connected: bool
    endpoint: str
    problem: str
    lagMillis: int
    blocked: list[BlockedMapDocument]
    needsSync: list[str]
    needsSyncReason: str
    job: WanJobDocument | None
    lastSyncs: list[WanMapResultDocument]
    lastChecks: list[WanMapResultDocument]


class WanReplicationDocument(TypedDict):
    """A replication in the status."""

    name: str
    publishers: list[WanPublisherDocument]


class WanSourceDocument(TypedDict):
    """What a cluster sent to this member since its start: numbers of changes."""

    clusterName: str
    received: int
    refused: int
    ambiguous: int


class WanStatusDocument(TypedDict):
    """What `wan/status` shows."""

    status: str
    replications: list[WanReplicationDocument]
    sources: list[WanSourceDocument]


@dataclass(frozen=True, slots=True)
class Addition:
    """What an `addWanConfig` adds, and which publishers exist already."""

    changes: tuple[Put, ...]
    question: bytes
    """What the other members are asked about; empty: nothing is added."""
    added_ids: tuple[str, ...]
    ignored_ids: tuple[str, ...]


class WanCalls:
    """The calls as one member carries them out."""

    def __init__(
        self, keeper: WanKeeper, config: Callable[[], MemberConfig], jobs: JobKeeper
    ) -> None:
        self.keeper = keeper
        self.jobs = jobs
        jobs.connected = lambda name: (
            self.figures is not None and self.figures.report(name).connected
        )
        self._config = config
        self.figures: WanFigures | None = None
        """What the senders of this member know; None while it has none."""
        self.asks: Callable[[], Callable[[], Awaitable[WanStatusDocument]] | None] = lambda: None
        """Returns what asks a member with all shards for the status, where this one lacks some."""
        self.problem: Callable[[WanPublisherConfig], str] = lambda _: ""
        """Returns why this member cannot reach the target of a publisher, empty when it can."""

    def watch(self, figures: WanFigures) -> None:
        """Show what the senders of this member know, and let metrics tell of jobs."""
        self.figures = figures
        figures.jobs = self.jobs.figures
        figures.unsynced = lambda name: len(self.unsynced(name))

    @property
    def _section(self) -> Section | None:
        agreed = self.keeper.stored.config
        return None if agreed is None else agreed.section

    def configured(self, name: PublisherName) -> WanPublisherConfig | None:
        """Return how this member sends for a publisher; None when it cannot.

        What the members agreed on says where to, and this member's file has the credentials. The
        file alone counts only before the members have agreed.
        """
        own, section = self._config().wan, self._section
        if section is None:
            return declared_publisher(name, own)
        agreed = section.publisher(name)
        if agreed is None:
            return None
        side = own_side(name, agreed, own)
        return None if credentials_problem(agreed, side) else with_credentials(agreed, side)

    def published_to(self, cluster_name: str) -> tuple[str, ...]:
        """Return the configured names of the maps that are published to a cluster."""
        section = self._section
        return () if section is None else section.published_to(cluster_name)

    def publisher(self, replication: str, publisher: str) -> PublisherName:
        """Return the publisher that a call names; an empty id is the only one.

        Raises:
            WanUnknownError: there is none, or several and no id.
            WanUnavailableError: the members have not agreed yet.
        """
        section = self._section
        # A shard that lacks the agreement would take no state of a publisher.
        if section is None or self.keeper.lacking_shards():
            raise WanUnavailableError("the members have not agreed on WAN replication yet")
        publishers = section.replications.get(replication)
        if publishers is None:
            raise WanUnknownError(f"no wan-replication is called {replication}")
        if not publisher and len(publishers) > 1:
            names = ", ".join(sorted(publishers))
            message = f"wan-replication {replication} has the publishers {names}: name one"
            raise WanUnknownError(message)
        name = publisher or next(iter(publishers), "")
        if name not in publishers:
            raise _unknown_publisher(PublisherName(replication, publisher))
        return PublisherName(replication, name)

    def unsynced(self, publisher: PublisherName) -> list[str]:
        """Return the maps of which the target may miss changes that are in no queue."""
        lost = self.keeper.stored.lost(publisher)
        return sorted({*self.keeper.shards.unsynced(publisher), *lost})

    def check_map(self, replication: str, name: str) -> None:
        """Look whether a map is replicated by a replication.

        Raises:
            WanUnknownError: no configuration matches the name.
            WanConflictError: maps of this name are not replicated by it.
        """
        if not name:
            raise WanUnknownError("the name of the map is empty")
        from_file = self.keeper.own_map(name)
        if from_file is None:
            raise WanUnknownError(f"no map configuration matches {name}")
        reference = from_file.wan
        if reference is None or reference.replication != replication:
            raise WanConflictError(f"map {name} has no wan-replication-ref to {replication}")

    async def begin_job(
        self, kind: JobKind, publisher: PublisherName, map_name: str
    ) -> tuple[str, list[Put]]:
        """Return the UUID of a new job of a map, or of all, and what notes it; under the lock.

        Raises:
            WanConflictError: the publisher has one, or is configured to compare nothing.
            WanUnavailableError: this member lacks shards, and none that has them all answers.
        """
        name, replication = publisher.publisher, publisher.replication
        running = self.jobs.store.running(publisher)
        if running is not None and running.kind is JobKind.SYNC:
            raise WanConflictError(
                f"publisher {name} of {replication} is being synchronised already: {running.uuid}"
            )
        if running is not None:
            raise WanConflictError(
                f"a consistency check of publisher {name} of {replication} is under way: "
                f"{running.uuid}"
            )
        if kind is JobKind.CHECK and not self.jobs.compares(publisher):
            raise WanConflictError(
                f"publisher {name} of {replication} has consistency-check-strategy NONE"
            )
        try:
            job = await self.jobs.new_job(kind, publisher, map_name)
        except BusyError as problem:
            raise WanUnavailableError(str(problem)) from None
        return job.uuid, self.jobs.store.begin_puts(job)

    def progress(self, uuid: str) -> WanProgressDocument:
        """Return how far a job is.

        Raises:
            WanUnknownError: there is none of this UUID.
        """
        found = progress_document(self.jobs.store, uuid)
        if found is None:
            raise WanUnknownError("no synchronisation or check has this uuid")
        return found

    async def set_state(self, publisher: PublisherName, state: PublisherState) -> Refused | None:
        """Let this member do something else for a publisher; return a refusal: nothing changed.

        The store has it first. What shards lack of it they are told by any member, also when this
        one ends in between.

        Raises:
            WanUnknownError: the publisher was removed meanwhile.
            WanUnavailableError: it is changed, and a shard does not go by it yet.
        """
        keeper, own = self.keeper, self.keeper.own_uuid
        resumes = state is not PublisherState.PAUSED
        resuming = keeper.stored.resuming_puts(publisher) if resumes else []
        refused = await keeper.keep(state_put(publisher, own, state), *resuming)
        if refused is not None:
            return refused
        section = self._section
        if section is None or section.publisher(publisher) is None:
            await keeper.keep(*keeper.stored.state_removals(publisher))
            raise _unknown_publisher(publisher)
        operation = WanMemberState(publisher, uuid.UUID(own).bytes, state)
        left = await keeper.tell(
            operation, lambda: keeper.stored.states().get((publisher, own)) is state
        )
        if left is not None:
            raise WanUnavailableError(f"{_UNFINISHED}: {left.message}")
        return None

    async def clear(self, publisher: PublisherName) -> None:
        """Drop the queues of this member for a publisher.

        Raises:
            WanUnavailableError: a shard still has its queue.
        """
        operation = WanDropQueue(publisher, uuid.UUID(self.keeper.own_uuid).bytes)
        left = await self.keeper.tell(operation, lambda: True)
        if left is not None:
            raise WanUnavailableError(f"not all queues are cleared: {left.message}")

    async def go_by_agreement(self) -> None:
        """Let all shards go by what a call has changed.

        Raises:
            WanUnavailableError: it is changed, and a shard does not go by it yet.
        """
        left = await self.keeper.tell_agreement()
        if left is not None:
            raise WanUnavailableError(f"{_UNFINISHED}: {left.message}")

    def add(self, wanted: AddedReplication) -> Addition:
        """Return what adds publishers; to be called under the lock.

        Raises:
            WanConflictError: there would be too many, or this member cannot send for one.
            WanUnavailableError: a member has not declared its configuration yet.
        """
        stored = self.keeper.stored
        section = self._section
        present = {} if section is None else section.replications
        there = present.get(wanted.name, {})
        new = {
            each.publisher_id: publisher_document(each)
            for each in wanted.publishers
            if each.publisher_id not in there
        }
        ignored = tuple(p.publisher_id for p in wanted.publishers if p.publisher_id in there)
        if not new:
            return Addition((), b"", (), ignored)
        if len({*present, wanted.name}) > MAX_REPLICATIONS:
            raise WanConflictError(f"nothing is added: there are {MAX_REPLICATIONS} replications")
        if len(there) + len(new) > MAX_PUBLISHERS:
            raise WanConflictError(
                f"nothing is added: wan-replication {wanted.name} would have more than "
                f"{MAX_PUBLISHERS} publishers"
            )
        added: Publishers = {wanted.name: new}
        names = [PublisherName(wanted.name, each) for each in new]
        removed = stored.removed()
        # The mark of another definition, which a file still has, stays: the added one counts.
        shown = {name: definition_digest(new[name.publisher]) for name in names if name in removed}
        removed |= {name: removed[name] - {digest} for name, digest in shown.items()}
        marks = [removed_put(name, removed[name]) for name in shown]
        kept = [publishers for _, publishers in stored.added()]
        union = self.keeper.union([*kept, added], removed)
        # A call that set a state may have come beside the one that removed the publisher.
        forgotten = [put for name in names for put in stored.forgetting_puts(name)]
        changes = (stored.added_put(added), *marks, *forgotten, *self._agreement(union))
        return Addition(changes, packed({_ADDED: added}), tuple(new), ignored)

    def remove(self, publisher: PublisherName) -> tuple[Put, ...]:
        """Return what removes a publisher; to be called under the lock.

        Raises:
            WanUnavailableError: a member has not declared its configuration yet.
        """
        stored = self.keeper.stored
        puts: list[Put] = []
        kept: list[Publishers] = []
        for key, replications in stored.added():
            here = replications.get(publisher.replication, {})
            if here.pop(publisher.publisher, None) is not None:
                replications = {name: found for name, found in replications.items() if found}
                puts.append(Put(key, packed(replications) if replications else None))
            kept.append(replications)
        removed = stored.removed()
        digests = removed.get(publisher, frozenset())
        digests |= definitions_of(publisher, self.keeper.sections())
        union = self.keeper.union(kept, removed | {publisher: digests})
        puts += [removed_put(publisher, digests), *stored.forgetting_puts(publisher)]
        puts += self.jobs.failing_puts(publisher)
        return (*puts, *self._agreement(union))

    def _agreement(self, union: Union | None) -> tuple[Put, ...]:
        if union is None:
            raise WanUnavailableError("a member has not declared its configuration yet")
        return self.keeper.change(union)

    def objection(self, content: bytes) -> str | None:
        """Return what this member has against publishers that are to be added."""
        return added_objection(content, self._config().wan, self.problem)

    async def whole_status(self) -> WanStatusDocument:
        """Return the status; a member that lacks shards asks one that has all of them.

        Raises:
            WanUnavailableError: no such member answers.
        """
        ask = self.asks()
        return self.status(self.keeper.own_uuid) if ask is None else await ask()

    def status(self, asking: str) -> WanStatusDocument:
        """Return what this member knows of all publishers; asking is the UUID of who is told."""
        section = self._section
        replications = {} if section is None else section.replications
        return {
            "status": "success",
            "replications": [
                {
                    "name": name,
                    "publishers": [
                        self._publisher_status(PublisherName(name, each), asking)
                        for each in publishers
                    ],
                }
                for name, publishers in replications.items()
            ],
            "sources": [] if self.figures is None else _sources(self.figures),
        }

    def _publisher_status(self, name: PublisherName, asking: str) -> WanPublisherDocument:
        section, states = self._section, self.keeper.stored.states()
        publisher = None if section is None else section.publisher(name)
        if publisher is None:
            raise LookupError(f"no publisher {name_key(name)}")
        queued = self.keeper.shards.queued(name)
        report = SenderReport() if self.figures is None else self.figures.report(name)
        look = None if self.figures is None else self.figures.look(name)
        unsynced = self.unsynced(name)
        members = self.keeper.member_uuids
        initial = PublisherState(publisher.initial_publisher_state)
        return {
            "publisherId": name.publisher,
            "clusterName": publisher.cluster_name,
            "members": [
                {
                    "uuid": each,
                    "state": states.get((name, each), initial).value,
                    "queued": queued[each],
                }
                for each in members
            ],
            "queued": {"own": queued[asking], "all": queued.total()},
            "connected": report.connected,
            "endpoint": report.endpoint,
            "problem": report.problem,
            "lagMillis": 0 if look is None else look.lag_ms,
            "blocked": [
                {"map": each, "reason": why} for each, why in sorted(report.blocked.items())
            ],
            "needsSync": unsynced,
            "needsSyncReason": self._sync_reason(name, unsynced),
            **jobs_document(self.jobs.store, name),
        }

    def _sync_reason(self, name: PublisherName, unsynced: list[str]) -> str:
        stored, comparing = self.keeper.stored, self.keeper.shards.comparing(name)
        if stored.paused_by_restore(name):
            return (
                "the cluster began as a backup: the publisher is paused until resumePublisher is "
                "called, on each member"
            )
        if comparing:
            return (
                f"a queue was full: changes of {', '.join(comparing)} are not queued until a "
                "synchronisation begins, which it does when the target answers and a member is "
                "REPLICATING"
            )
        lost = stored.lost(name)
        if lost:
            return (
                f"data in memory was lost: changes of {', '.join(lost)} that waited may be gone, "
                "and the target may have entries that are not here any more"
            )
        return UNSYNCED if unsynced else ""


def _unknown_publisher(name: PublisherName) -> WanUnknownError:
    return WanUnknownError(
        f"wan-replication {name.replication} has no publisher {name.publisher}".rstrip()
    )


def _sources(figures: WanFigures) -> list[WanSourceDocument]:
    return [
        {
            "clusterName": name,
            "received": counts.total(),
            "refused": counts[REFUSED],
            "ambiguous": counts[MergeResult.AMBIGUOUS.value],
        }
        for name, counts in sorted(figures.received.items())
    ]


def is_addition(content: bytes) -> bool:
    """Tell whether other members are asked about publishers, and not about maps and queues."""
    return _ADDED in json.loads(content)


def added_objection(
    content: bytes, own: WanConfig, problem: Callable[[WanPublisherConfig], str]
) -> str | None:
    """Return why a member cannot send for publishers, None when it can.

    Args:
        content: the publishers.
        own: the member's configuration.
        problem: returns why a target cannot be reached, empty when it can.
    """
    for replication, publishers in json.loads(content)[_ADDED].items():
        for publisher_id, definition in publishers.items():
            publisher = read_publisher(definition)
            side = own_side(PublisherName(replication, publisher_id), publisher, own)
            found = credentials_problem(publisher, side)
            found = found or problem(with_credentials(publisher, side))
            if found:
                return found
    return None
