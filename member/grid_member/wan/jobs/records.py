"""What is known of a synchronisation or check: the job, and the share of each shard.

    noted ──▶ each shard's share: map after map, bucket after bucket ──▶ all shares ended ──▶ ended

A share says how far the shard is, so that another member goes on where the one before stopped.
"""

from __future__ import annotations

import enum
import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple

from grid_member.cluster.values.operations import COMPLETE_PERCENT, OperationStage
from grid_member.engine.wan.agreement import PublisherName

MAX_RESULTS: Final = 256
"""Maps whose result a job keeps; those in which something differs come first."""


class JobKind(enum.Enum):
    """What a job does; the values are kinds of the operations document."""

    SYNC = "wanSync"
    CHECK = "wanConsistencyCheck"


class Counts(NamedTuple):
    """What was found in a map."""

    entries: int = 0
    """Of the source, when the map was begun."""
    sent: int = 0
    """Changes."""
    missing: int = 0
    extra: int = 0
    older: int = 0
    newer: int = 0
    removed: int = 0
    ambiguous: int = 0

    @property
    def differences(self) -> int:
        """Keys in which the target differed."""
        return sum(self[2:])


NOTHING: Final = Counts()


@dataclass(frozen=True, slots=True)
class MapResult:
    """What became of one map."""

    map: str
    counts: Counts
    error: str = ""
    """Why it was not done, empty when it was."""


@dataclass(frozen=True, slots=True)
class Job:
    """A synchronisation or check."""

    uuid: str
    kind: JobKind
    publisher: PublisherName
    maps: tuple[str, ...]
    """Empty is all that the publisher sends."""
    began_ms: int
    lanes: int
    """Shards, each of which has a share."""
    full: bool
    """Whether everything is sent, without a comparison."""
    absent: str = ""
    """A map that is asked for by name and of which no shard holds anything: the first checks it."""
    reason: str = ""
    """Why it began by itself; empty when it was asked for."""
    finished_ms: int = 0
    """0 until it has ended."""
    error: str = ""
    progress: int = 0
    """Percent, when it ended."""
    results: tuple[MapResult, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether nothing goes on any more."""
        return bool(self.finished_ms)

    def pack(self) -> bytes:
        """Return what is stored."""
        return _packed(asdict(self) | {"kind": self.kind.value, "publisher": [*self.publisher]})

    @classmethod
    def read(cls, stored: bytes) -> Job:
        """Return the job that was stored."""
        content: dict[str, Any] = json.loads(stored)
        content["kind"] = JobKind(content["kind"])
        content["publisher"] = PublisherName(*content["publisher"])
        content["maps"] = tuple(content["maps"])
        content["results"] = _results(content["results"])
        return cls(**content)


@dataclass(frozen=True, slots=True)
class Share:
    """How far one shard is with a job."""

    total: int
    """Entries of its maps when it began."""
    stamp: int
    """The newest of the shard when it began."""
    target: str = ""
    """The id of the target; another one has nothing of what was sent."""
    base: int = 0
    """Entries of the maps that are done."""
    done: int = 0
    """Entries; it never falls."""
    map: str = ""
    """The one that is under way, or was last."""
    at: int = 0
    """Keys whose CRC-32 is less are done in this map."""
    counts: Counts = NOTHING
    """Of this map."""
    results: tuple[MapResult, ...] = ()
    ended: bool = False
    error: str = ""

    def pack(self) -> bytes:
        """Return what is stored."""
        return _packed(asdict(self))

    @classmethod
    def read(cls, stored: bytes) -> Share:
        """Return the share that was stored."""
        content: dict[str, Any] = json.loads(stored)
        content["counts"] = Counts(*content["counts"])
        content["results"] = _results(content["results"])
        return cls(**content)


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a job is in the whole cluster."""

    stage: OperationStage
    progress: int
    """Percent; 100 when FINISHED."""
    error: str


def standing_of(job: Job, shares: dict[int, Share]) -> Standing:
    """Return how far a job is; it is STARTED until every shard knows how much it has to do."""
    if job.ended:
        stage = OperationStage.FAILED if job.error else OperationStage.FINISHED
        return Standing(stage, job.progress, job.error)
    if len(shares) < job.lanes:
        return Standing(OperationStage.STARTED, 0, "")
    total, done = sum(each.total for each in shares.values()), done_of(shares)
    # 100 is for what has ended.
    progress = min(COMPLETE_PERCENT - 1, done * COMPLETE_PERCENT // total) if total else 0
    return Standing(OperationStage.IN_PROGRESS, progress, "")


def done_of(shares: dict[int, Share]) -> int:
    """Return the entries that are done."""
    return sum(min(each.done, each.total) for each in shares.values())


def ended_job(job: Job, shares: dict[int, Share], error: str, now_ms: int) -> Job:
    """Return the job with its end and what was found."""
    errors = [error, *(each.error for each in shares.values())]
    first = next((each for each in errors if each), "")
    progress = standing_of(job, shares).progress if first else COMPLETE_PERCENT
    results = bounded([result for each in shares.values() for result in each.results])
    return replace(job, finished_ms=now_ms, error=first, progress=progress, results=results)


def bounded(results: list[MapResult]) -> tuple[MapResult, ...]:
    """Return the results that are kept, those with something to tell first."""
    ordered = sorted(results, key=lambda each: (not each.error, not each.counts.differences))
    return tuple(ordered[:MAX_RESULTS])


def _results(content: list[dict[str, Any]]) -> tuple[MapResult, ...]:
    return tuple(MapResult(each["map"], Counts(*each["counts"]), each["error"]) for each in content)


def _packed(content: dict[str, object]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()
