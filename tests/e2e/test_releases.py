"""Operator and clusters as releases of Helm, on a Kubernetes where kustomize installed them first.

The tests of this module share one cluster and run in the order in which they stand.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from tests.e2e.installation import CHANGE_TIMEOUT_S, NAMESPACE, READY_TIMEOUT_S, ROOT, Installation
from tests.helm.program import helm_program
from tests.helm.running import Helm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.conftest import Images, Kube

pytestmark = pytest.mark.timeout(300, func_only=True)

CHARTS: Final = ROOT / "charts"
TEAM: Final = "grid-team"
HELM_LIMIT_S: Final = 200.0
VALUES_FILES: Final = sorted(CHARTS.glob("*/ci/*-values.yaml"))
FOREIGN_KINDS: Final = {"PodMonitor"}
"""Their definitions are not here."""
LIST: Final = {"apiVersion": "v1", "kind": "List"}
DRY_RUN: Final = (
    *("apply", "--server-side", "--force-conflicts", "--field-manager=dry-run"),
    *("--dry-run=server", "--validate=strict", "-f", "-"),
)
TAKE_OVER: Final = ("--take-ownership", "--force-conflicts")
KEY: Final = "/grid/rest/maps/default/k"
DEMO: Final[dict[str, Any]] = {
    "mode": "GridCluster",
    "rest": {"endpointGroups": [{"name": "Data", "enabled": True}]},
    "maps": [{"name": "default"}, {"name": "<<"}, {"name": "1e3"}],
    "persistence": {"enabled": True, "size": "256Mi"},
}


@pytest.fixture(scope="module")
def grid(kube: Kube, images: Images) -> Iterator[Installation]:
    installation = Installation(kube, images.member)
    installation.install_operator()
    installation.start_pod("client", client=True)
    yield installation
    kube.kubectl("delete", "gridclusters", "--all", "-n", NAMESPACE, "--timeout=60s")
    kube.kubectl("delete", "pvc,pod", "--all", "-n", NAMESPACE, "--timeout=60s")
    kube.kubectl("delete", "namespace", TEAM, "--ignore-not-found", "--timeout=60s")


@pytest.fixture(scope="module")
def operator(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """The operator's release."""
    context = kube.provider.kubectl
    named = ("--kube-context", context[-1]) if "--context" in context else ()
    return Helm(
        helm_program(),
        CHARTS / "grid-operator",
        tmp_path_factory.mktemp("helm"),
        namespace=NAMESPACE,
        limit_s=HELM_LIMIT_S,
        cluster=("--kubeconfig", str(kube.kubeconfig), *named),
    )


@pytest.fixture(scope="module")
def demo(operator: Helm) -> Helm:
    """A cluster's release."""
    return replace(operator, chart=CHARTS / "grid", release="demo")


@pytest.mark.parametrize("file", VALUES_FILES, ids=lambda file: f"{file.parts[-3]}-{file.stem}")
def test_the_api_server_takes_every_object(grid: Installation, operator: Helm, file: Path) -> None:
    chart = replace(operator, chart=file.parents[1], cluster=())
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    objects = [one for one in chart.objects(values) if one["kind"] not in FOREIGN_KINDS]
    foreign = {one["metadata"].get("namespace", NAMESPACE) for one in objects} - {NAMESPACE}
    for name in foreign:
        grid.kube.kubectl("create", "namespace", name)

    tried = grid.kube.try_kubectl(*DRY_RUN, stdin=json.dumps({**LIST, "items": objects}))
    for name in foreign:
        grid.kube.kubectl("delete", "namespace", name, "--wait=false")

    # Of a pod that the restricted standard forbids it warns.
    assert (tried.returncode, tried.stderr) == (0, "")
    assert len(tried.stdout.splitlines()) == len(objects) > 0


def test_a_cluster_is_a_release_that_helm_waits_for(grid: Installation, demo: Helm) -> None:
    demo.deploy({**DEMO, "image": grid.member_image}, "--wait", "--timeout=120s")

    assert grid.condition("Ready")["status"] == "True"
    assert [one["name"] for one in grid.cluster()["spec"]["maps"]] == ["default", "<<", "1e3"]
    grid.wait_serving()
    assert grid.http("client", "POST", KEY, "kept").status == 200


