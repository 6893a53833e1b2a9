"""Operator and clusters as releases of Helm, on a Kubernetes where kustomize installed them first.

The tests of this module share one cluster and run in the order in which they stand; those of the
operator's release run once with Helm 4 and then once with Helm 3.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from grid_operator.api.names import API_VERSION, KIND
from tests.e2e.installation import CHANGE_TIMEOUT_S, NAMESPACE, READY_TIMEOUT_S, ROOT, Installation
from tests.e2e.releases import helm_on
from tests.helm.program import helm_program
from tests.unit.operator.api.bad_specs import BAD_SPECS, broken_rules
from tests.unit.operator.api.clusters import SPECS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.conftest import Images, Kube
    from tests.helm.running import Helm

pytestmark = pytest.mark.timeout(300, func_only=True)

CHARTS: Final = ROOT / "charts"
TEAM: Final = "grid-team"
FIRST: Final = "grid-first"
LONGER_THAN_A_TEST: Final = "--timeout=1h"
WAITED_FOR: Final = ("--wait", "--timeout=120s")
VALUES_FILES: Final = sorted(CHARTS.glob("*/ci/*-values.yaml"))
FOREIGN_GROUPS: Final = {"cert-manager.io", "monitoring.coreos.com"}
"""Their definitions are not here."""
LIST: Final = {"apiVersion": "v1", "kind": "List"}
DRY_RUN: Final = (
    *("apply", "--server-side", "--force-conflicts", "--field-manager=dry-run"),
    *("--dry-run=server", "--validate=strict", "-f", "-"),
)
PAGE: Final = (CHARTS / "grid-operator" / "README.md").read_text(encoding="utf-8")
TAKE_OVER: Final = tuple(re.findall("--take-ownership .*", PAGE)[0].split())
"""With Helm 4, as the chart's page has it."""
ONLY_HELM_4: Final = "--server-side=false"
DEFINITION: Final = "gridclusters.gridcluster.io"
ACCOUNT: Final = f"system:serviceaccount:{NAMESPACE}:grid-operator"
KEY: Final = "/grid/rest/maps/default/k"
DEMO: Final[dict[str, Any]] = {
    "mode": "GridCluster",
    "rest": {"endpointGroups": [{"name": "Data", "enabled": True}]},
    "maps": [{"name": "default"}, {"name": "<<"}, {"name": "1e3"}],
    "persistence": {"enabled": True, "size": "256Mi"},
}
AMBIGUOUS: Final = [{"name": "a*"}, {"name": "*b"}]
"""The API server takes these maps, the operator does not."""


@dataclass(frozen=True, slots=True)
class Operator:
    """The operator's release, and how this version of Helm takes over what kubectl has made."""

    helm: Helm
    take_over: tuple[str, ...]


@pytest.fixture(scope="module")
def grid(kube: Kube, images: Images) -> Iterator[Installation]:
    installation = Installation(kube, images.member)
    installation.install_operator()
    installation.start_pod("client", client=True)
    yield installation
    # Some of it a test may have removed, with the definition.
    kube.try_kubectl("delete", "gridclusters", "--all", "-n", NAMESPACE, "--timeout=60s")
    kube.kubectl("delete", "pvc,pod", "--all", "-n", NAMESPACE, "--timeout=60s")
    kube.kubectl("delete", "namespace", TEAM, FIRST, "--ignore-not-found", "--timeout=60s")


