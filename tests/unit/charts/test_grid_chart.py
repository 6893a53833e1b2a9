"""The chart of members as one GridCluster: its values are the fields of the spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from grid_operator.api.chart.own_values import OWN_VALUES
from grid_operator.api.crd import cluster_schema
from grid_operator.api.gridcluster import GridCluster, GridClusterSpec
from tests.unit.charts.conftest import CHARTS
from tests.unit.charts.specs import UNWRITABLE, VALUES, as_values, names
from tests.unit.operator.api.bad_specs import BAD_SPECS, RULES, broken_rules
from tests.unit.operator.api.clusters import SPECS, make_cluster
from tests.unit.operator.api.pods import REFUSED as ADDITIONS_REFUSED
from tests.unit.operator.api.pods import TAKEN, TWICE
from tests.unit.operator.render.specs import specs

if TYPE_CHECKING:
    from pathlib import Path

    from tests.helm.running import Helm


pytestmark = pytest.mark.timeout(120, func_only=True)

CHART: Final = CHARTS / "grid"
FILES: Final = sorted((CHART / "ci").glob("*-values.yaml"))
EXAMPLES: Final = sorted((CHARTS.parent / "examples").glob("*.yaml"))
OWN: Final = set(OWN_VALUES)
MODE: Final = {"mode": "GridCluster"}
OUT_OF_SCHEMA: Final = "values don't meet the specifications of the schema"

REFUSED: Final[list[tuple[dict[str, Any], str]]] = [
    ({"mode": "Deployment"}, "'/mode': value must be one of"),
    ({**MODE, "persistance": {}}, "additional properties 'persistance' not allowed"),
    (
        {**MODE, "maps": [{"name": "a", "ttl": 1}]},
        "'/maps/0': additional properties 'ttl' not allowed",
    ),
    ({**MODE, "nameOverride": "A"}, '"A" cannot name a cluster: set nameOverride'),
    ({**MODE, "nameOverride": "a" * 46}, "set nameOverride to at most 45"),
    (
        {**MODE, "commonLabels": {"app.kubernetes.io/name": "x"}},
        "commonLabels may not hold app.kubernetes.io/name, which the chart sets",
    ),
    ({**MODE, "queues": [{"name": f"a{UNWRITABLE}"}]}, "it holds the character U+0085"),
    ({**MODE, "commonAnnotations": {"a": UNWRITABLE}}, "Helm cannot write the character U+0085"),
]


def rendered(chart: Helm, values: dict[str, Any]) -> dict[str, Any]:
    (found,) = chart.objects(values)
    return found


def with_operator(spec: dict[str, Any]) -> dict[str, Any]:
    return {**MODE, **as_values(spec)}


REFUSED_SPECS: Final = (*BAD_SPECS, *ADDITIONS_REFUSED, *TWICE)


def without_image(cluster: GridCluster) -> GridClusterSpec:
    return cluster.spec.model_copy(update={"image": ""})


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_lint_has_nothing_to_say(grid_chart: Helm, file: Path) -> None:
    assert grid_chart.complaints(file) == ""


def test_the_versions_are_those_of_the_operators_chart() -> None:
    charts = [
        yaml.safe_load((CHARTS / n / "Chart.yaml").read_text()) for n in ("grid", "grid-operator")
    ]

    assert charts[0]["version"] == charts[1]["version"] == charts[0]["appVersion"]
    assert charts[0]["kubeVersion"] == charts[1]["kubeVersion"]


def test_the_values_are_the_fields_of_the_spec_and_few_more() -> None:
    fields = cluster_schema()["properties"]["spec"]["properties"]
    unset = {name for name in fields if name not in VALUES}

    assert VALUES.keys() - fields.keys() == OWN - {"image"}
    assert unset == {"clusterState", "restoreFrom", "tls", "license", "pausedUntil"}


def test_the_page_has_a_row_for_every_value_of_its_own() -> None:
    page = (CHART / "README.md").read_text(encoding="utf-8").partition("\n## Values\n")[2]
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    named = {name.strip("` ").partition(".")[0] for row in rows for name in row.split(",")}

    assert named == {*OWN, "tls"}


def test_by_default_it_is_the_default_cluster(grid_chart: Helm) -> None:
    found = rendered(grid_chart, MODE)

    assert GridCluster.from_kube(found).spec == GridClusterSpec()
    assert (found["metadata"]["name"], found["metadata"]["namespace"]) == ("demo", "grids")
    # What is changed without Helm stays: helm is no writer of these.
    assert not {"runState", "paused"} & found["spec"].keys()


def test_what_people_stop_and_pause_is_written_when_it_is_asked_for(grid_chart: Helm) -> None:
    spec = rendered(grid_chart, {**MODE, "runState": "Stopped", "paused": True})["spec"]

    assert (spec["runState"], spec["paused"]) == ("Stopped", True)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_recorded_specs_are_the_same(grid_chart: Helm, spec: dict[str, Any]) -> None:
    found = GridCluster.from_kube(rendered(grid_chart, with_operator(spec)))

    assert without_image(found) == without_image(make_cluster(spec))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_examples_are_the_same(grid_chart: Helm, file: Path) -> None:
    example = yaml.safe_load(file.read_text(encoding="utf-8"))
    found = GridCluster.from_kube(rendered(grid_chart, with_operator(example["spec"])))

    assert without_image(found) == without_image(GridCluster.from_kube(example))


@given(specs().filter(lambda spec: UNWRITABLE not in "".join(names(spec))))
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_specs_made_by_chance_are_the_same(grid_chart: Helm, spec: dict[str, Any]) -> None:
    found = GridCluster.from_kube(rendered(grid_chart, with_operator(spec)))

    assert without_image(found) == without_image(make_cluster(spec))


def test_every_rule_is_broken_by_a_bad_spec() -> None:
    broken = {rule for spec, _ in REFUSED_SPECS for rule in broken_rules(spec)}

    assert [rule for rule in RULES if rule not in broken] == []


@pytest.mark.parametrize("mode", ["GridCluster", "StatefulSet"])
@pytest.mark.parametrize(
    ("spec", "message"), REFUSED_SPECS, ids=[str(spec) for spec, _ in REFUSED_SPECS]
)
def test_what_the_api_refuses_helm_refuses_in_the_same_words(
    grid_chart: Helm, mode: str, spec: dict[str, Any], message: str
) -> None:
    refusal = grid_chart.refusal({"mode": mode, **as_values(spec)})
    broken = broken_rules(spec)

    if "needs mode: GridCluster" in refusal:
        assert mode == "StatefulSet"
    elif OUT_OF_SCHEMA not in refusal:
        assert message in refusal
        assert [rule for rule in broken if rule not in refusal] == []
    else:
        assert broken == []


@pytest.mark.parametrize("mode", ["GridCluster", "StatefulSet"])
@pytest.mark.parametrize("spec", TAKEN, ids=str)
def test_what_the_api_takes_helm_takes(grid_chart: Helm, mode: str, spec: dict[str, Any]) -> None:
    make_cluster(spec)

    assert grid_chart.objects({"mode": mode, **as_values(spec)})


@pytest.mark.parametrize(("values", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_wrong_values_are_refused_by_name(
    grid_chart: Helm, values: dict[str, Any], words: str
) -> None:
    assert words in grid_chart.refusal(values)


@pytest.mark.parametrize(
    ("values", "image"),
    [
        ({}, "grid-member:0.2.0"),
        ({"image": "other.example/x:2"}, "other.example/x:2"),
        ({"image": {"registry": "r.example/a/", "tag": "2"}}, "r.example/a/grid-member:2"),
        (
            {"global": {"imageRegistry": "g.example"}, "image": {"registry": "r.example"}},
            "g.example/grid-member:0.2.0",
        ),
    ],
    ids=["default", "one-string", "registry-and-tag", "global-wins"],
)
def test_the_image_is_a_map_or_a_string(
    grid_chart: Helm, values: dict[str, Any], image: str
) -> None:
    assert rendered(grid_chart, {**MODE, **values})["spec"]["image"] == image


def test_labels_and_annotations_are_those_of_the_gridcluster(grid_chart: Helm) -> None:
    given_ones = {"commonLabels": {"team": "a"}, "commonAnnotations": {"b": "c"}}
    metadata = rendered(grid_chart, {**MODE, "nameOverride": "orders", **given_ones})["metadata"]

    assert metadata["name"] == "orders"
    assert metadata["annotations"] == {"b": "c"}
    assert metadata["labels"]["team"] == "a"
    assert metadata["labels"]["app.kubernetes.io/instance"] == "orders"


def test_notes_say_how_to_reach_it_and_what_is_not_kept(grid_chart: Helm) -> None:
    usual = grid_chart.notes(MODE)
    kept = grid_chart.notes(
        {
            **MODE,
            "persistence": {"enabled": True},
            "tls": {"secretName": "t"},
            "advancedNetwork": {"enabled": True, "restPort": 6000},
        }
    )

    assert "http://demo.grids.svc:5701" in usual
    assert "the data of the one member goes with its pod" in usual
    assert "https://demo.grids.svc:5701" in kept
    assert "Nothing is kept on disk" not in kept
