"""What the system store holds of jobs.

    wan/job/of/<uuid>               a job
    wan/job/running/<publisher>     the UUID of the job that is under way
    wan/job/share/<uuid>/<shard>    how far a shard is with it; gone when the job has ended

Backups leave them out (`backups.LEFT_OUT`): a job is the cluster's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.cluster.values.system_store import Put
from grid_member.wan.agreement.store import WanStore, name_key
from grid_member.wan.jobs.records import Job, JobKind, Share, ended_job

if TYPE_CHECKING:
    from collections.abc import Collection

    from grid_member.engine.state.system import SystemStore
    from grid_member.engine.wan.agreement import PublisherName

MAX_JOBS: Final = 100
"""Of which something is known; beyond it the oldest that have ended are forgotten."""
JOB: Final = "wan/job/of/"
RUNNING: Final = "wan/job/running/"
SHARE: Final = "wan/job/share/"
SUPERSEDED: Final = "another job of the publisher began"


class JobStore:
    """Reads jobs, and makes what is put there."""

    def __init__(self, store: SystemStore) -> None:
        self.system = store
        self._read: dict[str, tuple[bytes, Job]] = {}
        """By key what was read last, and the job that it is: each look asks for all."""

    def jobs(self) -> list[Job]:
        """Return all jobs, the oldest first."""
        items = self.system.system_items(JOB)
        self._read = {key: self._known(key, value) for key, value in items}
        found = [job for _, job in self._read.values()]
        return sorted(found, key=lambda job: (job.began_ms, job.uuid))

    def open_jobs(self) -> list[Job]:
        """Return the jobs that have not ended; a race may leave several of one publisher."""
        return [job for job in self.jobs() if not job.ended]

    def find(self, uuid: str) -> Job | None:
        """Return a job; None when there is none of this UUID, or none any more."""
        stored = self.system.system_get(JOB + uuid)
        return None if stored is None else self._known(JOB + uuid, stored)[1]

    def _known(self, key: str, stored: bytes) -> tuple[bytes, Job]:
        known = self._read.get(key)
        return known if known is not None and known[0] == stored else (stored, Job.read(stored))

    def running(self, publisher: PublisherName) -> Job | None:
        """Return the job of a publisher that is under way."""
        uuid = self.system.system_get(RUNNING + name_key(publisher))
        job = None if uuid is None else self.find(uuid.decode())
        return None if job is None or job.ended else job

    def share(self, job: Job, lane: int) -> Share | None:
        """Return how far a shard is; None when it has not begun."""
        stored = self.system.system_get(_share_key(job, lane))
        return None if stored is None else Share.read(stored)

    def shares(self, job: Job) -> dict[int, Share]:
        """Return the shares of the shards that have begun."""
        found = ((lane, self.share(job, lane)) for lane in range(job.lanes))
        return {lane: share for lane, share in found if share is not None}

    def begin_puts(self, job: Job) -> list[Put]:
        """Return what notes a job, and forgets the oldest for it."""
        ended = [each.uuid for each in self.jobs() if each.ended]
        surplus = ended[: max(0, len(self.jobs()) + 1 - MAX_JOBS)]
        puts = [Put(JOB + job.uuid, job.pack()), *(Put(JOB + each, None) for each in surplus)]
        if not job.ended:
            former = self.running(job.publisher)
            if former is not None:
                puts += self.end_puts(
                    ended_job(former, self.shares(former), SUPERSEDED, job.began_ms)
                )
            puts.append(Put(RUNNING + name_key(job.publisher), job.uuid.encode()))
        # A person who names a map of which no shard holds anything has nothing to synchronise.
        return [*puts, *self._synced(job, job.maps)]

    def share_put(self, job: Job, lane: int, share: Share) -> Put:
        """Return what notes how far a shard is."""
        return Put(_share_key(job, lane), share.pack())

    def end_puts(self, ended: Job) -> list[Put]:
        """Return what notes the end of a job."""
        puts = [Put(JOB + ended.uuid, ended.pack())]
        puts += [Put(_share_key(ended, lane), None) for lane in self.shares(ended)]
        running = self.running(ended.publisher)
        if running is not None and running.uuid == ended.uuid:
            puts.append(Put(RUNNING + name_key(ended.publisher), None))
        shares = self.shares(ended).values()
        return [*puts, *self._synced(ended, {each.map for one in shares for each in one.results})]

    def _synced(self, job: Job, maps: Collection[str]) -> list[Put]:
        """Return what notes of which maps nothing is missing any more that a shard had lost."""
        if job.kind is not JobKind.SYNC or not job.ended or job.error:
            return []
        return WanStore(self.system).synced_puts(job.publisher, job.uuid, maps)


def _share_key(job: Job, lane: int) -> str:
    return f"{SHARE}{job.uuid}/{lane}"
