from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import signal
import socket
import warnings
from typing import TYPE_CHECKING

import aiohttp
import kopf
import pytest

from grid_operator.command import make_options, make_parser
from grid_operator.handlers.feeding import QueueFeed
from grid_operator.handlers.log_format import JsonFormatter
from grid_operator.handlers.registry import make_registry
from grid_operator.handlers.serving import (
    EVERY_ADDRESS,
    HEALTH_PATH,
    METRICS_PATH,
    health_handler,
    metrics_handler,
    serving,
)
from grid_operator.handlers.settings import make_settings
from grid_operator.handlers.watching import watch_targets
from grid_operator.ports.errors import Rejected
from grid_operator.ports.kubernetes.client import LABELLED_KINDS
from grid_operator.ports.kubernetes.watch import ObjectMeta, WatchTarget
from grid_operator.ports.metrics import OperatorMetrics
from grid_operator.reconcile.queue import QueueLimits, WorkQueue
from grid_operator.reconcile.reconciler import ClusterKey
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

CLUSTERS = WatchTarget("gridcluster.io/v1alpha1", "gridclusters", "n")
PODS = WatchTarget("v1", "pods", "n", "gridcluster.io/cluster")


def feed(max_keys: int = 10) -> tuple[QueueFeed, WorkQueue[ClusterKey]]:
    async def work(_key: ClusterKey) -> float | None:
        raise AssertionError("the queue does not run")

    limits = QueueLimits(max_keys=max_keys)
    queue: WorkQueue[ClusterKey] = WorkQueue(work, random.Random(1), limits)
    return QueueFeed(queue, OperatorMetrics()), queue


async def test_each_object_makes_its_cluster_due() -> None:
    made, queue = feed()
    assert made.changed(CLUSTERS, ObjectMeta("n", "demo", "1", "other"))
    assert made.changed(PODS, ObjectMeta("n", "demo-0", "2", "demo"))
    assert made.changed(PODS, ObjectMeta("n", "bare", "3"))
    assert len(queue) == 1
    assert ClusterKey("n", "demo") in queue
    assert made.has(PODS, ObjectMeta("n", "demo-1", "4", "demo"))
    assert not made.has(PODS, ObjectMeta("n", "other-0", "4", "other"))


async def test_a_full_queue_takes_nothing_more() -> None:
    made, queue = feed(max_keys=1)
    assert made.changed(CLUSTERS, ObjectMeta("n", "demo", "1"))
    assert not made.changed(CLUSTERS, ObjectMeta("n", "more", "2"))
    assert made.changed(CLUSTERS, ObjectMeta("n", "demo", "3"))
    assert len(queue) == 1


def test_children_are_watched_by_label_and_each_namespace_once() -> None:
    targets = list(watch_targets(("a", "b", "a")))
    assert len(targets) == len(set(targets)) == 2 * (1 + len(LABELLED_KINDS))
    assert {t.selector for t in targets if t.plural != "gridclusters"} == {"gridcluster.io/cluster"}
    assert {t.selector for t in targets if t.plural == "gridclusters"} == {None}
    assert {t.path for t in watch_targets((None,))} >= {
        "/api/v1/pods",
        "/apis/apps/v1/statefulsets",
    }


def test_nothing_makes_kopf_write_annotations_or_finalizers() -> None:
    made = make_registry(lambda: None, lambda: None)
    assert list(made._watching.get_all_handlers()) == []
    assert list(made._changing.get_all_handlers()) == []
    assert list(made._spawning.get_all_handlers()) == []
    settings = make_settings()
    assert not settings.posting.enabled
    assert settings.peering.standalone
    assert settings.scanning.disabled


