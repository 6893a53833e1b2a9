"""What the operator shows of each GridCluster, as Prometheus reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.ports.metrics import OperatorMetrics
from grid_operator.reconcile.reconciler import ClusterKey, Reconciler, Surroundings
from tests.unit.operator.fake_kube import FakeKube, FakeMembers, cluster_object

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject

LIMIT = 2000
DAY_S = 86400


def cluster(name: str, size: int = 3) -> KubeObject:
    return {"metadata": {"namespace": "grids", "name": name}, "spec": {"size": size}}


def with_schedule(schedule: object) -> KubeObject:
    found = cluster("demo")
    found["spec"]["persistence"] = {"backup": {"schedule": schedule}}
    return found


def status(ready: str = "True", started: str = "", kind: str = "Backup") -> KubeObject:
    shown: dict[str, Any] = {
        "conditions": [{"type": "Ready", "status": ready}],
        "readyMembers": 2,
    }
    return {**shown, "operation": {"kind": kind, "started": started}} if started else shown


def value(metrics: OperatorMetrics, series: str, name: str = "demo", **labels: str) -> float | None:
    namespace = "grids" if name else ""
    shown = {"namespace": namespace, "name": name, **labels}
    return metrics.registry.get_sample_value(f"grid_cluster_{series}", shown)


def test_a_cluster_is_shown_as_its_newest_status_says() -> None:
    metrics = OperatorMetrics()
    metrics.clusters.note(cluster("demo"), status(started="1970-01-01T00:01:00Z"))

    assert value(metrics, "condition", type="Ready", status="True") == 1
    assert value(metrics, "condition", type="Ready", status="False") is None
    assert (value(metrics, "size"), value(metrics, "ready_members")) == (3, 2)
    assert value(metrics, "operation_started_timestamp_seconds", kind="Backup") == 60

    metrics.clusters.note(cluster("demo", 5), status("False"))

    assert value(metrics, "condition", type="Ready", status="True") is None
    assert value(metrics, "condition", type="Ready", status="False") == 1
    assert value(metrics, "size") == 5
    assert value(metrics, "operation_started_timestamp_seconds", kind="Backup") is None

    metrics.clusters.forget("grids", "demo")

    assert value(metrics, "size") is None


def test_clusters_beyond_the_bound_are_summed_and_take_the_places_of_those_that_go() -> None:
    metrics = OperatorMetrics()
    for number in range(LIMIT + 3):
        started = f"1970-01-01T00:00:{number % 60:02}Z"
        metrics.clusters.note(cluster(f"c{number}", 1), status("False", started))

    assert value(metrics, "size", "c0") == value(metrics, "size", f"c{LIMIT - 1}") == 1
    assert value(metrics, "size", f"c{LIMIT}") is None
    assert value(metrics, "size", "") == 3
    assert value(metrics, "ready_members", "") == 6
    assert value(metrics, "condition", "", type="Ready", status="False") == 3
    # 2,000 is the 20th second of a minute: the oldest of the three.
    assert value(metrics, "operation_started_timestamp_seconds", "", kind="Backup") == 20
    metrics.clusters.forget("grids", "c7")
    assert value(metrics, "size", f"c{LIMIT}") == 1
    assert value(metrics, "size", "") == 2


def test_of_backups_their_ends_and_the_longest_time_between_two_are_shown() -> None:
    metrics = OperatorMetrics()
    backup = {"nextScheduledTime": "2026-11-27T02:00:00Z", "lastFailedTime": "1970-01-01T00:01:00Z"}
    weekdays = with_schedule({"cron": "0 2 * * 1-5"})
    metrics.clusters.note(weekdays, {**status(), "backup": backup})

    assert value(metrics, "backup_longest_interval_seconds") == 3 * DAY_S
    assert value(metrics, "backup_last_failure_timestamp_seconds") == 60
    assert value(metrics, "backup_last_success_timestamp_seconds") is None

    backup = {**backup, "lastSuccessfulTime": "1970-01-01T00:02:00Z"}
    metrics.clusters.note(with_schedule({"cron": "0 2 * * *"}), {**status(), "backup": backup})

    assert value(metrics, "backup_longest_interval_seconds") == DAY_S
    assert value(metrics, "backup_last_success_timestamp_seconds") == 120

    metrics.clusters.note(cluster("demo"), {**status(), "backup": {**backup}})

    assert value(metrics, "backup_longest_interval_seconds") is None
    assert value(metrics, "backup_last_success_timestamp_seconds") == 120


@pytest.mark.parametrize(
    "schedule",
    [
        "hourly",
        {},
        {"cron": "0 2 * *"},
        {"cron": "never"},
        {"cron": "0 2 31 2 *"},
        {"cron": "0 2 * * *", "timeZone": "Nowhere/Here"},
        {"cron": "0 2 * * *", "timeZone": "Europe"},
    ],
    ids=str,
)
def test_a_schedule_that_cannot_work_has_no_interval(schedule: object) -> None:
    metrics = OperatorMetrics()
    backup = {"nextScheduledTime": "2026-11-27T02:00:00Z"}
    metrics.clusters.note(with_schedule(schedule), {**status(), "backup": backup})

    assert value(metrics, "size") == 3
    assert value(metrics, "backup_longest_interval_seconds") is None


def test_backups_of_clusters_beyond_the_bound_have_no_series() -> None:
    metrics = OperatorMetrics()
    backup = {"lastSuccessfulTime": "1970-01-01T00:02:00Z"}
    for number in range(LIMIT + 1):
        metrics.clusters.note(cluster(f"c{number}", 1), {**status(), "backup": backup})

    assert value(metrics, "backup_last_success_timestamp_seconds", f"c{LIMIT - 1}") == 120
    assert value(metrics, "backup_last_success_timestamp_seconds", "") is None


async def test_each_round_shows_what_it_decides_until_the_cluster_is_gone() -> None:
    kube, metrics = FakeKube(cluster_object()), OperatorMetrics()
    where = Surroundings("grid-system", steady_s=lambda: 0.0, clusters=metrics.clusters)
    reconciler = Reconciler(kube, FakeMembers(), where)
    for _ in range(4):
        await reconciler.reconcile(ClusterKey("grids", "demo"))
    assert value(metrics, "condition", type="Ready", status="True") == 1
    assert (value(metrics, "size"), value(metrics, "ready_members")) == (1, 1)

    kube.edit(size="many")
    await reconciler.reconcile(ClusterKey("grids", "demo"))
    assert value(metrics, "condition", type="Stalled", status="True") == 1

    kube.objects.clear()
    await reconciler.reconcile(ClusterKey("grids", "demo"))
    assert value(metrics, "size") is None
