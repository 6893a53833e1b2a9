"""The listener that shows how a member does, in the text format of Prometheus.

This module and `cluster` alone know the client library of Prometheus; they are imported
where metrics are enabled.
What is shown is read when asked for. No label holds a key, a user or a value; the names of maps and
queues are labels up to a bound.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import operator
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from grid_member.cluster.management.usage import disk_of, limits_of
from grid_member.cluster.member.member import Phase
from grid_member.cluster.membership.member_table import NO_DISK
from grid_member.cluster.persistence.backups import KIND as BACKUP
from grid_member.cluster.values.operations import OperationStage
from grid_member.http.metrics.cluster import certificate_ends, certificate_metric, cluster_metrics
from grid_member.http.metrics.histograms import buckets
from grid_member.http.metrics.wan import wan_metrics
from grid_member.http.wire.answers import Answer, error
from grid_member.release import VERSION
from grid_member.telemetry.handler import dropped_lines
from grid_member.telemetry.logs import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from aiohttp import web

    from grid_member.cluster.member.member import Member
    from grid_member.cluster.membership.member_table import Disk
    from grid_member.cluster.values.operations import OperationDocument
    from grid_member.engine.local.usage import StructureUsage
    from grid_member.http.metrics.request_counting import ListenerFigures
    from grid_member.telemetry.measurements import Measurements
    from grid_member.wan.figures import WanFigures

METRICS_PATH: Final = "/metrics"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MAX_NAMED_STRUCTURES: Final = 200
"""Of each kind. What a member holds beyond that is summed in a series without a name."""
KINDS: Final = ("map", "queue")
MS_PER_S: Final = 1000
DISK_PATIENCE_S: Final = 1.0
"""How long a scrape waits for the disk to tell how much is on it, and when certificates end."""
SYNCED: Final = "Commits of the store, each with its sync to the disk."
AGREED: Final = "From when records were sent until a majority took them and they were applied."
"""What a commit is on one of several members."""
T = TypeVar("T")
_METHODS: Final = ("GET", "HEAD")
_log: Final = logging.getLogger("grid.http")
_name: Final = operator.attrgetter("name")


class MetricsService:
    """Answers `GET /metrics`."""

    def __init__(
        self,
        member: Member,
        listeners: Callable[[], Iterable[ListenerFigures]],
        wan: WanFigures | None = None,
    ) -> None:
        self._member = member
        self._registry = CollectorRegistry()
        self._collector = MemberCollector(member, listeners, wan)
        usage = member.management.usage
        self._disk = DiskProbe(partial(disk_of, usage, member.config.data_directory))
        self._certificates = DiskProbe(partial(certificate_ends, member.config))
        self._registry.register(self._collector)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    async def answer(self, request: web.BaseRequest) -> Answer:
        """Return the metrics; 404 for every other path."""
        close = request.body_exists or self._member.ending
        if request.raw_path.partition("?")[0] != METRICS_PATH:
            return error(404, "no such path", close=close)
        if request.method not in _METHODS:
            return Answer(405, headers=(("Allow", ", ".join(_METHODS)),), close=True)
        try:
            looks = self._disk.result(), self._certificates.result()
            told = self._collector
            told.disk, told.certificates = await asyncio.gather(*looks)
            text = generate_latest(self._registry)
        except Exception as problem:
            failure(_log, "metrics failed", problem)
            return error(500, "unexpected error", close=close)
        return Answer(200, text, CONTENT_TYPE, close=close)


class DiskProbe(Generic[T]):
    """A look at the disk, one at a time: who asks meanwhile waits for it, or takes every thread."""

    def __init__(self, look: Callable[[], T]) -> None:
        self._look = look
        self._looking: asyncio.Future[T] | None = None

    async def result(self) -> T | None:
        """Return what the look tells; None when the disk does not answer in time."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(asyncio.to_thread(self._look))
        looking = self._looking
        await asyncio.wait({looking}, timeout=DISK_PATIENCE_S)
        return looking.result() if looking.done() else None


