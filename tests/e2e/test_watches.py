"""What ends or refuses a watch of the operator, on a real API server; then it is heard again.

The operator is a process of this machine, with the rights of its ServiceAccount. The cluster has no
node: what the operator makes of a GridCluster is enough to see that it has heard of it. The tests
run in the order in which they stand, with one operator.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from tests.e2e.conftest import a_cluster, shown_on_failure
from tests.e2e.installation import CHANGE_TIMEOUT_S, NAMESPACE, ROOT, manifest
from tests.unit.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.conftest import Kube
    from tests.e2e.provider.base import Provider

# The CustomResourceDefinition goes, and every GridCluster with it: on a cluster of its own only.
pytestmark = [pytest.mark.timeout(300, func_only=True), pytest.mark.capability("teardown")]

TENANT: Final = "tenant-b"
CRD: Final = str(ROOT / "crds" / "gridcluster.yaml")
STOP_LIMIT_S: Final = 15.0
FORGETS_S: Final = 120.0
"""A refused cluster is asked for again after a minute at most."""
PAUSED: Final = json.dumps({"spec": {"paused": True}})
RIGHTS: Final = ("role", "rolebinding")


class Operated:
    """A cluster, and an operator that serves two namespaces of it."""

    def __init__(self, kube: Kube, process: subprocess.Popen[bytes], health_port: int) -> None:
        self.kube = kube
        self.process = process
        self._url = f"http://127.0.0.1:{health_port}/healthz"
        self._numbers = itertools.count()

    def failing(self) -> set[tuple[str, str]]:
        """Return namespace and resource of the watches that fail, as the operator says itself.

        None of a process that does not answer yet.
        """
        hearing = self.health().get("hearing")
        if hearing is None:
            return set()
        assert hearing["hears"]
        return {(one["namespace"], one["resource"]) for one in hearing["failingWatches"]}

    def health(self) -> dict[str, Any]:
        """Return what the operator says of itself, nothing of a process that does not answer."""
        try:
            with urllib.request.urlopen(self._url, timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.URLError:
            assert self.process.poll() is None, "the operator has ended"
            return {}

    def wait_failing(self, *namespaces: str) -> None:
        """Wait until watches in just these namespaces fail."""
        self.kube.wait_for(
            lambda: {namespace for namespace, _ in self.failing()} == set(namespaces),
            CHANGE_TIMEOUT_S,
            f"failing watches in {namespaces}",
        )

    def make(self, namespace: str) -> str:
        """Make a GridCluster; return its name."""
        name = f"made-{next(self._numbers)}"
        self.kube.kubectl("-n", namespace, "apply", "-f", "-", stdin=manifest(name))
        return name

    def wait_heard(self, namespace: str, name: str) -> None:
        words = ("-n", namespace, "get", "statefulset", name)
        self.kube.wait_for(lambda: self.kube.kubectl(*words), CHANGE_TIMEOUT_S, name)

    def hears_of(self, namespace: str) -> None:
        """Make a GridCluster and wait until the operator has heard of it."""
        self.wait_heard(namespace, self.make(namespace))


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    yield from a_cluster(0)


@pytest.fixture(scope="module")
def kube(provider: Provider, pytestconfig: pytest.Config) -> Iterator[Kube]:
    yield from shown_on_failure(provider, pytestconfig)


@pytest.fixture(scope="module")
def operated(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    """Start the operator where there is no CustomResourceDefinition yet."""
    for name in ("namespace.yaml", "rbac.yaml"):
        kube.kubectl("apply", "-f", str(ROOT / "operator" / "install" / name))
    kube.apply(_namespace())
    _permit(kube)
    place = tmp_path_factory.mktemp("operator")
    (port,) = free_ports(1)
    with (place / "operator.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "grid_operator", "--metrics-port", "0"),
                *("--namespace", NAMESPACE, "--namespace", TENANT, "--log-format", "text"),
                *("--kubeconfig", str(_kubeconfig(kube, place)), "--health-port", str(port)),
            ],
            env={**os.environ, "POD_NAMESPACE": NAMESPACE},
            stderr=log,
        )
    try:
        yield Operated(kube, process, port)
    finally:
        process.kill()
        process.wait()
        print((place / "operator.log").read_text())


def _namespace() -> str:
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TENANT}})


def _permit(kube: Kube, *kinds: str) -> None:
    """Give the operator its rights in the tenant's namespace, as docs/operator.md says."""
    for kind in kinds or RIGHTS:
        obj: dict[str, Any] = kube.json("-n", NAMESPACE, "get", kind, "grid-operator")
        obj["metadata"] = {"name": "grid-operator", "namespace": TENANT}
        kube.apply(json.dumps(obj))


