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
from grid_operator.api.gridcluster import GridCluster, InvalidClusterError
from grid_operator.api.status import GridClusterStatus
from tests.unit.operator.api.bad_specs import BAD_SPECS, backup, restore
from tests.unit.operator.api.clusters import FULL_SPEC, SPECS, make_cluster
from tests.unit.operator.api.pods import REFUSED, TAKEN, TWICE, container, pod

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


@pytest.mark.parametrize(("spec", "message"), BAD_SPECS)
def test_bad_spec_is_refused_with_the_field_and_the_reason(
    spec: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidClusterError) as caught:
        make_cluster(spec)

    assert any(message in problem for problem in caught.value.problems)


@pytest.mark.parametrize(("spec", "message"), REFUSED, ids=lambda v: str(v)[:60])
def test_names_ports_and_paths_of_the_member_are_refused(
    spec: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidClusterError) as caught:
        make_cluster(spec)

    (problem,) = caught.value.problems
    assert message in problem


@pytest.mark.parametrize(("spec", "field"), TWICE, ids=[field for _, field in TWICE])
def test_two_of_one_name_are_refused(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidClusterError, match=f"spec.pod: {field}: duplicate"):
        make_cluster(spec)


@pytest.mark.parametrize("spec", TAKEN, ids=lambda v: str(v)[:60])
def test_other_additions_to_pods_are_taken_as_they_are(spec: dict[str, Any]) -> None:
    written = make_cluster(spec).spec.model_dump(mode="json", by_alias=True, exclude_none=True)

    for field, value in spec["pod"].items():
        assert written["pod"][field] == value or field == "env"


def test_a_field_that_only_kubernetes_knows_stays_in_an_addition() -> None:
    wanted = container(startupProbe={"grpc": {"port": 1}}, resizePolicy=[], unheardOf={"a": [1]})

    (found,) = make_cluster(pod(sidecars=[wanted])).spec.pod.sidecars

    assert found.as_kube() == wanted


@pytest.mark.parametrize(
    "spec",
    [
        {"metrics": {"port": 5704}},
        {"rest": {"port": 5703}, "metrics": {"enabled": False}},
        {"size": 3, "metrics": {"enabled": False, "port": 5704}},
        {"metrics": {"enabled": False, "port": 5702}},
        {"advancedNetwork": {"enabled": True, "restPort": 6000}, "metrics": {"port": 5701}},
    ],
)
def test_a_port_that_nothing_else_listens_on_is_taken_for_metrics(spec: dict[str, Any]) -> None:
    metrics = make_cluster(spec).spec.metrics

    assert metrics.port == spec["metrics"].get("port", 5703)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_what_is_read_is_what_is_written(spec: dict[str, Any]) -> None:
    cluster = make_cluster(spec)

    written = cluster.spec.model_dump(mode="json", by_alias=True, exclude_none=True)

    assert make_cluster(written) == cluster


@pytest.mark.parametrize("time", ["2030-01-31T08:00:00Z", "2030-01-31T08:00:00.5+01:00"])
def test_a_pause_may_end_at_any_time_with_its_zone(time: str) -> None:
    assert make_cluster({"pausedUntil": time}).spec.paused_until == time


@pytest.mark.parametrize(
    ("spec", "port"),
    [({}, 5701), ({"rest": {"port": 6000}}, 6000), ({"advancedNetwork": {"enabled": True}}, 5701)],
)
def test_the_rest_port_is_that_of_the_section_that_is_used(spec: dict[str, Any], port: int) -> None:
    assert make_cluster(spec).spec.rest_port == port


def test_a_field_that_this_version_does_not_have_is_told_in_plain_words() -> None:
    with pytest.raises(InvalidClusterError) as caught:
        make_cluster({"colour": "blue"})
    assert caught.value.problems == ("spec.colour: this version knows no such field",)


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
    cluster = GridCluster.from_kube({"metadata": {"name": "demo"}, "status": {"later": 1}})

    assert cluster.status == GridClusterStatus()


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


@pytest.mark.parametrize(
    ("engine", "size"), [("Auto", 1), ("Auto", 3), ("Embedded", 1), ("JetStream", 2)]
)
def test_an_engine_takes_the_sizes_that_it_is_for(engine: str, size: int) -> None:
    assert make_cluster({"engine": engine, "size": size}).spec.size == size


@pytest.mark.parametrize(("engine", "size"), [("Embedded", 2), ("JetStream", 1)])
def test_an_engine_that_is_named_refuses_other_sizes(engine: str, size: int) -> None:
    with pytest.raises(InvalidClusterError, match=f"engine {engine} is for"):
        make_cluster({"engine": engine, "size": size})


@pytest.mark.parametrize(
    "spec",
    [
        backup(volume={"accessMode": "ReadWriteMany"}),
        backup(claimName="shared"),
        restore(cluster="old"),
    ],
)
def test_several_members_have_backups_and_begin_as_one(spec: dict[str, Any]) -> None:
    assert make_cluster({"size": 3, **spec}).spec.size == 3
