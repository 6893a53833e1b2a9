"""What the chart makes of members that are there: Helm sees their StatefulSet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.helm.looked_at import looked_at
from tests.unit.charts.test_hooks import FULL, MANAGED, hooks, parsed

if TYPE_CHECKING:
    from tests.helm.running import Helm

pytestmark = pytest.mark.timeout(120, func_only=True)

Tree = dict[str, Any]
KEPT: Final[Tree] = {"persistence": {"enabled": True}}


class Live:
    """Renders the chart beside the StatefulSet that other values made."""

    def __init__(self, chart: Helm) -> None:
        self._chart = chart

    def stateful_set(self, values: Tree, **changes: Any) -> Tree:
        made = self._chart.objects(values)
        (found,) = (one for one in made if one["kind"] == "StatefulSet")
        found["spec"] |= changes
        return found

    def objects(self, values: Tree, found: Tree) -> list[Tree]:
        with looked_at(self._chart, [found]) as cluster:
            return self._chart.objects(values, *cluster, "--is-upgrade")

    def refusal(self, values: Tree, found: Tree) -> str:
        with looked_at(self._chart, [found]) as cluster:
            return self._chart.refusal(values, *cluster, "--is-upgrade")

    def notes(self, values: Tree, found: Tree) -> str:
        with looked_at(self._chart, [found]) as cluster:
            return self._chart.notes(values, *cluster)


@pytest.fixture
def live(grid_chart: Helm) -> Live:
    return Live(grid_chart)


@pytest.mark.parametrize("size", [3, 5])
def test_as_many_or_more_wait_for_no_answer(live: Live, size: int) -> None:
    found = live.stateful_set({"size": 3})
    chosen = parsed(hooks(live.objects({"size": size}, found))["Job/demo-shrink-1"])
    assert (chosen.size, chosen.refuse, chosen.allow_silence) == (size, True, True)


def test_fewer_leave_before(live: Live) -> None:
    found = live.stateful_set({**FULL, "size": 5})
    chosen = parsed(hooks(live.objects(FULL, found))["Job/demo-shrink-1"])
    assert (chosen.size, chosen.refuse, chosen.allow_silence) == (3, False, False)


def test_members_that_were_scaled_away_are_members(live: Live) -> None:
    found = live.stateful_set({**MANAGED, "size": 5}, replicas=3)
    assert "only members that run can leave: upgrade with size: 5 first" in live.refusal(
        {**MANAGED, "size": 3}, found
    )
    chosen = parsed(hooks(live.objects({**MANAGED, "size": 5}, found))["Job/demo-shrink-1"])
    assert chosen.allow_silence


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (
            {**KEPT, "deletionPolicy": "Delete"},
            KEPT,
            "would be deleted with their StatefulSet: set deletionPolicy: Retain",
        ),
        ({**KEPT, "size": 3}, {**KEPT, "size": 5}, "leave size at 3"),
        ({**KEPT, "size": 3}, {"size": 3}, "leave persistence.enabled at true"),
        ({"size": 3}, {**KEPT, "size": 3}, "leave persistence.enabled at false"),
    ],
    ids=["claims-go", "size", "not-kept", "kept"],
)
def test_members_are_handed_over_as_they_are(
    live: Live, before: Tree, now: Tree, told: str
) -> None:
    found = live.stateful_set(before)
    assert told in live.refusal({"mode": "GridCluster", **now}, found)


def test_members_can_be_handed_over(live: Live) -> None:
    values = {**KEPT, "size": 3}
    (found,) = live.objects({"mode": "GridCluster", **values}, live.stateful_set(values))
    assert found["kind"] == "GridCluster"


def test_the_operators_own_members_are_none_of_helms(live: Live) -> None:
    found = live.stateful_set({"size": 3})
    found["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "grid-operator"
    (made,) = live.objects({"mode": "GridCluster", "size": 5}, found)
    assert made["kind"] == "GridCluster"


def test_claims_of_members_that_leave_are_named(live: Live) -> None:
    before = {**MANAGED, **KEPT, "size": 5}
    found = live.stateful_set(before)
    told = live.notes({**before, "size": 3}, found)
    assert "kubectl delete pvc -n grids data-demo-3 data-demo-4\n" in told
    assert "delete pvc" not in live.notes(before, found)


@pytest.mark.parametrize("values", [{"size": 3}, {**KEPT, "size": 3}], ids=["memory", "disk"])
def test_what_a_handover_loses_is_said(live: Live, values: Tree) -> None:
    told = live.notes({"mode": "GridCluster", **values}, live.stateful_set(values))
    assert "stop all at once when Helm removes it" in told
    assert ("WARNING: nothing is kept on disk" in told) == ("persistence" not in values)
    assert ("on the claims that are there" in told) == ("persistence" in values)
