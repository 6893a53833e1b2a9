"""Carries out one shard's share of the jobs of a publisher.

    look for a job ──▶ maps in order ──▶ each: begin noted, work, end noted ──▶ the share has ended
         ▲                    │
         └──── rest ◀── the target does not answer: the share says where to go on

A map that is not done sends no end, so its gap stays open: the next job takes care of it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from uuid import UUID

from grid_member.cluster.values.system_store import put_all
from grid_member.telemetry.logs import event
from grid_member.wan.endpoints import rest_after
from grid_member.wan.jobs.lane import GIVE_UP_S, Patience
from grid_member.wan.jobs.map_work import END, MapJob, MapWork
from grid_member.wan.jobs.records import NOTHING, JobKind, MapResult, Share, bounded
from grid_member.wan.jobs.sending import MapRefusedError
from grid_member.wan.ports import OverloadedError, TargetError

if TYPE_CHECKING:
    from grid_member.wan.hello import Welcome
    from grid_member.wan.jobs.lane import Lane
    from grid_member.wan.jobs.records import Counts, Job
    from grid_member.wan.jobs.store import JobStore

LOOK_S: Final = 0.25
"""Between two looks for a job."""
SAVE_S: Final = 2.0
"""After which a share is stored, if it has not moved by a hundredth before."""
_HUNDREDTH: Final = 100
NOT_REPLICATED: Final = "the map is not replicated any more"
NOT_NOTED: Final = "the log takes nothing: the map could not be noted as synchronised"
NOT_CONNECTED: Final = "the target is not connected"
_log: Final = logging.getLogger("grid.wan")


class _EndedError(Exception):
    """The share has ended otherwise: with its job, or through another member."""


class LaneJobs:
    """The jobs of one publisher in one shard."""

    def __init__(self, lane: Lane, store: JobStore) -> None:
        self._lane = lane
        self._store = store

    async def run(self) -> None:
        """Carry out job after job, until cancelled."""
        settings = self._lane.settings
        while True:
            job = self._store.running(settings.name)
            share = None if job is None else self._store.share(job, settings.lane)
            if job is None or job.lanes != settings.lanes or (share is not None and share.ended):
                await self._lane.sleep(LOOK_S)
            else:
                await ShareWork(self._lane, self._store, job, share).run()


class ShareWork:
    """Carries out a share."""

    def __init__(self, lane: Lane, store: JobStore, job: Job, share: Share | None) -> None:
        self._lane = lane
        self._store = store
        self._job = job
        self._resumed = share is not None
        self._share = share or Share(self._count_entries(), lane.shard.stamp())
        self._saved = self._share
        self._saved_s = lane.clock()
        self._patience = Patience(lane)

    async def run(self) -> None:
        """Work until the share has ended."""
        self._tell("job resumed" if self._resumed else "job begun")
        await self._save()
        failures = 0
        while not self._share.ended:
            try:
                await self._maps(await self._welcome())
            except _EndedError:
                break
            except OverloadedError as problem:
                await self._rest(problem, problem.retry_after_s)
            except TargetError as problem:
                failures += 1
                await self._rest(problem, rest_after(failures))
        while not await self._save():
            await self._lane.sleep(SAVE_S)

    async def _welcome(self) -> Welcome:
        try:
            async with asyncio.timeout(self._patience.left_s):
                return await self._lane.link.welcome()
        except TimeoutError:
            raise TargetError(self._lane.link.problem or NOT_CONNECTED) from None

    async def _rest(self, problem: TargetError, rest_s: float) -> None:
        """Wait before the next try, or fail when there was no progress for too long."""
        if not self._patience.left_s:
            minutes = int(GIVE_UP_S // 60)
            self._end(f"no progress for {minutes} minutes: {problem}")
        else:
            await self._lane.sleep(rest_s)

    # The maps

    def _names(self) -> list[str]:
        names, job = self._lane.shard.maps(self._job.publisher), self._job
        if job.absent and not self._lane.settings.lane:
            return [job.absent]
        return [name for name in names if not job.maps or name in job.maps]

    def _count_entries(self) -> int:
        return sum(map(self._lane.shard.entries, self._names()))

    async def _maps(self, welcome: Welcome) -> None:
        self._face(welcome.cluster_id.hex())
        for name in self._names():
            share = self._share
            if name < share.map or (name == share.map and share.at >= END):
                continue
            if name != share.map:
                await self._move(replace(share, map=name, at=0, counts=NOTHING))
            await self._map(name, welcome)
        problems = [f"map {each.map}: {each.error}" for each in self._share.results if each.error]
        self._end(problems[0] if problems else "")

    def _face(self, target: str) -> None:
        """Begin again when it is another cluster that answers now."""
        share = self._share
        if share.target != target:
            self._share = replace(
                share, target=target, base=0, map="", at=0, counts=NOTHING, results=()
            )

    async def _map(self, name: str, welcome: Welcome) -> None:
        """Do one map; what is wrong with it does not keep the others from being done."""
        entries = self._lane.shard.entries(name)
        try:
            problem = await self._work(name, welcome)
        except MapRefusedError as refused:
            problem = str(refused)
        share = self._share
        counts = share.counts._replace(entries=entries)
        result = MapResult(name, counts, problem)
        base = share.base + entries
        ended = replace(
            share,
            at=END,
            base=base,
            done=max(share.done, min(share.total, base)),
            results=bounded([*share.results, result]),
        )
        await self._move(ended)

    async def _work(self, name: str, welcome: Welcome) -> str:
        lane, job, uuid = self._lane, self._job, UUID(self._job.uuid).bytes
        reference = lane.shard.reference(name)
        if reference is None:
            return NOT_REPLICATED
        syncs = job.kind is JobKind.SYNC
        if syncs and lane.shard.job(job.publisher, name) != uuid:
            # What was done of the map was done before the gap that this job takes care of.
            self._share = replace(self._share, at=0, counts=NOTHING)
            if not await lane.shard.compare(job.publisher, name, uuid, begin=True):
                return NOT_NOTED
        map_job = MapJob(job.kind, uuid, name, reference, job.full, self._share.stamp)
        work = MapWork(lane, self._patience, welcome, map_job, self._moved)
        problem = await work.run(self._share.at, self._share.counts)
        if problem or not syncs:
            return problem
        noted = await lane.shard.compare(job.publisher, name, uuid, begin=False)
        return "" if noted else NOT_NOTED

    # How far it is

    async def _moved(self, at: int, counts: Counts) -> None:
        share = self._share
        here = self._lane.shard.entries(share.map) * at // END
        done = max(share.done, min(share.total, share.base + here))
        await self._move(replace(share, at=at, counts=counts, done=done))

    async def _move(self, share: Share) -> None:
        self._share = share
        self._patience.renew()
        step = max(1, share.total // _HUNDREDTH)
        moved = share.done >= self._saved.done + step or share.map != self._saved.map
        if moved or self._lane.clock() >= self._saved_s + SAVE_S:
            await self._save()
            if self._share.ended:
                raise _EndedError

    async def _save(self) -> bool:
        """Store the share; False when the log does not take it now."""
        self._saved_s = self._lane.clock()
        job = self._store.find(self._job.uuid)
        if job is None or job.ended:
            # What is stored of a share goes with its job.
            self._end("the job has ended")
            return True
        self._meet(self._store.share(self._job, self._lane.settings.lane))
        share = self._share
        put = self._store.share_put(self._job, self._lane.settings.lane, share)
        if await put_all(self._store.system, [put]) is not None:
            return False
        self._saved = share
        return True

    def _meet(self, stored: Share | None) -> None:
        """Keep what another member has stored that carried out the share meanwhile."""
        if stored is not None and stored.ended:
            self._share = stored
        elif stored is not None and stored.done > self._share.done:
            self._share = replace(self._share, done=stored.done)

    def _end(self, error: str) -> None:
        done = self._share.done if error else self._share.total
        self._share = replace(self._share, ended=True, error=error, done=done)

    def _tell(self, what: str) -> None:
        told = {
            **self._job.publisher._asdict(),
            "job": self._job.uuid,
            "kind": self._job.kind.value,
        }
        event(_log, logging.INFO, what, **told, shard=self._lane.settings.lane)
