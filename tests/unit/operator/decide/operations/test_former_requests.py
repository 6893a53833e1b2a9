"""Requests that a GridCluster has from a former one of its name are not carried out again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grid_operator.api.conditions import timestamp
from grid_operator.api.status import GridClusterStatus
from grid_operator.decide.model import MemberProblem
from tests.unit.operator.decide.fake_store import START, WELL, FakeStore

BACKED_UP: dict[str, Any] = {"persistence": {"enabled": True, "backup": {"claimName": "backups"}}}
ASKED = {"backup": "b1", "restart": "r1", "backup_interrupt": "i1"}


def outcomes(store: FakeStore) -> dict[str, tuple[str, str]]:
    handled = store.cluster.status.handled_requests
    return {h.annotation: (h.request, h.outcome) for h in handled}


def made_again(**hindrance: Any) -> FakeStore:
    """Return a new cluster that comes with annotations, as from a saved manifest."""
    store = FakeStore({**BACKED_UP, **hindrance})
    store.annotate(**ASKED)
    return store


def test_what_came_with_the_object_is_refused_and_told() -> None:
    store = made_again()

    store.settle()

    assert (store.calls, store.replaced) == ([], [])
    assert outcomes(store) == {
        "backup": ("b1", "Refused"),
        "backup-interrupt": ("i1", "Refused"),
        "restart": ("r1", "Refused"),
    }
    assert store.events.count("RequestRefused") == 3
    (message,) = {h.message for h in store.cluster.status.handled_requests}
    assert "ask under another request id" in message


def test_what_is_asked_for_afterwards_is_carried_out() -> None:
    store = made_again()
    store.settle()

    store.annotate(restart="r2")
    store.settle()

    assert store.replaced == ["demo-0"]
    assert outcomes(store)["restart"] == ("r2", "Succeeded")


@pytest.mark.parametrize(
    "hindrance",
    [
        {"paused": True},
        {"runState": "Stopped"},
        {"security": {"enabled": True, "users": [{"name": "ada", "secretName": "missing"}]}},
    ],
)
def test_it_is_refused_although_nothing_can_be_done_at_first(hindrance: dict[str, Any]) -> None:
    store = made_again(**hindrance)
    store.settle()
    store.change_spec(BACKED_UP)

    store.settle()

    assert (store.calls, store.replaced) == ([], [])
    assert outcomes(store)["backup"] == ("b1", "Refused")


def test_a_request_that_names_this_very_object_is_its_own() -> None:
    store = FakeStore(BACKED_UP)
    uid = store.cluster.metadata.uid
    store.annotate(force_start=f"f1,acknowledge-data-loss={uid}")

    store.step()

    assert outcomes(store) == {}


def with_status_of(store: FakeStore, uid: str) -> None:
    """Give the cluster a status as a backup tool does that restores it with the object."""
    status = store.cluster.status.model_copy(update={"observed_uid": uid})
    store.cluster = store.cluster.model_copy(update={"status": status})


def test_a_status_of_another_object_lets_nothing_be_carried_out() -> None:
    store = FakeStore(BACKED_UP)
    store.settle()
    store.annotate(restart="r1")
    with_status_of(store, "uid-of-the-former")

    store.settle()

    assert store.replaced == []
    assert outcomes(store) == {"restart": ("r1", "Refused")}
    assert store.cluster.status.observed_uid == store.cluster.metadata.uid


@pytest.mark.parametrize("paused", [False, True])
def test_an_operation_of_another_object_is_not_gone_on_with(paused: bool) -> None:
    store = FakeStore({**BACKED_UP, "paused": paused})
    store.step()
    time = timestamp(START)
    entry = {"id": "forcestart-1", "kind": "ForceStart", "step": "Call", "target": "demo-0"}
    entry |= {"targetUid": "uid-1", "request": "f1", "started": time, "stepStarted": time}
    status = GridClusterStatus.model_validate({"operation": entry}, strict=False)
    store.cluster = store.cluster.model_copy(update={"status": status})
    with_status_of(store, "uid-of-the-former")
    store.views = {"demo-0": MemberProblem("damaged data", node_state="STARTING")}

    for _ in range(5):
        store.step()

    assert store.calls == []
    (ended,) = (o for o in store.cluster.status.last_operations if o.kind == "ForceStart")
    assert (ended.outcome, ended.message) == (
        "Interrupted",
        "the status is that of a former GridCluster",
    )


def test_the_same_object_goes_on_with_what_it_was_asked_for() -> None:
    store = FakeStore(BACKED_UP)
    store.settle()
    store.views = {"demo-0": replace(WELL, cluster_safe=False)}
    store.annotate(restart="r1")
    store.step()

    assert outcomes(store) == {}, "it waits"
