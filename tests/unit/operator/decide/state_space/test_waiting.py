"""The conditions that tools wait by, and what kstatus, the convention's library, makes of them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from grid_operator.api.conditions import ConditionType, find_condition, timestamp
from grid_operator.api.gridcluster import GridCluster
from tests.unit.operator.decide.fake_store import START, FakeStore
from tests.unit.operator.decide.state_space.journeys import decided
from tests.unit.operator.decide.state_space.moves import complete
from tests.unit.operator.decide.state_space.waiting import judged
from tests.unit.operator.decide.state_space.world import Spec, World

if TYPE_CHECKING:
    from grid_operator.api.status import GridClusterStatus

CRD = Path(__file__).parents[5] / "crds" / "gridcluster.yaml"
CHANGED: dict[str, Any] = {"maps": [{"name": "later"}], "pod": {"labels": {"a": "b"}}}
LATER = timestamp(START + timedelta(hours=1))


def settled(spec: dict[str, Any] | None = None) -> FakeStore:
    store = FakeStore(spec)
    store.settle()
    return store


def changed(spec: dict[str, Any]) -> FakeStore:
    store = settled()
    store.change_spec(spec)
    store.step()
    return store


def waiting(status: GridClusterStatus) -> dict[str, str]:
    """Return the reasons of Reconciling and Stalled, where they are there."""
    kinds = (ConditionType.RECONCILING, ConditionType.STALLED)
    found = (find_condition(status.conditions, kind) for kind in kinds)
    return {c.type: c.reason for c in found if c is not None}


def asked(program: Path, store: FakeStore) -> str:
    """Return what kstatus says of the cluster as it is stored."""
    shown = json.loads(store.cluster.model_dump_json(by_alias=True, exclude_none=True))
    (answer,) = judged(program, [shown])
    return answer


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"pod": {"labels": {"gridcluster.io/cluster": "x"}}}, "InvalidLabel"),
        ({"pod": {"tolerations": [{}]}}, "InvalidToleration"),
        ({"size": 3}, "ImmutableSize"),
        ({**CHANGED, "paused": True}, "Paused"),
        ({"paused": True, "runState": "Stopped"}, "Paused"),
        ({"paused": True, "clusterState": "Frozen"}, "Paused"),
    ],
)
def test_what_only_a_person_can_mend_is_stalled(
    spec: dict[str, Any], reason: str, kstatus: Path
) -> None:
    store = changed(spec)

    assert waiting(store.cluster.status) == {"Stalled": reason}
    found = find_condition(store.cluster.status.conditions, ConditionType.STALLED)
    assert found is not None
    assert found.observed_generation == store.cluster.metadata.generation
    assert asked(kstatus, store) == "Failed"
    store.change_spec({})
    store.settle()
    assert waiting(store.cluster.status) == {}
    assert asked(kstatus, store) == "Current"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (CHANGED, "ApplyLive"),
        ({**CHANGED, "pausedUntil": LATER}, "Paused"),
        # Controllers write Secrets as well, some of them after the GridCluster.
        ({"tls": {"secretName": "not-yet"}}, "SecretMissing"),
    ],
)
def test_what_comes_about_by_itself_is_waited_for(
    spec: dict[str, Any], reason: str, kstatus: Path
) -> None:
    store = changed(spec)

    assert waiting(store.cluster.status) == {"Reconciling": reason}
    assert asked(kstatus, store) == "InProgress"


@pytest.mark.parametrize("spec", [{}, {"paused": True}, {"pausedUntil": LATER}])
def test_where_nothing_is_left_to_do_neither_is_there(spec: dict[str, Any], kstatus: Path) -> None:
    store = changed(spec)

    assert waiting(store.cluster.status) == {}
    assert asked(kstatus, store) == "Current"


def test_a_restore_that_failed_is_stalled_until_it_begins_again() -> None:
    world = World(spec=Spec(restores=True))
    for _ in range(3):
        world = complete(world, decided(world)).later(1)
    assert waiting(world.status) == {"Reconciling": "Restore"}
    world = replace(world, job="Failed")
    for _ in range(3):
        world = complete(world, decided(world)).later(1)
    assert waiting(world.status) == {"Stalled": "RestoreFailed"}

    again = world.later(300)

    assert waiting(complete(again, decided(again)).status) == {"Reconciling": "Restore"}


def test_what_no_operator_has_seen_is_waited_for(kstatus: Path) -> None:
    (version,) = yaml.safe_load(CRD.read_text(encoding="utf-8"))["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    new = {
        "apiVersion": "gridcluster.io/v1alpha1",
        "kind": "GridCluster",
        "metadata": {"name": "demo", "generation": 1},
        "status": schema["default"],
    }

    assert judged(kstatus, [new]) == ["InProgress"]
    # Without the default it would be taken for one that is as it should be.
    assert judged(kstatus, [{**new, "status": {}}]) == ["Current"]
    minimum = schema["properties"]["observedGeneration"]["minimum"]
    assert new["status"]["observedGeneration"] >= minimum
    assert GridCluster.from_kube(new).status.observed_generation is None
