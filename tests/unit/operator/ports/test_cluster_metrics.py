"""What the operator shows of each GridCluster, as Prometheus reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grid_operator.ports.metrics import OperatorMetrics
from grid_operator.reconcile.reconciler import ClusterKey, Reconciler, Surroundings
from tests.unit.operator.fake_kube import FakeKube, FakeMembers, cluster_object

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject

LIMIT = 2000


def cluster(name: str, size: int = 3) -> KubeObject:
    return {"metadata": {"namespace": "grids", "name": name}, "spec": {"size": size}}


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
