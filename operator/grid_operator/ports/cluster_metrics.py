"""What each GridCluster is like, for Prometheus: by namespace and name, up to a bound."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from grid_operator.api.persistence import BackupSchedule
from grid_operator.decide.schedule import longest_interval
from grid_operator.decide.situation import moment
from grid_operator.decide.validate import cron_problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client.metrics_core import Metric

    from grid_operator.api.objects import KubeObject

MAX_NAMED_CLUSTERS: Final = 2000
"""What there is beyond that is summed in series without a namespace and a name."""
_NAMED: Final = ("namespace", "name")
_NO_NAME: Final = ("", "")
LAST_SUCCESS: Final = "last_success_timestamp_seconds"
LAST_FAILURE: Final = "last_failure_timestamp_seconds"
LONGEST_INTERVAL: Final = "longest_interval_seconds"


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """One cluster as its newest status shows it."""

    conditions: tuple[tuple[str, str], ...]
    """Type and status of each."""
    size: int
    """Members that the spec asks for."""
    ready: int
    operation: tuple[str, float] | None
    """Kind of the operation under way, and when it began, in seconds since 1970."""
    backups: tuple[tuple[str, float], ...]
    """Value of each metric of backups that the cluster has, by the metric's last words."""


def figures_of(cluster: KubeObject, status: KubeObject) -> ClusterFigures:
    """Return what a GridCluster and the status that is about it show."""
    size = (cluster.get("spec") or {}).get("size", 1)
    operation = status.get("operation") or {}
    began = moment(operation.get("started"))
    return ClusterFigures(
        conditions=tuple((c["type"], c["status"]) for c in status.get("conditions") or ()),
        size=size if isinstance(size, int) else 0,
        ready=status.get("readyMembers") or 0,
        operation=None if began is None else (str(operation.get("kind")), began.timestamp()),
        backups=tuple(_backups(cluster, status.get("backup") or {})),
    )


def _backups(cluster: KubeObject, shown: KubeObject) -> Iterator[tuple[str, float]]:
    for name, field in (
        (LAST_SUCCESS, "lastSuccessfulTime"),
        (LAST_FAILURE, "lastFailedTime"),
    ):
        if (ended := moment(shown.get(field))) is not None:
            yield name, ended.timestamp()
    planned = shown.get("nextScheduledTime")
    schedule = cluster.get("spec")
    for field in ("persistence", "backup", "schedule"):
        schedule = schedule.get(field) if isinstance(schedule, dict) else None
    if planned and isinstance(schedule, dict):
        zone = str(schedule.get("timeZone", "UTC"))
        if (interval_s := _interval_s(str(schedule.get("cron")), zone, planned)) > 0:
            yield LONGEST_INTERVAL, interval_s


@lru_cache(maxsize=MAX_NAMED_CLUSTERS)
def _interval_s(cron: str, time_zone: str, planned: str) -> float:
    """Return the longest time between two scheduled backups, 0 where a spec cannot work."""
    after = moment(planned)
    if after is None or cron_problem(cron) is not None:
        return 0.0
    try:
        schedule = BackupSchedule(cron=cron, time_zone=time_zone)
        return longest_interval(schedule, after).total_seconds()
    except (OSError, ValueError, LookupError):
        return 0.0


class ClusterCollector(Collector):
    """Keeps the newest figures of each cluster. One that is shown by its name stays so."""

    def __init__(self, limit: int = MAX_NAMED_CLUSTERS) -> None:
        """Know none yet; show so many by their names."""
        self._limit = limit
        self._known: dict[tuple[str, str], ClusterFigures] = {}

    def note(self, cluster: KubeObject, status: KubeObject) -> None:
        """Show a cluster with the status that was just decided."""
        meta = cluster["metadata"]
        self._known[meta["namespace"], meta["name"]] = figures_of(cluster, status)

    def forget(self, namespace: str, name: str) -> None:
        """Show a cluster no more: there is none."""
        self._known.pop((namespace, name), None)

    def collect(self) -> Iterator[Metric]:
        """Yield everything."""
        known = list(self._known.items())
        others = [figures for _, figures in islice(known, self._limit, None)]
        groups = [(names, [figures]) for names, figures in known[: self._limit]]
        if others:
            groups.append((_NO_NAME, others))
        conditions, size, ready, operations = _families()
        backups = _backup_families()
        for names, members in groups:
            held = Counter(condition for one in members for condition in one.conditions)
            for condition, count in held.items():
                conditions.add_metric([*names, *condition], count)
            size.add_metric(names, sum(one.size for one in members))
            ready.add_metric(names, sum(one.ready for one in members))
            for kind, began_s in _oldest(members):
                operations.add_metric([*names, kind], began_s)
            # The newest backup of several clusters says nothing of any of them.
            for last_words, metric_value in () if names == _NO_NAME else members[0].backups:
                backups[last_words].add_metric(names, metric_value)
        yield from (conditions, size, ready, operations, *backups.values())


def _oldest(figures: Sequence[ClusterFigures]) -> list[tuple[str, float]]:
    """Return when the oldest operation of each kind began."""
    found: dict[str, float] = {}
    for one in figures:
        if one.operation is not None:
            kind, began_s = one.operation
            found[kind] = min(began_s, found.get(kind, began_s))
    return sorted(found.items())


def _families() -> tuple[GaugeMetricFamily, ...]:
    return (
        GaugeMetricFamily(
            "grid_cluster_condition",
            "1 for each condition of a GridCluster, by the status that it has.",
            labels=[*_NAMED, "type", "status"],
        ),
        GaugeMetricFamily("grid_cluster_size", "Members that the spec asks for.", labels=_NAMED),
        GaugeMetricFamily("grid_cluster_ready_members", "Members that are ready.", labels=_NAMED),
        GaugeMetricFamily(
            "grid_cluster_operation_started_timestamp_seconds",
            "When the operation that is under way began.",
            labels=[*_NAMED, "kind"],
        ),
    )


def _backup_families() -> dict[str, GaugeMetricFamily]:
    words = {
        LAST_SUCCESS: "When the newest backup that is complete ended.",
        LAST_FAILURE: "When the newest backup that failed ended.",
        LONGEST_INTERVAL: "Longest time between two of the backups that are scheduled next.",
    }
    return {
        last_words: GaugeMetricFamily(f"grid_cluster_backup_{last_words}", meaning, labels=_NAMED)
        for last_words, meaning in words.items()
    }
