"""Begins jobs, by a call or since a queue was full, and notes their end.

The oldest member notes ends and begins jobs by itself; any member notes those that are asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from grid_member.cluster.membership.locks import LockedError
from grid_member.cluster.values.operations import COMPLETE_PERCENT
from grid_member.cluster.values.system_store import put_all
from grid_member.telemetry.logs import event, failure
from grid_member.wan.jobs.records import Job, JobKind, ended_job
from grid_member.wan.jobs.status import job_figures
from grid_member.wan.jobs.store import SUPERSEDED, JobStore
from grid_member.wan.members.reports import UNKNOWN, SenderReports
from grid_member.wan.ports import BusyError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.cluster.values.system_store import Put
    from grid_member.config.model.wan import WanPublisherConfig
    from grid_member.engine.log.log import Clock
    from grid_member.engine.state.system import SystemStore
    from grid_member.engine.wan.agreement import PublisherName
    from grid_member.wan.agreement.keeper import WanKeeper
    from grid_member.wan.figures import JobFigures

LOOK_S: Final = 0.5
MAX_COMPARED: Final = 64
"""Maps of a job that begins by itself; the next one takes the others."""
NONE: Final = "NONE"
"""The strategy that compares nothing: a synchronisation sends everything."""
REMOVED: Final = "the publisher was removed"
RESHARDED: Final = "the number of shards changed: begin it again"
FORGOTTEN: Final = "the job is not noted as under way any more: begin it again"
QUEUE_FULL: Final = "a queue was full"
_log: Final = logging.getLogger("grid.wan")


class PublisherMaps(NamedTuple):
    """What all shards together know of the maps of a publisher."""

    shards: int
    """How many shards there are: a member that lacks some does not know."""
    holds: bool
    """Whether a shard holds anything of the map that was asked about."""
    replicated: bool
    """Whether there is any map that the publisher sends."""
    comparing: tuple[str, ...]
    """The maps of which nothing is queued, since a queue was full."""


AskMaps: TypeAlias = "Callable[[PublisherName, str], Awaitable[PublisherMaps]]"
"""Asks a member that has all shards about a publisher and a map; raises `BusyError`."""


class JobKeeper:
    """The jobs as one member sees them."""

    def __init__(
        self,
        store: SystemStore,
        keeper: WanKeeper,
        clock_ms: Clock,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Keep nothing yet.

        Args:
            store: keeps the jobs.
            keeper: what the members agreed on.
            clock_ms: milliseconds since 1970.
            new_id: makes a UUID.
            sleep: waits for some seconds.
        """
        self.store = JobStore(store)
        self.connected: Callable[[PublisherName], bool] = lambda _: False
        """Tells whether the target of a publisher answers this member."""
        self.asks: Callable[[], AskMaps | None] = lambda: None
        """Returns what asks a member with all shards, where this one lacks some."""
        self._keeper = keeper
        self._clock_ms = clock_ms
        self._new_id = new_id
        self._sleep = sleep

    async def new_job(self, kind: JobKind, publisher: PublisherName, map_name: str = "") -> Job:
        """Return a job that is asked for, of a map or of all; one without work has ended.

        Raises:
            BusyError: this member lacks shards, and no member that has all of them answers.
        """
        maps = await self._maps(publisher, map_name)
        job = self._job(kind, publisher, (map_name,) if map_name else (), maps.shards)
        if map_name and not maps.holds:
            # A synchronisation of nothing removes nothing: the source may have lost its data.
            return _done(job) if kind is JobKind.SYNC else replace(job, absent=map_name)
        return job if maps.replicated else _done(job)

    def maps(self, publisher: PublisherName, map_name: str) -> PublisherMaps:
        """Return what the shards of this member know of a publisher and a map."""
        shards = self._keeper.shards
        return PublisherMaps(
            shards.number,
            shards.holds(map_name),
            shards.replicated(publisher),
            tuple(shards.comparing(publisher)[:MAX_COMPARED]),
        )

    def compares(self, publisher: PublisherName) -> bool:
        """Tell whether the publisher's configuration lets maps be compared."""
        config = self._config(publisher)
        return config is not None and config.consistency_check_strategy != NONE

    def figures(self, publisher: PublisherName) -> JobFigures:
        """Return what metrics tell of a publisher's jobs."""
        return job_figures(self.store, publisher)

    def failing_puts(self, publisher: PublisherName) -> list[Put]:
        """Return what ends the job of a publisher that is removed."""
        job = self.store.running(publisher)
        return [] if job is None else self._ending(job, REMOVED)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            try:
                await self.look()
            except Exception as error:
                failure(_log, "a look at synchronisations and checks failed", error)
            await self._sleep(LOOK_S)

    async def look(self) -> None:
        """Note the end of jobs, and begin those of maps of which a queue was full.

        The member does both under the lock of the calls that begin jobs, and looks again once it
        has the lock: for a moment several members may hold themselves for the oldest.
        """
        members = self._keeper.member_uuids
        agreed = self._keeper.stored.config
        if agreed is None or not members or members[0] != self._keeper.own_uuid:
            return
        for job in self.store.open_jobs():
            with contextlib.suppress(BusyError, LockedError):  # the next look tries again
                await self._end(job)
        for publisher, _ in agreed.section.publishers():
            with contextlib.suppress(BusyError, LockedError):
                await self._compare(publisher)

    def _problem(self, job: Job, shards: int) -> str | None:
        """Return why a job has ended, empty when all is done; None when it goes on."""
        if self._config(job.publisher) is None:
            return REMOVED
        if job.lanes != shards:
            return RESHARDED
        shares = self.store.shares(job)
        done = len(shares) == job.lanes and all(share.ended for share in shares.values())
        return "" if done else self._stray_problem(job)

    def _stray_problem(self, job: Job) -> str | None:
        """Return why no shard works on a job any more; None when it is the one under way."""
        running = self.store.running(job.publisher)
        if running is None:
            return FORGOTTEN
        return None if running.uuid == job.uuid else SUPERSEDED

    async def _end(self, job: Job) -> None:
        """Note the end of a job where nothing of it goes on any more."""
        shards = (await self._maps(job.publisher, "")).shards
        if self._problem(job, shards) is None:
            return
        async with self._keeper.lock():
            job = self.store.find(job.uuid) or job
            problem = None if job.ended else self._problem(job, shards)
            if problem is None:
                return
            refused = await put_all(self.store.system, self._ending(job, problem))
        ended = self.store.find(job.uuid)
        if refused is None and ended is not None:
            _tell_end(ended)

    def _ending(self, job: Job, problem: str) -> list[Put]:
        shares = self.store.shares(job)
        return self.store.end_puts(ended_job(job, shares, problem, self._clock_ms()))

    async def _compare(self, publisher: PublisherName) -> None:
        """Begin a job for maps of which a queue was full, once they may be sent."""
        if not self._may_begin(publisher) or not (await self._maps(publisher, "")).comparing:
            return
        async with self._keeper.lock():
            found = await self._maps(publisher, "")
            maps = found.comparing
            # A call may have begun a job meanwhile: that one stays.
            if not maps or not self._may_begin(publisher):
                return
            job = self._job(JobKind.SYNC, publisher, maps, found.shards, QUEUE_FULL)
            refused = await put_all(self.store.system, self.store.begin_puts(job))
        if refused is None:
            told = {**publisher._asdict(), "maps": len(maps)}
            event(_log, logging.WARNING, "queue full: comparing", **told)

    def _may_begin(self, publisher: PublisherName) -> bool:
        """Tell whether a job may begin by itself: never where a person lets the publisher wait."""
        if not self.connected(publisher) or self.store.running(publisher) is not None:
            return False
        reports = SenderReports(self.store.system).of(publisher)
        replicating = self._keeper.stored.replicating(publisher, self._keeper.live_with_data)
        return any(reports.get(member, UNKNOWN).able for member in replicating)

    async def _maps(self, publisher: PublisherName, map_name: str) -> PublisherMaps:
        ask = self.asks()
        return self.maps(publisher, map_name) if ask is None else await ask(publisher, map_name)

    def _config(self, publisher: PublisherName) -> WanPublisherConfig | None:
        agreed = self._keeper.stored.config
        return None if agreed is None else agreed.section.publisher(publisher)

    def _job(
        self,
        kind: JobKind,
        publisher: PublisherName,
        maps: tuple[str, ...],
        shards: int,
        reason: str = "",
    ) -> Job:
        return Job(
            uuid=self._new_id(),
            kind=kind,
            publisher=publisher,
            maps=maps,
            began_ms=self._clock_ms(),
            lanes=shards,
            full=not self.compares(publisher),
            reason=reason,
        )


def _done(job: Job) -> Job:
    return replace(job, finished_ms=job.began_ms, progress=COMPLETE_PERCENT)


def _tell_end(job: Job) -> None:
    told = {**job.publisher._asdict(), "job": job.uuid, "kind": job.kind.value}
    counts = {
        "maps": len(job.results),
        "entries": sum(result.counts.entries for result in job.results),
        "sent": sum(result.counts.sent for result in job.results),
        "differences": sum(result.counts.differences for result in job.results),
        "ambiguous": sum(result.counts.ambiguous for result in job.results),
    }
    if job.error:
        event(_log, logging.WARNING, "job failed", **told, **counts, why=job.error)
    else:
        level = logging.WARNING if counts["ambiguous"] else logging.INFO
        event(_log, level, "job ended", **told, **counts)
