"""Changes of members without an operator, where Helm sees what is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.helm.looked_at import looked_at
from tests.unit.charts.test_members_chart import KEPT, MANAGED, THREE, TLS, Values, of_kind

if TYPE_CHECKING:
    from tests.helm.running import Helm

pytestmark = pytest.mark.timeout(60, func_only=True)

CHANGES_REFUSED: Final[list[tuple[Values, Values, str]]] = [
    ({"size": 5}, THREE, "size: 3 instead of 5: members that are gone would still count"),
    ({"size": 5}, {**THREE, **MANAGED}, "the members of now do not listen for management yet"),
    (THREE, {"size": 1}, "size: 1 instead of 3: a single member keeps its data in another way"),
    ({"size": 1}, THREE, "size: 3 instead of 1: a single member keeps its data in another way"),
    ({**THREE, "runState": "Stopped"}, {"size": 5}, "no member joins or leaves a cluster that"),
    (
        {**THREE, **MANAGED},
        {"size": 2, **MANAGED, "runState": "Stopped"},
        "start the members with runState: Running",
    ),
    (KEPT, {}, "persistence.enabled: the claims of a StatefulSet are fixed: set it back to true"),
    ({}, KEPT, "persistence.enabled: the claims of a StatefulSet are fixed: set it back to false"),
    (
        KEPT,
        {"persistence": {"enabled": True, "size": "2Gi"}},
        "kubectl delete statefulset demo --cascade=orphan -n grids",
    ),
    (
        KEPT,
        {"persistence": {**KEPT["persistence"], "storageClassName": "fast"}},
        'persistence.storageClassName: "fast" instead of ""',
    ),
    (
        {**THREE, **KEPT},
        {**THREE, **KEPT, "clusterName": "other"},
        "clusterName: other instead of dev: the data of several members",
    ),
    (THREE, {**THREE, "clusterName": "other"}, "would never join each other: set it back"),
    (THREE, {**THREE, "security": {"enabled": True}}, "security.enabled: members of now"),
    (THREE, {**THREE, **TLS}, "tls.members: members of now and members that start"),
    ({**THREE, **TLS}, THREE, "tls: members of now and members that start with the change"),
]
"""Values that are installed, those of an upgrade, and what is said of it."""
CHANGES_TAKEN: Final[list[tuple[Values, Values]]] = [
    (THREE, {"size": 5}),
    ({"size": 5, **MANAGED}, {**THREE, **MANAGED}),
    (KEPT, {"persistence": {"enabled": True, "size": "1Gi"}}),
    (KEPT, {"persistence": {"enabled": True, "size": "1073741824"}, "clusterName": "other"}),
    (THREE, {**THREE, **TLS, "runState": "Stopped"}),
    ({**THREE, "runState": "Stopped"}, {**THREE, **TLS, "clusterName": "1e3"}),
    ({**THREE, "clusterName": "1e3"}, {**THREE, "clusterName": "1e3"}),
    ({**THREE, "maps": [{"name": "cluster-name"}]}, {**THREE, "metrics": {"enabled": False}}),
    ({}, {"security": {"enabled": True}, **TLS}),
]


@pytest.mark.parametrize(
    ("before", "after", "words"), CHANGES_REFUSED, ids=[words for *_, words in CHANGES_REFUSED]
)
def test_changes_that_members_would_not_survive_are_refused(
    grid_chart: Helm, before: Values, after: Values, words: str
) -> None:
    with looked_at(grid_chart, grid_chart.objects(before)) as cluster:
        assert words in grid_chart.refusal(after, *cluster)


@pytest.mark.parametrize(("before", "after"), CHANGES_TAKEN, ids=str)
def test_other_changes_are_rendered_as_without_a_cluster(
    grid_chart: Helm, before: Values, after: Values
) -> None:
    with looked_at(grid_chart, grid_chart.objects(before)) as cluster:
        seen = grid_chart.objects(after, *cluster, "--no-hooks")
    assert seen == grid_chart.objects(after, "--no-hooks")


def test_what_an_operator_has_taken_over_is_not_taken_back(grid_chart: Helm) -> None:
    objects = grid_chart.objects()
    owner = {"apiVersion": "gridcluster.io/v1alpha1", "kind": "GridCluster", "name": "demo"}
    (found,) = of_kind(objects, "StatefulSet")
    found["metadata"]["ownerReferences"] = [owner]

    with looked_at(grid_chart, objects) as cluster:
        assert "they are not handed back" in grid_chart.refusal({}, *cluster)


def test_what_others_made_is_left_to_helm(grid_chart: Helm) -> None:
    objects = grid_chart.objects({"size": 5})
    (found,) = of_kind(objects, "StatefulSet")
    found["metadata"]["labels"]["app.kubernetes.io/name"] = "another"

    with looked_at(grid_chart, objects) as cluster:
        rendered = grid_chart.objects(THREE, *cluster, "--no-hooks")

    assert rendered == grid_chart.objects(THREE, "--no-hooks")
