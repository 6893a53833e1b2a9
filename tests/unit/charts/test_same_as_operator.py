"""Members without an operator are those of the operator, but for the written differences."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grid_member.config.load import parse_config
from grid_operator.api.names import COMPONENT_LABEL, config_map_name
from grid_operator.render import configuration_tree, render_children
from grid_operator.render.configuration.tree import yaml_text
from tests.unit.charts.differences import DIFFERENCES, MANAGEMENT_SECRET, Case, Objects
from tests.unit.charts.specs import UNWRITABLE, as_values, names, with_pods
from tests.unit.operator.api.clusters import CONTEXT, SPECS, make_cluster
from tests.unit.operator.render.configuration.test_member_configuration import ENVIRONMENT
from tests.unit.operator.render.specs import Spec, specs

if TYPE_CHECKING:
    from grid_member.config import MemberConfig
    from tests.helm.running import Helm

pytestmark = pytest.mark.timeout(120, func_only=True)

NAMESPACE: Final = "grids"
UNSAFE: Final = {
    "conditions": [
        {
            "type": "SafeToDisrupt",
            "status": "False",
            "reason": "Unsafe",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
}
IN_EVERY_MEMBER: Final = (
    "clusterState",
    "clusterStateDriftPolicy",
    "deletionProtection",
    "license",
    "configFormat",
    "wan",
    "wanListener",
)
"""What the chart refuses without an operator, by name."""
GENERATED: Final = 150
CALLERS: Final = {"client", "backup"}
"""Components of what the chart has in place of an operator that calls the members."""


LEFT_OUT: Final[Spec] = {
    "maps": [
        {"name": "a", "dataPersistence": {}},
        {"name": "b", "eviction": {"policy": "Lru", "size": 5}},
    ],
    "queues": [{"name": "a", "dataPersistence": {}}, {"name": "b"}],
    "persistence": {"enabled": True, "backup": {"volume": {}}},
    "tls": {"secretName": "t"},
    "pod": {"tolerations": [{"key": "a"}], "env": [{"name": "A"}]},
}
"""Of items of lists, and of sections that are not there by default, Helm knows no defaults."""
RECORDED: Final[dict[str, tuple[Spec, Spec]]] = {
    **{name: (spec, {}) for name, spec in SPECS.items()},
    "unsafe": (SPECS["several"], UNSAFE),
    "stopped": ({"size": 3, "runState": "Stopped"}, {}),
    "left-out": (LEFT_OUT, {}),
    "plain-between-members": ({"size": 3, "tls": {"secretName": "t", "members": False}}, {}),
}
"""Specs, and what the operator says of them in the status."""


def without_operator(spec: Spec) -> Spec:
    """Return what of a spec the chart takes without an operator."""
    taken = {key: copy.deepcopy(v) for key, v in spec.items() if key not in IN_EVERY_MEMBER}
    for structure in taken.get("maps", ()):
        structure.pop("wan", None)
    schedule = taken.get("persistence", {}).get("backup", {}).get("schedule", {})
    schedule.pop("missedRunPolicy", None)
    return taken


def of_operator(case: Case) -> Objects:
    """Return what the operator makes, the configuration as a tree."""
    by_id = as_objects(render_children(case.cluster, CONTEXT))
    found: Objects = copy.deepcopy(by_id)
    config_map = found["ConfigMap", config_map_name(case.name)]
    config_map["data"] = configuration_tree(case.cluster)
    return found


def as_objects(found: Any) -> Objects:
    return {(one["kind"], one["metadata"]["name"]): dict(one) for one in found}


def expected(case: Case) -> tuple[Objects, set[str]]:
    """Return what the chart has to make by the table, and the rows that say so."""
    objects = of_operator(case)
    met = set()
    for difference in DIFFERENCES:
        before = copy.deepcopy(objects)
        difference.edit(objects, case)
        if objects != before:
            met.add(difference.where)
    return objects, met


def of_chart(chart: Helm, spec: Spec, *, management: bool) -> Objects:
    values = {"mode": "StatefulSet", **as_values(spec)}
    values.setdefault("image", "grid-member:0.2.0")
    if management:
        values["management"] = {"enabled": True, "existingSecret": MANAGEMENT_SECRET}
    # The schema takes most of the time and knows no modes: other tests hold specs against it.
    objects = chart.objects(values, "--no-hooks", "--skip-schema-validation")
    return as_objects(one for one in objects if component(one) not in CALLERS)


def component(found: dict[str, Any]) -> str:
    return str(found["metadata"]["labels"].get(COMPONENT_LABEL))


def read(text: str) -> MemberConfig:
    return parse_config(text, "grid.yaml", ENVIRONMENT)


def assert_same(chart: Helm, spec: Spec, status: Spec, *, management: bool) -> None:
    # The CronJob begins backups there.
    management |= "schedule" in spec.get("persistence", {}).get("backup", {})
    cluster = make_cluster(spec, status=status, namespace=NAMESPACE)
    wanted, _ = expected(Case(cluster, management))
    found = of_chart(chart, spec, management=management)
    config_map = ("ConfigMap", config_map_name(cluster.metadata.name))
    (name,) = found[config_map]["data"]

    in_chart = found[config_map].pop("data")[name]
    in_operator = wanted[config_map].pop("data")
    annotations = found["StatefulSet", "demo"]["spec"]["template"]["metadata"]["annotations"]
    assert len(annotations["gridcluster.io/config-hash"]) == 16
    annotations["gridcluster.io/config-hash"] = "of the whole configuration"

    assert found.keys() == wanted.keys()
    for key, one in wanted.items():
        assert found[key] == one, key
    assert read(in_chart) == read(yaml_text(in_operator))


@pytest.mark.parametrize("management", [False, True], ids=["usual", "management"])
@pytest.mark.parametrize(("spec", "status"), RECORDED.values(), ids=RECORDED)
def test_recorded_specs_are_the_same(
    grid_chart: Helm, spec: Spec, status: Spec, management: bool
) -> None:
    assert_same(grid_chart, without_operator(spec), status, management=management)


@given(
    with_pods(specs()).filter(lambda spec: UNWRITABLE not in "".join(names(spec))), st.booleans()
)
@settings(
    max_examples=GENERATED,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_specs_made_by_chance_are_the_same(grid_chart: Helm, spec: Spec, management: bool) -> None:
    assert_same(grid_chart, without_operator(spec), {}, management=management)


def test_every_written_difference_is_met_by_a_recorded_spec() -> None:
    met: set[str] = set()
    for management in (False, True):
        for spec, status in RECORDED.values():
            cluster = make_cluster(without_operator(spec), status=status)
            met |= expected(Case(cluster, management))[1]

    assert [row.where for row in DIFFERENCES if row.where not in met] == []
    assert all(row.operator and row.chart and row.why for row in DIFFERENCES)
