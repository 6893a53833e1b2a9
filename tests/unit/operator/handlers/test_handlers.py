from __future__ import annotations

import json
import logging
import socket
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from grid_operator.command import make_options, make_parser
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
from grid_operator.handlers.watching import WatchAges, connect
from grid_operator.ports.errors import Rejected
from grid_operator.ports.kube_rest import Credentials
from grid_operator.ports.metrics import OperatorMetrics
from grid_operator.reconcile.reconciler import ClusterKey

if TYPE_CHECKING:
    from collections.abc import Callable

    import kopf

CREDENTIALS = Credentials(
    server="https://192.0.2.1",
    ca_path="/ca.crt",
    insecure=False,
    certificate_path=None,
    private_key_path=None,
    authorization="bearer secret",
)


async def log_in() -> kopf.AiohttpSession:
    raise AssertionError("nobody asked for it")


def registry(keys: list[ClusterKey], seen: list[str] | None = None) -> kopf.OperatorRegistry:
    return make_registry(keys.append, log_in, (seen if seen is not None else []).append)


async def call(handler: Any, **kwargs: object) -> Any:
    return await handler.fn(**kwargs)


async def test_every_event_only_adds_the_key_of_its_cluster() -> None:
    keys: list[ClusterKey] = []
    seen: list[str] = []
    handlers = registry(keys, seen)._watching.get_all_handlers()
    for handler in handlers:
        assert handler.selector is not None
        resource = SimpleNamespace(plural=handler.selector.any_name)
        labels = {"gridcluster.io/cluster": "demo"}
        await call(handler, resource=resource, namespace="n", name="demo", labels=labels)
    plurals = {h.selector.any_name for h in handlers if h.selector is not None}
    assert plurals == {
        "gridclusters",
        "statefulsets",
        "services",
        "configmaps",
        "secrets",
        "networkpolicies",
        "poddisruptionbudgets",
        "jobs",
        "pods",
        "persistentvolumeclaims",
    }
    assert set(seen) == plurals
    assert keys == [ClusterKey("n", "demo")] * len(plurals)


def test_nothing_makes_kopf_write_annotations_or_finalizers() -> None:
    made = registry([])
    assert list(made._changing.get_all_handlers()) == []
    assert list(made._spawning.get_all_handlers()) == []
    settings = make_settings()
    assert not settings.posting.enabled
    assert settings.peering.standalone
    assert settings.scanning.disabled


def test_every_request_and_watch_has_an_end() -> None:
    settings = make_settings()
    limits = (
        settings.watching.server_timeout,
        settings.watching.client_timeout,
        settings.watching.connect_timeout,
        settings.networking.request_timeout,
        settings.networking.connect_timeout,
    )
    assert None not in limits
    assert isinstance(settings.watching.server_timeout, int), "the API server parses an integer"


def test_children_are_watched_by_label() -> None:
    assert set(make_settings().watching.label_selectors.values()) == {"gridcluster.io/cluster"}


async def test_kopf_gets_the_same_credentials() -> None:
    ages = WatchAges(lambda: 0.0, OperatorMetrics())
    session = connect(replace(CREDENTIALS, ca_path=None), ages)
    assert session.server == "https://192.0.2.1"
    assert session.aiohttp_session.headers["Authorization"] == "Bearer secret"
    await session.aiohttp_session.close()


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


def test_two_operators_in_one_process_count_apart() -> None:
    first, second = OperatorMetrics(), OperatorMetrics()
    first.watch_event("pods")
    name = "grid_operator_watch_events_total"
    assert second.registry.get_sample_value(name, {"resource": "pods"}) is None


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
