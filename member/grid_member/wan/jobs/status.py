"""What is shown of jobs: in the status of publishers, as progress and among the operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

from grid_member.cluster.values.operations import COMPLETE_PERCENT
from grid_member.wan.figures import JobFigures
from grid_member.wan.jobs.records import JobKind, standing_of

if TYPE_CHECKING:
    from grid_member.cluster.values.operations import OperationDocument
    from grid_member.engine.wan.agreement import PublisherName
    from grid_member.wan.jobs.records import Job, MapResult
    from grid_member.wan.jobs.store import JobStore


class WanJobDocument(TypedDict):
    """The job of a publisher that is under way."""

    uuid: str
    kind: str
    maps: list[str]
    """Empty is all."""
    reason: str
    """Why it began by itself; empty when it was asked for."""
    stage: str
    progress: int
    creationTime: int


class WanMapResultDocument(TypedDict):
    """What a synchronisation or check has found in a map."""

    map: str
    uuid: str
    finished: int
    """Milliseconds since 1970."""
    entries: int
    sent: int
    missing: int
    extra: int
    older: int
    newer: int
    removed: int
    ambiguous: int
    error: str
    """Why it was not done; empty when it was."""


class JobsDocument(TypedDict):
    """What is known of the jobs of a publisher."""

    job: WanJobDocument | None
    lastSyncs: list[WanMapResultDocument]
    lastChecks: list[WanMapResultDocument]


class WanProgressResult(TypedDict):
    """How far a job is in the whole cluster."""

    stage: Literal["STARTED", "IN_PROGRESS", "FINISHED", "FAILED"]
    progress: int
    wanReplicationName: str
    wanPublisherId: str
    creationTime: int


class WanProgressDocument(TypedDict):
    """What `sync/progress` shows."""

    status: Literal["success"]
    result: WanProgressResult


def jobs_document(store: JobStore, publisher: PublisherName) -> JobsDocument:
    """Return what is known of the jobs of a publisher."""
    running = store.running(publisher)
    ended = [job for job in store.jobs() if job.publisher == publisher and job.ended]
    return {
        "job": None if running is None else _running_document(store, running),
        "lastSyncs": _last_results([job for job in ended if job.kind is JobKind.SYNC]),
        "lastChecks": _last_results([job for job in ended if job.kind is JobKind.CHECK]),
    }


def progress_document(store: JobStore, uuid: str) -> WanProgressDocument | None:
    """Return how far a job is, None when there is none of this UUID."""
    job = store.find(uuid)
    if job is None:
        return None
    standing = standing_of(job, store.shares(job))
    return {
        "status": "success",
        "result": {
            "stage": standing.stage.value,
            "progress": standing.progress,
            "wanReplicationName": job.publisher.replication,
            "wanPublisherId": job.publisher.publisher,
            "creationTime": job.began_ms,
        },
    }


def operation_documents(store: JobStore) -> list[OperationDocument]:
    """Return all jobs as operations."""
    found: list[OperationDocument] = []
    for job in store.jobs():
        standing = standing_of(job, store.shares(job))
        found.append(
            {
                "id": job.uuid,
                "kind": job.kind.value,
                "stage": standing.stage.value,
                "progress": standing.progress,
                "error": standing.error or None,
                "started": job.began_ms,
                "finished": job.finished_ms or None,
            }
        )
    return found


def job_figures(store: JobStore, publisher: PublisherName) -> JobFigures:
    """Return what metrics tell of a publisher's jobs."""
    job, checks = store.running(publisher), jobs_document(store, publisher)["lastChecks"]
    done = None if job is None else standing_of(job, store.shares(job)).progress / COMPLETE_PERCENT
    return JobFigures(done, sum(map(_differences, checks)) if checks else None)


def _running_document(store: JobStore, job: Job) -> WanJobDocument:
    standing = standing_of(job, store.shares(job))
    return {
        "uuid": job.uuid,
        "kind": job.kind.value,
        "maps": [*job.maps],
        "reason": job.reason,
        "stage": standing.stage.value,
        "progress": standing.progress,
        "creationTime": job.began_ms,
    }


def _last_results(jobs: list[Job]) -> list[WanMapResultDocument]:
    """Return the newest result of each map, in the order of the maps."""
    newest = {result.map: (job, result) for job in jobs for result in job.results}
    return [_result_document(*newest[name]) for name in sorted(newest)]


def _result_document(job: Job, result: MapResult) -> WanMapResultDocument:
    counts = result.counts
    return {
        "map": result.map,
        "uuid": job.uuid,
        "finished": job.finished_ms,
        "entries": counts.entries,
        "sent": counts.sent,
        "missing": counts.missing,
        "extra": counts.extra,
        "older": counts.older,
        "newer": counts.newer,
        "removed": counts.removed,
        "ambiguous": counts.ambiguous,
        "error": result.error,
    }


def _differences(result: WanMapResultDocument) -> int:
    there = result["missing"] + result["older"] + result["removed"]
    return there + result["newer"] + result["extra"] + result["ambiguous"]