def test_what_kustomize_installed_becomes_a_release(
    grid: Installation, operator: Helm, images: Images
) -> None:
    member, deployment = grid.member_uid(), grid.get("deployment", "grid-operator")
    operator.deploy({"image": images.operator}, *TAKE_OVER, "--wait", "--timeout=120s")
    after = grid.get("deployment", "grid-operator")

    assert after["metadata"]["uid"] == deployment["metadata"]["uid"]
    assert after["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
    grid.kube.wait_for(lambda: grid.condition("Ready")["status"] == "True", READY_TIMEOUT_S)
    assert grid.member_uid() == member
    # From now on it is helm's alone, and needs no force.
    operator.deploy({"image": images.operator, "podLabels": {"a": "b"}}, "--wait")


def test_what_was_stopped_by_hand_stays_stopped(grid: Installation, demo: Helm) -> None:
    def run_state(wanted: str) -> None:
        patch = f'{{"spec": {{"runState": "{wanted}"}}}}'
        grid.kubectl("patch", "gc", "demo", "--type=merge", "-p", patch)

    run_state("Stopped")
    grid.kube.wait_for(lambda: grid.condition("Stopped").get("status") == "True", CHANGE_TIMEOUT_S)
    demo.deploy({**DEMO, "image": grid.member_image, "commonLabels": {"a": "b"}})
    assert grid.cluster()["metadata"]["labels"]["a"] == "b"
    assert grid.cluster()["spec"]["runState"] == "Stopped"
    run_state("Running")
    grid.wait_serving()


def test_a_second_operator_in_the_namespace_is_refused(operator: Helm) -> None:
    other = replace(operator, release="other")
    ran = other.run("install", "other", str(other.chart), "--namespace", NAMESPACE)

    assert ran.returncode != 0
    assert "cannot be imported into the current release" in ran.stderr


def test_an_upgrade_brings_another_definition_and_other_rights(
    grid: Installation, operator: Helm, images: Images, tmp_path: Path
) -> None:
    changed = shutil.copytree(operator.chart, tmp_path / "chart")
    definition = changed / "templates" / "crd.yaml"
    text = definition.read_text(encoding="utf-8")
    assert "Number of members wanted." in text
    definition.write_text(text.replace("Number of members wanted.", "Changed."))
    grid.kube.kubectl("create", "namespace", TEAM)

    watch = {"namespaces": [NAMESPACE, TEAM]}
    replace(operator, chart=changed).deploy({"image": images.operator, "watch": watch}, "--wait")

    crd = grid.kube.json("get", "crd", "gridclusters.gridcluster.io")
    (columns,) = (version["additionalPrinterColumns"] for version in crd["spec"]["versions"])
    assert columns[0]["description"] == "Changed."
    team = replace(operator, chart=CHARTS / "grid", release="team", namespace=TEAM)
    team.deploy({"mode": "GridCluster", "image": images.member}, "--wait", "--timeout=120s")
    assert grid.condition("Ready")["status"] == "True"
    team.uninstall()


def test_an_uninstalled_cluster_finds_its_data_again(grid: Installation, demo: Helm) -> None:
    demo.uninstall()
    assert grid.kubectl("get", "gc", "-o", "name") == ""
    grid.kube.wait_for(
        lambda: grid.get("pods", "-l", "gridcluster.io/cluster")["items"] == [], CHANGE_TIMEOUT_S
    )
    demo.deploy({**DEMO, "image": grid.member_image}, "--wait", "--timeout=120s")
    grid.wait_serving()
    assert grid.http("client", "GET", KEY).body == "kept"


def test_an_uninstalled_operator_leaves_clusters_and_takes_them_up_again(
    grid: Installation, operator: Helm, images: Images
) -> None:
    member = grid.member_uid()
    operator.uninstall()

    assert grid.kubectl("get", "deployments", "-o", "name") == ""
    assert grid.cluster()["metadata"]["name"] == "demo"
    assert grid.member_uid() == member
    assert grid.http("client", "GET", KEY).body == "kept"

    operator.deploy({"image": images.operator}, "--wait", "--timeout=120s")
    grid.kubectl("patch", "gc", "demo", "--type=merge", "-p", '{"spec": {"maps": []}}')
    grid.wait_ready()
    assert grid.member_uid() == member