@pytest.fixture(scope="module")
def helm(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm 4 with the operator's chart."""
    return helm_on(kube, "grid-operator", tmp_path_factory.mktemp("helm"), "grid-operator")


@pytest.fixture(scope="module")
def helm_3(helm: Helm) -> Helm:
    return replace(helm, program=helm_program(3))


@pytest.fixture(scope="module")
def demo(helm: Helm) -> Helm:
    """A cluster's release."""
    return replace(helm, chart=CHARTS / "grid", release="demo")


@pytest.fixture(scope="module", params=[4, 3], ids=lambda major: f"helm-{major}")
def operator(
    request: pytest.FixtureRequest, grid: Installation, helm: Helm, helm_3: Helm
) -> Operator:
    """Of what kustomize has installed."""
    grid.install_operator()
    if request.param == 4:
        return Operator(helm, TAKE_OVER)
    return Operator(helm_3, tuple(word for word in TAKE_OVER if word != ONLY_HELM_4))


@pytest.mark.parametrize("file", VALUES_FILES, ids=lambda file: f"{file.parts[-3]}-{file.stem}")
def test_the_api_server_takes_every_object(grid: Installation, helm: Helm, file: Path) -> None:
    chart = replace(helm, chart=file.parents[1], cluster=())
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    objects = [one for one in chart.objects(values) if not is_foreign(one)]
    others = {one["metadata"].get("namespace", NAMESPACE) for one in objects} - {NAMESPACE}
    for name in others:
        grid.kube.kubectl("create", "namespace", name)

    tried = grid.kube.try_kubectl(*DRY_RUN, stdin=json.dumps({**LIST, "items": objects}))
    for name in others:
        grid.kube.kubectl("delete", "namespace", name, "--wait=false")

    # Of a pod that the restricted standard forbids it warns.
    assert (tried.returncode, tried.stderr) == (0, "")
    assert len(tried.stdout.splitlines()) == len(objects) > 0


def test_the_api_server_refuses_and_takes_the_same_specs_as_python(grid: Installation) -> None:
    """Helm does so in tests/unit/charts/test_grid_chart.py, which has the same table."""
    cases = [(spec, broken_rules(spec)) for spec, _ in BAD_SPECS]
    cases += [(spec, []) for spec in SPECS.values()]
    items = [
        {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": f"spec-{n}"}, "spec": spec}
        for n, (spec, _) in enumerate(cases)
    ]
    words = ("-n", NAMESPACE, "create", "--dry-run=server", "-o", "name", "-f", "-")

    # Of a list kubectl looks at all items before the API server does.
    done = grid.kube.try_kubectl(*words, stdin="\n---\n".join(map(json.dumps, items)))

    taken = re.findall(r"/spec-(\d+)\n", done.stdout)
    assert taken == [str(number) for number in range(len(BAD_SPECS), len(cases))]
    said = re.split(r'"spec-(\d+)" is invalid', done.stderr)
    answers = dict(zip(said[1::2], said[2::2], strict=True))
    for number, (spec, broken) in enumerate(cases):
        told = answers.get(str(number), "")
        assert [rule for rule in broken if rule not in told] == [], spec


def is_foreign(one: dict[str, Any]) -> bool:
    return one["apiVersion"].partition("/")[0] in FOREIGN_GROUPS


def test_a_cluster_is_a_release_that_helm_waits_for(grid: Installation, demo: Helm) -> None:
    demo.deploy({**DEMO, "image": grid.member_image}, *WAITED_FOR)

    assert grid.condition("Ready")["status"] == "True"
    assert [one["name"] for one in grid.cluster()["spec"]["maps"]] == ["default", "<<", "1e3"]
    grid.wait_serving()
    assert grid.http("client", "POST", KEY, "kept").status == 200


def test_three_members_are_a_release_of_helm_3(grid: Installation, helm_3: Helm) -> None:
    orders = replace(helm_3, chart=CHARTS / "grid", release="orders")
    values = {"mode": "GridCluster", "size": 3, "image": grid.member_image}
    orders.deploy(values, *WAITED_FOR)
    grid.wait_ready("orders")

    orders.deploy({**values, "maps": [{"name": "more"}]}, *WAITED_FOR)
    grid.wait_ready("orders")

    assert grid.cluster("orders")["status"]["readyMembers"] == 3
    assert [one["name"] for one in grid.cluster("orders")["spec"]["maps"]] == ["more"]
    orders.uninstall()
    assert grid.kubectl("get", "gc", "-o", "name") == "gridcluster.gridcluster.io/demo\n"


def test_waiting_ends_when_only_another_spec_helps(grid: Installation, demo: Helm) -> None:
    member = grid.member_uid()
    values = {**DEMO, "image": grid.member_image}

    said = demo.refused_deploy({**values, "maps": AMBIGUOUS}, "--wait", LONGER_THAN_A_TEST)
    stalled = grid.condition("Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "AmbiguousWildcard")
    assert "GridCluster" in said
    assert "Failed" in said

    demo.deploy(values, "--wait", LONGER_THAN_A_TEST)
    assert grid.condition("Ready")["status"] == "True"
    assert grid.member_uid() == member


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


def test_a_protected_cluster_is_not_uninstalled(grid: Installation, demo: Helm) -> None:
    values = {**DEMO, "image": grid.member_image}
    demo.deploy({**values, "deletionProtection": True})

    # Why, Helm says to those who debug it alone.
    assert "GridCluster demo is protected" in demo.refused_uninstall("--debug")
    grid.wait_ready()
    # Helm upgrades no release that it has begun to uninstall.
    assert "has no deployed releases" in demo.refused_deploy(values)
    demo.roll_back()
    demo.deploy(values)
    assert grid.cluster()["spec"]["deletionProtection"] is False


def test_what_kustomize_installed_becomes_a_release(
    grid: Installation, operator: Operator, images: Images
) -> None:
    member, deployment = grid.member_uid(), grid.get("deployment", "grid-operator")
    operator.helm.deploy({"image": images.operator}, *operator.take_over, *WAITED_FOR)
    after = grid.get("deployment", "grid-operator")

    assert after["metadata"]["uid"] == deployment["metadata"]["uid"]
    assert after["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
    grid.kube.wait_for(lambda: grid.condition("Ready")["status"] == "True", READY_TIMEOUT_S)
    assert grid.member_uid() == member


def test_a_second_operator_in_the_namespace_is_refused(operator: Operator) -> None:
    other = replace(operator.helm, release="other")

    assert "cannot be imported into the current release" in other.refused_deploy()


def test_an_upgrade_brings_another_definition_and_other_rights(
    grid: Installation, operator: Operator, images: Images, tmp_path: Path
) -> None:
    """Also of what kustomize wrote first, and without a word about that any more."""
    grid.kube.kubectl("create", "namespace", TEAM)
    assert shelf(grid) == ""

    changed = replace(operator.helm, chart=with_a_shelf(operator.helm.chart, tmp_path))
    watch = {"namespaces": [NAMESPACE, TEAM]}
    changed.deploy({"image": images.operator, "watch": watch}, *WAITED_FOR)

    assert shelf(grid) == "top"
    assert [may_list(grid, place) for place in (NAMESPACE, TEAM, "default")] == [True, True, False]
    team = replace(operator.helm, chart=CHARTS / "grid", release="team", namespace=TEAM)
    team.deploy({"mode": "GridCluster", "image": images.member}, *WAITED_FOR)
    wait_ready(grid, "team", TEAM)
    team.uninstall()
    grid.kube.kubectl("delete", "namespace", TEAM, "--timeout=60s")


def with_a_shelf(chart: Path, place: Path) -> Path:
    """Return a copy of the operator's chart whose definition has one more field."""
    changed = shutil.copytree(chart, place / "chart")
    definition = changed / "templates" / "crd.yaml"
    before, found, after = definition.read_text(encoding="utf-8").partition(
        "\n              size:\n"
    )
    assert found
    definition.write_text(f"{before}\n              shelf:\n{' ' * 16}type: string{found}{after}")
    return changed


def shelf(grid: Installation) -> str:
    """Return what the API server would keep of a field that only the changed definition has."""
    patch = json.dumps({"spec": {"shelf": "top"}})
    shown = ("--dry-run=server", "-o", "jsonpath={.spec.shelf}")
    return grid.kubectl("patch", "gc", "demo", "--type=merge", "-p", patch, *shown)


def may_list(grid: Installation, namespace: str) -> bool:
    words = ("list", "statefulsets.apps", f"--as={ACCOUNT}", "-n", namespace)
    return grid.kube.try_kubectl("auth", "can-i", *words).stdout == "yes\n"


def wait_ready(grid: Installation, name: str, namespace: str) -> None:
    words = ("--for=condition=Ready", f"gc/{name}", "--timeout=90s")
    grid.kube.kubectl("wait", "-n", namespace, *words)


def test_an_uninstalled_operator_leaves_clusters_and_their_definition(
    grid: Installation, operator: Operator
) -> None:
    member = grid.member_uid()
    operator.helm.uninstall()

    assert grid.kubectl("get", "deployments", "-o", "name") == ""
    assert grid.cluster()["metadata"]["name"] == "demo"
    assert grid.member_uid() == member
    assert grid.http("client", "GET", KEY).body == "kept"
    # The right to give it back went with the release: the next operator would wait for its end.
    grid.kubectl("delete", "lease", "grid-operator", "--ignore-not-found")


def test_an_operator_that_is_installed_again_takes_clusters_up(
    grid: Installation, helm: Helm, images: Images
) -> None:
    member = grid.member_uid()
    helm.deploy({"image": images.operator}, *WAITED_FOR)

    grid.kubectl("patch", "gc", "demo", "--type=merge", "-p", '{"spec": {"maps": []}}')
    grid.wait_ready()
    assert grid.member_uid() == member


def test_an_uninstalled_cluster_finds_its_data_again(grid: Installation, demo: Helm) -> None:
    demo.uninstall()
    assert grid.kubectl("get", "gc", "-o", "name") == ""
    grid.kube.wait_for(
        lambda: grid.get("pods", "-l", "gridcluster.io/cluster")["items"] == [], CHANGE_TIMEOUT_S
    )
    demo.deploy({**DEMO, "image": grid.member_image}, *WAITED_FOR)
    grid.wait_serving()
    assert grid.http("client", "GET", KEY).body == "kept"


def test_on_a_kubernetes_that_never_had_an_operator(
    grid: Installation, helm: Helm, demo: Helm, images: Images
) -> None:
    """For all namespaces, and with a definition that goes again."""
    demo.uninstall()
    helm.uninstall()
    grid.kube.kubectl("delete", "crd", DEFINITION, "--timeout=60s")
    first = replace(helm, namespace=FIRST)
    values = {"image": images.operator, "watch": {"all": True}, "crds": {"keep": False}}
    first.deploy(values, "--create-namespace", *WAITED_FOR)

    team = replace(helm, chart=CHARTS / "grid", release="team", namespace=TEAM)
    cluster = {"mode": "GridCluster", "image": images.member}
    team.deploy({**cluster, "deletionProtection": True}, "--create-namespace", *WAITED_FOR)
    wait_ready(grid, "team", TEAM)
    deleted = grid.kube.try_kubectl("delete", "gc", "team", "-n", TEAM)
    assert "GridCluster team is protected" in deleted.stderr

    team.deploy(cluster)
    team.uninstall()
    first.uninstall()
    assert grid.kube.try_kubectl("get", "crd", DEFINITION).returncode != 0
