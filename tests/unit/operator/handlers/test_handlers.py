from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.__main__ import make_options, make_parser
from grid_operator.handlers.log_format import JsonFormatter
from grid_operator.handlers.registry import connection_info, make_registry
from grid_operator.handlers.settings import make_settings
from grid_operator.ports.kube_rest import Credentials
from grid_operator.reconcile.reconciler import ClusterKey

if TYPE_CHECKING:
    import kopf

CREDENTIALS = Credentials(
    server="https://192.0.2.1",
    ca_path="/ca.crt",
    insecure=False,
    certificate_path=None,
    private_key_path=None,
    authorization="bearer secret",
)


async def fetch_credentials() -> Credentials:
    return CREDENTIALS


def registry(keys: list[ClusterKey]) -> kopf.OperatorRegistry:
    return make_registry(keys.append, fetch_credentials, {"apiWrites": lambda: 7})


async def call(handler: Any, **kwargs: object) -> Any:
    return await handler.fn(**kwargs)


async def test_every_event_only_adds_the_key_of_its_cluster() -> None:
    keys: list[ClusterKey] = []
    handlers = registry(keys)._watching.get_all_handlers()
    for handler in handlers:
        await call(handler, namespace="n", name="demo", labels={"gridcluster.io/cluster": "demo"})
    plurals = {h.selector.any_name for h in handlers if h.selector is not None}
    assert plurals == {
        "gridclusters",
        "statefulsets",
        "services",
        "configmaps",
        "secrets",
        "networkpolicies",
        "pods",
    }
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


async def test_liveness_shows_the_gauges() -> None:
    activities = registry([])._activities.get_all_handlers()
    (probe,) = [a for a in activities if a.id == "apiWrites"]
    assert await call(probe) == 7


def test_kopf_gets_the_same_credentials() -> None:
    info = connection_info(CREDENTIALS)
    assert (info.server, info.scheme, info.token) == ("https://192.0.2.1", "Bearer", "secret")


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