def _kubeconfig(kube: Kube, place: Path) -> Path:
    """Write a kubeconfig with the rights of the operator's ServiceAccount."""
    token = kube.kubectl("-n", NAMESPACE, "create", "token", "grid-operator", "--duration=1h")
    config = yaml.safe_load(kube.kubectl("config", "view", "--raw", "--minify"))
    (user,) = config["users"]
    user["user"] = {"token": token.strip()}
    path = place / "kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def _define(kube: Kube) -> None:
    kube.kubectl("apply", "-f", CRD)
    words = ("wait", "--for=condition=Established", "crd/gridclusters.gridcluster.io")
    kube.kubectl(*words, "--timeout=30s")


def test_the_definition_may_come_later_than_the_operator(operated: Operated) -> None:
    missing = {(namespace, "gridclusters") for namespace in (NAMESPACE, TENANT)}
    operated.kube.wait_for(lambda: operated.failing() == missing, CHANGE_TIMEOUT_S)
    _define(operated.kube)
    operated.hears_of(NAMESPACE)
    operated.hears_of(TENANT)
    operated.wait_failing()


def test_rights_that_are_taken_away_hurt_no_other_namespace(operated: Operated) -> None:
    kube = operated.kube
    kube.kubectl("-n", TENANT, "delete", "rolebinding", "grid-operator")
    operated.wait_failing(TENANT)
    operated.hears_of(NAMESPACE)
    made = operated.make(TENANT)
    _permit(kube, "rolebinding")
    operated.wait_heard(TENANT, made)
    operated.wait_failing()


def test_a_namespace_that_is_deleted_hurts_no_other(operated: Operated) -> None:
    kube = operated.kube
    kube.kubectl("delete", "namespace", TENANT, "--timeout=60s", timeout_s=90)
    operated.wait_failing(TENANT)
    operated.hears_of(NAMESPACE)
    left = len(kube.json("-n", NAMESPACE, "get", "gc")["items"])
    # Those of the namespace that is gone are forbidden, and no longer asked for.
    kube.wait_for(lambda: operated.health().get("clusters") == left, FORGETS_S, "forgotten")
    kube.apply(_namespace())
    _permit(kube)
    operated.hears_of(TENANT)
    operated.wait_failing()


def test_a_definition_that_is_older_than_the_operator_is_told(operated: Operated) -> None:
    kube = operated.kube
    older = yaml.safe_load((ROOT / "crds" / "gridcluster.yaml").read_text())
    schema = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["status"]["properties"]["observedUid"]
    kube.apply(json.dumps(older))
    name = operated.make(NAMESPACE)
    kube.wait_for(lambda: _dropped(kube, name) is not None, CHANGE_TIMEOUT_S, "DefinitionMatches")
    assert "drops status.observedUid: " in str(_dropped(kube, name))
    version = kube.json("-n", NAMESPACE, "get", "gc", name)["metadata"]["resourceVersion"]
    operated.hears_of(NAMESPACE)
    assert kube.json("-n", NAMESPACE, "get", "gc", name)["metadata"]["resourceVersion"] == version

    _define(kube)
    # The operator sends the status when it changes, or after five minutes.
    kube.kubectl("-n", NAMESPACE, "patch", "gc", name, "--type=merge", "-p", PAUSED)
    kube.wait_for(lambda: _dropped(kube, name) is None, CHANGE_TIMEOUT_S, "all fields are kept")
    found = kube.json("-n", NAMESPACE, "get", "gc", name)
    assert found["status"]["observedUid"] == found["metadata"]["uid"]


def _dropped(kube: Kube, name: str) -> str | None:
    """Return what the operator says of fields that are dropped."""
    status = kube.json("-n", NAMESPACE, "get", "gc", name).get("status") or {}
    told = {c["type"]: c["message"] for c in status.get("conditions") or ()}
    return told.get("DefinitionMatches")


def test_the_definition_may_be_away_for_seconds(operated: Operated) -> None:
    kube = operated.kube
    kube.kubectl("delete", "-f", CRD, "--timeout=60s", timeout_s=90)
    _define(kube)
    operated.hears_of(TENANT)
    operated.hears_of(NAMESPACE)
    operated.wait_failing()


def test_a_stop_signal_ends_it_while_watches_fail(operated: Operated) -> None:
    operated.kube.kubectl("-n", TENANT, "delete", "rolebinding", "grid-operator")
    operated.wait_failing(TENANT)
    operated.process.send_signal(signal.SIGTERM)
    assert operated.process.wait(STOP_LIMIT_S) == 0
    words = ("get", "lease", "grid-operator", "-o", "jsonpath={.spec.holderIdentity}")
    assert operated.kube.kubectl("-n", NAMESPACE, *words) == ""