class MemberCollector(Collector):
    """Turns what a member holds and has counted into metrics, each time it is asked."""

    def __init__(
        self,
        member: Member,
        listeners: Callable[[], Iterable[ListenerFigures]],
        wan: WanFigures | None,
    ) -> None:
        self._member = member
        self._listeners = listeners
        self._wan = wan
        self._names = {kind: Names(MAX_NAMED_STRUCTURES) for kind in KINDS}
        self.disk: Disk | None = None
        """What the store takes on the disk, and what is free there, as it was just found out."""
        self.certificates: dict[tuple[str, str], float] | None = None
        """When they end, as it was just found out."""

    def collect(self) -> Iterator[Metric]:
        """Yield everything."""
        member = self._member
        yield _build_metric()
        yield GaugeMetricFamily("grid_ready", "1 when the member can be used.", int(member.ready))
        yield from self._listener_metrics()
        yield CounterMetricFamily(
            "grid_dropped_log_lines",
            "Lines of this process that were not read in time, or could not be written.",
            dropped_lines(),
        )
        if self.certificates:
            yield certificate_metric(self.certificates)
        if member.measurements is not None:
            yield from _request_metrics(member.measurements)
            if member.membership is not None:
                yield _commit_metric(member.measurements, AGREED)
            elif member.config.data_directory is not None:
                yield _commit_metric(member.measurements, SYNCED)
        if member.phase is not Phase.STARTING and member.marker_reason is None:
            yield from cluster_metrics(member)
            yield from self._structure_metrics()
            yield from self._store_metrics()
            yield GaugeMetricFamily(
                "grid_poll_waiters",
                "Polls that wait here for an item of a queue.",
                member.management.usage.poll_waiters(),
            )
            yield from _operation_metrics(member.management.operations.documents())
            if self._wan is not None:
                yield from wan_metrics(self._wan)

    def _listener_metrics(self) -> Iterator[Metric]:
        connections = GaugeMetricFamily(
            "grid_connections", "Connections that are open.", labels=["listener"]
        )
        refused = CounterMetricFamily(
            "grid_refused_connections",
            "Connections turned away, as many as may be being open.",
            labels=["listener"],
        )
        slowed = CounterMetricFamily(
            "grid_throttled_logins",
            "Attempts turned away, too many having failed from their address.",
            labels=["listener"],
        )
        for listener in self._listeners():
            connections.add_metric([listener.kind], listener.connections)
            refused.add_metric([listener.kind], listener.refused_count)
            slowed.add_metric([listener.kind], listener.slowed_logins)
        yield connections
        yield refused
        yield slowed

    def _structure_metrics(self) -> Iterator[Metric]:
        labels = ["kind", "name"]
        count = GaugeMetricFamily(
            "grid_structures", "Maps and queues that hold anything.", labels=labels[:1]
        )
        entries = GaugeMetricFamily(
            "grid_structure_entries", "Entries of maps, items of queues.", labels=labels
        )
        size = GaugeMetricFamily("grid_structure_bytes", "Bytes of keys and values.", labels=labels)
        most = GaugeMetricFamily(
            "grid_structure_limit_entries", "Entries or items that it may hold.", labels=labels
        )
        largest = GaugeMetricFamily(
            "grid_structure_limit_bytes", "Bytes that it may hold.", labels=labels
        )
        held = list(self._member.management.usage.structure_usage())
        for kind in KINDS:
            of_kind = [found for found in held if found.kind == kind]
            count.add_metric([kind], len(of_kind))
            for name, entry_count, size_bytes in self._names[kind].sum_up(of_kind):
                entries.add_metric([kind, name], entry_count)
                size.add_metric([kind, name], size_bytes)
                if not name:
                    continue
                limits = limits_of(kind, name, self._member.config)
                if limits["entries"] is not None:
                    most.add_metric([kind, name], limits["entries"])
                if limits["bytes"] is not None:
                    largest.add_metric([kind, name], limits["bytes"])
        yield from (count, entries, size, most, largest)

    def _store_metrics(self) -> Iterator[Metric]:
        disk = self.disk or NO_DISK
        if disk.store_bytes is not None:
            yield GaugeMetricFamily(
                "grid_store_bytes", "Bytes that the data takes on disk.", disk.store_bytes
            )
        if disk.free_bytes is not None:
            yield GaugeMetricFamily(
                "grid_store_free_bytes", "Bytes that are free for the data.", disk.free_bytes
            )
        if self._member.config.data_directory is not None:
            yield GaugeMetricFamily(
                "grid_store_present",
                "1 while the directory that the member has opened is still at its path.",
                int(self._member.engine.directory_lost is None),
            )


class Names:
    """The names that are shown one by one: who has such a place keeps it as long as it holds."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known_names: set[str] = set()

    def sum_up(self, held: Iterable[StructureUsage]) -> Iterator[tuple[str, int, int]]:
        """Yield name, entries and bytes; at last, without a name, the sums of the others."""
        shown: list[StructureUsage] = []
        others: list[StructureUsage] = []
        for found in held:
            (shown if found.name in self._known_names else others).append(found)
        # There may be a hundred thousand others: they are not sorted to find a few.
        shown += heapq.nsmallest(self._limit - len(shown), others, key=_name)
        self._known_names = {found.name for found in shown}
        rest_entries = rest_bytes = 0
        for found in others:
            if found.name not in self._known_names:
                rest_entries += found.entries
                rest_bytes += found.size_bytes
        for found in sorted(shown, key=_name):
            yield found.name, found.entries, found.size_bytes
        yield "", rest_entries, rest_bytes


def _build_metric() -> Metric:
    family = GaugeMetricFamily(
        "grid_build_info", "1 for the version of this member.", labels=["version"]
    )
    family.add_metric([VERSION], 1)
    return family


def _operation_metrics(documents: Sequence[OperationDocument]) -> Iterator[Metric]:
    family = GaugeMetricFamily(
        "grid_operations",
        "Long operations that are remembered, of the whole cluster.",
        labels=["kind", "stage"],
    )
    for key, number in sorted(Counter((one["kind"], one["stage"]) for one in documents).items()):
        family.add_metric(key, number)
    yield family
    ends = (
        one["finished"]
        for one in documents
        if one["kind"] == BACKUP and one["stage"] == OperationStage.FINISHED.value
    )
    newest_ms = max(filter(None, ends), default=None)
    if newest_ms is not None:
        yield GaugeMetricFamily(
            "grid_backup_last_success_timestamp_seconds",
            "When the newest of the backups that are remembered was complete.",
            newest_ms / MS_PER_S,
        )


def _request_metrics(measurements: Measurements) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "grid_requests", "Requests that were answered.", labels=["method", "path", "status"]
    )
    for (method, path, status), count in sorted(measurements.requests.items()):
        requests.add_metric([method, path, str(status)], count)
    yield requests
    durations = HistogramMetricFamily(
        "grid_request_duration_seconds",
        "From the request's head to its answer, a poll's waiting included.",
        labels=["method", "path"],
    )
    for key, found in sorted(measurements.durations.items()):
        durations.add_metric(key, buckets(found), found.sum_s)
    yield durations


def _commit_metric(measurements: Measurements, what: str) -> Metric:
    found = measurements.commits()
    return HistogramMetricFamily(
        "grid_store_commit_duration_seconds",
        what,
        buckets=buckets(found),
        sum_value=found.sum_s,
    )