async def test_kopf_tells_of_its_start_and_of_a_stop_signal_and_asks_nothing() -> None:
    begun, ending = asyncio.Event(), asyncio.Event()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        life = asyncio.create_task(
            kopf.operator(
                registry=make_registry(begun.set, ending.set),
                settings=make_settings(),
                namespaces=["n"],
            )
        )
        await begun.wait()
        assert not ending.is_set()
        await until(lambda: signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        await ending.wait()
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
async def test_the_ports_answer_over_both_families(host: str) -> None:
    """In a cluster of IPv6 alone the kubelet's probes and Prometheus come over that."""
    handler = health_handler({"leader": lambda: True})
    async with (
        serving(EVERY_ADDRESS, 0, HEALTH_PATH, handler) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://{host}:{port}/healthz") as response,
    ):
        assert await response.json() == {"leader": True}


async def test_without_ipv6_the_ports_answer_over_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    handler = health_handler({"leader": lambda: True})
    async with (
        serving(EVERY_ADDRESS, 0, HEALTH_PATH, handler) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/healthz") as response,
    ):
        assert response.status == 200


async def test_the_ports_show_that_it_lives_and_what_it_counts() -> None:
    metrics = OperatorMetrics()
    metrics.api_called("patch", 200)
    metrics.api_called("get", 0)
    metrics.member_asked("view", "done", 0.01)
    metrics.watch_event("pods")
    metrics.show("queue_depth", "Keys that wait.", lambda: 3)
    shown: dict[str, Callable[[], object]] = {"apiWrites": lambda: 7, "leader": lambda: True}
    async with (
        serving("127.0.0.1", 0, HEALTH_PATH, health_handler(shown)) as health,
        serving("127.0.0.1", 0, METRICS_PATH, metrics_handler(metrics.registry)) as port,
        aiohttp.ClientSession() as session,
    ):
        async with session.get(f"http://127.0.0.1:{health}/healthz") as response:
            assert response.status == 200
            assert await response.json() == {"apiWrites": 7, "leader": True}
        async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
            assert response.content_type == "text/plain"
            text = await response.text()
        with pytest.raises(Rejected, match=str(port)):
            async with serving("127.0.0.1", port, METRICS_PATH, health_handler({})):
                pass
    for line in (
        'grid_operator_api_requests_total{status="200",verb="patch"} 1.0',
        'grid_operator_api_requests_total{status="0",verb="get"} 1.0',
        "grid_operator_queue_depth 3.0",
        'grid_operator_watch_events_total{resource="pods"} 1.0',
    ):
        assert line in text


async def test_an_operator_that_hears_nothing_is_not_healthy() -> None:
    handler = health_handler({"hearing": lambda: {"hears": False}}, lambda: False)
    async with (
        serving("127.0.0.1", 0, HEALTH_PATH, handler) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/healthz") as response,
    ):
        assert response.status == 503
        assert await response.json() == {"hearing": {"hears": False}}


def test_two_operators_in_one_process_count_apart() -> None:
    first, second = OperatorMetrics(), OperatorMetrics()
    first.watch_event("pods")
    name = "grid_operator_watch_events_total"
    assert second.registry.get_sample_value(name, {"resource": "pods"}) is None


def test_defects_are_counted_from_zero() -> None:
    """Prometheus sees no increase in a series that begins with 1."""
    metrics = OperatorMetrics()
    metrics.show_watch("pods", "grids", lambda: 0.0, lambda: False)
    get = metrics.registry.get_sample_value
    labels = {"resource": "pods", "namespace": "grids", "reason": "defect"}

    assert get("grid_operator_reconcile_duration_seconds_count", {"result": "defect"}) == 0
    assert get("grid_operator_watch_restarts_total", labels) == 0


@pytest.mark.parametrize(
    ("arguments", "lease", "metrics_port"),
    [
        ([], "grid-operator", 8081),
        (["--no-leader-election", "--metrics-port", "0"], None, None),
        (["--lease", "other", "--metrics-port", "9000"], "other", 9000),
    ],
)
def test_how_it_works(arguments: list[str], lease: str | None, metrics_port: int | None) -> None:
    options = make_options(make_parser().parse_args(arguments), {})
    assert (options.lease, options.metrics_port) == (lease, metrics_port)


@pytest.mark.parametrize("port", ["-1", "65536", "http", ""])
def test_a_port_is_a_number(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        make_parser().parse_args(["--metrics-port", port])
    assert "no port" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        ([], {}, ((), False, None)),
        ([], {"POD_NAMESPACE": "grid-system"}, ((), False, "grid-system")),
        (["--namespace", "a", "--namespace", "b"], {}, (("a", "b"), False, None)),
        (["--all-namespaces"], {}, ((), True, None)),
    ],
)
def test_where_it_serves(
    arguments: list[str], environment: dict[str, str], expected: tuple[object, ...]
) -> None:
    options = make_options(make_parser().parse_args(arguments), environment)
    assert (options.namespaces, options.all_namespaces, options.own_namespace) == expected


def test_in_a_pod_the_service_account_is_used_unless_a_file_is_named() -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}
    assert make_options(make_parser().parse_args([]), environment).kubeconfig is None
    named = make_parser().parse_args(["--kubeconfig", "file"])
    assert make_options(named, environment).kubeconfig == "file"


def test_json_lines_are_one_object_each_also_with_a_traceback() -> None:
    try:
        raise KeyError("x")
    except KeyError as error:
        record = logging.LogRecord(
            "grid", logging.ERROR, "f", 1, "a\n%s", ("b",), (KeyError, error, error.__traceback__)
        )
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert json.loads(line)["message"] == "a\nb"
    assert "KeyError" in json.loads(line)["exception"]
