"""The operator's chart and what the operator itself makes find each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from grid_operator.api.gridcluster import GridCluster
from grid_operator.api.names import API_VERSION, GROUP, KIND, PLURAL
from tests.unit.charts.conftest import CHARTS
from tests.unit.operator.api.clusters import CONTEXT, render

if TYPE_CHECKING:
    from tests.helm.running import Helm

pytestmark = pytest.mark.timeout(60, func_only=True)


def one(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = (o for o in objects if (o["kind"], o["metadata"]["name"]) == (kind, name))
    return found


def pod_template(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    return dict(one(objects, kind, name)["spec"]["template"])


def test_members_let_the_operator_in(operator_chart: Helm) -> None:
    template = pod_template(operator_chart.objects(), "Deployment", "grid-operator")
    ingress = one(list(render()), "NetworkPolicy", "demo")["spec"]["ingress"]
    peers = [peer for rule in ingress for peer in rule["from"] if "namespaceSelector" in peer]
    wanted = {"kubernetes.io/metadata.name": CONTEXT.operator_namespace}
    (operator,) = (p for p in peers if p["namespaceSelector"].get("matchLabels") == wanted)

    assert operator_chart.namespace == CONTEXT.operator_namespace
    assert operator["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


@pytest.mark.parametrize("monitor", ["grid-operator", "grid-members"])
def test_monitors_select_the_pods_and_a_port_that_they_have(
    operator_chart: Helm, monitor: str
) -> None:
    objects = operator_chart.objects({"podMonitor": {"enabled": True}})
    spec = one(objects, "PodMonitor", monitor)["spec"]
    template = (
        pod_template(objects, "Deployment", "grid-operator")
        if monitor == "grid-operator"
        else pod_template(list(render({"size": 3})), "StatefulSet", "demo")
    )
    (endpoint,) = spec["podMetricsEndpoints"]
    (container,) = template["spec"]["containers"]

    assert spec["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert endpoint["port"] in {port["name"] for port in container["ports"]}


def test_what_the_chart_says_of_its_definition_is_so() -> None:
    chart = yaml.safe_load((CHARTS / "grid-operator" / "Chart.yaml").read_text(encoding="utf-8"))
    (named,) = yaml.safe_load(chart["annotations"]["artifacthub.io/crds"])
    (example,) = yaml.safe_load(chart["annotations"]["artifacthub.io/crdsExamples"])

    assert f"{GROUP}/{named['version']}" == API_VERSION == example["apiVersion"]
    assert (named["kind"], named["name"]) == (KIND, f"{PLURAL}.{GROUP}")
    assert GridCluster.from_kube(example).spec.size == 3


def test_the_cluster_of_the_notes_is_one(operator_chart: Helm) -> None:
    _, _, after = operator_chart.notes().partition("<<EOF\n")
    shown = yaml.safe_load(after.partition("\nEOF\n")[0])  # a shell ends it nowhere else

    assert GridCluster.from_kube(shown).metadata.name == "demo"
