"""Begins jobs, by a call or since a queue was full, and notes their end.

The oldest member notes ends and begins jobs by itself; any member notes those that are asked for.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from grid_member.cluster.values.operations import COMPLETE_PERCENT
from grid_member.cluster.values.system_store import put_all
from grid_member.engine.wan.agreement import PublisherName
from grid_member.telemetry.logs import event, failure
from grid_member.wan.jobs.records import Job, JobKind, ended_job
from grid_member.wan.jobs.status import job_figures
from grid_member.wan.jobs.store import RUNNING, JobStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.cluster.values.system_store import Put
    from grid_member.config.model.wan import WanPublisherConfig
    from grid_member.engine.log.log import Clock
    from grid_member.engine.state.system import SystemStore
    from grid_member.wan.agreement.keeper import WanKeeper
    from grid_member.wan.figures import JobFigures

LOOK_S: Final = 0.5
MAX_COMPARED: Final = 64
"""Maps of a job that begins by itself; the next one takes the others."""
NONE: Final = "NONE"
"""The strategy that compares nothing: a synchronisation sends everything."""
REMOVED: Final = "the publisher was removed"
RESHARDED: Final = "the number of shards changed: begin it again"
QUEUE_FULL: Final = "a queue was full"
_log: Final = logging.getLogger("grid.wan")


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
        self._keeper = keeper
        self._clock_ms = clock_ms
        self._new_id = new_id
        self._sleep = sleep

    def new_job(self, kind: JobKind, publisher: PublisherName, map_name: str = "") -> Job:
        """Return a job that is asked for, of a map or of all; one without work has ended."""
        shards = self._keeper.shards
        job = self._job(kind, publisher, (map_name,) if map_name else ())
        if map_name and not shards.holds(map_name):
            # A synchronisation of nothing removes nothing: the source may have lost its data.
            return _done(job) if kind is JobKind.SYNC else replace(job, absent=map_name)
        return job if shards.replicated(publisher) else _done(job)

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
        """Note the end of jobs, and begin those of maps of which a queue was full."""
        members = self._keeper.member_uuids
        agreed = self._keeper.stored.config
        if agreed is None or not members or members[0] != self._keeper.own_uuid:
            return
        running = [uuid.decode() for _, uuid in self.store.system.system_items(RUNNING)]
        for job in filter(None, map(self.store.find, running)):
            problem = self._problem(job)
            if problem is not None:
                await self._end(job, problem)
        for replication, publishers in agreed.section.replications.items():
            for publisher in publishers:
                await self._compare(PublisherName(replication, publisher))

    def _problem(self, job: Job) -> str | None:
        """Return why a job has ended, empty when all is done; None when it goes on."""
        if self._config(job.publisher) is None:
            return REMOVED
        if job.lanes != self._keeper.shards.number:
            return RESHARDED
        shares = self.store.shares(job)
        done = len(shares) == job.lanes and all(share.ended for share in shares.values())
        return "" if done else None

    async def _end(self, job: Job, problem: str) -> None:
        puts = self._ending(job, problem)
        if await put_all(self.store.system, puts) is None:
            ended = self.store.find(job.uuid)
            if ended is not None:
                _tell_end(ended)

    def _ending(self, job: Job, problem: str) -> list[Put]:
        shares = self.store.shares(job)
        return self.store.end_puts(ended_job(job, shares, problem, self._clock_ms()))

    async def _compare(self, publisher: PublisherName) -> None:
        """Begin a job for maps of which a queue was full, once the target answers."""
        if not self.connected(publisher) or self.store.running(publisher) is not None:
            return
        maps = tuple(self._keeper.shards.comparing(publisher)[:MAX_COMPARED])
        if not maps:
            return
        job = self._job(JobKind.SYNC, publisher, maps, QUEUE_FULL)
        event(_log, logging.WARNING, "queue full: comparing", **publisher._asdict(), maps=len(maps))
        await put_all(self.store.system, self.store.begin_puts(job))

    def _config(self, publisher: PublisherName) -> WanPublisherConfig | None:
        agreed = self._keeper.stored.config
        return None if agreed is None else agreed.section.publisher(publisher)

    def _job(
        self, kind: JobKind, publisher: PublisherName, maps: tuple[str, ...], reason: str = ""
    ) -> Job:
        return Job(
            uuid=self._new_id(),
            kind=kind,
            publisher=publisher,
            maps=maps,
            began_ms=self._clock_ms(),
            lanes=self._keeper.shards.number,
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
