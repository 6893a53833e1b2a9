from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from grid_operator.api.conditions import (
    ConditionStatus,
    ConditionType,
    ReadyReason,
    make_condition,
)
from grid_operator.api.gridcluster import GridCluster, GridClusterStatus, InvalidClusterError
from tests.unit.operator.api.clusters import FULL_SPEC, make_cluster

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"size": 2}, "size above 1 is not supported"),
        ({"size": 0}, "greater than or equal to 1"),
        ({"size": "1"}, "spec.size"),
        ({"unknown": 1}, "spec.unknown"),
        ({"rest": {"endpointGroups": [{"name": "HealthCheck", "enabled": False}]}}, "HealthCheck"),
        (
            {"rest": {"endpointGroups": [{"name": "DATA", "enabled": True}]}},
            "endpointGroups.0.name",
        ),
        ({"maps": [{"name": "a"}, {"name": "a"}]}, "maps: duplicate a"),
        ({"maps": [{"name": "${HOME}"}]}, "spec.maps.0.name"),
        ({"persistence": {"size": "lots"}}, "spec.persistence.size"),
        ({"pod": {"resources": {"limits": {"cpu": "-1"}}}}, "limits.cpu"),
        ({"pod": {"resources": {"limits": {"cpu": True}}}}, "limits.cpu"),
        ({"image": "two words"}, "spec.image"),
    ],
)
def test_bad_spec_is_refused_with_the_field_and_the_reason(
    spec: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidClusterError) as caught:
        make_cluster(spec)

    assert any(message in problem for problem in caught.value.problems)


def test_several_problems_are_told_at_once() -> None:
    with pytest.raises(InvalidClusterError) as caught:
        make_cluster({"unknown": 1, "image": ""})

    assert len(caught.value.problems) == 2


@pytest.mark.parametrize("name", ["1demo", "Demo", "a.b", "x" * 46, "a-"])
def test_name_that_no_child_could_carry_is_refused(name: str) -> None:
    with pytest.raises(InvalidClusterError, match=r"metadata\.name"):
        make_cluster(name=name)


def test_whole_numbers_are_quantities() -> None:
    assert make_cluster(FULL_SPEC).spec.pod.resources.limits == {"cpu": "2"}


def test_status_survives_the_round_trip() -> None:
    condition = make_condition(
        (), ConditionType.READY, ConditionStatus.TRUE, ReadyReason.ALL_MEMBERS_READY, "x", 3, NOW
    )
    status = GridClusterStatus(observed_generation=3, conditions=(condition,), size=1)
    stored = {"metadata": {"name": "demo"}, "status": status.to_kube()}

    again = GridCluster.from_kube(stored).status

    assert again == status
    assert again.to_kube() == status.to_kube()
    assert "selector" not in status.to_kube()


def test_unknown_status_fields_of_a_newer_operator_are_no_error() -> None:
    GridCluster.from_kube({"metadata": {"name": "demo"}, "status": {"later": 1}})


def test_transition_time_moves_only_when_the_status_flips() -> None:
    def condition(status: ConditionStatus, hours: int, before: tuple[Any, ...]) -> Any:
        reason = ReadyReason.ALL_MEMBERS_READY
        now = NOW + timedelta(hours=hours)
        return make_condition(before, ConditionType.READY, status, reason, str(hours), hours, now)

    first = condition(ConditionStatus.TRUE, 0, ())
    same = condition(ConditionStatus.TRUE, 1, (first,))
    flipped = condition(ConditionStatus.FALSE, 2, (same,))

    assert first.last_transition_time == same.last_transition_time == "2026-01-02T03:04:05Z"
    assert (same.message, same.observed_generation) == ("1", 1)
    assert flipped.last_transition_time == "2026-01-02T05:04:05Z"
